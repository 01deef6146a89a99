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

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// A (cleared, then ended) and B, which goes on in another process (claude --resume B), share a thread.
func TestSaidThreadOfResumedAfterClear(t *testing.T) {
	x := newTalk(t, nil)
	dead := exec.Command("true")
	_ = dead.Run()
	x.session("a", func(s *state.Session) {
		is := x.is()
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", is.ThreadName, is.Chat, is.Environment, is.ProjectDir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		s.ClaudePID, s.ClaudeStart = dead.Process.Pid, "1@"+state.PIDScope()
	})
	x.session(x.id, func(s *state.Session) { s.PreviousSession = "a" })
	x.reply(x.thread, "", "go on")
	told := x.hears()
	if got := x.said(); len(got) != 1 {
		t.Errorf("said %q, told %q", got, told)
	}
}

// A and B, of one thread, both run (claude --resume A beside B): words in the thread that B's last report is in.
// Words written while a session was over, which was resumed before they were read.
func TestSaidWordsBeforeTheStart(t *testing.T) {
	x := newTalk(t, nil)
	x.reply(x.thread, "", "go on")
	x.session(x.id, func(s *state.Session) { s.StartedAt = time.Now().Add(3 * time.Second) })
	told := x.hears()
	if got := x.said(); len(got)+len(told) == 0 {
		t.Errorf("said %q, told %q", got, told)
	}
}

// pull takes words from an event, and reports whether the event is acknowledged.
func (x *talk) pull(name, text string, at time.Time) (acked bool) {
	_, space, _ := strings.Cut(x.r.chat, "/")
	in := incomingOf(x.r.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: x.thread, Text: text, CreateTime: at, Sender: "users/1", Human: true,
	}, 0)
	in.EventID = name
	return x.p.take(in) == nil
}

func TestSaidTooMuchAtOnce(t *testing.T) {
	x := newTalk(t, nil)
	at := time.Now().Add(-time.Second)
	acked := 0
	for i := range 21 {
		if x.pull(fmt.Sprint("m", i), fmt.Sprint("words ", i), at.Add(time.Duration(i)*time.Millisecond)) {
			acked++
		}
	}
	told := x.hears()
	if got := x.said(); acked == 21 && !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, "words 20") }) {
		t.Errorf("acknowledged %d, said %d, told %d", acked, len(got), len(told))
	}
}

func TestSaidPulledOutOfOrder(t *testing.T) {
	x := newTalk(t, func(s *state.Session) { s.TmuxPane = "%1" })
	at := time.Now().Add(-time.Second)
	b := x.pull("m2", "/status", at.Add(100*time.Millisecond))
	a := x.pull("m1", "/compact", at)
	told := x.hears()
	if got := x.said(); len(got) == 0 {
		t.Errorf("acknowledged %v %v, said %q, told %q", a, b, got, told)
	}
}

// Claude began to work between the look at the screen and the key: its queue has the words, no hook is told (2.1.197).
func TestSaidQueuedAsText(t *testing.T) {
	x := newTalk(t, nil)
	tr := filepath.Join(x.dir, "t.jsonl")
	at := time.Now().Add(-11 * time.Second).UTC()
	line := fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`, at.Add(time.Second).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	x.session(x.id, func(s *state.Session) {
		s.TranscriptPath, s.TmuxPane, s.TmuxSocket = tr, "%1", "/nonexistent"
	})
	x.reply(x.thread, "", "go on")
	x.hears()
	inbox := state.InboxIn(state.UserStateDir(x.env))
	in := inbox.WaitingPrompts(x.id)[0]
	_, err := inbox.Update(in.ID, func(in *state.Incoming) error {
		in.Typing = &state.Typing{LastKeyAt: at, LastKey: "text", IsSubmit: true, KeyCount: 1}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	x.p.typeWords(t.Context(), x.is(), &prompt{in: in, try: x.p.tryOf(in)})
	if left := inbox.WaitingPrompts(x.id); len(left) > 0 {
		t.Errorf("it stands to be typed again: tries %d", x.p.tryOf(in).tries)
	}
}

// The queue's line of the same words, said (or typed at the terminal) 0.5 s before these were typed, proves these.
func TestSaidQueuedBefore(t *testing.T) {
	tr := filepath.Join(t.TempDir(), "t.jsonl")
	typing := time.Now().Truncate(time.Second).Add(900 * time.Millisecond).UTC()
	line := fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`, typing.Add(-500*time.Millisecond).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	if inject.Queued(tr, "go on", typing, true) {
		t.Error("an earlier one is the proof")
	}
}

func TestSaidEditedToACommand(t *testing.T) {
	x := newTalk(t, nil)
	m := x.reply(x.thread, "", "go on")
	x.hears()
	x.pullEdit(m.Name, "/mute 2h")
	told := x.hears()
	if !x.is().MutedUntil.IsZero() {
		t.Errorf("one message is words and a command: %q, told %q", x.said(), told)
	}
}

func (x *talk) pullEdit(full, text string) bool {
	return x.pull(full[strings.LastIndex(full, "/")+1:], text, time.Now().Add(-500*time.Millisecond))
}

func TestSaidConfigBroken(t *testing.T) {
	x := newTalk(t, nil)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x.session(x.id, func(s *state.Session) { s.OldCommands = []state.OldCommand{c} })
	dir := filepath.Join(x.dir, ".config", "gchat-hooks")
	_ = os.MkdirAll(dir, 0o700)
	_ = os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"approvers": [`), 0o600)
	told := x.hears()
	if n := x.left(); n+len(x.said())+len(told) == 0 {
		t.Errorf("gone: unread %v", x.p.personal().HasUnreadFile)
	}
}

// The session ended (or was cleared) between the taking and the doing.
// A message that was not used is told twice: once that it was not, and when the session ends, or after a day.
func TestSaidUnclearIsToldTwice(t *testing.T) {
	x := newTalk(t, nil)
	x.reply(x.thread, "", "!rm -rf /")
	told := x.hears()
	told = append(told, x.hears()...)
	x.p.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	for range 3 {
		told = append(told, x.hears()...)
	}
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, m := range box {
		t.Logf("outbox %s %v %q", m.Type, m.IsUrgent, m.Parts)
	}
	t.Logf("told %q", told)
	if len(told)+len(box) != 1 {
		t.Errorf("told %q", told)
	}
}

// After a day the record goes, and the list may reach back a little further.
func TestSaidListedAfterADay(t *testing.T) {
	x := newTalk(t, func(s *state.Session) { s.StartedAt = time.Now().Add(-100 * time.Hour) })
	at := time.Now()
	x.pull("m", "go on", at)
	x.hears()
	inbox := state.InboxIn(state.UserStateDir(x.env))
	for _, in := range inbox.WaitingPrompts() {
		if _, err := inbox.EndPrompt(in.ID, "chat", ""); err != nil {
			t.Fatal(err)
		}
	}
	x.hears()
	x.p.Now = func() time.Time { return time.Now().Add(24*time.Hour + time.Minute) }
	x.p.round(t.Context())
	x.session(x.id, func(s *state.Session) { s.LastSeen = x.p.Now() })
	x.p.sweep()
	x.p.round(t.Context())
	t.Logf("after the sweep: %q", x.said())
	x.pull("m", "go on", at)
	x.hears()
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, m := range box {
		t.Logf("outbox %s %v %q", m.Type, m.IsUrgent, m.Parts)
	}
	t.Logf("again: %q, left %d, takes %v", x.said(), x.left(), x.p.takesCommands(x.is()))
}

// One Claude Code has had a and s, which share a thread; its own file names the one that it has now. What is said reaches that one
// alone, also after /resume of one that no hook knows.
func TestSaidToTheSessionThatClaudeCodeHas(t *testing.T) {
	for name, test := range map[string]struct{ has, reason, said, told string }{
		"it goes on with s":           {has: "s", said: "s"},
		"/resume of a":                {has: "a", reason: "resume", said: "a"},
		"just after /clear":           {has: "new", reason: "clear", said: "s"},
		"/resume of an unknown one":   {has: "new", reason: "resume", told: "another session runs in its terminal by now"},
		"that file is of another pid": {has: "", said: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTalk(t, nil)
			start, _, _ := strings.Cut(inject.StartOf(os.Getpid()), "@")
			own := fmt.Sprintf(`{"sessionId":%q,"procStart":%q}`, test.has, start)
			file := filepath.Join(x.dir, "sessions", fmt.Sprint(os.Getpid(), ".json"))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}
			is := x.is()
			x.session("a", func(s *state.Session) {
				one := *is
				one.Record, one.ID, one.LastSeen = s.Record, s.ID, is.LastSeen.Add(-time.Minute)
				one.TranscriptPath = filepath.Join(x.dir, "projects", "p", "a.jsonl")
				*s = one
			})
			x.session(x.id, func(s *state.Session) {
				s.PreviousSession, s.EndReason, s.TranscriptPath = "a", test.reason, filepath.Join(x.dir, "projects", "p", "s.jsonl")
			})
			x.reply(x.thread, "", "go on")
			told := strings.Join(x.hears(), "\n")
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
