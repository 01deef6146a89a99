package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Scan reads the questions of many projects again and again, and parses only files that changed since.
type Scan struct {
	// LeaveAlone is for one who only looks: a file that is no question stays where it is, and is reported with every call.
	LeaveAlone bool

	seen map[string]scanned
}

type scanned struct {
	info os.FileInfo
	q    *Question // nil for a file that is none: it was reported
}

// Questions returns every question in the folders of the given state directories, and in the other folders named, newest
// first. The questions are shared between calls and must not be changed. A file that is no question is reported once.
func (s *Scan) Questions(projectStates []string, folders ...string) (qs []*Question, bad []error) {
	now := map[string]scanned{}
	var all []string
	for _, dir := range folders {
		if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 { // a person named it
			dir, _ = filepath.EvalSymlinks(dir)
		}
		all = append(all, dir)
	}
	load := LoadQuestion
	if s.LeaveAlone {
		load = PeekQuestion
	}
	for _, dir := range projectStates {
		for _, in := range []string{QuestionsIn(dir).Dir, MarkersIn(dir).Dir} {
			if !slices.Contains(all, in) {
				all = append(all, in)
			}
		}
	}
	for _, dir := range apart(all) {
		folder := Questions{Dir: dir}
		names, err := folder.names()
		if err != nil {
			bad = append(bad, err)
			continue
		}
		for _, name := range names {
			path := filepath.Join(folder.Dir, name)
			info, err := os.Lstat(path)
			if err != nil {
				continue
			}
			is := scanned{info: info}
			// A rewrite is a new file renamed over the old one, so the inode tells even within one clock tick.
			if was, ok := s.seen[path]; ok && os.SameFile(was.info, info) && was.info.ModTime().Equal(info.ModTime()) {
				is.q = was.q
			} else if is.q, err = load(path); errors.Is(err, ErrBeingWritten) {
				continue // the end of the writing is a change, too
			} else if err != nil {
				bad = append(bad, err)
				if is.q = nil; s.LeaveAlone {
					continue
				}
			}
			now[path] = is
			if is.q != nil && folder.serves(is.q) {
				qs = append(qs, is.q)
			}
		}
	}
	s.seen = now
	sortNewestFirst(qs)
	return qs, bad
}

// apart leaves out folders that are one of those before them by another path: the shell's folder may be reached by a link, and
// one question would look like two.
func apart(dirs []string) (left []string) {
	var infos []os.FileInfo
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			if slices.ContainsFunc(infos, func(was os.FileInfo) bool { return os.SameFile(was, info) }) {
				continue
			}
			infos = append(infos, info)
		}
		left = append(left, dir)
	}
	return left
}

func sortNewestFirst(qs []*Question) {
	slices.SortStableFunc(qs, func(a, b *Question) int { return b.AskedAt.Compare(a.AskedAt) })
}
