package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// MaxAge is how long a question is kept: then it expires, then its file goes.
const MaxAge = 24 * time.Hour

// Questions is a folder of a project's questions.
type Questions struct{ Folder[Question] }

// QuestionsIn is the folder pending-questions of a project's state folder.
func QuestionsIn(projectState string) Questions {
	return questionsOf(filepath.Join(projectState, "pending-questions"))
}

const markerFolder = "gchat-forwarded-ask"

// MarkersIn is the folder gchat-forwarded-ask of a project's state folder: the questions in deny mode, which prove to a stop
// gate that the person was asked. Other programs keep markers there, too, so nothing in it is moved aside.
func MarkersIn(projectState string) Questions {
	return questionsOf(filepath.Join(projectState, markerFolder))
}

func questionsOf(dir string) Questions {
	return Questions{Folder[Question]{Dir: dir, LeaveAlone: filepath.Base(dir) == markerFolder}}
}

// AmongMarkers says whether a file lies where markers do.
func AmongMarkers(path string) bool { return filepath.Base(filepath.Dir(path)) == markerFolder }

// Record looks at the questions of a session, by Claude Code's own id, and writes a new one, as one step that no other process
// can come between: decide gets those that stand there, newest first, and returns the question to use: one of them, a new
// one (without Path, it is written), or nil. A new one is {session_id}-{unix_ts}.json, with -2, -3 … when that is taken; in deny
// mode {question_id}.json.
func (s Questions) Record(claudeSession string, decide func(open []*Question) *Question) (*Question, error) {
	l, err := LockSoon(s.lockPath("record"))
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	// Questions and answers do not belong into a commit. Where this cannot be written, neither can the question, which says so.
	ignore := filepath.Join(filepath.Dir(s.Dir), gitignore)
	if _, err := os.Lstat(ignore); Missing(err) {
		_ = quick.write(ignore, []byte(ignoreAll), true)
	}
	have, _, err := s.OfSession(claudeSession)
	if err != nil {
		return nil, err
	}
	q := decide(have)
	if q == nil || q.Path != "" {
		return q, nil
	}
	base := fmt.Sprintf("%s-%d", safeName(q.SessionID), q.AskedAt.Unix())
	if s.LeaveAlone {
		base = q.QuestionID
	}
	err = s.Create(base, q)
	for n := 2; n < 10000 && errors.Is(err, fs.ErrExist); n++ {
		err = s.Create(fmt.Sprintf("%s-%d", base, n), q)
	}
	if err != nil {
		return q, fmt.Errorf("record question: %w", err)
	}
	return q, nil
}

// OfSession reads the questions of a session, by Claude Code's own id, newest first. Files that do not parse are returned as
// *Corrupt errors beside the others.
func (s Questions) OfSession(claudeSession string) (qs []*Question, bad []error, err error) {
	names, err := s.Names()
	if err != nil {
		return nil, nil, err
	}
	id, _ := json.Marshal(claudeSession)
	begins, buf := safeName(claudeSession)+"-", bytes.Buffer{} // one buffer: hooks that wait keep what they used
	for _, name := range names {
		// A damaged file is the session's by its name.
		b, written, err := readPlain(s.path(name), maxRecord, &buf)
		if !strings.Contains(name, begins) && (err != nil || !bytes.Contains(b, id)) {
			continue
		}
		q, err := s.parse(name, b, written, err)
		switch {
		case err == nil && s.LeaveAlone && !q.Mode.Row().Marker: // another program's marker is not ours to post, read and close
		case err == nil && q.ClaudeSession() == claudeSession:
			qs = append(qs, q)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrBeingWritten):
			bad = append(bad, err)
		}
	}
	SortNewestFirst(qs)
	return qs, bad, nil
}

// Find looks at the questions of these sessions whose files were written since then, the newest first, until one proves what
// is wanted; written is when its file was. A question is a session's by its session_id or by Claude Code's own id, which /clear
// and a resume change. What does not parse is passed over and returned in bad, as is what proves has an error about.
func (s Questions) Find(sessions []string, since time.Time,
	proves func(q *Question, written time.Time) (bool, error)) (found bool, bad []error) {
	type questionFile struct {
		q       *Question
		written time.Time
	}
	var files []questionFile
	names, _ := s.Names()
	for _, name := range names { // a session that was resumed under another $CLAUDE_SESSION_ID has files of several names
		b, written, err := readPlain(s.path(name), maxRecord, &bytes.Buffer{})
		mentions := func(id string) bool {
			quoted, _ := json.Marshal(id)
			return bytes.Contains(b, quoted)
		}
		if err != nil || written.Before(since) || !slices.ContainsFunc(sessions, mentions) {
			continue
		}
		q := &Question{}
		if err := decode(b, q, written); err != nil {
			bad = append(bad, &Corrupt{Path: s.path(name), Err: err})
		} else if slices.Contains(sessions, q.ClaudeSession()) || slices.Contains(sessions, q.SessionID) {
			q.Path = s.path(name)
			files = append(files, questionFile{q, written})
		}
	}
	slices.SortFunc(files, func(a, b questionFile) int { return b.written.Compare(a.written) })
	for _, file := range files {
		if found, err := proves(file.q, file.written); err != nil {
			bad = append(bad, &Corrupt{Path: file.q.Path, Err: err})
		} else if found {
			return true, bad
		}
	}
	return false, bad
}

// SortNewestFirst sorts questions by when they were asked.
func SortNewestFirst(qs []*Question) {
	slices.SortStableFunc(qs, func(a, b *Question) int { return b.AskedAt.Compare(a.AskedAt) })
}

// LoadQuestion reads one question. fs.ErrNotExist when it is gone, *Corrupt when it did not parse and was moved aside; a
// marker is left where it is.
func LoadQuestion(path string) (*Question, error) {
	return questionsOf(filepath.Dir(path)).Load(NameOf(path))
}

// PeekQuestion is LoadQuestion of a file that a person names: also a damaged one stays where it is.
func PeekQuestion(path string) (*Question, error) {
	return Folder[Question]{Dir: filepath.Dir(path), LeaveAlone: true}.Load(NameOf(path))
}

// UpdateQuestion and NoteQuestion are the only ways in which a question on disk changes; see Folder.Update.
func UpdateQuestion(path string, change func(*Question) error) (*Question, error) {
	return questionsOf(filepath.Dir(path)).Update(NameOf(path), change)
}

// NoteQuestion is UpdateQuestion for what a power cut may take back, since another look finds it out again: the receipt of its
// message, that its answer was printed, that a note was put, a key that was typed.
func NoteQuestion(path string, change func(*Question) error) (*Question, error) {
	folder := questionsOf(filepath.Dir(path))
	folder.writes = whole
	return folder.Update(NameOf(path), change)
}

// SweepUnannounced removes the questions of ours in a folder that were written before then and have no Open: it could not be
// written, so no poller serves them. What other programs wrote stays.
func SweepUnannounced(env Getenv, dir string, before time.Time) (removed int, err error) {
	for _, name := range namesIn(dir) {
		path := filepath.Join(dir, name)
		info, serr := os.Lstat(path)
		if serr != nil || filepath.Ext(name) != ".json" || !info.ModTime().Before(before) || Announced(env, path) {
			continue
		}
		q, qerr := PeekQuestion(path)
		if qerr != nil || q.Mode == "" || q.ProjectDir == "" {
			continue
		}
		removed++
		err = errors.Join(err, questionsOf(dir).Remove(NameOf(path)))
	}
	return removed, err
}

// RemoveQuestion takes a closed question's file away, and its place in the index.
func RemoveQuestion(env Getenv, q *Question) error {
	if q.Status.Open() {
		return fmt.Errorf("remove question: it is %s", q.Status)
	}
	err := questionsOf(filepath.Dir(q.Path)).Remove(NameOf(q.Path))
	if err == nil {
		err = Forget(env, q.Path)
	}
	return err
}
