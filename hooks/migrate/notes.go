package migrate

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// gitBound is how long git may take to say which files have uncommitted changes: it is worth a note and no more.
const gitBound = 5 * time.Second

// notes adds what is worth knowing before the plan is applied.
func (h *harness) notes(p *Plan) {
	if len(p.Changes) == 0 {
		return
	}
	if dirty := h.dirty(p.Changes); len(dirty) > 0 {
		p.Notes = append(p.Notes, "Not committed in git: "+visible(strings.Join(dirty, ", "))+". The diff is against the files as they are now.")
	}
	settings, err := h.disk.read(".claude/settings.json")
	if err != nil || !bytes.Contains(settings, []byte("gchat-ask-user-forward")) {
		p.Notes = append(p.Notes, ".claude/settings.json does not call gchat-ask-user-forward: unless your own settings do, no question reaches Google Chat before `gchat-hooks install`.")
	}
	p.Notes = append(p.Notes, "Sessions that run keep their old instructions: start new ones, and end the relay of those that go on.")
}

// dirty gives those of the files that have uncommitted changes. It takes no lock of git's and wakes no file monitor.
func (h *harness) dirty(changes []Change) []string {
	args := []string{"-C", h.dir, "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--"}
	for _, c := range changes[:min(len(changes), 200)] {
		args = append(args, ":(literal)"+c.Path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil // no repository, or no git
	}
	var names []string
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		if len(entry) > 3 {
			names = append(names, string(entry[3:]))
		}
	}
	return names
}
