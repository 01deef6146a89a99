package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/hooks/settings"
)

// tell says what a change did.
func (i install) tell(ctx context.Context, c *settings.Change, done string) {
	switch {
	case c.Nothing():
		fmt.Fprintf(i.out, "%s: nothing to change\n", c.Path)
	case i.dryRun:
		fmt.Fprintf(i.out, "%s\n%s would be changed; nothing was written\n", strings.TrimRight(c.Diff(), "\n"), c.Path)
		if c.Refused != nil {
			fmt.Fprintf(i.out, "note: as it is, it would not be: %v\n", c.Refused)
		}
	default:
		fmt.Fprintf(i.out, "%s\n%s: hooks %s", strings.TrimRight(c.Diff(), "\n"), c.Path, done)
		if c.Backup != "" {
			fmt.Fprintf(i.out, "; what was there is in %s", c.Backup)
		}
		fmt.Fprintln(i.out)
	}
	i.note(ctx, c)
}

// note says what a person should know of the file that was changed.
func (i install) note(ctx context.Context, c *settings.Change) {
	if c.NotJSON() {
		fmt.Fprintf(i.out, "%s: Claude Code reads none of it, for it has comments or trailing commas, which were there before\n", c.Path)
	}
	if c.Disabled() {
		fmt.Fprintf(i.out, "%s: Claude Code runs no hook, for disableAllHooks is set there\n", c.Path)
	}
	if c.Backup != "" && toCommit(ctx, c.Backup) {
		fmt.Fprintf(i.out, "do not commit %s: settings may hold secrets, and git does not ignore it\n", c.Backup)
	}
}

// toCommit says whether a file is in a git work tree that does not ignore it.
func toCommit(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "check-ignore", "-q", filepath.Base(path))
	cmd.Dir = filepath.Dir(path)
	cmd.WaitDelay = time.Second
	var exit *exec.ExitError
	return errors.As(cmd.Run(), &exit) && exit.ExitCode() == 1 // 128: no work tree
}
