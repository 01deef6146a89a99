package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// writeClaudeStatus writes Claude Code's own file of the session, as 2.1.332 does.
func (x *testSession) writeClaudeStatus(status, waitingFor string, since time.Time) {
	x.t.Helper()
	projects := filepath.Join(x.dir, "claude", "projects", "p")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TranscriptPath = filepath.Join(projects, x.sessionID+".jsonl")
	})
	own := fmt.Sprintf(`{"sessionId":%q,"status":%q,"waitingFor":%q,"statusUpdatedAt":%d}`,
		x.sessionID, status, waitingFor, since.UnixMilli())
	file := filepath.Join(x.dir, "claude", "sessions", fmt.Sprintf("%d.json", os.Getpid()))
	kit.WriteFile(x.t, file, own, 0o600)
}

// readStatus writes Claude Code's own file of the session, and has the poller look at it.
// It returns the notes in the session's thread.
func (x *testSession) readStatus(status, waitingFor string, since time.Time) (notes []string) {
	x.t.Helper()
	x.writeClaudeStatus(status, waitingFor, since)
	return x.readNotes()
}

// recordDialogNotes has the poller enqueue notes of dialogs, and returns the notes.
func (x *testSession) recordDialogNotes() (texts *[]string) {
	texts = new([]string)
	x.poller.EnqueueDialogNote = func(env state.Getenv, session *state.Session) error {
		*texts = append(*texts, session.Dialog.Text)
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(session.ID,
			func(s *state.Session) {
				s.Dialog.IsNoteEnqueued = true
			})
		return err
	}
	return texts
}

// A dialog that belongs to no record of ours gets a note, even if no hook reported it,
// and so does its end. Each dialog gets one.
func TestDialogs_EachGetsOneNote(t *testing.T) {
	x := newTestSession(t, nil)
	dialogNotes := x.recordDialogNotes()
	began := time.Now()
	kit.Equalf(t, x.readStatus("waiting", "permission prompt", began), nil, "notes at once")
	kit.Equalf(t, len(*dialogNotes), 0, "dialogs noted at once, where a hook may be about to ask")
	x.writeClaudeStatus("waiting", "permission prompt", began.Add(-graceForDialog))
	for range 3 {
		x.readNotes()
	}
	kit.Must(t, len(*dialogNotes) == 1 &&
		strings.HasPrefix((*dialogNotes)[0], "Claude waits for a permission in the terminal"),
		"notes %q", *dialogNotes)
	over := []string{wording.DialogOverText}
	kit.Equalf(t, x.readStatus("waiting", "worker request",
		began.Add(-graceForDialog).Add(time.Second)), over, "notes when the next dialog stands")
	x.readStatus("waiting", "worker request", began.Add(-graceForDialog-time.Second))
	kit.True(t, len(*dialogNotes) == 2 && x.loadSession().Dialog != nil,
		"of the next one: %q", *dialogNotes)
	kit.Equalf(t, x.readStatus("busy", "", time.Now()), over, "notes when it is over")
	kit.Equalf(t, x.loadSession().Dialog, nil, "the dialog when it is over")
	kit.Equalf(t, x.readNotes(), nil, "notes a second time")
}

// An open record of ours explains the dialog, so it gets no note. A menu that a person
// has just opened is no dialog that waits.
func TestDialogs_OpenQuestionExplainsIt(t *testing.T) {
	x := newTestSession(t, nil)
	dialogNotes := x.recordDialogNotes()
	x.readStatus("waiting", "dialog open", time.Now().Add(-graceForMenu/2))
	kit.True(t, len(*dialogNotes) == 0, "a menu: %q", *dialogNotes)
	q := x.addQuestion(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ToolName = x.sessionID, state.KindPermission, "Bash"
	})
	x.readStatus("waiting", "permission prompt", time.Now().Add(-time.Hour))
	kit.True(t, len(*dialogNotes) == 0, "a permission of ours: %q", *dialogNotes)
	x.checkAnswer("/status", "Waits for you:\n• Which?")
	x.poller.closeQuestion(q, state.Resolved, "terminal", nil)
	x.readNotes()
	kit.True(t, len(*dialogNotes) == 1, "the dialog after it: %q", *dialogNotes)
}

// A dialog gets its note as soon as its time is up, and not a round later, even if
// Claude Code sends no notification. It sends none for a dialog that follows another
// (2.1.332).
func TestDialogs_NoteComesInTime(t *testing.T) {
	x := newTestSession(t, nil)
	dialogNotes := x.recordDialogNotes()
	cfg := *x.poller.loadOwnConfig()
	cfg.PollInterval = time.Minute
	at := time.Now().Truncate(time.Millisecond)
	x.writeClaudeStatus("waiting", "permission prompt", at)
	x.poller.readState()
	next, _ := x.poller.attendAll(t.Context(), &cfg)
	due := at.Add(graceForDialog)
	kit.Must(t, next.Equal(due) && len(*dialogNotes) == 0,
		"it comes again at %v, and is due at %v; notes %q", next, due, *dialogNotes)
	x.poller.Now = func() time.Time { return next }
	x.poller.readState()
	x.poller.attendAll(t.Context(), &cfg)
	x.poller.goroutines.Wait()
	kit.True(t, len(*dialogNotes) == 1, "notes %q", *dialogNotes)
}

// A hook can report a dialog before Claude Code's file has it, and then its start is
// unknown. The file says it afterwards. By it the poller recognises the next
// notification of the same dialog, and its end.
func TestDialogs_NotedBeforeClaudesFile(t *testing.T) {
	x := newTestSession(t, nil)
	dialogNotes := x.recordDialogNotes()
	at := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Dialog = &state.Dialog{Text: "Claude waits: researcher needs it", IsNoteEnqueued: true}
	})
	x.readStatus("busy", "", time.Now())
	x.readStatus("waiting", "worker request", at)
	d := x.loadSession().Dialog
	kit.True(t, d != nil && d.WaitsSince.Equal(at) && d.IsNoteEnqueued &&
		d.Text == "Claude waits: researcher needs it",
		"it stands as %+v", d)
	kit.Equalf(t, x.readStatus("busy", "", time.Now()), []string{wording.DialogOverText},
		"notes when it is over")
	kit.Equalf(t, len(*dialogNotes), 0, "notes of a dialog")
}

// A session that is gone has no dialog that waits.
func TestDialogs_EndWithTheirSession(t *testing.T) {
	x := newTestSession(t, nil)
	x.recordDialogNotes()
	x.readStatus("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.changeSession(x.sessionID, func(s *state.Session) { s.ClaudePID, s.ClaudeStart = 1<<30, "" })
	kit.Equalf(t, x.readNotes(), []string{wording.DialogOverText}, "notes")
}

// A note that was held back until the dialog was over is not sent.
func TestDialogs_HeldNoteIsWithdrawn(t *testing.T) {
	x := newTestSession(t, nil)
	d := state.NewDialog(true, "")
	d.WaitsSince, d.IsNoteEnqueued = time.Now().Add(-time.Minute).UTC(), true
	box := x.outbox()
	held := &state.Message{
		ID: "client-held", Key: d.MessageKey(x.sessionID), Type: state.MessageReport,
		Report:    &state.Report{Text: "x"},
		CreatedAt: time.Now(), NotBefore: time.Now().Add(time.Hour),
	}
	_, _, err := box.Enqueue(x.env, held, time.Hour)
	kit.NoError(t, err)
	x.changeSession(x.sessionID, func(s *state.Session) { s.Dialog = d })
	kit.Equalf(t, x.readStatus("busy", "", time.Now()), nil, "notes")
	message, err := box.FindByKey(d.MessageKey(x.sessionID))
	kit.True(t, message == nil && err == nil, "it is still there: %+v, %v", message, err)
}

// While a dialog waits in the terminal that Chat cannot answer, a yes counts for
// nothing else: it is not kept, and not read again after the dialog. Other messages are
// kept.
func TestDialogs_YesIsNotKept(t *testing.T) {
	x := newTestSession(t, nil)
	x.recordDialogNotes()
	x.readStatus("waiting", "permission prompt", time.Now().Add(-time.Hour))
	for _, yes := range []string{"yes", "No.", "always", "yes 30m"} {
		x.checkAnswer(yes, wording.DialogOpenText)
	}
	x.checkAnswer("/status", "Waits for you:\n• Claude waits for a permission in the terminal")
	x.readStatus("busy", "", time.Now())
	// the list reads older messages again
	kit.NoError(t, x.readOnce())
	x.readNotes()
	x.checkPrompts()
	x.readStatus("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.checkAnswer("and then the tests", "[Kept]")
	_, end := x.addNextQuestion(func(q *state.Question) {
		q.Chat, q.ThreadName, q.IsMessageSent, q.PostedAt =
			x.loadSession().Chat, x.threadName, true, new(time.Now().Add(-time.Minute))
	})
	defer end()
	x.checkAnswer("yes", wording.DialogOpenText)
}

// In the thread of a session that takes no messages, a yes gets no note that no session
// waits.
func TestDialogs_YesToReportingSession(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.AcceptsCommands = false })
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Dialog = &state.Dialog{Text: "Claude waits in the terminal", IsNoteEnqueued: true}
	})
	kit.Equalf(t, x.poller.commandRunner().NotTakenText(x.loadSession()), wording.DialogOpenText,
		"the answer")
}
