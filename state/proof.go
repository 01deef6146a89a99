package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// MarkerSlack is how far a marker's time can lie ahead: other programs round, and clocks are set.
const MarkerSlack = 2 * time.Minute

// Find looks at the questions of these sessions whose files were written since then, the newest first, until one proves what
// is wanted; written is when its file was. What does not parse is passed over and returned in bad, as is what proves has an
// error about. Every file that mentions a session is read: one that was resumed under another name has files of the former.
func (s Questions) Find(sessions []string, since time.Time,
	proves func(q *Question, written time.Time) (bool, error)) (found bool, bad []error) {
	for _, file := range s.writtenSince(since) {
		b, err := ReadPlain(file.path, maxRecord)
		if err != nil || !mentions(b, sessions) {
			continue
		}
		q := &Question{}
		if err = decode(b, q, file.written); err == nil {
			q.Path = file.path
			if !slices.Contains(sessions, q.ClaudeSession()) {
				continue
			}
			found, err = proves(q, file.written)
		}
		if err != nil {
			bad = append(bad, &Corrupt{Path: file.path, Err: err})
		} else if found {
			return true, bad
		}
	}
	return false, bad
}

// mentions says whether a file's bytes hold one of these ids.
func mentions(b []byte, sessions []string) bool {
	return slices.ContainsFunc(sessions, func(id string) bool {
		quoted, err := json.Marshal(id)
		return err == nil && bytes.Contains(b, quoted)
	})
}

// writtenFile is a file and when it was last written.
type writtenFile struct {
	path    string
	written time.Time
}

// writtenSince are the plain files of the folder that were written since then, the newest first.
func (s Questions) writtenSince(since time.Time) (files []writtenFile) {
	names, _ := s.Names()
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(s.Dir, name+".json"))
		if err == nil && info.Mode().IsRegular() && !info.ModTime().Before(since) {
			files = append(files, writtenFile{s.path(name), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b writtenFile) int { return b.written.Compare(a.written) })
	return files
}

// timeNear reads a time as we or other programs write it. One without a zone may be UTC or this machine's: it is the later
// of the two that does not lie after the file was written.
func timeNear(text string, written time.Time) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return t, nil
	}
	for _, layout := range foreignTimes {
		early, lerr := time.Parse(layout, text)
		if lerr != nil {
			continue
		}
		late, _ := time.ParseInLocation(layout, text, time.Local)
		if early.After(late) {
			early, late = late, early
		}
		if late.After(written.Add(MarkerSlack)) {
			return early, nil
		}
		return late, nil
	}
	return time.Time{}, err
}
