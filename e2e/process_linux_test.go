package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process is held by a descriptor, so that a signal never reaches a stranger
// who got the number after it.
type process struct {
	pid int
	fd  int
}

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &process{pid: pid, fd: fd}, nil
}

func (p *process) Signal(sig syscall.Signal) error {
	return unix.PidfdSendSignal(p.fd, sig, nil, 0)
}

// Exited waits at most d for the process to end.
func (p *process) Exited(d time.Duration) bool {
	deadline := time.Now().Add(d)
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}},
			int(left.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		return n > 0
	}
}

func (p *process) Close() { unix.Close(p.fd) }

// markedProcesses opens every process, but for this one, that has mark ("NAME=value") in
// the environment it was started with. Parents die and children move to a
// session of their own; the environment stays.
func markedProcesses(mark string) []*process {
	var found []*process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := openProcess(pid) // before looking, so that what is looked at is what is held
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
			p.Close()
			continue
		}
		found = append(found, p)
	}
	return found
}

// killMarked ends every process that carries mark: asked first, killed after grace.
// It returns the command lines of those that had to be killed.
func killMarked(mark string, grace time.Duration) (killed []string) {
	for range 5 { // a process may fork while the list is read
		left := markedProcesses(mark)
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			p.Signal(unix.SIGTERM)
		}
		deadline := time.Now().Add(grace)
		for _, p := range left {
			if !p.Exited(time.Until(deadline)) {
				killed = append(killed, p.String())
				p.Signal(unix.SIGKILL)
				p.Exited(time.Second)
			}
			p.Close()
		}
	}
	return killed
}

func (p *process) String() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	return fmt.Sprintf("%d %s", p.pid,
		strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "))
}
