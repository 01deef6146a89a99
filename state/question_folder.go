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

// MaxQuestionAge is the age at which an open question expires, and at which a closed
// question's file is removed.
const MaxQuestionAge = 24 * time.Hour

// Questions is a folder of questions.
type Questions struct{ Folder[Question] }

// QuestionsIn returns the folder pending-questions of a project's state folder.
func QuestionsIn(projectState string) Questions {
	return questionFolder(filepath.Join(projectState, "pending-questions"))
}

const markerFolder = "gchat-forwarded-ask"

// MarkersIn returns the folder gchat-forwarded-ask of a project's state folder: the
// questions of deny mode, which prove to a stop gate that the person was asked. A
// question of deny mode that is asked in the terminal instead stays there. Other programs
// keep markers there, too, so damaged files in it are left where they are.
func MarkersIn(projectState string) Questions {
	return questionFolder(filepath.Join(projectState, markerFolder))
}

func questionFolder(dir string) Questions {
	return Questions{Folder[Question]{Dir: dir, KeepsDamaged: filepath.Base(dir) == markerFolder}}
}

// IsMarkerFile reports whether a file lies in a folder of markers.
func IsMarkerFile(path string) bool { return filepath.Base(filepath.Dir(path)) == markerFolder }

// Record reads the questions of a session, by Claude Code's own id, and writes a new one;
// no other process can come in between. decide gets the questions that OfSession returns,
// and returns the one to use: an existing one, a new one (without Path), which is then
// written, or nil for none. A new file is {session_id}-{unix_ts}.json, with -2, -3 …
// where that exists; in deny mode {question_id}.json.
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
	// Questions and answers do not belong into a commit. If the .gitignore cannot be
	// written, the question cannot be written either, and that error is returned.
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

// OfSession reads the questions of a session, by Claude Code's own id, newest first. With
// texts it reads only those whose files contain one of them; see OpenStatusTexts. Files
// that do not parse are returned as *CorruptFileError in bad; for unlisted see allUnless.
func (s Questions) OfSession(claudeSession string, texts ...string) (
	questions []*Question, bad []error, unlisted error,
) {
	questions, bad, unlisted = s.OfSessionNames([]string{claudeSession}, texts...)
	return slices.DeleteFunc(questions, func(q *Question) bool {
		// another program posts, reads and closes its own markers
		isForeign := s.KeepsDamaged && q.Mode == ""
		return isForeign || q.ClaudeSession() != claudeSession
	}), bad, unlisted
}

// OfSessionNames is OfSession for several names of one session, and includes questions of
// other programs. A question belongs to a session by its session_id or by Claude Code's
// own id, which /clear and a resume change.
func (s Questions) OfSessionNames(sessions []string, texts ...string) (
	questions []*Question, bad []error, unlisted error,
) {
	var ids, prefixes []string
	for _, session := range sessions {
		id, _ := json.Marshal(session)
		ids = append(ids, string(id))
		prefixes = append(prefixes, safeFileName(session)+"-")
	}
	questions, bad, unlisted = s.allUnless(func(name string, file []byte) bool {
		inText := func(id string) bool { return bytes.Contains(file, []byte(id)) }
		// a damaged file belongs to the session if its name says so
		inName := func(prefix string) bool { return strings.Contains(name, prefix) }
		isMentioned := slices.ContainsFunc(prefixes, inName) || slices.ContainsFunc(ids, inText)
		return !isMentioned || !hasStatusText(file, texts)
	})
	questions = slices.DeleteFunc(questions, func(q *Question) bool {
		isOfSession := slices.Contains(sessions, q.ClaudeSession()) ||
			slices.Contains(sessions, q.SessionID)
		return !isOfSession
	})
	SortNewestFirst(questions)
	return questions, bad, unlisted
}

// Texts that a question's file contains for its status or a grant. They spare parsing: at
// the end of a day hundreds of questions are closed.
var (
	OpenStatusTexts   = []string{`"pending"`, `"answered"`}
	TimedOutText      = `"timeout"`
	GrantText         = `"grant"`
	closedStatusTexts = []string{
		`"resolved"`, `"cancelled"`, `"abandoned"`, TimedOutText, `"expired"`,
	}
)

// hasStatusText reports whether a question's file contains one of these texts, or no
// status at all, since it is then damaged. Without texts every file counts.
func hasStatusText(file []byte, texts []string) bool {
	hasText := func(text string) bool { return bytes.Contains(file, []byte(text)) }
	hasStatus := slices.ContainsFunc(closedStatusTexts, hasText) ||
		slices.ContainsFunc(OpenStatusTexts, hasText)
	return len(texts) == 0 || slices.ContainsFunc(texts, hasText) || !hasStatus
}

// SortNewestFirst sorts questions by when they were asked, the newest first.
func SortNewestFirst(questions []*Question) {
	slices.SortStableFunc(questions, func(a, b *Question) int {
		return b.AskedAt.Compare(a.AskedAt)
	})
}

// LoadQuestion reads one question. The error is fs.ErrNotExist where it is gone, or
// *CorruptFileError where it does not parse. A file that does not parse is moved aside; a
// marker stays where it is.
func LoadQuestion(path string) (*Question, error) {
	return questionFolder(filepath.Dir(path)).Load(RecordName(path))
}

// LoadQuestionInPlace is LoadQuestion for a file that a person names: even a damaged one
// stays where it is.
func LoadQuestionInPlace(path string) (*Question, error) {
	return Folder[Question]{Dir: filepath.Dir(path), KeepsDamaged: true}.Load(RecordName(path))
}

// UpdateQuestion, ChangeQuestion and ChangeQuestionRelaxed are the only functions that
// change a question on disk; see Folder.Update.
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

// ChangeQuestionRelaxed is ChangeQuestion for a change that a power cut may undo, because
// a later look finds it out again: the receipt of its message, that its answer was
// printed, that a note was enqueued, a key that was typed.
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

// RemoveUnindexedQuestions removes our questions in a folder that were written before
// that time and have no index entry: the entry could not be written, so no poller serves
// them. Questions of other programs stay. It returns how many it removed.
func RemoveUnindexedQuestions(env Getenv, dir string, before time.Time) (removed int, err error) {
	for _, name := range folderEntries(dir) {
		path := filepath.Join(dir, name)
		info, statErr := os.Lstat(path)
		isOld := statErr == nil && info.ModTime().Before(before)
		if !isOld || filepath.Ext(name) != ".json" || IsInIndex(env, path) {
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

// RemoveClosedQuestion removes a closed question and its index entry. An open question is
// an error.
func RemoveClosedQuestion(env Getenv, q *Question) error {
	if q.Status.IsOpen() {
		return fmt.Errorf("remove question: it is still open (%s)", q.Status)
	}
	return RemoveQuestion(env, q)
}

// RemoveQuestion removes a question, open or closed, and its index entry.
func RemoveQuestion(env Getenv, q *Question) error {
	err := questionFolder(filepath.Dir(q.Path)).Remove(RecordName(q.Path))
	if err == nil {
		err = RemoveFromIndex(env, q.Path)
	}
	return err
}
