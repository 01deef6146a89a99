// Package migrate takes a harness folder from a relay agent to gchat-hooks: the persistent agent s3-communicator, to which
// other agents sent messages for Google Chat, gives way to gchat-send and to the hooks. It changes what is surely a call, a
// table row or a section about the relay, and lists every other mention by file and line. git, or a copy, is the way back.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"gchat-hooks/state"

	"github.com/rogpeppe/go-internal/diff"
)

// Options say which harness, and what is done to it.
type Options struct {
	Harness string // the folder that holds .claude
	Apply   bool   // without it the plan is only shown
	Copy    bool   // a copy beside the harness is the way back, in place of git
}

// Run shows on out what would be changed in the harness, or changes it. Applied a second time it changes nothing. Where the
// folder is no harness, or neither git nor a copy would be a way back, it fails, with a hint, and has written nothing.
func Run(ctx context.Context, out io.Writer, o Options) error {
	h, err := open(o.Harness)
	if err != nil {
		return err
	}
	defer h.root.Close()
	if err := h.walk(); err != nil {
		return err
	}
	switch {
	case len(h.changes) == 0 && !h.moves:
		fmt.Fprintln(out, "Nothing to change.")
	case o.Apply:
		if err := h.apply(ctx, out, o.Copy); err != nil {
			return err
		}
	default:
		h.show(out)
	}
	if len(h.looks) > 0 {
		fmt.Fprintf(out, "\nLook at this yourself (the lines are those after --apply):\n    %s\n", strings.Join(h.looks, "\n    "))
	}
	return nil
}

func (h *harness) show(out io.Writer) {
	if h.moves {
		fmt.Fprintf(out, "move %s to %s\n", skillDir, archived)
	}
	for _, c := range h.changes {
		d := diff.Diff("a/"+c.path, []byte(c.before), "b/"+c.path, []byte(c.after))
		for line := range strings.Lines(string(d)) {
			fmt.Fprintln(out, state.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	fmt.Fprintln(out, "\nNothing was written. --apply does it in a clean git tree; --apply --copy makes a copy first.")
}

// apply makes sure of a way back, then changes the harness.
func (h *harness) apply(ctx context.Context, out io.Writer, copyFirst bool) error {
	back := "run `git restore . && git clean -fd .claude` in " + state.OneLine(h.dir) + ", before anything else is changed there"
	if copyFirst {
		to, err := h.copy(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "copied the harness to", state.OneLine(to))
		back = fmt.Sprintf("put %s in the place of %s", state.OneLine(to), state.OneLine(h.dir))
	} else if err := h.inGit(ctx); err != nil {
		return err
	}
	var err error
	if h.moves {
		err = errors.Join(h.root.MkdirAll(archive, 0o755), h.root.Rename(skillDir, archived))
		fmt.Fprintln(out, "move", skillDir, "to", archived)
	}
	for i := 0; i < len(h.changes) && err == nil; i++ {
		err = h.write(h.changes[i])
		fmt.Fprintln(out, "write", state.OneLine(h.changes[i].path))
	}
	fmt.Fprintf(out, "To take it back, %s.\nRunning sessions keep their old instructions: start new ones.\n", back)
	return err
}

// inGit checks that git can give everything back: no change is uncommitted, and git has each file that is to change, which it
// has not of what it ignores.
func (h *harness) inGit(ctx context.Context) error {
	open, err := h.git(ctx, "status", "--porcelain", "--", ".")
	if err == nil && open != "" {
		err = fmt.Errorf("not committed:\n%.500s", open)
	}
	if err == nil {
		_, err = h.git(ctx, append([]string{"ls-files", "--error-unmatch", "--"}, h.touched...)...)
	}
	if err != nil {
		return &state.UserError{Err: fmt.Errorf("git is no way back: %w", err), Hint: "commit the harness, or add --copy, which makes a copy first", Code: 1}
	}
	return nil
}

// git asks git about the harness, whatever repository the environment names.
func (h *harness) git(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	env := []string{"-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "GIT_OPTIONAL_LOCKS=0"}
	env = append(env, "git", "--literal-pathspecs", "-c", "core.fsmonitor=false")
	cmd := exec.CommandContext(ctx, "env", append(env, args...)...)
	cmd.Dir = h.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %.300s", args[0], err, out)
	}
	return string(out), err
}

// copy copies the harness beside itself, with its .git, links as links and every file's mode, and says where.
func (h *harness) copy(ctx context.Context) (string, error) {
	to := h.dir + ".before-gchat-hooks"
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", &state.UserError{Err: fmt.Errorf("copy harness: %w", err), Hint: "an older copy has to be moved away first", Code: 1}
	}
	words, err := exec.CommandContext(ctx, "cp", "-RPp", h.dir+"/.", to).CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy harness: %w: %.300s", err, words), os.RemoveAll(to))
	}
	return to, nil
}
