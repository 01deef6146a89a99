package inject

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isAlive reports whether a process exists and has not ended. A process counts as alive
// if the kernel does not tell its state, as in a sandbox.
func isAlive(pid int) bool {
	if pid <= 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	p, known := processOf(pid)
	return !known || !p.dead
}

func listProcesses() (map[int]process, error) {
	table, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make(map[int]process, len(table))
	for i := range table {
		if p := fromKernel(&table[i]); p.pid > 0 {
			all[p.pid] = p
		}
	}
	return all, nil
}

func processOf(pid int) (p process, exists bool) {
	if pid <= 0 {
		return p, false
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return p, false
	}
	return fromKernel(k), true
}

// States of a process, from sys/proc.h.
const (
	stopped = 4 // SSTOP
	zombie  = 5 // SZOMB
)

func fromKernel(k *unix.KinfoProc) process {
	p := process{
		pid:        int(k.Proc.P_pid),
		parent:     int(k.Eproc.Ppid),
		group:      int(k.Eproc.Pgid),
		foreground: int(k.Eproc.Tpgid),
		name:       unix.ByteSliceToString(k.Proc.P_comm[:]),
		stopped:    k.Proc.P_stat == stopped,
		dead:       k.Proc.P_stat == zombie,
		start:      formatLstart(time.Unix(k.Proc.P_starttime.Unix())),
	}
	if k.Eproc.Tdev != -1 { // NODEV
		p.terminal = strconv.Itoa(int(k.Eproc.Tdev))
	}
	return p
}

// argsOf returns the arguments with which a process was started, or nil.
func argsOf(pid int) []string {
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return nil
	}
	return splitProcArgs(b)
}
