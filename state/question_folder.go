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

// MaxQuestionAge is how long a question is kept: then it expires, then its file goes.
const MaxQuestionAge = 24 * time.Hour

// Questions is a folder of questions.
type Questions struct{ Folder[Question] }

// QuestionsIn is the folder pending-questions of a project's state folder.
func QuestionsIn(projectState string) Questions {
	return questionFolder(filepath.Join(projectState, "pending-questions"))
}

const markerFolder = "gchat-forwarded-ask"

// MarkersIn is the folder gchat-forwarded-ask of a project's state folder: the questions
// of deny mode, which prove to a stop gate that the person was asked. One that is asked
// in the terminal instead stays there. Other programs keep markers there, too, so nothing
// in it is moved aside.
func MarkersIn(projectState string) Questions {
	return questionFolder(filepath.Join(projectState, markerFolder))
}

func questionFolder(dir string) Questions {
	return Questions{Folder[Question]{Dir: dir, KeepsDamaged: filepath.Base(dir) == markerFolder}}
}

// IsMarkerFile says whether a file lies where markers do.
func IsMarkerFile(path string) bool { return filepath.Base(filepath.Dir(path)) == markerFolder }

// Record looks at the questions of a session, by Claude Code's own id, and writes a new
// one, as one step that no other process can come between: decide gets those that
// OfSession reads, and returns the question to use: one of them, a new one (without Path,
// it is written), or nil. A new one is {session_id}-{unix_ts}.json, with -2, -3 … when
// that is taken; in deny mode {question_id}.json.
func (s Questions) Record(
	claudeSession string,
	decide func(existing []*Question) *Question,
	texts ...string,
) (*Question, error) {
	l, err := LockWithTimeout(s.lockPath("record"))
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	// Questions and answers do not belong into a commit. Where this cannot be written,
	// neither can the question, which says so.
	ignore := filepath.Join(filepath.Dir(s.Dir), gitignore)
	if _, err := os.Lstat(ignore); IsMissing(err) {
		_ = unsynced.write(ignore, []byte(gitignoreText), true)
	}
	existing, _, err := s.OfSession(claudeSession, texts...)
	if err != nil {
		return nil, err
	}
	q := decide(existing)
	if q == nil || q.Path != "" {
		return q, nil
	}
	base := fmt.Sprintf("%s-%d", safeFileName(q.SessionID), q.AskedAt.Unix())
	if s.KeepsDamaged {
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

// OfSession reads the questions of a session, by Claude Code's own id, newest first; with
// texts those in whose files one of them stands. Files that do not parse are returned as
// *Corrupt errors beside the others; for unlisted see allUnless.
func (s Questions) OfSession(
	claudeSession string,
	texts ...string,
) (questions []*Question, bad []error, unlisted error) {
	questions, bad, unlisted = s.OfSessionNames([]string{claudeSession}, texts...)
	return slices.DeleteFunc(questions, func(q *Question) bool {
		// another program's marker is not ours to post, read and close
		isForeign := s.KeepsDamaged && q.Mode == ""
		return isForeign || q.ClaudeSession() != claudeSession
	}), bad, unlisted
}

// OfSessionNames is OfSession of several names of a session, for all questions, and other
// programs', too: a question is a session's by its session_id or by Claude Code's own id,
// which /clear and a resume change.
func (s Questions) OfSessionNames(
	sessions []string,
	texts ...string,
) (questions []*Question, bad []error, unlisted error) {
	var ids, prefixes []string
	for _, session := range sessions {
		id, _ := json.Marshal(session)
		ids, prefixes = append(ids, string(id)), append(prefixes, safeFileName(session)+"-")
	}
	questions, bad, unlisted = s.allUnless(func(name string, file []byte) bool {
		inText := func(id string) bool { return bytes.Contains(file, []byte(id)) }
		// a damaged file is the session's by its name
		inName := func(prefix string) bool { return strings.Contains(name, prefix) }
		isMentioned := slices.ContainsFunc(prefixes, inName) || slices.ContainsFunc(ids, inText)
		return !isMentioned || !hasStatusText(file, texts)
	})
	questions = slices.DeleteFunc(questions, func(q *Question) bool {
		return !slices.Contains(sessions, q.ClaudeSession()) &&
			!slices.Contains(sessions, q.SessionID)
	})
	SortNewestFirst(questions)
	return questions, bad, unlisted
}

// Of a status, and of a grant, these stand in a question's file. At a day's end most
// questions are over: hundreds are not parsed.
var (
	OpenStatusTexts   = []string{`"pending"`, `"answered"`}
	TimedOutText      = `"timeout"`
	GrantText         = `"grant"`
	closedStatusTexts = []string{
		`"resolved"`,
		`"cancelled"`,
		`"abandoned"`,
		TimedOutText,
		`"expired"`,
	}
)

// hasStatusText reports whether one of these texts stands in a question's file, or no
// status does: then it is damaged. Without texts each file counts.
func hasStatusText(file []byte, texts []string) bool {
	hasText := func(text string) bool { return bytes.Contains(file, []byte(text)) }
	hasStatus := slices.ContainsFunc(closedStatusTexts, hasText) ||
		slices.ContainsFunc(OpenStatusTexts, hasText)
	return len(texts) == 0 || slices.ContainsFunc(texts, hasText) || !hasStatus
}

// SortNewestFirst sorts questions by when they were asked.
func SortNewestFirst(questions []*Question) {
	slices.SortStableFunc(
		questions,
		func(a, b *Question) int { return b.AskedAt.Compare(a.AskedAt) },
	)
}

// LoadQuestion reads one question. fs.ErrNotExist when it is gone, *Corrupt when it did
// not parse and was moved aside; a marker is left where it is.
func LoadQuestion(path string) (*Question, error) {
	return questionFolder(filepath.Dir(path)).Load(RecordName(path))
}

// LoadQuestionInPlace is LoadQuestion of a file that a person names: also a damaged one
// stays where it is.
func LoadQuestionInPlace(path string) (*Question, error) {
	return Folder[Question]{Dir: filepath.Dir(path), KeepsDamaged: true}.Load(RecordName(path))
}

// UpdateQuestion and the two below are the only ways in which a question on disk changes;
// see Folder.Update.
func UpdateQuestion(path string, change func(*Question) error) (*Question, error) {
	return questionFolder(filepath.Dir(path)).Update(RecordName(path), func(q *Question) error {
		err := change(q)
		q.forgetValues()
		return err
	})
}

// ChangeQuestion is UpdateQuestion with a change that cannot fail.
func ChangeQuestion(path string, change func(*Question)) (*Question, error) {
	return questionFolder(filepath.Dir(path)).change(path, change)
}

// ChangeQuestionRelaxed is ChangeQuestion for what a power cut may take back, since
// another look finds it out again: the receipt of its message, that its answer was
// printed, that a note was put, a key that was typed.
func ChangeQuestionRelaxed(path string, change func(*Question)) (*Question, error) {
	folder := questionFolder(filepath.Dir(path))
	folder.durability = relaxed
	return folder.change(path, change)
}

func (s Questions) change(path string, change func(*Question)) (*Question, error) {
	return s.Change(RecordName(path), func(q *Question) {
		change(q)
		q.forgetValues()
	})
}

// RemoveUnindexedQuestions removes the questions of ours in a folder that were written
// before then and have no Open: it could not be written, so no poller serves them. What
// other programs wrote stays.
func RemoveUnindexedQuestions(env Getenv, dir string, before time.Time) (removed int, err error) {
	for _, name := range folderEntries(dir) {
		path := filepath.Join(dir, name)
		info, statErr := os.Lstat(path)
		if statErr != nil || filepath.Ext(name) != ".json" || !info.ModTime().Before(before) ||
			IsInIndex(env, path) {
			continue
		}
		q, readErr := LoadQuestionInPlace(path)
		if readErr != nil || q.Mode == "" || q.ProjectDir == "" {
			continue
		}
		removed++
		err = errors.Join(err, questionFolder(dir).Remove(RecordName(path)))
	}
	return removed, err
}

// RemoveClosedQuestion takes a closed question's file away, and its place in the index.
func RemoveClosedQuestion(env Getenv, q *Question) error {
	if q.Status.IsOpen() {
		return fmt.Errorf("remove question: it is %s", q.Status)
	}
	return RemoveQuestion(env, q)
}

// RemoveQuestion takes a question away, and its place in the index, also where it is
// open.
func RemoveQuestion(env Getenv, q *Question) error {
	err := questionFolder(filepath.Dir(q.Path)).Remove(RecordName(q.Path))
	if err == nil {
		err = RemoveFromIndex(env, q.Path)
	}
	return err
}
