// Package migrate takes a harness folder from a relay agent to gchat-hooks: the persistent agent s3-communicator, to which
// other agents sent messages for Google Chat, gives way to gchat-send and to the hooks. It changes what is surely a call or a
// table row about the relay, takes the relay out of the output style, and lists every other mention by file and line. git, or a
// copy, is the way back.
package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"gchat-hooks/state"
)

const (
	relay    = "s3-communicator"
	skillDir = ".claude/skills/" + relay
	archive  = ".claude/skills/_archived"
	archived = archive + "/" + relay
	checker  = "persistent_agent_checker.py" // beside communicator_checker.py
)

// skipped are folders whose files instruct no session. So is a repository within the harness: it is to be migrated by itself.
var skipped = []string{".claude/state", ".claude/logs", ".claude/worktrees", ".claude/projects", archive, ".git", "node_modules"}

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
		if h.moves {
			fmt.Fprintf(out, "move %s to %s\n", skillDir, archived)
		}
		for _, c := range h.changes {
			d := diff.Diff("a/"+c.path, []byte(c.before), "b/"+c.path, []byte(c.after))
			fmt.Fprint(out, state.Clean(state.ForTerminal, string(d)))
		}
		fmt.Fprintln(out, "\nNothing was written. --apply does it in a clean git tree; --apply --copy makes a copy first.")
	}
	h.list(out)
	return nil
}

// list says what a person has to look at, in a line for each file. It fits on a screen.
func (h *harness) list(out io.Writer) {
	const mostFiles, mostLines = 20, 12
	if len(h.looks) == 0 {
		return
	}
	fmt.Fprintln(out, "\nLook at these files yourself. The numbers are the lines that name the relay, as after --apply:")
	for _, l := range h.looks[:min(mostFiles, len(h.looks))] {
		if len(l.why) > mostLines {
			l.why = append(l.why[:mostLines], "…")
		}
		fmt.Fprintf(out, "    %s: %s\n", state.OneLine(l.path), strings.Join(l.why, ", "))
	}
	if more := len(h.looks) - mostFiles; more > 0 {
		fmt.Fprintf(out, "    and %d more; to list all:  grep -rniw '%s' %s\n", more, relay, state.ShellQuoted(h.dir))
	}
}

// harness is a harness folder and what is to become of it. Everything is read and written through an os.Root, so that no
// link leads out of the folder.
type harness struct {
	dir     string // absolute
	root    *os.Root
	rules   *rules
	changes []change
	moves   bool     // the skill's folder goes to the archive
	touched []string // what git has to have: .claude, and all that is to change
	looks   []look   // what a person has to look at
}

type look struct {
	path string
	why  []string // what is odd about the file, and the numbers of the lines that name the relay
}

type change struct {
	path          string // in the harness, with slashes
	before, after string
}

func open(dir string) (*harness, error) {
	dir, err := filepath.Abs(dir)
	info, missing := os.Lstat(filepath.Join(dir, ".claude"))
	if err != nil || missing != nil || !info.IsDir() {
		const hint = "gchat-hooks migrate s3-communicator --harness DIR, where DIR is the folder that holds .claude"
		return nil, &state.UserError{Err: errors.New("no harness in " + dir), Hint: hint, Code: 1}
	}
	root, err := os.OpenRoot(dir)
	return &harness{dir: dir, root: root, rules: newRules(), touched: []string{".claude"}}, err
}

// walk finds what is to change and what is to be listed, in the order of the paths.
func (h *harness) walk() error {
	return fs.WalkDir(h.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == skillDir && d.IsDir():
			h.touched = append(h.touched, p)
			if h.moves = !h.exists(archived); !h.moves {
				h.see(p, "stays: "+archived+" is there already")
			}
			return fs.SkipDir
		case d.IsDir() && (slices.Contains(skipped, p) || slices.Contains(skipped, d.Name()) || p != "." && h.exists(p+"/.git")):
			return fs.SkipDir
		case d.Type().IsRegular():
			return h.file(p, d)
		case d.Type()&fs.ModeSymlink != 0 && strings.HasPrefix(p, ".claude/"):
			h.see(p, "is a link, and links are not followed")
		}
		return nil
	})
}

func (h *harness) exists(p string) bool {
	_, err := h.root.Lstat(p)
	return err == nil
}

// file plans what becomes of one file. Only text that may be written changes.
func (h *harness) file(p string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if info.Size() > 1<<20 {
		h.see(p, "is not searched: it is larger than 1 MB")
		return nil
	}
	b, err := h.root.ReadFile(p)
	if err != nil {
		return err
	}
	before, after := string(b), string(b)
	if info.Mode()&0o200 != 0 && utf8.Valid(b) && !strings.ContainsAny(before, "\x00\r") {
		after = h.rules.rewrite(p, before)
	}
	if after != before {
		h.changes, h.touched = append(h.changes, change{p, before, after}), append(h.touched, p)
	}
	if beside := path.Join(path.Dir(p), checker); strings.HasPrefix(p, ".claude/") && path.Base(p) == "communicator_checker.py" {
		h.see(p, "looks for the relay: let the stop gate call "+checker+" in its place")
		if !h.exists(beside) {
			h.changes = append(h.changes, change{beside, "", checkerText})
		}
	}
	for i, line := range strings.Split(after, "\n") {
		if h.rules.mention.MatchString(strings.ReplaceAll(line, archived, "")) {
			h.see(p, fmt.Sprint(i+1))
		}
	}
	return nil
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
		err = h.root.WriteFile(h.changes[i].path, []byte(h.changes[i].after), 0o644)
		fmt.Fprintln(out, "write", state.OneLine(h.changes[i].path))
	}
	fmt.Fprintf(out, "To take it back, %s.\nStart new sessions: running ones keep their instructions.\n", back)
	return err
}

// inGit checks that git can give everything back: no change is uncommitted, and git has each file that is to change, which it
// has not of what it ignores.
func (h *harness) inGit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	has := append([]string{"ls-files", "--error-unmatch", "--"}, h.touched...)
	for _, args := range [][]string{{"status", "--porcelain", "--", "."}, has} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"--literal-pathspecs", "-c", "core.fsmonitor=false"}, args...)...)
		cmd.Dir = h.dir
		out, err := cmd.CombinedOutput()
		if err == nil && args[0] == "status" && len(out) > 0 {
			err = errors.New("not committed")
		}
		if err != nil {
			err = fmt.Errorf("git is no way back: git %s: %w: %.500s", args[0], err, bytes.TrimSpace(out))
			return &state.UserError{Err: err, Hint: "git add -A && git commit, or add --copy", Code: 1}
		}
	}
	return nil
}

// copy copies the harness beside itself, with its .git, links as links and every file's mode, and says where.
func (h *harness) copy(ctx context.Context) (string, error) {
	to := h.dir + ".before-gchat-hooks"
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", &state.UserError{Err: fmt.Errorf("copy harness: %w", err), Hint: "move an older copy away first", Code: 1}
	}
	words, err := exec.CommandContext(ctx, "cp", "-RPp", h.dir+"/.", to).CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy harness: %w: %.300s", err, words), os.RemoveAll(to))
	}
	return to, nil
}

func (h *harness) see(p, why string) {
	if last := len(h.looks) - 1; last < 0 || h.looks[last].path != p {
		h.looks = append(h.looks, look{path: p})
	}
	last := &h.looks[len(h.looks)-1]
	last.why = append(last.why, why)
}
