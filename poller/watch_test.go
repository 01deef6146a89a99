package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// watchTest is a session in the space of a Chat app, whose Claude Code the test plays:
// its transcript, and its own file of the session.
type watchTest struct {
	*testMachine
	google     *fakeGoogle
	clock      time.Time
	poller     *Poller
	threadName string
	transcript string
}

func newWatchTest(t *testing.T) *watchTest {
	t.Helper()
	d, g := newAppMachine(t)
	d.vars["GCHAT_WRITES_PER_MINUTE"] = "60"
	x := &watchTest{testMachine: d, google: g, clock: time.Now()}
	begin := g.post([]byte(`{"text":"[Session Start]"}`), "client-begin")
	x.threadName = begin.Thread.Name
	x.transcript = filepath.Join(d.dir, ".claude", "projects", "shop", "s.jsonl")
	kit.WriteFile(t, x.transcript, "", 0o600)
	d.changeSession("s", func(s *state.Session) {
		s.Name, s.ThreadName, s.ProjectDir = "shop", x.threadName, d.dir
		s.Chat = strings.TrimPrefix(g.url, "http://") + "/" + appSpace
		s.Environment, s.AcceptsCommands = state.Environment(d.env), true
		s.StartedAt, s.LastSeen = time.Now().Add(-time.Hour), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
		s.TranscriptPath = x.transcript
	})
	x.newPoller()
	return x
}

// newWatched is newWatchTest with a session that has this status and is watched.
func newWatched(t *testing.T, status string) *watchTest {
	t.Helper()
	x := newWatchTest(t)
	x.setStatus(status)
	x.changeSession("s", func(s *state.Session) { s.Watch = &state.Watch{} })
	return x
}

// newPoller begins another poller, as after kill -9.
func (x *watchTest) newPoller() {
	x.poller = newPoller(Options{
		Env: x.env, Log: state.NewLog(x.env, "test"), Now: func() time.Time { return x.clock },
	})
	x.poller.sender = x.poller.newSender()
}

// setStatus writes Claude Code's own file of the session.
func (x *watchTest) setStatus(status string) {
	x.t.Helper()
	file := filepath.Join(x.dir, ".claude", "sessions", fmt.Sprint(os.Getpid())+".json")
	kit.WriteFile(x.t, file, fmt.Sprintf(`{"sessionId":"s","status":%q}`, status), 0o600)
}

// addLine adds a line to the transcript.
func (x *watchTest) addLine(kind string, content any) {
	x.t.Helper()
	b := kit.JSON(x.t, map[string]any{
		"type": kind, "timestamp": x.clock.UTC(), "message": map[string]any{"content": content},
	})
	f, err := os.OpenFile(x.transcript, os.O_APPEND|os.O_WRONLY, 0)
	kit.NoError(x.t, err)
	defer f.Close()
	_, err = f.Write(append(b, '\n'))
	kit.NoError(x.t, err)
}

func (x *watchTest) addCall(name string, input map[string]any) {
	x.t.Helper()
	x.addLine("assistant", []map[string]any{{"type": "tool_use", "name": name, "input": input}})
}

// step lets time pass, and has the poller do all that it can.
func (x *watchTest) step(d time.Duration) {
	x.t.Helper()
	x.clock = x.clock.Add(d)
	for range 2 {
		x.poller.readAndAttend(x.t.Context())
		x.poller.goroutines.Wait()
		x.poller.sender.sendUntilIdle(x.t.Context())
		x.poller.goroutines.Wait()
	}
}

// shown returns the texts that the messages about the session's work have had, each
// message's in a line of its own.
func (x *watchTest) shown() string {
	x.google.mu.Lock()
	defer x.google.mu.Unlock()
	var all []string
	for _, m := range x.google.posts {
		if !strings.HasPrefix(m.Text, "[Watch] shop") {
			continue
		}
		kit.Equalf(x.t, m.Thread.Name, x.threadName, "the thread")
		texts := []string{m.Text}
		for _, change := range x.google.patched[m.Name] {
			texts = append(texts, change.Text)
		}
		all = append(all, strings.ReplaceAll(strings.Join(texts, " => "), "\n", " "))
	}
	return strings.Join(all, "\n")
}

func (x *watchTest) checkShown(want ...string) {
	x.t.Helper()
	kit.Equal(x.t, x.shown(), strings.Join(want, "\n"))
}

// While a session works, one message shows what Claude does. It is changed in place, once
// in ten seconds at most, and says when the turn is over. The next turn has its own.
func TestWatch_OneMessageForATurn(t *testing.T) {
	x := newWatched(t, "idle")
	x.step(0)
	x.checkShown()
	x.addLine("user", "go")
	x.setStatus("busy")
	x.addCall("Bash", map[string]any{"command": "curl -u ann:secret-word x", "description": "secret-word"})
	x.step(10 * time.Second)
	first := "[Watch] shop: Claude works • Bash"
	x.checkShown(first)
	x.addCall("Read", map[string]any{"file_path": "/home/ann/*a*<users|all>.go"})
	for range 4 {
		x.step(2 * time.Second)
		x.checkShown(first)
	}
	x.step(2 * time.Second)
	first += " => [Watch] shop: Claude works • Bash • Read *a*‹users|all>.go"
	x.checkShown(first)
	x.addLine("assistant", []map[string]any{{"type": "text", "text": "Now\nthe tests."}})
	x.setStatus("waiting") // for a permission: the turn goes on
	x.step(10 * time.Second)
	first += " => [Watch] shop: Claude works • Bash • Read *a*‹users|all>.go Now the tests."
	x.checkShown(first)
	x.step(10 * time.Second) // nothing is new
	x.setStatus("idle")
	x.step(20 * time.Minute) // the outbox has no receipt of the last change
	first += " => [Watch] Claude's turn is over."
	x.checkShown(first)
	x.step(10 * time.Second)
	x.setStatus("busy")
	x.clock = x.clock.Add(time.Second)
	x.addLine("user", "and now?")
	x.step(10 * time.Second)
	x.checkShown(first, "[Watch] shop: Claude works")
	x.clock = x.clock.Add(time.Second)
	x.addLine("user", "and then?") // a turn that ended and one that began between two looks
	x.step(10 * time.Second)
	x.step(10 * time.Second)
	x.checkShown(first, "[Watch] shop: Claude works => [Watch] Claude's turn is over.",
		"[Watch] shop: Claude works")
	x.changeSession("s", func(s *state.Session) { s.Watch.IsOver = true })
	x.step(10 * time.Second)
	x.step(10 * time.Second)
	x.checkShown(first, "[Watch] shop: Claude works => [Watch] Claude's turn is over.",
		"[Watch] shop: Claude works => [Watch] Claude's turn is over.")
	kit.True(t, x.session().Watch == nil, "still watched: %+v", x.session().Watch)
}

func (x *watchTest) session() *state.Session {
	x.t.Helper()
	session, err := x.sessions().Get("s")
	kit.NoError(x.t, err)
	return session
}

// Wherever a poller is killed, a turn has one message, and it ends as over.
func TestWatch_OneMessageAfterKills(t *testing.T) {
	x := newWatched(t, "busy")
	x.poller.readState()
	x.poller.attendWatch(x.session()) // enqueued, and not sent
	box := x.outbox()
	waiting, _ := box.Waiting()
	kit.Must(t, len(waiting) == 1, "%d messages", len(waiting))
	name := x.session().Watch.MessageName
	kit.Equal(t, filepath.Base(name), waiting[0].ID)
	kit.NoError(t, box.RemoveMessage(x.env, waiting[0])) // recorded, and not enqueued
	const first = "[Watch] shop: Claude works"
	x.newPoller()
	x.step(10 * time.Second)
	shown := first
	x.checkShown(shown)
	for i := range 4 {
		x.newPoller()
		x.addCall("Bash", nil)
		x.step(9 * time.Second) // a poller that begins changes nothing too early, either
		x.checkShown(shown)
		x.newPoller()
		x.step(time.Second)
		shown += " => " + first + strings.Repeat(" • Bash", i+1)
		x.checkShown(shown)
		kit.Equal(t, x.session().Watch.MessageName, name)
	}
	x.setStatus("idle")
	x.newPoller()
	x.step(10 * time.Second)
	x.newPoller()
	x.step(10 * time.Second)
	x.checkShown(shown + " => [Watch] Claude's turn is over.")
}

// A change that Chat refuses with 429 is not tried again before the time that Chat names.
// A question goes first then.
func TestWatch_ChatWantsFewerRequests(t *testing.T) {
	x := newWatched(t, "busy")
	x.step(0)
	const first = "[Watch] shop: Claude works"
	x.checkShown(first)
	x.google.retryAfter.Store(60)
	x.addCall("Bash", nil)
	x.step(10 * time.Second)
	kit.Equal(t, x.google.refusedCount.Load(), 1)
	x.google.retryAfter.Store(0)
	x.addCall("Read", nil)
	x.addQuestion(nil)
	for range 5 {
		x.step(11 * time.Second)
	}
	x.checkShown(first)
	kit.Equal(t, len(x.google.messages("Which?")), 0)
	x.google.onPatch = func() {
		kit.Equalf(t, len(x.google.messages("Which?")), 1, "questions before the change")
	}
	x.step(6 * time.Second)
	first1 := first + " => " + first + " • Bash"
	x.checkShown(first1)
	x.step(9 * time.Second)
	x.checkShown(first1)
	x.step(10 * time.Second)
	x.checkShown(first1 + " => " + first + " • Bash • Read")
}

// What a person writes begins and ends it, where the chat can show it.
func TestWatch_Command(t *testing.T) {
	x := newTestSession(t, nil)
	x.checkAnswer("/watch", "[Not used] The thread cannot show what Claude does: the page shows")
	x.checkAnswer("/watch closely", "[Not used] Write /watch, or /watch off.")
	kit.True(t, x.loadSession().Watch == nil, "watched")
	webhook := "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
	x.vars["GOOGLE_CHAT_WEBHOOK_URL"] = webhook
	session := *x.loadSession()
	session.Chat = "chat.googleapis.com/spaces/A"
	x.poller.gateways.reset()
	kit.Equal(t, x.poller.whyNoWatch(t.Context(), &session),
		"a webhook cannot change a message that it posted; a Chat app can")
	w := newWatchTest(t)
	run := func(text, want string) {
		t.Helper()
		in := &state.Incoming{Text: text, LocalCreatedAt: w.clock}
		kit.Containsf(t, w.poller.commandRunner().RunCommand(t.Context(), w.session(), in), want, "%s", text)
	}
	run("/watch", "[Watch] While Claude works, one message here")
	run("/WATCH", "[Watch] While Claude works, one message here")
	kit.True(t, w.session().Watch != nil, "not watched")
	run("/watch off", "[Watch] Off.")
	kit.True(t, w.session().Watch.IsOver, "still watched")
}
