package poller

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const endedSessionID = "5f0c8a52-8b25-4a59-9f6e-3a7d1f0f8a11"

// startArguments returns the arguments of each start of the program that stands for
// Claude Code. The end-to-end tests show what such a program cannot.
func (x *testSession) startArguments() (with []string) {
	b, _ := os.ReadFile(filepath.Join(x.dir, "args"))
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[:strings.Count(string(b), "\n")]
}

// newEndedSession returns a session that has ended, whose person wants sessions to be
// started.
func newEndedSession(t *testing.T, as func(*state.Session)) *testSession {
	t.Helper()
	x := newTestSession(t, func(s *state.Session) { s.AcceptsCommands = false })
	program, transcript :=
		filepath.Join(x.dir, "claude"), filepath.Join(x.dir, ".claude", "projects", "p", "t.jsonl")
	kit.WriteFile(t, program, "#!/bin/sh\necho \"$*\" >>'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
	trusted := kit.JSON(t, map[string]any{
		"projects": map[string]any{x.dir: map[string]bool{"hasTrustDialogAccepted": true}},
	})
	kit.WriteFile(t, filepath.Join(x.dir, ".claude.json"), string(trusted), 0o600)
	kit.WriteFile(t, state.ConfigFile(x.env), `{"start_sessions": true}`, 0o600)
	kit.WriteFile(t, transcript, "{}\n", 0o600)
	x.changeSession(x.sessionID, func(s *state.Session) { s.ThreadName = "" })
	x.sessionID = endedSessionID
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir =
			"shop", x.threadName, x.reader.chat, state.Environment(x.env), x.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt =
			true, time.Now().Add(-time.Hour), time.Now(), time.Now()
		s.ClaudeCommand, s.TranscriptPath = []string{program}, transcript
		if as != nil {
			as(s)
		}
	})
	x.poller.readAndAttend(t.Context())
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", inject.OwnServer(state.UserStateDir(x.env)).Socket,
			"kill-server").Run()
	})
	return x
}

// newStartableSession is newEndedSession where tmux is installed.
func newStartableSession(t *testing.T, as func(*state.Session)) *testSession {
	t.Helper()
	kit.NeedProgram(t, "tmux")
	return newEndedSession(t, as)
}

func TestStartClaude_ResumesOnce(t *testing.T) {
	x := newStartableSession(t, nil)
	x.reply(x.threadName, "", "--dangerously-skip-permissions; first")
	x.reply(x.threadName, "users/1", "second")
	notes := x.readNotes()
	kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0], "[Started]"), "notes %q", notes)
	bound.Until(t, "it runs", func() bool { return len(x.startArguments()) > 0 })
	kit.Equalf(t, x.startArguments(), []string{"--resume " + endedSessionID}, "started with")
	x.checkPrompts("--dangerously-skip-permissions; first", "second")
	stored := x.loadSession()
	kit.True(t, stored.IsRunning() && stored.ClaudePID > 1 && stored.TmuxPane != "" &&
		x.countUnfinished() == 0,
		"%+v", stored)
}

// A poller that is killed at any step starts nothing twice, and each message is
// delivered or gets a note.
func TestStartClaude_SurvivesAKill(t *testing.T) {
	t.Parallel()
	c := oldCommand("users/1", "go on")
	x := newStartableSession(t, func(s *state.Session) { // killed just before it called tmux
		s.OldCommands, s.StartingAt, s.EndedAt =
			c, time.Now(), time.Now().Add(-time.Minute)
	})
	notes := x.readNotes()
	kit.True(t, len(notes) == 0 && len(x.startArguments()) == 0 && x.countUnfinished() == 1,
		"notes %q, started %q, %d commands", notes, x.startArguments(), x.countUnfinished())
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.StartingAt = time.Now().Add(-time.Minute)
	})
	notes = x.readNotes()
	kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0],
		"[Not started] It was started, but it did not begin in time") &&
		strings.Contains(notes[0], "claude --resume") && len(x.startArguments()) == 0 &&
		x.countUnfinished() == 0, "notes %q, started %q, %d commands", notes, x.startArguments(),
		x.countUnfinished())

	y := newEndedSession(t, func(s *state.Session) {
		// killed just after: the hook saved the session
		s.OldCommands, s.StartingAt, s.EndedAt, s.StartedAt =
			c, time.Now(), time.Time{}, time.Now().Add(time.Second)
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	notes = y.readNotes()
	kit.True(t, len(y.startArguments()) == 0 && len(y.waitingPrompts()) == 1,
		"notes %q, started %q, prompts %q", notes, y.startArguments(), y.waitingPrompts())
}

func TestStartClaude_WhatResumesNothing(t *testing.T) {
	kit.NeedProgram(t, "tmux")
	for name, c := range map[string]struct {
		as         func(*testSession, *state.Session)
		from, says string
		note       string // "" for none
	}{
		"a stranger": {nil, "users/9", "go on", ""},
		"a command":  {nil, "", "/compact", "[Not read]"},
		"an id that is an option": {func(x *testSession, was *state.Session) {
			x.changeSession("--help", func(s *state.Session) {
				*s = *was
				s.Record, s.ID = state.Record{}, "--help"
			})
			x.changeSession(endedSessionID, func(s *state.Session) { s.ThreadName = "" })
			x.sessionID = "--help"
		}, "", "go on", "[Not started]"},
		"it runs elsewhere": {func(x *testSession, _ *state.Session) {
			kit.WriteFile(t,
				filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json"),
				`{"sessionId":"`+endedSessionID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"a new one runs elsewhere": {func(x *testSession, _ *state.Session) {
			// a poller was killed after it started the session
			x.changeSession(x.sessionID, func(s *state.Session) { s.TranscriptPath = "" })
			own := filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json")
			kit.WriteFile(t, own, `{"sessionId":"`+endedSessionID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"its folder is gone": {func(x *testSession, _ *state.Session) {
			x.changeSession(x.sessionID, func(s *state.Session) {
				s.ProjectDir = filepath.Join(x.dir, "gone")
			})
		}, "", "go on", "[Not started] Its folder is gone"},
		"off": {
			func(x *testSession, _ *state.Session) {
				kit.WriteFile(t, state.ConfigFile(x.env), "{}", 0o600)
			},
			"", "go on", "[Not read]",
		},
		"a project's wish": {func(x *testSession, _ *state.Session) {
			kit.WriteFile(t, state.ConfigFile(x.env), "{}", 0o600)
			kit.WriteFile(t, filepath.Join(x.dir, ".claude", "gchat-hooks.json"),
				`{"start_sessions": true}`, 0o600)
		}, "", "go on", "[Not read]"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newEndedSession(t, nil)
			if c.as != nil {
				c.as(x, x.loadSession())
			}
			x.poller.readAndAttend(t.Context())
			x.reply(x.threadName, c.from, c.says)
			notes := x.readNotes()
			kit.Equalf(t, len(notes), intOf(c.note != ""), "notes")
			kit.Contains(t, strings.Join(notes, "\n"), c.note)
			kit.True(t, !slices.ContainsFunc(notes, func(text string) bool {
				return strings.HasPrefix(text, "[Not started]") &&
					strings.Contains(text, "claude --resume")
			}), "a note names a command that cannot work: %q", notes)
			time.Sleep(100 * time.Millisecond)
			kit.True(t, len(x.startArguments()) == 0, "started with %q", x.startArguments())
		})
	}
}

// A new session is created once, however often its message is read, in a project that
// is known and trusted. A path does not name a project.
func TestStartClaude_NewSession(t *testing.T) {
	x := newStartableSession(t, nil)
	shop := filepath.Join(x.dir, "shop")
	for _, dir := range []string{"work/app", "home/app", "stranger", "shop", "shop of mine"} {
		dir = filepath.Join(x.dir, dir)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		kit.NoError(t, state.RegisterProject(x.env, filepath.Join(dir, ".claude", "state"), dir))
	}
	// otherwise the folder above counts as trusted
	kit.NoError(t, exec.Command("git", "init", "-q",
		filepath.Join(x.dir, "stranger")).Run())
	machine := state.MachineName()
	for text, want := range map[string]string{
		"/new ../../etc fix it":        "No project",
		"/new " + shop + " fix it":     "No project",
		"/new str fix it":              "No project",
		"/new " + machine + " str a b": "No project here is called str",
		"/new app fix it":              "Several projects",
		"/new shop":                    "Name a project",
		"/NEW":                         "Name a project",
	} {
		// The test removes the receipts, so a message that is listed again gets its note
		// again.
		kit.Contains(t, strings.Join(x.say(text), "\n"), want)
	}
	x.reply(x.threadName, "users/9", "/new shop mine")
	x.reply(x.threadName, "", "/new shop Of mine --model opus\nand; more")
	for range 3 {
		x.readNotes()
	}
	bound.Until(t, "it runs", func() bool { return len(x.startArguments()) > 0 })
	got := x.startArguments()
	kit.True(t, len(got) == 1 && strings.HasPrefix(got[0], "--session-id ") &&
		!strings.Contains(got[0], "opus"),
		"started with %q", got)
	x.checkPrompts("--model opus\nand; more")
	all, _ := x.sessions().All()
	isNew := func(s *state.Session) bool {
		return s.ProjectDir == filepath.Join(x.dir, "shop of mine")
	}
	kit.True(t, slices.ContainsFunc(all, isNew), "it runs in another project")
}

// Another poller began to start the session after this poller read its record.
func TestStartClaude_StaleRecordStartsNothing(t *testing.T) {
	x := newStartableSession(t, nil)
	stale := x.loadSession()
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartingAt = time.Now() })
	begun, why := x.poller.commandRunner().StartClaude(t.Context(), stale)
	time.Sleep(100 * time.Millisecond)
	kit.True(t, begun == nil && why == "" && len(x.startArguments()) == 0,
		"begun %+v, %q, started %q", begun, why, x.startArguments())
}

// A message whose note said that it started nothing starts nothing when it is listed
// again, whatever has changed meanwhile.
func TestStartClaude_FailedStartIsFinal(t *testing.T) {
	x := newStartableSession(t, func(s *state.Session) { s.TranscriptPath += ".gone" })
	gone := x.loadSession().TranscriptPath
	x.checkAnswer("go on", "[Not started] Its transcript is gone")
	kit.WriteFile(t, gone, "{}\n", 0o600)
	again := append(x.readNotes(), x.readNotes()...)
	time.Sleep(100 * time.Millisecond)
	kit.True(t, len(again) == 0 && len(x.startArguments()) == 0 && len(x.waitingPrompts()) == 0,
		"then notes %q, started %q, prompts %q", again, x.startArguments(), x.waitingPrompts())
	x.say("go on, please")
	x.checkPrompts("go on, please")
}

// A new session starts with a prompt: a command would be dropped, since it is older
// than the session.
func TestStartClaude_NewTakesNoCommand(t *testing.T) {
	x := newStartableSession(t, nil)
	kit.NoError(t, state.RegisterProject(x.env, filepath.Join(x.dir, ".claude", "state"), x.dir))
	x.checkAnswer("/new "+filepath.Base(x.dir)+" /compact", "[Not used]")
}

// A person who may answer but not start sessions answers a question with a text that
// looks like a command.
func TestStartClaude_NewNeedsApprover(t *testing.T) {
	x := newEndedSession(t, nil)
	x.vars["GCHAT_ALLOWED_USERS"] += ",users/2"
	x.vars["GCHAT_APPROVERS"] = "users/1"
	q := x.addQuestion(x.markPosted)
	x.readTest = newReadTest(x.testMachine, q) // with the current configuration
	x.poller.readIndex()
	at := x.postAsApp("", "Which?")
	x.changeQuestion(q, func(q *state.Question) {
		q.ThreadName, q.MessageName = at.Thread.Name, at.Name
	})
	m := x.reply(at.Thread.Name, "users/2", "/new wording for the page, please")
	x.readNotes()
	q = x.loadQuestion(q)
	kit.True(t, q.FindReply(m.Name) != nil, "replies %+v", q.Replies)
}

// A session has ended, but its process has not. The process is about to exit, or
// continues with another session (/clear), and that session's hook will say so.
func TestStartClaude_LivingProcessIsNotResumed(t *testing.T) {
	t.Parallel()
	x := newStartableSession(t, func(s *state.Session) {
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	notes := x.say("go on")
	time.Sleep(100 * time.Millisecond)
	kit.Must(t, len(notes) == 0 && len(x.startArguments()) == 0 && x.countUnfinished() == 1,
		"notes %q, started %q, kept %d", notes, x.startArguments(), x.countUnfinished())
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.EndedAt = time.Now().Add(-time.Minute)
	})
	notes = x.readNotes()
	kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0], "[Not started]") &&
		len(x.startArguments()) == 0,
		"notes %q, started %q", notes, x.startArguments())
}

// After a restart of the machine, another user's tmux may listen where the person's
// did.
func TestStartClaude_AvoidsOtherUsersTmux(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to another user")
	}
	kit.NeedProgram(t, "tmux")
	socket := filepath.Join(t.TempDir(), "s")
	runTmux(t, socket, "new-session", "-d", "-s", "work", "sleep 60")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	kit.NoError(t, os.Chown(socket, 12345, -1))
	x := newStartableSession(t, func(s *state.Session) {
		s.TmuxSocket, s.TmuxSession = socket, "work"
	})
	x.say("go on")
	stored := x.loadSession()
	kit.True(t, stored.TmuxSocket != socket && stored.IsRunning(),
		"it runs at %s", stored.TmuxSocket)
}

// Folder names that tmux's formats, its command line or a shell would read differently.
func TestStartClaude_HostileFolderNames(t *testing.T) {
	t.Parallel()
	kit.NeedProgram(t, "tmux")
	for _, name := range []string{
		"a #(touch x) b", "#{pid}", "%Y %d", "##", "x;", `y\;`, "-c", "$HOME", "ä ö:.=", "`id`",
		"a\nb",
	} {
		x := newEndedSession(t, nil)
		dir := filepath.Join(x.dir, name)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		program := x.loadSession().ClaudeCommand[0]
		kit.WriteFile(t, program, "#!/bin/sh\npwd -P >'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
		x.changeSession(x.sessionID, func(s *state.Session) { s.ProjectDir = dir })
		notes := x.say("go on")
		want, _ := filepath.EvalSymlinks(dir)
		var got string
		for range 50 {
			b, _ := os.ReadFile(filepath.Join(x.dir, "args"))
			if got = strings.TrimSuffix(string(b), "\n"); got != "" {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		kit.True(t, got == want, "%q: in %q, notes %q", name, got, notes)
	}
}

// The session opens in the tmux session with exactly the recorded name, however tmux
// would read that name, or in our own.
func TestStartClaude_HostileTmuxNames(t *testing.T) {
	t.Parallel()
	kit.NeedProgram(t, "tmux")
	for _, name := range []string{"wor", "w*", "{last}", "=x", "-", "a b", "a#b;c", "ä"} {
		socket := filepath.Join(t.TempDir(), "s")
		runTmux(t, socket, "new-session", "-d", "-s", "work", "sleep 60")
		t.Cleanup(func() { runTmux(t, socket, "kill-server") })
		for _, there := range []bool{false, true} {
			if there {
				runTmux(t, socket, "new-session", "-d", "-s", name, "sleep 60")
			}
			x := newEndedSession(t, func(s *state.Session) {
				s.TmuxSocket, s.TmuxSession = socket, name
			})
			x.say("go on")
			stored := x.loadSession()
			kit.True(t, stored.IsRunning() && there == (stored.TmuxSocket == socket) &&
				there == (stored.TmuxSession == name),
				"%q, there %v: it runs in %q at %s", name, there, stored.TmuxSession,
				stored.TmuxSocket)
		}
	}
}

// The blanks that a phone's or a Mac's keyboard makes count as blanks: no word of the
// message is read as another.
func TestStartClaude_NewWithOtherBlanks(t *testing.T) {
	kit.NeedProgram(t, "tmux")
	for _, text := range []string{
		"/new\u00a0shop app fix", "/new shop\u00a0app fix", "/new\u3000shop\u3000app fix",
		"/new\nshop\tapp fix",
		"/new two names\u00a0app fix",
	} {
		x := newEndedSession(t, nil)
		for _, name := range []string{"shop", "app", "two names"} {
			dir := filepath.Join(x.dir, name)
			kit.NoError(t, errors.Join(os.MkdirAll(dir, 0o700),
				state.RegisterProject(x.env, filepath.Join(dir, ".claude", "state"), dir)))
		}
		x.say(text)
		x.checkPrompts("app fix")
	}
}

// A session with other settings (CLAUDE_CONFIG_DIR) is resumed with them, and only if
// they trust its folder.
func TestStartClaude_KeepsSessionsSettings(t *testing.T) {
	x := newStartableSession(t, nil)
	other := filepath.Join(x.dir, "work #1")
	kit.WriteFile(t, filepath.Join(other, "projects", "p", "t.jsonl"), "{}\n", 0o600)
	kit.WriteFile(t, x.loadSession().ClaudeCommand[0],
		"#!/bin/sh\necho \"$CLAUDE_CONFIG_DIR\" >>'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TranscriptPath = filepath.Join(other, "projects", "p", "t.jsonl")
	})
	x.checkAnswer("go on", "[Not started] Claude Code was not told to trust")
	trusted, _ := os.ReadFile(filepath.Join(x.dir, ".claude.json"))
	kit.WriteFile(t, filepath.Join(other, ".claude.json"), string(trusted), 0o600)
	time.Sleep(10 * time.Millisecond)
	notes := x.say("go on")
	bound.WaitFor(bound.Patience, func() bool { return len(x.startArguments()) > 0 })
	kit.Equalf(t, x.startArguments(), []string{other}, "notes %q, the settings", notes)
}

// A message that started a session is not delivered to another one, however it is
// edited.
func TestStartClaude_EditedNewIsNoPrompt(t *testing.T) {
	x := newStartableSession(t, nil)
	kit.NoError(t, state.RegisterProject(x.env, filepath.Join(x.dir, ".claude", "state"), x.dir))
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.EndedAt, s.ClaudePID, s.ClaudeStart =
			time.Time{}, os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	m := x.reply(x.threadName, "", "/new "+filepath.Base(x.dir)+" fix the login")
	x.readNotes()
	x.addEventEdit(m.Name, "fix the login, please")
	x.readNotes()
	said := x.waitingPrompts()
	kit.True(t, slices.Equal(said, []string{"fix the login"}) && x.countUnfinished() == 0,
		"prompts %q", said)
}
