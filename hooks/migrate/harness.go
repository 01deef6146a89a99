package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longestText = 1 << 20   // bytes of a file that is changed
	longestScan = 256 << 20 // bytes of a file that is searched for the name at all
	mostFiles   = 100_000
	// mostMentions is how often a file that instructs may name the relay; a log does it more often.
	mostMentions = 2000
)

// harness is a harness folder, and what was found in it. All that is read or written goes through an os.Root, so that no
// link leads out of the folder.
type harness struct {
	dir   string
	disk  *disk
	files []*file // those that name the relay or the checker, and the changelogs and output styles
	look  []Look
}

// file is one that may have to change. closed says why it must not.
type file struct {
	path       string
	mode       os.FileMode
	bytes      []byte
	text       *text // nil where closed says why
	closed     string
	to         string
	understood bool // its rules ran already
}

// openHarness opens dir, which has to hold a .claude folder.
func openHarness(dir string) (*harness, error) {
	notOne := func(advice string) error {
		return &Problem{fmt.Errorf("%s: %w", dir, ErrNotHarness), advice}
	}
	root, err := os.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Problem{fmt.Errorf("open harness: %w", err), "--harness takes the folder that holds .claude"}
	case err != nil:
		return nil, notOne("--harness takes a folder: the one that holds .claude")
	}
	h := &harness{dir: dir, disk: &disk{root: root}}
	info, err := root.Lstat(".claude")
	switch {
	case err == nil && info.IsDir():
		return h, nil
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		err = notOne(".claude is a symbolic link there: give the folder that it leads to")
	case filepath.Base(dir) == ".claude":
		err = notOne("give the folder above: " + filepath.Dir(dir))
	default:
		err = notOne("it has no .claude folder; --harness takes the folder that holds one")
	}
	h.close()
	return nil, err
}

func (h *harness) close() { h.disk.root.Close() }

// skipped are folders whose files are no instructions: other programs' and our own state, copies, and what is archived.
func skipped(p string) bool {
	switch path.Base(p) {
	case ".git", path.Base(staging), "node_modules", "__pycache__", ".venv", "venv", ".pytest_cache":
		return true
	}
	return slices.Contains([]string{".claude/state", ".claude/logs", ".claude/worktrees", ".claude/projects", skillHome, skillDir}, p)
}

// walk collects the files that matter, in the order of their paths.
func (h *harness) walk() error {
	count := 0
	return fs.WalkDir(h.disk.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if p == "." {
				return fmt.Errorf("read harness: %w", err)
			}
			h.see(p, "cannot be read: "+plainError(err))
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if count++; count > mostFiles {
			return &Problem{fmt.Errorf("read harness: more than %d files", mostFiles), "--harness takes the harness's own folder, not a folder of projects"}
		}
		switch {
		case d.IsDir():
			if skipped(p) {
				return fs.SkipDir
			}
			if p != "." && h.disk.exists(p+"/.git") {
				h.see(p, "is a repository of its own, which is not searched: migrate it by itself")
				return fs.SkipDir
			}
		case d.Type()&fs.ModeSymlink != 0:
			if _, err := h.disk.root.Stat(p); err != nil && (strings.HasPrefix(p, ".claude/") || path.Ext(p) == ".md") {
				h.see(p, "is a symbolic link that leads out of the folder, or nowhere: it is not followed")
			}
		case d.Type().IsRegular() && !strings.HasSuffix(p, tempSuffix):
			h.read(p)
		}
		return nil
	})
}

// read looks into one file. Its words are kept when they name what the migration is about.
func (h *harness) read(p string) {
	info, err := h.disk.root.Lstat(p)
	if err != nil || !info.Mode().IsRegular() {
		h.see(p, "cannot be read")
		return
	}
	if info.Size() > longestText {
		h.scan(p, info.Size())
		return
	}
	b, err := h.disk.read(p)
	if err != nil {
		h.see(p, "cannot be read: "+plainError(err))
		return
	}
	if !anyMention().Match(b) && !(strings.HasPrefix(p, ".claude/") && strings.HasSuffix(p, ".md")) && !judgeDef().Match(b) {
		return
	}
	f := &file{path: p, mode: info.Mode().Perm(), bytes: b}
	switch {
	case bytes.IndexByte(b, 0) >= 0:
		f.closed = "is no text"
	case !utf8.Valid(b):
		f.closed = "is not UTF-8"
	case len(anyMention().FindAllIndex(b, mostMentions+1)) > mostMentions:
		f.closed = "is no instruction, by how often it does,"
	case info.Mode()&0o200 == 0:
		f.closed = "is read-only"
	default:
		f.text = newText(p, string(b))
	}
	h.files = append(h.files, f)
	if f.closed != "" && anyMention().Match(b) {
		h.see(p, f.closed+" and names the relay: it is not changed")
	}
}

// scan searches a file that is too large to be changed.
func (h *harness) scan(p string, size int64) {
	f, err := h.disk.root.Open(p)
	if err != nil {
		h.see(p, "cannot be read: "+plainError(err))
		return
	}
	defer f.Close()
	buf, kept := make([]byte, 1<<20), 0
	for in := io.LimitReader(f, longestScan); ; {
		n, err := io.ReadFull(in, buf[kept:])
		if anyMention().Match(buf[:kept+n]) {
			h.files = append(h.files, &file{path: p, bytes: []byte(oldModule), closed: "is too large"})
			h.see(p, fmt.Sprintf("is larger than %d MB and names the relay: it is not changed", longestText>>20))
			return
		}
		if err != nil {
			break
		}
		kept = copy(buf, buf[len(buf)-64:]) // a name may stand across two pieces
	}
	if size > longestScan {
		h.see(p, fmt.Sprintf("is larger than %d MB: only its beginning was searched", longestScan>>20))
	}
}

func (h *harness) see(p, why string) { h.look = append(h.look, Look{Path: p, Why: why}) }

func plainError(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
