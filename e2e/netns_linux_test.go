package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// runVariable marks every process of one test run, however deep: Claude Code and
	// its hooks hand it down. What is left at the end is found by it.
	runVariable = "GCHAT_E2E_RUN"

	// exitNoLoopback is the inner process's way of saying that its namespace is
	// of no use. m.Run returns 0, 1 or 2.
	exitNoLoopback = 111
)

// runIsolated runs the tests in a new network namespace with only loopback, or in
// place when there can be none. A namespace belongs to a thread, and a Go
// program has many, so the way in is to start the binary again.
func runIsolated(m *testing.M) int {
	if os.Getenv(runVariable) != "" {
		return runInside(m)
	}
	code, err := runAgainIsolated()
	if err == nil {
		return code
	}
	noNamespace = err.Error()
	return m.Run()
}

// runInside is the life of the inner process.
func runInside(m *testing.M) int {
	if err := onlyLoopback(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return exitNoLoopback
	}
	// A test binary dies of SIGTERM without running any cleanup, and tmux
	// servers do not die with it.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-stop
		killMarked(runVariable+"="+os.Getenv(runVariable), 0)
		os.Exit(130)
	}()
	return m.Run()
}

// runAgainIsolated starts this binary again, with the same flags, in a new namespace and
// waits for it. An error means that it ran no test.
func runAgainIsolated() (int, error) {
	// Pdeathsig is about the thread that started the child, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the test binary: %w", err)
	}
	// One folder for all temporary files: cut short, a run leaves none either.
	tmp, err := os.MkdirTemp("", "gchat-e2e-")
	if err != nil {
		return 0, fmt.Errorf("make the run's folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	mark := rand.Text()
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), runVariable+"="+mark, "TMPDIR="+tmp,
		"GCHAT_E2E_CLAUDE_DIR="+claudeDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGTERM}
	if os.Getuid() != 0 {
		dropToUser(cmd.SysProcAttr)
	}

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the tests in a namespace: %w", err)
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	// A panic or the test timeout ends the inner process without its cleanups.
	killMarked(runVariable+"="+mark, time.Second)

	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for the tests: %w", err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	case status.ExitStatus() == exitNoLoopback:
		return 0, errors.New("loopback cannot be raised in a new one (user namespaces may be restricted here; root needs none)")
	}
	return status.ExitStatus(), nil
}

// dropToUser gets a person who is not root a namespace: a user namespace comes with
// the right to make one. The uid stays what it was, for Claude Code and tmux
// treat root differently; hence the one capability is handed over by name.
func dropToUser(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{
		{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1},
	}
	attr.GidMappings = []syscall.SysProcIDMap{
		{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1},
	}
	attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
}

// onlyLoopback raises lo and makes sure that nothing else is up: a variable
// that leaked into the environment must not pass for a namespace.
func onlyLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return fmt.Errorf("read loopback flags: %w", err)
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("%s is up in what should be an empty namespace", i.Name)
		}
	}
	return nil
}
