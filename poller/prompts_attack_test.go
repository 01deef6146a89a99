package poller

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// Session A (cleared, then ended) and session B, which continues in another process
// (claude --resume B), share a thread.
func TestSaidThreadOfResumedAfterClear(t *testing.T) {
	x := newTestSession(t, nil)
	dead := exec.Command("true")
	_ = dead.Run()
	x.changeSession("a", func(s *state.Session) {
		stored := x.loadSession()
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", stored.ThreadName, stored.Chat, stored.Environment, stored.ProjectDir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		s.ClaudePID, s.ClaudeStart = dead.Process.Pid, "1@"+state.PIDScope()
	})
	x.changeSession(x.sessionID, func(s *state.Session) { s.PreviousSession = "a" })
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got) != 1 {
		t.Errorf("said %q, told %q", got, notes)
	}
}

// Sessions A and B of one thread both run (claude --resume A beside B): a message in
// the thread that has B's last report. Also messages that were written while a session
// had ended, and that are read after it was resumed.
func TestSaidWordsBeforeTheStart(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "go on")
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartedAt = time.Now().Add(3 * time.Second) })
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got)+len(notes) == 0 {
		t.Errorf("said %q, told %q", got, notes)
	}
}

// addEventMessage adds a message from an event to the inbox, and reports whether the
// event is acknowledged.
func (x *testSession) addEventMessage(name, text string, at time.Time) (acked bool) {
	_, space, _ := strings.Cut(x.reader.chat, "/")
	in := newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: x.threadName, Text: text, CreateTime: at, Sender: "users/1", IsHuman: true,
	}, 0)
	in.EventID = name
	return x.poller.addIncoming(in) == nil
}

func TestSaidTooMuchAtOnce(t *testing.T) {
	x := newTestSession(t, nil)
	at := time.Now().Add(-time.Second)
	acked := 0
	for i := range 21 {
		if x.addEventMessage(fmt.Sprint("m", i), fmt.Sprint("words ", i), at.Add(time.Duration(i)*time.Millisecond)) {
			acked++
		}
	}
	notes := x.readNotes()
	if got := x.waitingPrompts(); acked == 21 && !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "words 20") }) {
		t.Errorf("acknowledged %d, said %d, told %d", acked, len(got), len(notes))
	}
}

func TestSaidPulledOutOfOrder(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.TmuxPane = "%1" })
	at := time.Now().Add(-time.Second)
	b := x.addEventMessage("m2", "/status", at.Add(100*time.Millisecond))
	a := x.addEventMessage("m1", "/compact", at)
	notes := x.readNotes()
	if got := x.waitingPrompts(); len(got) == 0 {
		t.Errorf("acknowledged %v %v, said %q, told %q", a, b, got, notes)
	}
}

// Claude began to work between the look at the screen and the key. The prompt is in
// Claude Code's queue, and no hook reports it (2.1.197).
func TestSaidQueuedAsText(t *testing.T) {
	x := newTestSession(t, nil)
	tr := filepath.Join(x.dir, "t.jsonl")
	at := time.Now().Add(-11 * time.Second).UTC()
	line := fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`, at.Add(time.Second).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TranscriptPath, s.TmuxPane, s.TmuxSocket = tr, "%1", "/nonexistent"
	})
	x.reply(x.threadName, "", "go on")
	x.readNotes()
	inbox := state.InboxIn(state.UserStateDir(x.env))
	in := inbox.WaitingPrompts(x.sessionID)[0]
	_, err := inbox.Update(in.ID, func(in *state.Incoming) error {
		in.Typing = &state.Typing{LastKeyAt: at, LastKey: "text", IsSubmit: true, KeyCount: 1}
		return nil
	})
	kit.NoError(t, err)
	x.poller.typeKeptPrompt(t.Context(), x.loadSession(), &nextPrompt{incoming: in, tries: x.poller.promptTriesOf(in)})
	if left := inbox.WaitingPrompts(x.sessionID); len(left) > 0 {
		t.Errorf("it stands to be typed again: tries %d", x.poller.promptTriesOf(in).failed)
	}
}

// The transcript has a queue line with the same text, written 0.5 s before the prompt
// was typed. It counts as proof for the prompt.
func TestSaidQueuedBefore(t *testing.T) {
	tr := filepath.Join(t.TempDir(), "t.jsonl")
	typing := time.Now().Truncate(time.Second).Add(900 * time.Millisecond).UTC()
	line := fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`, typing.Add(-500*time.Millisecond).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	if inject.TranscriptHasPrompt(tr, "go on", typing, true) {
		t.Error("an earlier one is the proof")
	}
}

func TestSaidEditedToACommand(t *testing.T) {
	x := newTestSession(t, nil)
	m := x.reply(x.threadName, "", "go on")
	x.readNotes()
	x.addEventEdit(m.Name, "/mute 2h")
	notes := x.readNotes()
	if !x.loadSession().MutedUntil.IsZero() {
		t.Errorf("one message is words and a command: %q, told %q", x.waitingPrompts(), notes)
	}
}

func (x *testSession) addEventEdit(full, text string) bool {
	return x.addEventMessage(full[strings.LastIndex(full, "/")+1:], text, time.Now().Add(-500*time.Millisecond))
}

func TestSaidConfigBroken(t *testing.T) {
	x := newTestSession(t, nil)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x.changeSession(x.sessionID, func(s *state.Session) { s.OldCommands = []state.OldCommand{c} })
	dir := filepath.Join(x.dir, ".config", "gchat-hooks")
	_ = os.MkdirAll(dir, 0o700)
	_ = os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"approvers": [`), 0o600)
	notes := x.readNotes()
	if n := x.countUnfinished(); n+len(x.waitingPrompts())+len(notes) == 0 {
		t.Errorf("gone: unread %v", x.poller.loadPersonalConfig().HasUnreadFile)
	}
}

// The session ended or was cleared after the message was added and before it was
// delivered. A message that was not used gets two notes: one that it was not used, and
// one when the session ends or after a day.
func TestSaidUnclearIsToldTwice(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "!rm -rf /")
	notes := x.readNotes()
	notes = append(notes, x.readNotes()...)
	x.poller.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	for range 3 {
		notes = append(notes, x.readNotes()...)
	}
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, message := range box {
		t.Logf("outbox %s %v %q", message.Type, message.IsUrgent, message.Parts)
	}
	t.Logf("told %q", notes)
	kit.Equalf(t, len(notes)+len(box), 1, "told %q", notes)
}

// The record is removed after a day, and the list may reach back a little further.
func TestSaidListedAfterADay(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.StartedAt = time.Now().Add(-100 * time.Hour) })
	at := time.Now()
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	inbox := state.InboxIn(state.UserStateDir(x.env))
	for _, in := range inbox.WaitingPrompts() {
		if _, err := inbox.EndPrompt(in.ID, "chat", ""); err != nil {
			t.Fatal(err)
		}
	}
	x.readNotes()
	x.poller.Now = func() time.Time { return time.Now().Add(24*time.Hour + time.Minute) }
	x.poller.readAndAttend(t.Context())
	x.changeSession(x.sessionID, func(s *state.Session) { s.LastSeen = x.poller.Now() })
	x.poller.sweep()
	x.poller.readAndAttend(t.Context())
	t.Logf("after the sweep: %q", x.waitingPrompts())
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, message := range box {
		t.Logf("outbox %s %v %q", message.Type, message.IsUrgent, message.Parts)
	}
	t.Logf("again: %q, left %d, takes %v", x.waitingPrompts(), x.countUnfinished(), x.poller.canTakeCommands(x.loadSession()))
}

// One Claude Code process has had the sessions a and s, which share a thread. Claude
// Code's own file names the current one. Messages reach only that one, also after
// /resume of a session that no hook knows.
func TestSaidToTheSessionThatClaudeCodeHas(t *testing.T) {
	for name, test := range map[string]struct{ has, reason, said, told string }{
		"it goes on with s":           {has: "s", said: "s"},
		"/resume of a":                {has: "a", reason: "resume", said: "a"},
		"just after /clear":           {has: "new", reason: "clear", said: "s"},
		"/resume of an unknown one":   {has: "new", reason: "resume", told: "Another session now runs in that terminal"},
		"that file is of another pid": {has: "", said: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			start, _, _ := strings.Cut(inject.ProcessStart(os.Getpid()), "@")
			own := fmt.Sprintf(`{"sessionId":%q,"procStart":%q}`, test.has, start)
			file := filepath.Join(x.dir, "sessions", fmt.Sprint(os.Getpid(), ".json"))
			kit.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			kit.NoError(t, os.WriteFile(file, []byte(own), 0o600))
			stored := x.loadSession()
			x.changeSession("a", func(s *state.Session) {
				one := *stored
				one.Record, one.ID, one.LastSeen = s.Record, s.ID, stored.LastSeen.Add(-time.Minute)
				one.TranscriptPath = filepath.Join(x.dir, "projects", "p", "a.jsonl")
				*s = one
			})
			x.changeSession(x.sessionID, func(s *state.Session) {
				s.PreviousSession, s.EndReason, s.TranscriptPath = "a", test.reason, filepath.Join(x.dir, "projects", "p", "s.jsonl")
			})
			x.reply(x.threadName, "", "go on")
			told := strings.Join(x.readNotes(), "\n")
			said := ""
			for _, in := range state.InboxIn(state.UserStateDir(x.env)).WaitingPrompts() {
				said += in.SessionID
			}
			if said != test.said || !strings.Contains(told, test.told) {
				t.Errorf("said to %q, want %q; told %q", said, test.said, told)
			}
		})
	}
}
