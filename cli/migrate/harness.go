package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gchat-hooks/state"
)

const (
	relay    = "s3-communicator"
	skillDir = ".claude/skills/" + relay
	archive  = ".claude/skills/_archived"
	archived = archive + "/" + relay
	checker  = "persistent_agent_checker.py" // beside communicator_checker.py

	longest = 1 << 20 // bytes of a file that is searched
)

// skipped are folders whose files instruct no session. So is a repository within the harness: it is to be migrated by itself.
var skipped = []string{".claude/state", ".claude/logs", ".claude/worktrees", ".claude/projects", archive, ".git", "node_modules"}

// harness is a harness folder and what is to become of it. Everything is read and written through an os.Root, so that no
// link leads out of the folder.
type harness struct {
	dir     string // absolute
	root    *os.Root
	rules   *rules
	changes []change
	moves   bool     // the skill's folder goes to the archive
	touched []string // the paths that git has to have: .claude, and all that is to change
	looks   []string // what a person has to look at: path, line and why
}

type change struct {
	path          string // in the harness, with slashes
	before, after string
	mode          fs.FileMode
}

func open(dir string) (*harness, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find harness: %w", err)
	}
	if info, err := os.Lstat(filepath.Join(dir, ".claude")); err != nil || !info.IsDir() {
		return nil, &state.UserError{Err: fmt.Errorf("no harness in %s", dir), Hint: "--harness takes the folder that holds .claude, a folder and no link", Code: 1}
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
			if h.exists(archived) {
				h.see(p, "stays: "+archived+" is there already")
				return fs.SkipDir
			}
			h.moves, h.touched = true, append(h.touched, p)
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
	if info.Size() > longest {
		h.see(p, fmt.Sprintf("is not searched: it is larger than %d MB", longest>>20))
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
		h.changes, h.touched = append(h.changes, change{p, before, after, info.Mode().Perm()}), append(h.touched, p)
	}
	if beside := path.Join(path.Dir(p), checker); strings.HasPrefix(p, ".claude/") && path.Base(p) == "communicator_checker.py" {
		h.see(p, "looks for the relay: let the stop gate call "+checker+" in its place")
		if !h.exists(beside) {
			h.changes = append(h.changes, change{beside, "", checkerText, 0o644})
		}
	}
	for i, line := range strings.Split(after, "\n") {
		if h.rules.mentions(line) {
			h.see(fmt.Sprintf("%s:%d", p, i+1), line)
		}
	}
	return nil
}

// write puts the new text in the file's place, whole or not at all, with the file's mode.
func (h *harness) write(c change) error {
	temp := c.path + ".gchat-hooks-new"
	_ = h.root.Remove(temp) // of a run that was killed
	if err := errors.Join(h.root.WriteFile(temp, []byte(c.after), 0o600), h.root.Chmod(temp, c.mode)); err != nil {
		return err
	}
	return h.root.Rename(temp, c.path)
}

func (h *harness) see(where, what string) {
	h.looks = append(h.looks, fmt.Sprintf("%s: %.100s", state.OneLine(where), state.OneLine(strings.TrimSpace(what))))
}
