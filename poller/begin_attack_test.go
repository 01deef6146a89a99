package poller

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// Another poller began to start the session after this poller read its record.
func TestBeginOfAStaleRecord(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	stale := x.loadSession()
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartingAt = time.Now() })
	begun, why := x.poller.commandRunner().StartClaude(t.Context(), stale)
	time.Sleep(100 * time.Millisecond)
	if begun != nil || why != "" || len(x.startArguments()) > 0 {
		t.Errorf("begun %+v, %q, started %q", begun, why, x.startArguments())
	}
}

// A message whose note said that it started nothing starts nothing when it is listed
// again, whatever has changed meanwhile.
func TestWordsThatStartedNothingAreOver(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, func(s *state.Session) { s.TranscriptPath += ".gone" })
	gone := x.loadSession().TranscriptPath
	x.reply(x.threadName, "", "go on")
	if notes := x.readNotes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not started] Its transcript is gone") {
		t.Fatalf("told %q", notes)
	}
	writeFile(t, gone, "{}\n", 0o600)
	again := append(x.readNotes(), x.readNotes()...)
	time.Sleep(100 * time.Millisecond)
	if len(again) > 0 || len(x.startArguments()) > 0 || len(x.waitingPrompts()) > 0 {
		t.Errorf("then told %q, started %q, said %q", again, x.startArguments(), x.waitingPrompts())
	}
	x.reply(x.threadName, "", "go on, please")
	x.readNotes()
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"go on, please"}) {
		t.Errorf("said %q", got)
	}
}

// A new session starts with a prompt: a command would be dropped, since it is older
// than the session.
func TestNewSessionWithACommand(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	kit.NoError(t, state.RegisterProject(x.env, filepath.Join(x.dir, ".claude", "state"), x.dir))
	x.reply(x.threadName, "", "/new "+filepath.Base(x.dir)+" /compact")
	if notes := x.readNotes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not used]") {
		t.Errorf("told %q", notes)
	}
}

// A person who may answer but not start sessions answers a question with a text that
// looks like a command.
func TestNewOfOneWhoMayOnlyAnswer(t *testing.T) {
	x := newEndedSession(t, nil)
	x.vars["GCHAT_ALLOWED_USERS"] += ",users/2"
	x.vars["GCHAT_APPROVERS"] = "users/1"
	q := x.addQuestion(x.markPosted)
	x.readTest = newReadTest(x.testMachine, q) // with the current configuration
	x.poller.readIndex()
	at, err := x.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "Which?")
	kit.NoError(t, err)
	x.changeQuestion(q, func(q *state.Question) { q.ThreadName, q.MessageName = at.Thread.Name, at.Name })
	m := x.reply(at.Thread.Name, "users/2", "/new wording for the page, please")
	x.readNotes()
	if q = x.loadQuestion(q); q.FindReply(m.Name) == nil {
		t.Errorf("replies %+v", q.Replies)
	}
}

// A person writes two messages in a row: the second before the Claude Code that the
// first started has called its first hook.
func TestWordsWhileTheSessionBegins(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.StartingAt = time.Now().Add(-2 * time.Second) })
	x.reply(x.threadName, "", "and run the tests")
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartedAt = time.Now().Add(3 * time.Second) })
	notes := x.readNotes()
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"and run the tests"}) {
		t.Errorf("said %q, told %q", got, notes)
	}
}

// A session has ended, but its process has not. The process is about to exit, or
// continues with another session (/clear), and that session's hook will say so.
func TestASessionWhoseProcessGoesOnIsNotResumed(t *testing.T) {
	t.Parallel()
	needsTmux(t)
	x := newEndedSession(t, func(s *state.Session) { s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid()) })
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	time.Sleep(100 * time.Millisecond)
	if len(notes) > 0 || len(x.startArguments()) > 0 || x.countUnfinished() != 1 {
		t.Fatalf("told %q, started %q, kept %d", notes, x.startArguments(), x.countUnfinished())
	}
	x.changeSession(x.sessionID, func(s *state.Session) { s.EndedAt = time.Now().Add(-time.Minute) })
	if notes = x.readNotes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not started]") || len(x.startArguments()) > 0 {
		t.Errorf("told %q, started %q", notes, x.startArguments())
	}
}

// After a restart of the machine, another user's tmux may listen where the person's
// did.
func TestAnotherUsersTmuxIsNotUsed(t *testing.T) {
	needsTmux(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to another user")
	}
	socket := filepath.Join(t.TempDir(), "s")
	kit.NoError(t, exec.Command("tmux", "-S", socket, "new-session", "-d", "-s", "work", "sleep 60").Run())
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	kit.NoError(t, os.Chown(socket, 12345, -1))
	x := newEndedSession(t, func(s *state.Session) { s.TmuxSocket, s.TmuxSession = socket, "work" })
	x.reply(x.threadName, "", "go on")
	x.readNotes()
	if stored := x.loadSession(); stored.TmuxSocket == socket || !stored.IsRunning() {
		t.Errorf("it runs at %s", stored.TmuxSocket)
	}
}

// Folder names that tmux's formats, its command line or a shell would read differently.
func TestFoldersOfHostileNames(t *testing.T) {
	t.Parallel()
	needsTmux(t)
	for _, name := range []string{
		"a #(touch x) b", "#{pid}", "%Y %d", "##", "x;", `y\;`, "-c", "$HOME", "ä ö:.=", "`id`", "a\nb",
	} {
		x := newEndedSession(t, nil)
		dir := filepath.Join(x.dir, name)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		program := x.loadSession().ClaudeCommand[0]
		writeFile(t, program, "#!/bin/sh\npwd -P >'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
		x.changeSession(x.sessionID, func(s *state.Session) { s.ProjectDir = dir })
		x.reply(x.threadName, "", "go on")
		notes := x.readNotes()
		want, _ := filepath.EvalSymlinks(dir)
		var got string
		for range 50 {
			b, _ := os.ReadFile(filepath.Join(x.dir, "args"))
			if got = strings.TrimSuffix(string(b), "\n"); got != "" {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if got != want {
			t.Errorf("%q: in %q, told %q", name, got, notes)
		}
	}
}

// A message waits for a configuration that can be read, and the poller does not check
// for it all the time.
func TestWordsThatWaitKeepNoPollerBusy(t *testing.T) {
	t.Parallel()
	x := newTestSession(t, func(s *state.Session) {
		s.OldCommands = []state.OldCommand{{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}}
	})
	writeFile(t, state.ConfigFile(x.env), `{"approvers": [`, 0o600)
	var asked atomic.Int64
	end := x.runPoller(Options{Daemon: true, Now: func() time.Time { asked.Add(1); return time.Now() }})
	time.Sleep(500 * time.Millisecond)
	asked.Store(0)
	time.Sleep(time.Second)
	if n := asked.Load(); n > 500 {
		t.Errorf("the time was asked for %d times in a second", n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A message in another space that asks the app for a session, where the app does not
// post, starts none.
func TestNewInAnotherSpace(t *testing.T) {
	d, g := newAppMachine(t)
	trusted := `{"projects": {"` + d.dir + `": {"hasTrustDialogAccepted": true}}}`
	writeFile(t, filepath.Join(d.dir, ".claude.json"), trusted, 0o600)
	d.writeConfig(`{"start_sessions": true}`)
	kit.NoError(t, state.RegisterProject(d.env, filepath.Join(d.dir, ".claude", "state"), d.dir))
	d.addQuestion(nil)
	d.runPoller(Options{Daemon: true})
	g.awaitPost("Which?")
	elsewhere := g.addHumanMessage("spaces/OTHER/threads/T", "/new "+state.MachineName()+" nothing like it", "")
	elsewhere.Name = "spaces/OTHER/messages/M"
	g.publish(newEvent("MESSAGE", "users/1", elsewhere))
	own := g.addHumanMessage(appSpace+"/threads/T", "/new "+state.MachineName()+" nothing like this", "")
	g.publish(newEvent("MESSAGE", "users/1", own))
	g.awaitPost("No project here is called nothing")
	time.Sleep(300 * time.Millisecond)
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, m := range g.posts {
		if strings.Contains(m.Text, "No project here") {
			n++
		}
	}
	kit.Equalf(t, n, 1, "told")
}

// Two environments share a space. The other one has no poller, and its session has
// ended: a message to that session gets a note.
func TestWordsForAnEnvironmentWithoutAPoller(t *testing.T) {
	x := newEndedSession(t, func(s *state.Session) { s.Environment = "0123456789abcdef" })
	x.changeSession("live", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "other", x.threadName+"2", x.reader.chat, state.Environment(x.env), x.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen = true, time.Now(), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	x.poller.readAndAttend(t.Context())
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not read]") || x.countUnfinished() > 0 {
		t.Errorf("told %q, left %d", notes, x.countUnfinished())
	}
}

// The session opens in the tmux session with exactly the recorded name, however tmux
// would read that name, or in our own.
func TestTmuxSessionsOfHostileNames(t *testing.T) {
	t.Parallel()
	needsTmux(t)
	for _, name := range []string{"wor", "w*", "{last}", "=x", "-", "a b", "a#b;c", "ä"} {
		socket := filepath.Join(t.TempDir(), "s")
		run := func(args ...string) {
			if out, err := exec.Command("tmux", append([]string{"-u", "-S", socket}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %s", name, out)
			}
		}
		run("new-session", "-d", "-s", "work", "sleep 60")
		t.Cleanup(func() { run("kill-server") })
		for _, there := range []bool{false, true} {
			if there {
				run("new-session", "-d", "-s", name, "sleep 60")
			}
			x := newEndedSession(t, func(s *state.Session) { s.TmuxSocket, s.TmuxSession = socket, name })
			x.reply(x.threadName, "", "go on")
			x.readNotes()
			if stored := x.loadSession(); !stored.IsRunning() || there != (stored.TmuxSocket == socket) || there != (stored.TmuxSession == name) {
				t.Errorf("%q, there %v: it runs in %q at %s", name, there, stored.TmuxSession, stored.TmuxSocket)
			}
		}
	}
}

// The blanks that a phone's or a Mac's keyboard makes count as blanks: no word of the
// message is read as another.
func TestNewWithOtherBlanks(t *testing.T) {
	needsTmux(t)
	for _, text := range []string{
		"/new\u00a0shop app fix", "/new shop\u00a0app fix", "/new\u3000shop\u3000app fix", "/new\nshop\tapp fix",
		"/new two words\u00a0app fix",
	} {
		x := newEndedSession(t, nil)
		for _, name := range []string{"shop", "app", "two words"} {
			dir := filepath.Join(x.dir, name)
			kit.NoError(t, errors.Join(os.MkdirAll(dir, 0o700), state.RegisterProject(x.env, filepath.Join(dir, ".claude", "state"), dir)))
		}
		x.reply(x.threadName, "", text)
		x.readNotes()
		if said := x.waitingPrompts(); !slices.Equal(said, []string{"app fix"}) {
			t.Errorf("%q: said %q", text, said)
		}
	}
}

// A session with other settings (CLAUDE_CONFIG_DIR) is resumed with them, and only if
// they trust its folder.
func TestASessionOfOtherSettings(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	other := filepath.Join(x.dir, "work #1")
	writeFile(t, filepath.Join(other, "projects", "p", "t.jsonl"), "{}\n", 0o600)
	writeFile(t, x.loadSession().ClaudeCommand[0], "#!/bin/sh\necho \"$CLAUDE_CONFIG_DIR\" >>'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
	x.changeSession(x.sessionID, func(s *state.Session) { s.TranscriptPath = filepath.Join(other, "projects", "p", "t.jsonl") })
	x.reply(x.threadName, "", "go on")
	if notes := x.readNotes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not started] Claude Code was not told to trust") {
		t.Errorf("told %q, %q", notes, x.startArguments())
	}
	trusted, _ := os.ReadFile(filepath.Join(x.dir, ".claude.json"))
	writeFile(t, filepath.Join(other, ".claude.json"), string(trusted), 0o600)
	time.Sleep(10 * time.Millisecond)
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	bound.WaitFor(bound.Patience, func() bool { return len(x.startArguments()) > 0 })
	if got := x.startArguments(); !slices.Equal(got, []string{other}) {
		t.Errorf("started with %q, told %q", got, notes)
	}
}

// A message that started a session is not delivered to another one, however it is
// edited.
func TestNewIsEditedToWords(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	kit.NoError(t, state.RegisterProject(x.env, filepath.Join(x.dir, ".claude", "state"), x.dir))
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.EndedAt, s.ClaudePID, s.ClaudeStart = time.Time{}, os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	m := x.reply(x.threadName, "", "/new "+filepath.Base(x.dir)+" fix the login")
	x.readNotes()
	x.addEventEdit(m.Name, "fix the login, please")
	x.readNotes()
	if said := x.waitingPrompts(); !slices.Equal(said, []string{"fix the login"}) || x.countUnfinished() > 0 {
		t.Errorf("said %q", said)
	}
}
