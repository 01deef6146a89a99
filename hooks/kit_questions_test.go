package hooks

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// questions are all questions on disk, in every mode, newest first.
func (w *world) questions() (qs []*state.Question) {
	w.Helper()
	for _, in := range []state.Questions{state.QuestionsIn(w.projectState()),
		state.MarkersIn(w.projectState())} {
		all, loadErrs := in.All()
		kit.Must(w, len(loadErrs) == 0, "%v", loadErrs)
		qs = append(qs, all...)
	}
	state.SortNewestFirst(qs)
	return qs
}

// question returns the one question on disk.
func (w *world) question() *state.Question {
	w.Helper()
	return w.onlyOne(w.questions)
}

// awaitQuestion waits until one question is on disk, and returns it.
func (w *world) awaitQuestion() *state.Question {
	w.Helper()
	return w.awaitOne(w.questions)
}

// onlyOne returns the one question that there is.
func (w *world) onlyOne(list func() []*state.Question) *state.Question {
	w.Helper()
	all := list()
	kit.Must(w, len(all) == 1, "%d questions, want 1", len(all))
	return all[0]
}

// awaitOne waits until there is one question, and returns it.
func (w *world) awaitOne(list func() []*state.Question) *state.Question {
	w.Helper()
	w.waitUntil("the question", func() bool { return len(list()) == 1 })
	return w.onlyOne(list)
}

// questionOfCall is the question of a call.
func (w *world) questionOfCall(toolUse string) *state.Question {
	w.Helper()
	for _, q := range w.questions() {
		if q.ToolUseID == toolUse {
			return q
		}
	}
	w.Fatalf("no question of %s on disk", toolUse)
	return nil
}

// recordQuestion has the recorded question asked, with some members of its event set, and
// returns its record.
func (w *world) recordQuestion(kv ...any) *state.Question {
	w.Helper()
	w.runHook(forwardHook, recorded(w, "single-03-PreToolUse", kv...))
	return w.question()
}

// startDialog asks the recorded question in its dialog. It returns the dialog's hook,
// which waits, and the question.
func (w *world) startDialog(wrap ...string) (*hookProcess, *state.Question) {
	w.Helper()
	q := w.recordQuestion()
	p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"), wrap...)
	w.awaitWaiter(q)
	return p, q
}

// indexed are the questions that the index names.
func (w *world) indexed() []*state.Question {
	questions, _ := state.ReadIndexedQuestions(w.getenv)
	return questions
}

// startWaiting starts the hook of a PermissionRequest or a form. It returns the hook, once
// it waits, and the question.
func (w *world) startWaiting(event []byte) (*hookProcess, *state.Question) {
	w.Helper()
	p := w.startHook(forwardHook, event)
	q := w.awaitOne(w.indexed)
	w.awaitWaiter(q)
	return p, q
}

// openPermission returns the newest open record of a permission or a plan.
func (w *world) openPermission() *state.Question {
	w.Helper()
	qs := w.indexed()
	for _, q := range qs {
		if q.Kind.Traits().Decides && q.Status.IsOpen() {
			return q
		}
	}
	w.Fatal("no permission is open")
	return nil
}

// indexEntry is what the index says about a question.
func (w *world) indexEntry(q *state.Question) *state.IndexEntry {
	w.Helper()
	entry, err := state.ReadIndexEntry(state.IndexFile(w.getenv, q.Path))
	kit.NoError(w, err)
	return entry
}

// lockPath is the path of a record's lock.
func lockPath(q *state.Question) string {
	dir, file := filepath.Split(q.Path)
	return filepath.Join(dir, ".locks", state.RecordName(file))
}

// awaitWaiter waits until a process waits for a question.
func (w *world) awaitWaiter(q *state.Question) {
	w.Helper()
	w.waitUntil("the waiter", func() bool { return state.HasWaiter(w.getenv, q.Path) })
}

// reload returns a question as it is on disk.
func (w *world) reload(q *state.Question) *state.Question {
	w.Helper()
	current, err := state.LoadQuestion(q.Path)
	kit.NoError(w, err)
	return current
}

// changeQuestion changes a question, as the poller does.
func (w *world) changeQuestion(q *state.Question, change func(*state.Question)) {
	w.Helper()
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { change(q); return nil })
	kit.NoError(w, err)
}

// closeQuestion closes a question, as the poller does.
func (w *world) closeQuestion(
	q *state.Question, status state.Status, resolvedBy string, change func(*state.Question),
) {
	w.Helper()
	ended, err := state.CloseQuestion(q.Path, status, resolvedBy, change)
	kit.NoError(w, err)
	kit.True(w, ended, "it was closed before")
}

// markPosted does what the poller does when it has posted a question.
func (w *world) markPosted(q *state.Question) {
	w.Helper()
	w.changeQuestion(q, func(q *state.Question) {
		q.IsMessageSent, q.ThreadName, q.MessageName = true, "spaces/x/threads/"+q.ThreadKey,
			"spaces/x/messages/"+q.ThreadKey
	})
}

// markReplied does what the poller does when a person's reply answers the first of a
// question's prompts.
func (w *world) markReplied(q *state.Question, answer string) {
	w.Helper()
	w.changeQuestion(q, func(q *state.Question) {
		kit.NoError(w, q.MoveTo(state.Answered, time.Now()))
		q.Answers = map[string]string{q.SubQuestions[0].Question: answer}
		q.Response, q.AnsweredMessage, q.AnsweredBy = &answer, "spaces/x/messages/reply", ann.Name
	})
}

// wantEnd checks a question's status and what resolved it.
func (w *world) wantEnd(q *state.Question, status state.Status, resolvedBy string) {
	w.Helper()
	q = w.reload(q)
	got := fmt.Sprintf("%s by %q", q.Status, q.ResolvedBy)
	kit.Equalf(w, got, fmt.Sprintf("%s by %q", status, resolvedBy), "question")
}

// wantAnswered checks which answer to the recorded question is recorded in the end.
func (w *world) wantAnswered(q *state.Question, resolvedBy, answer string) {
	w.Helper()
	w.wantEnd(q, state.Resolved, resolvedBy)
	kit.Equalf(w, w.reload(q).Answers[singleQuestion], answer, "answer")
}

// closedNote is the owed note about a question's end.
var closedNote = state.OwedNote{About: state.NoteClosed}

// wantOwedNotes checks which notes a question's thread is still owed.
func (w *world) wantOwedNotes(q *state.Question, want ...state.OwedNote) {
	w.Helper()
	kit.Equalf(w, w.reload(q).OwedNotes, want, "owed notes")
}

// closingNote is the note about a question's end.
func closingNote(q *state.Question) string {
	return strings.Join(wording.NoteTexts(q, closedNote), "")
}
