package service

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// KeepAwake has the machine stay awake until ctx ends, or this process does, however that ends: caffeinate looks for its pid, and
// cat reads to the end of what it holds.
func KeepAwake(ctx context.Context) error {
	args := []string{"systemd-inhibit", "--what=idle", "--who=gchat-hooks", "--why=Claude Code waits for an answer", "cat"}
	if runtime.GOOS == "darwin" {
		args = []string{"caffeinate", "-i", "-w", strconv.Itoa(os.Getpid())}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	_, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Run()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
