package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// status writes Claude Code's own file of the session, as 2.1.332 does, and has the poller look.
func (x *talk) status(status, waitingFor string, since time.Time) {
	x.t.Helper()
	projects := filepath.Join(x.dir, "claude", "projects", "p")
	x.session(x.id, func(s *state.Session) { s.TranscriptPath = filepath.Join(projects, x.id+".jsonl") })
	own := fmt.Sprintf(`{"sessionId":%q,"status":%q,"waitingFor":%q,"statusUpdatedAt":%d}`,
		x.id, status, waitingFor, since.UnixMilli())
	file := filepath.Join(x.dir, "claude", "sessions", fmt.Sprintf("%d.json", os.Getpid()))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// tells has the poller tell of dialogs, and returns what it told of.
func (x *talk) tells() (says *[]string) {
	says = new([]string)
	x.p.Dialog = func(env state.Getenv, one *state.Session) error {
		*says = append(*says, one.Dialog.Text)
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(one.ID, func(s *state.Session) {
			s.Dialog.IsNoteEnqueued = true
		})
		return err
	}
	return says
}

// A dialog that no record of ours asks is told of, also where no hook told of it, and so is its end; each dialog once.
func TestADialogInTheTerminalIsSeen(t *testing.T) {
	x := newTalk(t, nil)
	says := x.tells()
	began := time.Now()
	x.status("waiting", "permission prompt", began)
	if told := x.hears(); len(*says) > 0 || len(told) > 0 {
		t.Errorf("at once, where a hook may be about to ask: %q %q", *says, told)
	}
	x.status("waiting", "permission prompt", began.Add(-graceForDialog))
	for range 3 {
		x.hears()
	}
	if len(*says) != 1 || !strings.HasPrefix((*says)[0], "Claude waits for a permission in the terminal") {
		t.Fatalf("told of %q", *says)
	}
	x.status("waiting", "worker request", began.Add(-graceForDialog).Add(time.Second)) // the next one
	if told := x.hears(); len(told) != 1 || told[0] != wording.DialogOverText {
		t.Errorf("when another stands: %q", told)
	}
	x.status("waiting", "worker request", began.Add(-graceForDialog-time.Second))
	x.hears()
	if len(*says) != 2 || x.is().Dialog == nil {
		t.Errorf("of the next one: %q", *says)
	}
	x.status("busy", "", time.Now())
	if told := x.hears(); len(told) != 1 || told[0] != wording.DialogOverText || x.is().Dialog != nil {
		t.Errorf("when it is over: %q, %+v", told, x.is().Dialog)
	}
	if told := x.hears(); len(told) > 0 {
		t.Errorf("told again: %q", told)
	}
}

// A record of ours that is open explains the dialog; a menu that a person has just opened is none that waits.
func TestADialogThatIsAskedIsNoneInTheTerminalAlone(t *testing.T) {
	x := newTalk(t, nil)
	says := x.tells()
	x.status("waiting", "dialog open", time.Now().Add(-graceForMenu/2))
	x.hears()
	if len(*says) > 0 {
		t.Errorf("a menu: %q", *says)
	}
	q := x.ask(func(q *state.Question) { q.ClaudeSessionID, q.Kind, q.ToolName = x.id, state.KindPermission, "Bash" })
	x.status("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.hears()
	if len(*says) > 0 {
		t.Errorf("a permission of ours: %q", *says)
	}
	x.says("/status", "Waits for you:\n• Which?")
	x.p.end(q, state.Resolved, "terminal", nil)
	x.hears()
	if len(*says) != 1 {
		t.Errorf("the dialog after it: %q", *says)
	}
}

// A dialog is told of when its time is up, and not with the round after that or the one after, also where Claude Code sends no
// notification, as of one that follows another (2.1.332).
func TestADialogIsToldOfInTime(t *testing.T) {
	x := newTalk(t, nil)
	says := x.tells()
	cfg := *x.p.own()
	cfg.PollInterval = time.Minute
	at := time.Now().Truncate(time.Millisecond)
	x.status("waiting", "permission prompt", at)
	x.p.readRecords()
	next, _ := x.p.attendAll(t.Context(), &cfg)
	if due := at.Add(graceForDialog); !next.Equal(due) || len(*says) > 0 {
		t.Fatalf("it comes again at %v, and is due at %v; told %q", next, due, *says)
	}
	x.p.Now = func() time.Time { return next }
	x.p.readRecords()
	x.p.attendAll(t.Context(), &cfg)
	x.p.working.Wait()
	if len(*says) != 1 {
		t.Errorf("told of %q", *says)
	}
}

// A hook can be faster than Claude Code's file, and then does not know since when it waits. That file says it afterwards: the next
// notification of the same dialog is known by it, and so is its end.
func TestADialogThatWasNotedBeforeClaudesFileTells(t *testing.T) {
	x := newTalk(t, nil)
	says := x.tells()
	at := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	x.session(x.id, func(s *state.Session) {
		s.Dialog = &state.Dialog{Text: "Claude waits: researcher needs it", IsNoteEnqueued: true}
	})
	x.status("busy", "", time.Now())
	x.hears()
	x.status("waiting", "worker request", at)
	x.hears()
	if d := x.is().Dialog; d == nil || !d.WaitsSince.Equal(at) || !d.IsNoteEnqueued || d.Text != "Claude waits: researcher needs it" {
		t.Errorf("it stands as %+v", d)
	}
	x.status("busy", "", time.Now())
	if told := x.hears(); len(told) != 1 || told[0] != wording.DialogOverText || len(*says) > 0 {
		t.Errorf("when it is over: %q %q", told, *says)
	}
}

// A session that is gone waits no more.
func TestADialogEndsWithItsSession(t *testing.T) {
	x := newTalk(t, nil)
	x.tells()
	x.status("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.hears()
	x.session(x.id, func(s *state.Session) { s.ClaudePID, s.ClaudeStart = 1<<30, "" })
	if told := x.hears(); len(told) != 1 || told[0] != wording.DialogOverText {
		t.Errorf("told %q", told)
	}
}

// What was held back until the dialog was over is not sent.
func TestANoteOfADialogIsTakenBack(t *testing.T) {
	x := newTalk(t, nil)
	d := state.NewDialog(true, "")
	d.WaitsSince, d.IsNoteEnqueued = time.Now().Add(-time.Minute).UTC(), true
	box := state.OutboxIn(state.UserStateDir(x.env))
	held := &state.Message{
		ID: "client-held", Key: d.MessageKey(x.id), Type: state.MessageReport, Report: &state.Report{Text: "x"},
		CreatedAt: time.Now(), NotBefore: time.Now().Add(time.Hour),
	}
	if _, _, err := box.Enqueue(x.env, held, time.Hour); err != nil {
		t.Fatal(err)
	}
	x.session(x.id, func(s *state.Session) { s.Dialog = d })
	x.status("busy", "", time.Now())
	if told := x.hears(); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	if m, err := box.FindByKey(d.MessageKey(x.id)); m != nil || err != nil {
		t.Errorf("it is still there: %+v, %v", m, err)
	}
}

// While a dialog waits in the terminal that Chat cannot answer, a yes is for nothing else: it is not kept, nor is it read again
// when the dialog is over. Other words are kept.
func TestAYesIsNotKeptForAnotherTime(t *testing.T) {
	x := newTalk(t, nil)
	x.tells()
	x.status("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.hears()
	for _, yes := range []string{"yes", "No.", "always", "yes 30m"} {
		x.says(yes, wording.DialogText)
	}
	x.says("/status", "Waits for you:\n• Claude waits for a permission in the terminal")
	x.status("busy", "", time.Now())
	x.hears()
	if err := x.read(); err != nil { // the list overlaps
		t.Fatal(err)
	}
	x.hears()
	if got := x.said(); len(got) > 0 {
		t.Errorf("said to Claude: %q", got)
	}
	x.status("waiting", "permission prompt", time.Now().Add(-time.Hour))
	x.hears()
	x.says("and then the tests", "[Kept]")
	_, end := x.next(func(q *state.Question) {
		q.Chat, q.ThreadName, q.IsMessageSent, q.PostedAt = x.is().Chat, x.thread, true, new(time.Now().Add(-time.Minute))
	})
	defer end()
	x.says("yes", wording.DialogText)
}

// In the thread of a session that takes no words, nobody is told that nobody waits.
func TestAYesToASessionThatOnlyReports(t *testing.T) {
	x := newTalk(t, func(s *state.Session) { s.AcceptsCommands = false })
	x.session(x.id, func(s *state.Session) {
		s.Dialog = &state.Dialog{Text: "Claude waits in the terminal", IsNoteEnqueued: true}
	})
	if told := x.p.room().NobodyText(x.is()); told != wording.DialogText {
		t.Errorf("told %q", told)
	}
}
