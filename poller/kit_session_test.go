package poller

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// testSession is a session that accepts messages in a thread of the desk's space.
type testSession struct {
	*readTest
	threadName string
	sessionID  string
}

func newTestSession(t *testing.T, as func(*state.Session)) *testSession {
	t.Helper()
	d := newTestMachine(t)
	m := d.postAsApp("", "a report")
	at := &state.Question{QuestionID: "00000000"}
	d.markPosted(at)
	x := &testSession{threadName: m.Thread.Name, sessionID: "s"}
	d.changeSession(x.sessionID, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir =
			"shop", x.threadName, at.Chat, state.Environment(d.env), d.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen = true, time.Now().Add(-time.Hour), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
		if as != nil {
			as(s)
		}
	})
	x.readTest = newReadTest(d, at)
	return x
}

// nextPoller returns the session with the poller that follows the first one.
func (x *testSession) nextPoller() *testSession {
	next := newReadTest(x.testMachine, &state.Question{Chat: x.reader.chat})
	return &testSession{next, x.threadName, x.sessionID}
}

// oldCommand returns a message as versions without an inbox kept it in a session's
// record.
func oldCommand(sender, text string) []state.OldCommand {
	return []state.OldCommand{{
		MessageName: "spaces/local/messages/m", Sender: sender, Text: text,
		LocalCreatedAt: time.Now(),
	}}
}

// spareFolder returns the folder of records for a project that cannot be written.
func (x *testSession) spareFolder() string {
	return state.SpareStateDir(state.ProjectEnv(x.env, x.loadSession().ProjectDir, true))
}

func (x *testSession) loadSession() *state.Session {
	x.t.Helper()
	s, err := x.sessions().Get(x.sessionID)
	kit.NoError(x.t, err)
	return s
}

// countUnfinished returns how many messages to the session are not finished, without
// kept prompts.
func (x *testSession) countUnfinished() int {
	x.t.Helper()
	all, bad := x.inbox().All()
	kit.Must(x.t, len(bad) == 0, "%v", bad)
	all = slices.DeleteFunc(all, (*state.Incoming).IsWaitingPrompt)
	return len(all) + len(x.loadSession().OldCommands)
}

// readNotes lists the space, handles the messages there, and returns the notes in the
// session's thread.
func (x *testSession) readNotes() (notes []string) {
	x.t.Helper()
	if x.poller.readSessions(); x.poller.spaceViews()[x.reader.chat] != nil {
		x.mustRead()
	}
	for range 2 { // a message becomes a record, which is then judged
		x.poller.readAndAttend(x.t.Context())
		x.poller.goroutines.Wait()
	}
	box := x.outbox()
	all, _ := box.All()
	for _, message := range all {
		if message.Type == state.MessageNote && message.ThreadName == x.threadName &&
			message.IsUrgent {
			notes = append(notes, message.Parts...)
			kit.NoError(x.t, box.RemoveMessage(x.env, message))
		}
	}
	return notes
}

// say has the page's person write into the session's thread, and returns the notes there.
func (x *testSession) say(text string) (notes []string) {
	x.t.Helper()
	x.reply(x.threadName, "", text)
	return x.readNotes()
}

// checkPrompts checks which prompts wait for sessions.
func (x *testSession) checkPrompts(want ...string) {
	x.t.Helper()
	kit.Equalf(x.t, strings.Join(x.waitingPrompts(), "\n"), strings.Join(want, "\n"), "the prompts")
}

// route has the poller read its state and decide what each message is for.
func (x *testSession) route() {
	x.poller.readState()
	x.poller.routeAll(x.t.Context())
}

// checkAnswer has the page's person write into the session's thread, and expects one
// note that contains these texts.
func (x *testSession) checkAnswer(text string, want ...string) {
	x.t.Helper()
	notes := x.say(text)
	kit.Must(x.t, len(notes) == 1, "%s: notes %q, want one of %q", text, notes, want)
	for _, w := range want {
		kit.Containsf(x.t, notes[0], w, "%s: the note", text)
	}
}

// runInPane runs a program called claude in a tmux pane. It shows a screen, and after a
// key another one.
func (x *testSession) runInPane(screen, then string) (got func() string) {
	x.t.Helper()
	socket, pane := x.startTmux("shop")
	dir := x.t.TempDir()
	cat, err := exec.LookPath("cat")
	kit.NoError(x.t, err)
	kit.WriteFile(x.t, filepath.Join(dir, "claude"), kit.ReadFile(x.t, cat), 0o700)
	kit.WriteFile(x.t, filepath.Join(dir, "screen"), screen, 0o600)
	kit.WriteFile(x.t, filepath.Join(dir, "then"), then, 0o600)
	runTmux(x.t, socket, "resize-window", "-t", pane, "-x", "100", "-y", "30")
	const script = `stty raw -echo; : >got; cat screen
(until test -s got; do sleep 0.02; done; printf '\033[2J\033[H'; cat then) & exec ./claude >got`
	runTmux(x.t, socket, "respawn-pane", "-k", "-t", pane, "-c", dir, "sh", "-c", script)
	server, pid := inject.Server{Socket: socket}, 0
	bound.Until(x.t, "the pane runs Claude Code", func() bool {
		p, err := server.Pane(x.t.Context(), pane)
		if err == nil {
			pid, _ = p.FindClaude(0, "")
		}
		return pid != 0
	})
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TmuxSocket, s.TmuxPane, s.ClaudePID, s.ClaudeStart =
			socket, pane, pid, inject.ProcessStart(pid)
	})
	return func() string {
		keys, _ := os.ReadFile(filepath.Join(dir, "got"))
		return string(keys)
	}
}

// withInputBox returns a screen with these lines and an input box below, as raw mode
// draws it.
func withInputBox(lines ...string) string {
	rule := strings.Repeat("─", 100)
	return strings.Join(slices.Concat(lines, []string{"", rule, "❯ ", rule, "  ? for shortcuts"}),
		"\r\n")
}

// waitingPrompts returns the prompts that wait for sessions, in the order in which
// Claude gets them.
func (x *testSession) waitingPrompts() (texts []string) {
	x.t.Helper()
	for _, in := range x.inbox().WaitingPrompts() {
		texts = append(texts, in.Text)
	}
	return texts
}

// addEventMessage adds a message from an event to the inbox, and reports whether the
// event is acknowledged.
func (x *testSession) addEventMessage(name, text string, at time.Time) (acked bool) {
	_, space, _ := strings.Cut(x.reader.chat, "/")
	in := newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: x.threadName, Text: text, CreateTime: at,
		Sender: "users/1", IsHuman: true,
	}, 0)
	in.EventID = name
	return x.poller.addIncoming(in) == nil
}

func (x *testSession) addEventEdit(full, text string) bool {
	return x.addEventMessage(full[strings.LastIndex(full, "/")+1:], text,
		time.Now().Add(-500*time.Millisecond))
}

// addListedMessage adds a message of a person as a list brings it.
func (x *testSession) addListedMessage(name, thread, text string) {
	x.t.Helper()
	_, space, _ := strings.Cut(x.reader.chat, "/")
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: thread, Text: text,
		Sender: "users/1", IsHuman: true, CreateTime: time.Now(),
	}, 0))
	kit.NoError(x.t, err)
}

// beginThread begins a question's thread in the space and returns the thread's name.
func (x *testSession) beginThread(q *state.Question) string {
	x.t.Helper()
	m := x.postAsApp("", "Which?")
	x.changeQuestion(q, func(q *state.Question) {
		q.ThreadName, q.MessageName = m.Thread.Name, m.Name
	})
	return m.Thread.Name
}
