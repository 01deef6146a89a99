package poller

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
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
	m, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "a report")
	kit.NoError(t, err)
	at := &state.Question{QuestionID: "00000000"}
	d.markPosted(at)
	x := &testSession{threadName: m.Thread.Name, sessionID: "s"}
	d.changeSession(x.sessionID, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", x.threadName, at.Chat, state.Environment(d.env), d.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen = true, time.Now().Add(-time.Hour), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
		if as != nil {
			as(s)
		}
	})
	x.readTest = newReadTest(d, at)
	return x
}

func (d *testMachine) changeSession(id string, as func(*state.Session)) {
	d.t.Helper()
	state.Environment(d.env) // creates the salt, which has a lock of its own
	if _, err := state.SessionsIn(state.UserStateDir(d.env)).Change(id, func(s *state.Session) { as(s) }); err != nil {
		d.t.Fatal(err)
	}
}

func (x *testSession) loadSession() *state.Session {
	x.t.Helper()
	s, err := state.SessionsIn(state.UserStateDir(x.env)).Get(x.sessionID)
	kit.NoError(x.t, err)
	return s
}

// countUnfinished returns how many messages to the session are not finished, without
// kept prompts.
func (x *testSession) countUnfinished() int {
	x.t.Helper()
	all, bad := state.InboxIn(state.UserStateDir(x.env)).All()
	if len(bad) > 0 {
		x.t.Fatal(bad)
	}
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
	box := state.OutboxIn(state.UserStateDir(x.env))
	all, _ := box.All()
	for _, message := range all {
		if message.Type == state.MessageNote && message.ThreadName == x.threadName && message.IsUrgent {
			notes = append(notes, message.Parts...)
			kit.NoError(x.t, box.RemoveMessage(x.env, message))
		}
	}
	return notes
}

// checkAnswer has the page's person write into the session's thread, and expects one
// note that contains these texts.
func (x *testSession) checkAnswer(text string, want ...string) {
	x.t.Helper()
	x.reply(x.threadName, "", text)
	notes := x.readNotes()
	if len(notes) != 1 {
		x.t.Fatalf("%s: told %q, want one of %q", text, notes, want)
	}
	for _, w := range want {
		kit.Containsf(x.t, notes[0], w, "%s: told", text)
	}
}

func TestCommandsInASessionsThread(t *testing.T) {
	x := newTestSession(t, nil)
	x.checkAnswer("/help", "[Help]", "/screen", "/status", "/stop", "/mute 2h")
	x.checkAnswer("  /Help ", "[Help]")
	x.checkAnswer("/dance", "[Not used] There is no command /dance", "/screen")
	x.checkAnswer("/screen", "[Not used]", "the session does not run in tmux")
	x.checkAnswer("/stop", "[Not used]", "the session does not run in tmux")
	for _, text := range []string{"/compact", "/clear", "/model opus"} {
		x.checkAnswer(text, "[Not used]", "the session does not run in tmux")
	}
	x.checkAnswer("/model", "[Not used] Name a model")
	x.checkAnswer("and now?", "[Kept]", "does not run in tmux", "when its turn ends", "If Claude is idle")
	x.addQuestion(func(q *state.Question) { q.ClaudeSessionID = x.sessionID })
	x.addQuestion(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ToolName, q.About = x.sessionID, state.KindPermission, "Bash", "git push"
	})
	x.addQuestion(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ShownText, q.SubQuestions[0].Question = x.sessionID, state.KindNext, "Shall I push?", "What is to be done next?"
	})
	x.checkAnswer("/status", "[Status] shop\n", "not known", "Kept until Claude can take them: 1 of your messages\n",
		"Waits for you:\n• Which?\n• Which?\n• Shall I push?")
	if notes := x.readNotes(); len(notes) > 0 {
		t.Errorf("told again: %q", notes)
	}
	if notes := (&testSession{newReadTest(x.testMachine, &state.Question{Chat: x.reader.chat}), x.threadName, x.sessionID}).readNotes(); len(notes) > 0 {
		t.Errorf("a later poller does it again: %q", notes)
	}
	x.changeSession(x.sessionID, func(s *state.Session) { s.EndedAt = time.Now() })
	if err := x.readOnce(); err != nil { // the list reads older messages again
		t.Fatal(err)
	}
	if notes := x.readNotes(); len(notes) > 0 {
		t.Errorf("once the session has ended: %q", notes)
	}
}

// A command of an allowed person is run by the poller of the session's environment,
// unless it is too old.
func TestWhoseCommandIsDone(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "users/9", "/mute")
	if _, err := x.testMachine.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, x.threadName, "/mute"); err != nil {
		t.Fatal(err)
	}
	if notes := x.readNotes(); len(notes) > 0 || !x.loadSession().MutedUntil.IsZero() || x.countUnfinished() > 0 {
		t.Errorf("a stranger is told %q, muted until %v", notes, x.loadSession().MutedUntil)
	}
	x.testMachine.reply(x.threadName, "users/9", "/mute 3h") // may have the same millisecond
	x.checkAnswer("/mute", "[Muted]")
	x.changeSession(x.sessionID, func(s *state.Session) { s.MutedUntil = time.Time{} })

	command := state.OldCommand{MessageName: "m", Sender: "users/1", Text: "/mute", LocalCreatedAt: time.Now()}
	x.changeSession(x.sessionID, func(s *state.Session) { s.Environment, s.OldCommands = "another", []state.OldCommand{command} })
	if x.readNotes(); !x.loadSession().MutedUntil.IsZero() {
		t.Error("it was done for another environment's session")
	}
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Environment = state.Environment(x.env)
		s.OldCommands[0].LocalCreatedAt = time.Now().Add(-commands.MaxCommandAge - time.Minute)
	})
	if notes := x.readNotes(); len(notes) != 1 || !strings.Contains(notes[0], "[Not used] /mute was read too late") {
		t.Errorf("an old one: %q", notes)
	}
	command.MessageName, command.Sender, command.LocalCreatedAt = "of a stranger, as another environment read it", "users/9", time.Now()
	x.changeSession(x.sessionID, func(s *state.Session) { s.OldCommands = []state.OldCommand{command} })
	if notes := x.readNotes(); len(notes) > 0 || !x.loadSession().MutedUntil.IsZero() {
		t.Errorf("a stranger's: %q", notes)
	}
	command.Sender = "users/1"
	command.MessageName, command.LocalCreatedAt = "older than the session", time.Now().Add(-2*time.Hour)
	x.changeSession(x.sessionID, func(s *state.Session) { s.OldCommands = []state.OldCommand{command} })
	if notes := x.readNotes(); len(notes) > 0 || !x.loadSession().MutedUntil.IsZero() {
		t.Errorf("older than the session: %q", notes)
	}
}

// An app's events come in any order, and more than once: each command runs once, the
// newest twenty by their names.
func TestCommandsInAnyOrder(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Add(-time.Minute)
	for n := range 2 {
		x.addEventMessage("second", "/help", now)
		x.addEventMessage("first", "/mute 2h", now.Add(-time.Second))
		x.addEventMessage("third", "/status", now) // with the same millisecond
		if notes := x.readNotes(); len(notes) != 3*(1-n) {
			t.Errorf("told %q", notes)
		}
	}
	notes := x.readNotes()
	if x.loadSession().MutedUntil.IsZero() || len(notes) > 0 {
		t.Errorf("muted until %v, told %q again", x.loadSession().MutedUntil, notes)
	}
}

// A command that a version without an inbox ran does not run again when a list or an
// event brings it once more.
func TestACommandOfAnEarlierVersionIsNotDoneAgain(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Add(-time.Minute)
	_, space, _ := strings.Cut(x.reader.chat, "/")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.OldDoneCommands = []state.OldDoneCommand{{MessageName: space + "/messages/did", DoneAt: now}}
		s.OldCommandsDoneUntil = now.Add(-time.Minute)
	})
	x.addEventMessage("did", "/mute 2h", now)
	x.addEventMessage("before", "/mute 3h", now.Add(-2*time.Minute))
	if notes := x.readNotes(); len(notes) > 0 || !x.loadSession().MutedUntil.IsZero() || x.countUnfinished() > 0 {
		t.Errorf("told %q, muted until %v", notes, x.loadSession().MutedUntil)
	}
	x.addEventMessage("after", "/mute 2h", now)
	if notes := x.readNotes(); len(notes) != 1 || x.loadSession().MutedUntil.IsZero() {
		t.Errorf("told %q, muted until %v", notes, x.loadSession().MutedUntil)
	}
}

// A command that a poller was running when it was killed does not run again, since a
// second Esc would stop something else. A note says so, once.
func TestACommandIsNotDoneTwice(t *testing.T) {
	x := newTestSession(t, nil)
	given := state.OldCommand{MessageName: "m", Sender: "users/1", Text: "/mute", LocalCreatedAt: time.Now()}
	in := given.Incoming(x.loadSession(), time.Now())
	in.Status = state.IncomingDoing
	_, err := state.InboxIn(state.UserStateDir(x.env)).Add(in, false)
	kit.NoError(t, err)
	notes := x.readNotes()
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not known]") {
		t.Errorf("told %q", notes)
	}
	if again := x.readNotes(); len(again) > 0 || x.countUnfinished() > 0 || !x.loadSession().MutedUntil.IsZero() {
		t.Errorf("told %q, %d left, muted until %v", again, x.countUnfinished(), x.loadSession().MutedUntil)
	}
}

// A question in the session's thread takes no command as its reply, and a question that
// is closed there takes no reply.
func TestACommandIsNoReply(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addQuestion(func(q *state.Question) {
		x.markPosted(q)
		q.Kind, q.ThreadName, q.AskedAt = state.KindNext, x.threadName, time.Now().Add(-time.Minute)
		at := q.AskedAt
		q.PostedAt = &at
	})
	x.checkAnswer("/help", "[Help]")
	x.reply(x.threadName, "users/9", "/stop")
	x.readNotes()
	if stored := x.loadQuestion(q); len(stored.Replies) > 0 {
		t.Fatalf("it was given to the question: %+v", stored.Replies)
	}
	x.reply(x.threadName, "", "go on")
	x.readNotes()
	if stored := x.loadQuestion(q); len(stored.Replies) != 1 || stored.Replies[0].Text != "go on" {
		t.Fatalf("replies %+v", stored.Replies)
	}
	x.changeQuestion(q, func(q *state.Question) { q.Status = state.Resolved })
	x.checkAnswer("and then?", "[Kept]", "when its turn ends")
	if stored := x.loadQuestion(q); len(stored.Replies) != 1 {
		t.Errorf("replies to what was over: %+v", stored.Replies)
	}
}

// The thread of a session is read, and keeps a poller running, while the session
// accepts messages and its Claude Code runs, and for a while after that.
func TestAThreadIsReadWhileItsSessionListens(t *testing.T) {
	for name, c := range map[string]struct {
		as   func(*state.Session)
		read bool
	}{
		"listens":          {func(*state.Session) {}, true},
		"does not listen":  {func(s *state.Session) { s.AcceptsCommands = false }, false},
		"ended":            {func(s *state.Session) { s.EndedAt = time.Now() }, true},
		"killed":           {func(s *state.Session) { s.ClaudeStart = "another process" }, true},
		"no report yet":    {func(s *state.Session) { s.ThreadName = "" }, false},
		"another's":        {func(s *state.Session) { s.Environment = "another" }, false},
		"of an old record": {func(s *state.Session) { s.ClaudePID, s.LastSeen = 0, time.Now().Add(-25*time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, c.as)
			x.poller.readState()
			_, isBusy := x.poller.attendAll(t.Context(), x.poller.loadOwnConfig())
			if got := x.poller.spaceViews(); (len(got) == 1) != c.read || isBusy != c.read {
				t.Errorf("%d views, busy %t", len(got), isBusy)
			}
			if !c.read {
				return
			}
			x.poller.readSessions()
			if got := x.reader.listInterval(x.poller.spaceViews()[x.reader.chat]); got != time.Second {
				// the interval of its cycle
				t.Errorf("read every %v", got)
			}
		})
	}
}

func TestAMutedSessionsReportsWait(t *testing.T) {
	o := newSendTest(t)
	s := o.newSender()
	sessions := state.SessionsIn(state.UserStateDir(o.Env))
	mute := func(until time.Time) {
		if _, err := sessions.Change("a", func(session *state.Session) { session.MutedUntil = until }); err != nil {
			t.Fatal(err)
		}
	}
	o.advance(0)
	mute(o.now().Add(time.Hour))
	mine := func(message *state.Message) { message.SessionID = "a" }
	o.enqueueReport("a", "can wait", mine)
	o.enqueueReport("a", "urgent", mine, func(message *state.Message) { message.IsUrgent = true })
	o.enqueueReport("b", "another session's", func(message *state.Message) { message.SessionID = "b" })
	s.sendUntilIdle(t.Context())
	if got := o.texts(); len(got) != 2 || slices.Contains(got, "can wait") {
		t.Errorf("in the space: %q", got)
	}
	mute(time.Time{})
	o.advance(muteCheckInterval)
	s.sendUntilIdle(t.Context())
	if !slices.Contains(o.texts(), "can wait") {
		t.Errorf("in the space after the end: %q", o.texts())
	}
	mute(o.now().Add(time.Hour))
	for kind, want := range map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: false, state.KindPlan: false, state.KindNext: true,
	} {
		q := o.addTestQuestion(func(q *state.Question) { q.Kind, q.QuestionID = kind, "id-"+string(kind) })
		message, err := s.outbox.FindByKey(messageKey(firstMessageKey, q))
		kit.NoError(t, err)
		message.SessionID = "a"
		kit.Equalf(t, !message.IsUrgent && !s.quietUntil(message, &config.Config{}).IsZero(), want, "%s is muted", kind)
	}
}

func TestHowLongASessionIsMuted(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Truncate(time.Millisecond) // with the precision of the session's file
	room := commands.Runner{Env: x.env, Log: x.poller.Log, Config: &config.Config{}, Now: func() time.Time { return now }}
	for words, want := range map[string]time.Duration{
		"": time.Hour, "2h": 2 * time.Hour, "30m": 30 * time.Minute, "2 hours": 2 * time.Hour, "45 min": 45 * time.Minute,
		"1h30m": 90 * time.Minute, "99h": 24 * time.Hour, "off": 0, "long": -1, "-2h": -1,
	} {
		x.changeSession(x.sessionID, func(s *state.Session) { s.MutedUntil = time.Unix(7, 0).UTC() })
		said := room.RunCommand(t.Context(), x.loadSession(), &state.Incoming{Text: "/mute " + words, LocalCreatedAt: now})
		got := x.loadSession().MutedUntil
		switch {
		case want < 0 && (!strings.HasPrefix(said, "[Not used]") || !got.Equal(time.Unix(7, 0))),
			want == 0 && !got.IsZero(), want > 0 && !got.Equal(now.Add(want)):
			t.Errorf("/mute %s: %q, until %v", words, said, got)
		}
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
	b, err := os.ReadFile(cat)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "claude"), b, 0o700)
	}
	for name, text := range map[string]string{"screen": screen, "then": then} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	kit.NoError(x.t, err)
	run := func(args ...string) string {
		out, err := bound.Command(x.t, "tmux", append([]string{"-S", socket}, args...)...).CombinedOutput()
		if err != nil {
			x.t.Fatalf("tmux: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("resize-window", "-t", pane, "-x", "100", "-y", "30")
	run("respawn-pane", "-k", "-t", pane, "-c", dir, "sh", "-c", `stty raw -echo; : >got; cat screen
(until test -s got; do sleep 0.02; done; printf '\033[2J\033[H'; cat then) & exec ./claude >got`)
	server, pid := inject.Server{Socket: socket}, 0
	bound.Until(x.t, "the pane runs Claude Code", func() bool {
		p, err := server.Pane(x.t.Context(), pane)
		if err == nil {
			pid, _ = p.FindClaude(0, "")
		}
		return pid != 0
	})
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TmuxSocket, s.TmuxPane, s.ClaudePID, s.ClaudeStart = socket, pane, pid, inject.ProcessStart(pid)
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
	return strings.Join(slices.Concat(lines, []string{"", rule, "❯ ", rule, "  ? for shortcuts"}), "\r\n")
}

func TestStopAndScreenInTmux(t *testing.T) {
	t.Parallel()
	const tool, spinner = "● Bash(sleep 60)", "✻ Working… (3s · ↓ 20 tokens)"
	idle := withInputBox("❯ go ahead", "", "● Done.")
	dialog := strings.Join([]string{tool, "", strings.Repeat("─", 100), " Bash command", "", "   git push", "", " Do you want to proceed?",
		" ❯ 1. Yes", "   2. No", "", " Esc to cancel · Tab to amend"}, "\r\n")
	const queued = "  ⎿  Queued · ctrl+x ctrl+s to send now"
	ended := []string{"❯ hello", "", "● Hello.", "", "✻ Baked for 2s"}
	for name, c := range map[string]struct {
		screen, stop, status, keys string
	}{
		"named": {
			strings.Replace(withInputBox("❯ go ahead", "", "● I begin.", "", spinner), strings.Repeat("─", 13)+"\r", " my session ─\r", 1),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"a tool":    {withInputBox("❯ go ahead", "", tool, "", spinner), "[Stopped] Bash(sleep 60)", "Claude works: Bash(sleep 60)", "\x1b"},
		"a command": {withInputBox("❯ go ahead", "", "  Running ./long.sh", "  ⎿  $ ./long.sh", "", spinner), "[Stopped] ./long.sh", "Claude works: ./long.sh", "\x1b"},
		"a prompt":  {withInputBox(tool, "❯ go ahead", "", "● I begin.", "", spinner), `[Stopped] the work on "go ahead"`, "Claude works", "\x1b"},
		"a tool, and queued words": {
			withInputBox("❯ go ahead", "", "  ⎿  $ ./long.sh (4s)", "", "❯ one", "", "❯ two", queued, "", spinner),
			"[Stopped] ./long.sh", "Claude works: ./long.sh", "\x1b",
		},
		"a prompt, and queued words": {
			withInputBox(append(ended, "❯ go ahead", "❯ one", "❯ two", queued, "", spinner)...),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"words, and queued words": {
			withInputBox(append(ended, "❯ go ahead", "● I begin.", "❯ one", queued, "", spinner)...),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"idle":     {idle, "[Not used] Claude is not working.", "Claude is idle, at an empty input box", ""},
		"a dialog": {dialog, "[Not used] A dialog is open in the terminal: answer it first.", "A dialog is open in the terminal", ""},
		"a shell":  {"$ ", "No key was pressed", "The terminal shows", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			then := idle
			if strings.HasSuffix(name, "queued words") { // Claude continues with them
				then = withInputBox(append(ended, "❯ go ahead", "  ⎿  Interrupted · What should Claude do instead?", "❯ one", "", spinner)...)
			}
			got := x.runInPane(c.screen, then)
			x.checkAnswer("/status", "[Status] shop", c.status)
			if name != "a shell" {
				x.checkAnswer("/screen", "[Screen] shop\n```\n", strings.Split(c.screen, "\r\n")[0])
			}
			x.checkAnswer("/stop", c.stop)
			kit.Equalf(t, got(), c.keys, "keys")
		})
	}
}

// A pane belongs to the session only while the session's own Claude Code runs in it.
func TestAnotherClaudeIsNotStopped(t *testing.T) {
	x := newTestSession(t, nil)
	got := x.runInPane(withInputBox("❯ go", "", "✻ Working… (3s)"), "")
	x.changeSession(x.sessionID, func(s *state.Session) { s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid()) })
	x.checkAnswer("/stop", "[Not used] The terminal is out of reach")
	x.checkAnswer("/screen", "[Not used] The terminal is out of reach")
	kit.Equalf(t, got(), "", "keys")
}

// Our commands count in the thread of a question, too, and their result is posted
// there. A command that cannot run there is no answer.
func TestACommandInAQuestionsThread(t *testing.T) {
	for name, c := range map[string]struct {
		as   func(*state.Session)
		want string
		done bool // by the session; otherwise the question asks back
	}{
		"it listens":       {nil, "[Status] shop", true},
		"it does not":      {func(s *state.Session) { s.AcceptsCommands = false }, "[Not used] Reply with the option number", false},
		"it is in another": {func(s *state.Session) { s.Chat = "chat.example/spaces/other" }, "[Not used] Reply with", false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, c.as)
			m, err := x.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "a question")
			kit.NoError(t, err)
			q := x.addQuestion(func(q *state.Question) {
				x.markPosted(q)
				q.MessageName, q.ThreadName = m.Name, m.Thread.Name
				q.ClaudeSessionID, q.Mode, q.AskedAt = x.sessionID, state.ModeDeny, time.Now().Add(-time.Minute)
				q.PostedAt = new(q.AskedAt)
			})
			x.poller.readIndex()
			thread := x.threadName
			x.threadName = m.Thread.Name
			x.checkAnswer("/status", c.want)
			stored := x.loadQuestion(q)
			if stored.Status != state.Pending || len(stored.Replies) > 0 == c.done {
				t.Errorf("%s with %+v", stored.Status, stored.Replies)
			}
			if notes := x.readNotes(); len(notes) > 0 {
				t.Errorf("told again: %q", notes)
			}
			if session := x.loadSession(); session.ThreadName != thread {
				t.Errorf("the session's thread is %s, was %s", session.ThreadName, thread)
			}
			x.reply(x.threadName, "", "2")
			x.readNotes()
			if stored := x.loadQuestion(q); stored.Status != state.Answered || stored.Answers["Which?"] != "Two" {
				t.Errorf("%s with %v", stored.Status, stored.Answers)
			}
		})
	}
}

// A message to a session that has ended gets a note with the command to type, unless
// the message resumes the session. For that a Google space is read for five minutes,
// and the page for a while after a message on it, which starts a poller.
func TestWordsForASessionThatHasEnded(t *testing.T) {
	const chat = "chat.googleapis.com/spaces/S"
	for name, c := range map[string]struct {
		ago, runs time.Duration // since the session ended, and since the poller started
		chat      string        // "" for the page's
		read      bool
	}{
		"on the page":                      {time.Minute, 0, "", true},
		"on the page, a day after":         {20 * time.Hour, 0, "", true},
		"on the page, where nobody wrote":  {20 * time.Hour, time.Hour, "", false},
		"in Google Chat":                   {time.Minute, time.Hour, chat, true},
		"in Google Chat, and not for ever": {time.Hour, 0, chat, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, func(s *state.Session) { s.EndedAt = time.Now().Add(-c.ago) })
			if c.chat != "" {
				x.changeSession(x.sessionID, func(s *state.Session) { s.Chat = c.chat })
			}
			x.poller.startedAt = time.Now().Add(-c.runs)
			x.poller.readSessions()
			if read := x.poller.spaceViews()[x.loadSession().Chat] != nil; read != c.read {
				t.Fatalf("its thread is read: %v", read)
			}
			if c.chat == "" && c.read {
				x.checkAnswer("go on", "This session has ended")
			}
		})
	}
}
