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

type Questions struct{ Folder[Question] }

// QuestionsIn is the folder pending-questions of a project's state folder.
func QuestionsIn(projectState string) Questions {
	return questionsOf(filepath.Join(projectState, "pending-questions"))
}

const markerFolder = "gchat-forwarded-ask"

// MarkersIn is the folder gchat-forwarded-ask of a project's state folder: the questions of deny mode, which prove to a stop
// gate that the person was asked. One that is asked in the terminal instead stays there. Other programs keep markers there,
// too, so nothing in it is moved aside.
func MarkersIn(projectState string) Questions {
	return questionsOf(filepath.Join(projectState, markerFolder))
}

func questionsOf(dir string) Questions {
	return Questions{Folder[Question]{Dir: dir, LeaveAlone: filepath.Base(dir) == markerFolder}}
}

// AmongMarkers says whether a file lies where markers do.
func AmongMarkers(path string) bool { return filepath.Base(filepath.Dir(path)) == markerFolder }

// Record looks at the questions of a session, by Claude Code's own id, and writes a new one, as one step that no other process
// can come between: decide gets those that OfSession reads, and returns the question to use: one of them, a new one (without
// Path, it is written), or nil. A new one is {session_id}-{unix_ts}.json, with -2, -3 … when that is taken; in deny mode
// {question_id}.json.
func (s Questions) Record(claudeSession string, decide func(have []*Question) *Question, texts ...string) (*Question, error) {
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
	have, _, err := s.OfSession(claudeSession, texts...)
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

// OfSession reads the questions of a session, by Claude Code's own id, newest first; with texts those in whose files one of them
// stands. Files that do not parse are returned as *Corrupt errors beside the others; for unlisted see allBut.
func (s Questions) OfSession(claudeSession string, texts ...string) (qs []*Question, bad []error, unlisted error) {
	qs, bad, unlisted = s.Mentioning([]string{claudeSession}, texts...)
	return slices.DeleteFunc(qs, func(q *Question) bool {
		foreign := s.LeaveAlone && q.Mode == "" // another program's marker is not ours to post, read and close
		return foreign || q.ClaudeSession() != claudeSession
	}), bad, unlisted
}

// Mentioning is OfSession of several names of a session, for all questions, and other programs', too: a question is a session's
// by its session_id or by Claude Code's own id, which /clear and a resume change.
func (s Questions) Mentioning(sessions []string, texts ...string) (qs []*Question, bad []error, unlisted error) {
	var ids, begins []string
	for _, session := range sessions {
		id, _ := json.Marshal(session)
		ids, begins = append(ids, string(id)), append(begins, safeName(session)+"-")
	}
	qs, bad, unlisted = s.allBut(func(name string, file []byte) bool {
		inText := func(id string) bool { return bytes.Contains(file, []byte(id)) }
		inName := func(begin string) bool { return strings.Contains(name, begin) } // a damaged file is the session's by its name
		mentioned := slices.ContainsFunc(begins, inName) || slices.ContainsFunc(ids, inText)
		return !mentioned || !says(file, texts)
	})
	qs = slices.DeleteFunc(qs, func(q *Question) bool {
		return !slices.Contains(sessions, q.ClaudeSession()) && !slices.Contains(sessions, q.SessionID)
	})
	SortNewestFirst(qs)
	return qs, bad, unlisted
}

// Of a status, and of a grant, these stand in a question's file. At a day's end most questions are over: hundreds are not parsed.
var (
	TextsOpen = []string{`"pending"`, `"answered"`}
	TextLate  = `"timeout"`
	TextGrant = `"grant"`
	textsOver = []string{`"resolved"`, `"cancelled"`, `"abandoned"`, TextLate, `"expired"`}
)

// says reports whether one of these texts stands in a question's file, or no status does: then it is damaged. Without texts each
// file counts.
func says(b []byte, texts []string) bool {
	in := func(text string) bool { return bytes.Contains(b, []byte(text)) }
	known := slices.ContainsFunc(textsOver, in) || slices.ContainsFunc(TextsOpen, in)
	return len(texts) == 0 || slices.ContainsFunc(texts, in) || !known
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

// UpdateQuestion and the two below are the only ways in which a question on disk changes; see Folder.Update.
func UpdateQuestion(path string, change func(*Question) error) (*Question, error) {
	return questionsOf(filepath.Dir(path)).Update(NameOf(path), func(q *Question) error {
		err := change(q)
		q.forgetValues()
		return err
	})
}

// ChangeQuestion is UpdateQuestion with a change that cannot fail.
func ChangeQuestion(path string, change func(*Question)) (*Question, error) {
	return questionsOf(filepath.Dir(path)).change(path, change)
}

// NoteQuestion is ChangeQuestion for what a power cut may take back, since another look finds it out again: the receipt of its
// message, that its answer was printed, that a note was put, a key that was typed.
func NoteQuestion(path string, change func(*Question)) (*Question, error) {
	folder := questionsOf(filepath.Dir(path))
	folder.writes = whole
	return folder.change(path, change)
}

func (s Questions) change(path string, change func(*Question)) (*Question, error) {
	return s.Change(NameOf(path), func(q *Question) {
		change(q)
		q.forgetValues()
	})
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
	return DropQuestion(env, q)
}

// DropQuestion takes a question away, and its place in the index, also where it is open.
func DropQuestion(env Getenv, q *Question) error {
	err := questionsOf(filepath.Dir(q.Path)).Remove(NameOf(q.Path))
	if err == nil {
		err = Forget(env, q.Path)
	}
	return err
}
