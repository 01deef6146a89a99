package poller

import (
	"encoding/json"
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

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(t, os.WriteFile(path, []byte(text), mode))
}

// newEndedSession returns a session that has ended, whose person wants sessions to be
// started.
func newEndedSession(t *testing.T, as func(*state.Session)) *testSession {
	t.Helper()
	x := newTestSession(t, func(s *state.Session) { s.AcceptsCommands = false })
	program, transcript := filepath.Join(x.dir, "claude"), filepath.Join(x.dir, ".claude", "projects", "p", "t.jsonl")
	writeFile(t, program, "#!/bin/sh\necho \"$*\" >>'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
	trusted, _ := json.Marshal(map[string]any{"projects": map[string]any{x.dir: map[string]bool{"hasTrustDialogAccepted": true}}})
	writeFile(t, filepath.Join(x.dir, ".claude.json"), string(trusted), 0o600)
	writeFile(t, state.ConfigFile(x.env), `{"start_sessions": true}`, 0o600)
	writeFile(t, transcript, "{}\n", 0o600)
	x.changeSession(x.sessionID, func(s *state.Session) { s.ThreadName = "" })
	x.sessionID = endedSessionID
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", x.threadName, x.reader.chat, state.Environment(x.env), x.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-time.Hour), time.Now(), time.Now()
		s.ClaudeCommand, s.TranscriptPath = []string{program}, transcript
		if as != nil {
			as(s)
		}
	})
	x.poller.readAndAttend(t.Context())
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", inject.OwnServer(state.UserStateDir(x.env)).Socket, "kill-server").Run()
	})
	return x
}

func needsTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
}

func TestASessionIsResumedOnce(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	x.reply(x.threadName, "", "--dangerously-skip-permissions; first")
	x.reply(x.threadName, "users/1", "second")
	notes := x.readNotes()
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "[Started]") {
		t.Errorf("told %q", notes)
	}
	bound.Until(t, "it runs", func() bool { return len(x.startArguments()) > 0 })
	if got := x.startArguments(); !slices.Equal(got, []string{"--resume " + endedSessionID}) {
		t.Errorf("started with %q", got)
	}
	if got := x.waitingPrompts(); !slices.Equal(got, []string{"--dangerously-skip-permissions; first", "second"}) {
		t.Errorf("said %q", got)
	}
	if stored := x.loadSession(); !stored.IsRunning() || stored.ClaudePID <= 1 || stored.TmuxPane == "" || x.countUnfinished() > 0 {
		t.Errorf("%+v", stored)
	}
}

// A poller that is killed at any step starts nothing twice, and each message is
// delivered or gets a note.
func TestABeginningSurvivesAKill(t *testing.T) {
	t.Parallel()
	needsTmux(t)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x := newEndedSession(t, func(s *state.Session) { // killed just before it called tmux
		s.OldCommands, s.StartingAt, s.EndedAt = []state.OldCommand{c}, time.Now(), time.Now().Add(-time.Minute)
	})
	if notes := x.readNotes(); len(notes) > 0 || len(x.startArguments()) > 0 || x.countUnfinished() != 1 {
		t.Errorf("told %q, started %q, %d commands", notes, x.startArguments(), x.countUnfinished())
	}
	x.changeSession(x.sessionID, func(s *state.Session) { s.StartingAt = time.Now().Add(-time.Minute) })
	notes := x.readNotes()
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "[Not started] It was started, but it did not begin in time") ||
		!strings.Contains(notes[0], "claude --resume") || len(x.startArguments()) > 0 || x.countUnfinished() > 0 {
		t.Errorf("told %q, started %q, %d commands", notes, x.startArguments(), x.countUnfinished())
	}

	y := newEndedSession(t, func(s *state.Session) {
		// killed just after: the hook saved the session
		s.OldCommands, s.StartingAt, s.EndedAt, s.StartedAt = []state.OldCommand{c}, time.Now(), time.Time{}, time.Now().Add(time.Second)
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	if notes := y.readNotes(); len(y.startArguments()) > 0 || len(y.waitingPrompts()) != 1 {
		t.Errorf("told %q, started %q, said %q", notes, y.startArguments(), y.waitingPrompts())
	}
}

func TestWhatResumesNoSession(t *testing.T) {
	needsTmux(t)
	for name, c := range map[string]struct {
		as         func(*testSession, *state.Session)
		from, says string
		told       string // "" for nothing
	}{
		"a stranger": {nil, "users/9", "go on", ""},
		"a command":  {nil, "", "/compact", "[Not read]"},
		"an id that is an option": {func(x *testSession, was *state.Session) {
			x.changeSession("--help", func(s *state.Session) { *s = *was; s.Record, s.ID = state.Record{}, "--help" })
			x.changeSession(endedSessionID, func(s *state.Session) { s.ThreadName = "" })
			x.sessionID = "--help"
		}, "", "go on", "[Not started]"},
		"it runs elsewhere": {func(x *testSession, _ *state.Session) {
			writeFile(t, filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json"), `{"sessionId":"`+endedSessionID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"a new one runs elsewhere": {func(x *testSession, _ *state.Session) {
			// a poller was killed after it started the session
			x.changeSession(x.sessionID, func(s *state.Session) { s.TranscriptPath = "" })
			own := filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json")
			writeFile(t, own, `{"sessionId":"`+endedSessionID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"its folder is gone": {func(x *testSession, _ *state.Session) {
			x.changeSession(x.sessionID, func(s *state.Session) { s.ProjectDir = filepath.Join(x.dir, "gone") })
		}, "", "go on", "[Not started] Its folder is gone"},
		"off": {func(x *testSession, _ *state.Session) { writeFile(t, state.ConfigFile(x.env), "{}", 0o600) }, "", "go on", "[Not read]"},
		"a project's wish": {func(x *testSession, _ *state.Session) {
			writeFile(t, state.ConfigFile(x.env), "{}", 0o600)
			writeFile(t, filepath.Join(x.dir, ".claude", "gchat-hooks.json"), `{"start_sessions": true}`, 0o600)
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
			if c.told == "" && len(notes) > 0 || c.told != "" && (len(notes) != 1 || !strings.HasPrefix(notes[0], c.told)) {
				t.Errorf("told %q", notes)
			}
			if slices.ContainsFunc(notes, func(text string) bool {
				return strings.HasPrefix(text, "[Not started]") && strings.Contains(text, "claude --resume")
			}) {
				t.Errorf("what the terminal cannot do, either, is told to be typed there: %q", notes)
			}
			time.Sleep(100 * time.Millisecond)
			if len(x.startArguments()) > 0 {
				t.Errorf("started with %q", x.startArguments())
			}
		})
	}
}

// A new session is created once, however often its message is read, in a project that
// is known and trusted. A path does not name a project.
func TestNewSessions(t *testing.T) {
	needsTmux(t)
	x := newEndedSession(t, nil)
	shop := filepath.Join(x.dir, "shop")
	for _, dir := range []string{"work/app", "home/app", "stranger", "shop", "shop of mine"} {
		dir = filepath.Join(x.dir, dir)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		kit.NoError(t, state.RegisterProject(x.env, filepath.Join(dir, ".claude", "state"), dir))
	}
	if err := exec.Command("git", "init", "-q", filepath.Join(x.dir, "stranger")).Run(); err != nil {
		// otherwise the folder above counts as trusted
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/new ../../etc words": "No project", "/new " + shop + " words": "No project", "/new str words": "No project",
		"/new app words": "Several projects", "/new shop": "Name a project", "/NEW": "Name a project",
	} {
		x.reply(x.threadName, "", text)
		// The test removes the receipts, so a message that is listed again gets its
		// note again.
		notes := x.readNotes()
		if !slices.ContainsFunc(notes, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%s: told %q", text, notes)
		}
	}
	x.reply(x.threadName, "users/9", "/new shop mine")
	x.reply(x.threadName, "", "/new shop Of mine --model opus\nand; more")
	for range 3 {
		x.readNotes()
	}
	bound.Until(t, "it runs", func() bool { return len(x.startArguments()) > 0 })
	got := x.startArguments()
	if len(got) != 1 || !strings.HasPrefix(got[0], "--session-id ") || strings.Contains(got[0], "opus") {
		t.Errorf("started with %q", got)
	}
	if said := x.waitingPrompts(); !slices.Equal(said, []string{"--model opus\nand; more"}) {
		t.Errorf("said %q", said)
	}
	all, _ := state.SessionsIn(state.UserStateDir(x.env)).All()
	if !slices.ContainsFunc(all, func(s *state.Session) bool { return s.ProjectDir == filepath.Join(x.dir, "shop of mine") }) {
		t.Error("it runs in another project")
	}
}
