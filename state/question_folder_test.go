package state

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// Other programs keep markers in the same folder. We neither serve nor move those, and
// report each once.
func TestQuestionFolder_LeavesForeignMarkersAlone(t *testing.T) {
	dir := t.TempDir()
	folder := MarkersIn(dir)
	id := MarkerQuestionID("s-1", "01234567-89ab-cdef-0123-456789abcdef")
	ours, err := folder.Record("s-1", func([]*Question) *Question {
		return &Question{QuestionID: id, ThreadKey: id, SessionID: "s-1", AskedAt: time.Now().UTC(),
			Status: Pending, Mode: ModeDeny, SubQuestions: []SubQuestion{{Question: "Which?"}}}
	})
	kit.Must(t, err == nil && filepath.Base(ours.Path) == "ask-s-1-01234567.json",
		"%v %v", ours, err)
	theirs := map[string]string{
		"ask-s-1-half.json":    `{"question_id":"ask-s-1-half","stat`,
		"ask-s-1-empty.json":   ``,
		"ask-s-1-array.json":   `[]`,
		"ask-s-1-nothing.json": `{"foo":1}`,
		"ask-s-1-python.json":  `{"question_id":"ask-s-1-python","session_id":"s-1","asked_at":"2026-02-21T10:30:00","questions":[{"question":"Which?"}],"gchat_thread_key":"k","status":"pending"}`,
		"ask-s-1-other.json":   `{"question_id":"x","session_id":"s-1","asked_at":"yesterday","status":"pending","mode":"deny"}`,
	}
	for name, content := range theirs {
		kit.NoError(t, os.WriteFile(filepath.Join(folder.Dir, name), []byte(content), 0o600))
	}
	kit.NoError(t, os.Mkdir(filepath.Join(folder.Dir, "ask-s-1-folder.json"), 0o700))
	kit.NoError(t, syscall.Mkfifo(filepath.Join(folder.Dir, "ask-s-1-pipe.json"), 0o600))
	old := time.Now().Add(-time.Hour) // so that none counts as being written
	for name := range theirs {
		os.Chtimes(filepath.Join(folder.Dir, name), old, old)
	}
	_, bad := folder.All()
	kit.True(t, len(bad) == 7, "%d files are bad: %v", len(bad), bad)
	qs, _, err := folder.OfSession("s-1")
	kit.True(t, err == nil && len(qs) == 1 && qs[0].QuestionID == id, "of the session: %v, %v", qs,
		err)
	for name, content := range theirs {
		kit.Equalf(t, kit.ReadFile(t, filepath.Join(folder.Dir, name)), content, "%s", name)
	}
	// A person may name any file.
	q, err := LoadQuestionInPlace(filepath.Join(folder.Dir, "ask-s-1-python.json"))
	kit.True(t, err == nil && q.Mode == "" && !q.AskedAt.IsZero(), "%+v, %v", q, err)
	notes := filepath.Join(dir, "notes.json")
	os.WriteFile(notes, []byte("{"), 0o600)
	os.Chtimes(notes, old, old)
	_, err = LoadQuestionInPlace(notes)
	kit.True(t, err != nil, "no error")
	_, err = os.Stat(notes)
	kit.True(t, err == nil, "%v", err)
}

// A file that is too large to read is reported, even if its beginning looks like a closed
// question.
func TestQuestionFolder_ReportsALargeFile(t *testing.T) {
	folder := QuestionsIn(t.TempDir())
	path := filepath.Join(folder.Dir, "s-1771669800.json")
	writeAt(t, path, `{"question_id":"x","session_id":"s","status":"resolved"}`)
	kit.NoError(t, os.Truncate(path, maxRecordSize+1))
	qs, bad, err := folder.OfSession("s", "toolu_1")
	kit.True(t, len(qs) == 0 && len(bad) == 1 && err == nil, "%v, %v, %v", qs, bad, err)
}
