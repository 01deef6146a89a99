package state

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// MarkerSlack is how far a marker's time can lie ahead: other programs round, and clocks are set.
const MarkerSlack = 2 * time.Minute

// Find looks at the questions of these sessions whose files were written since then, the newest first, until one proves what
// is wanted; written is when its file was. A question is a session's by its session_id or by Claude Code's own id, which /clear
// and a resume change. What does not parse is passed over and returned in bad, as is what proves has an error about.
func (s Questions) Find(sessions []string, since time.Time,
	proves func(q *Question, written time.Time) (bool, error)) (found bool, bad []error) {
	type questionFile struct {
		path    string
		written time.Time
		b       []byte
	}
	var files []questionFile
	names, _ := s.Names()
	for _, name := range names { // a session that was resumed under another $CLAUDE_SESSION_ID has files of several names
		path := s.path(name)
		b, written, err := readPlain(path, maxRecord)
		mentions := func(id string) bool {
			quoted, _ := json.Marshal(id)
			return bytes.Contains(b, quoted)
		}
		if err == nil && !written.Before(since) && slices.ContainsFunc(sessions, mentions) {
			files = append(files, questionFile{path, written, b})
		}
	}
	slices.SortFunc(files, func(a, b questionFile) int { return b.written.Compare(a.written) })
	for _, file := range files {
		q := &Question{}
		err := decode(file.b, q, file.written)
		if err == nil {
			q.Path = file.path
			if !slices.Contains(sessions, q.ClaudeSession()) && !slices.Contains(sessions, q.SessionID) {
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

// timeNear reads a time as we or other programs write it. One without a zone may be UTC or this machine's: it is the later
// of the two that does not lie after the file was written.
func timeNear(text string, written time.Time) (time.Time, error) {
	early, err := foreignTime(text, time.UTC)
	late, _ := foreignTime(text, time.Local)
	if early.After(late) {
		early, late = late, early
	}
	if late.After(written.Add(MarkerSlack)) {
		return early, err
	}
	return late, err
}
