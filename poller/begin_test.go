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
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const endedID = "5f0c8a52-8b25-4a59-9f6e-3a7d1f0f8a11"

// begun is what stands for Claude Code was started with, each time; what such a program cannot prove, e2e does.
func (x *talk) begun() (with []string) {
	b, _ := os.ReadFile(filepath.Join(x.dir, "args"))
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")[:strings.Count(string(b), "\n")]
}

func writeAll(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// newEnded is a session that has ended, whose person wants sessions to be started.
func newEnded(t *testing.T, as func(*state.Session)) *talk {
	t.Helper()
	x := newTalk(t, func(s *state.Session) { s.AcceptsCommands = false })
	program, transcript := filepath.Join(x.dir, "claude"), filepath.Join(x.dir, ".claude", "projects", "p", "t.jsonl")
	writeAll(t, program, "#!/bin/sh\necho \"$*\" >>'"+x.dir+"/args'\nexec sleep 60\n", 0o700)
	trusted, _ := json.Marshal(map[string]any{"projects": map[string]any{x.dir: map[string]bool{"hasTrustDialogAccepted": true}}})
	writeAll(t, filepath.Join(x.dir, ".claude.json"), string(trusted), 0o600)
	writeAll(t, state.ConfigFile(x.env), `{"start_sessions": true}`, 0o600)
	writeAll(t, transcript, "{}\n", 0o600)
	x.session(x.id, func(s *state.Session) { s.ThreadName = "" })
	x.id = endedID
	x.session(x.id, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir = "shop", x.thread, x.r.chat, state.Environment(x.env), x.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-time.Hour), time.Now(), time.Now()
		s.ClaudeCommand, s.TranscriptPath = []string{program}, transcript
		if as != nil {
			as(s)
		}
	})
	x.p.round(t.Context())
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", inject.Own(state.UserStateDir(x.env)).Socket, "kill-server").Run()
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
	x := newEnded(t, nil)
	x.reply(x.thread, "", "--dangerously-skip-permissions; first")
	x.reply(x.thread, "users/1", "second")
	told := x.hears()
	if len(told) != 1 || !strings.HasPrefix(told[0], "[Started]") {
		t.Errorf("told %q", told)
	}
	bound.Until(t, "it runs", func() bool { return len(x.begun()) > 0 })
	if got := x.begun(); !slices.Equal(got, []string{"--resume " + endedID}) {
		t.Errorf("started with %q", got)
	}
	if got := x.said(); !slices.Equal(got, []string{"--dangerously-skip-permissions; first", "second"}) {
		t.Errorf("said %q", got)
	}
	if is := x.is(); !is.IsRunning() || is.ClaudePID <= 1 || is.TmuxPane == "" || x.left() > 0 {
		t.Errorf("%+v", is)
	}
}

// A poller that is killed at any step starts nothing twice, and what was said is said or told of.
func TestABeginningSurvivesAKill(t *testing.T) {
	t.Parallel()
	needsTmux(t)
	c := state.OldCommand{MessageName: "spaces/local/messages/m", Sender: "users/1", Text: "go on", LocalCreatedAt: time.Now()}
	x := newEnded(t, func(s *state.Session) { // just before tmux was called
		s.OldCommands, s.StartingAt, s.EndedAt = []state.OldCommand{c}, time.Now(), time.Now().Add(-time.Minute)
	})
	if told := x.hears(); len(told) > 0 || len(x.begun()) > 0 || x.left() != 1 {
		t.Errorf("told %q, started %q, %d commands", told, x.begun(), x.left())
	}
	x.session(x.id, func(s *state.Session) { s.StartingAt = time.Now().Add(-time.Minute) })
	told := x.hears()
	if len(told) != 1 || !strings.HasPrefix(told[0], "[Not started] It was started, and not seen to begin") ||
		!strings.Contains(told[0], "claude --resume") || len(x.begun()) > 0 || x.left() > 0 {
		t.Errorf("told %q, started %q, %d commands", told, x.begun(), x.left())
	}

	y := newEnded(t, func(s *state.Session) { // just after: its hook wrote it down
		s.OldCommands, s.StartingAt, s.EndedAt, s.StartedAt = []state.OldCommand{c}, time.Now(), time.Time{}, time.Now().Add(time.Second)
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.StartOf(os.Getpid())
	})
	if told := y.hears(); len(y.begun()) > 0 || len(y.said()) != 1 {
		t.Errorf("told %q, started %q, said %q", told, y.begun(), y.said())
	}
}

func TestWhatResumesNoSession(t *testing.T) {
	needsTmux(t)
	for name, c := range map[string]struct {
		as         func(*talk, *state.Session)
		from, says string
		told       string // "" for nothing
	}{
		"a stranger": {nil, "users/9", "go on", ""},
		"a command":  {nil, "", "/compact", "[Not read]"},
		"an id that is an option": {func(x *talk, was *state.Session) {
			x.session("--help", func(s *state.Session) { *s = *was; s.Record, s.ID = state.Record{}, "--help" })
			x.session(endedID, func(s *state.Session) { s.ThreadName = "" })
			x.id = "--help"
		}, "", "go on", "[Not started]"},
		"it runs elsewhere": {func(x *talk, _ *state.Session) {
			writeAll(t, filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json"), `{"sessionId":"`+endedID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"a new one runs elsewhere": {func(x *talk, _ *state.Session) { // a poller was killed that had started it
			x.session(x.id, func(s *state.Session) { s.TranscriptPath = "" })
			own := filepath.Join(x.dir, ".claude", "sessions", strconv.Itoa(os.Getpid())+".json")
			writeAll(t, own, `{"sessionId":"`+endedID+`"}`, 0o600)
		}, "", "go on", "[Not started] It runs in another terminal"},
		"its folder is gone": {func(x *talk, _ *state.Session) {
			x.session(x.id, func(s *state.Session) { s.ProjectDir = filepath.Join(x.dir, "gone") })
		}, "", "go on", "[Not started] Its folder is gone"},
		"off": {func(x *talk, _ *state.Session) { writeAll(t, state.ConfigFile(x.env), "{}", 0o600) }, "", "go on", "[Not read]"},
		"a project's wish": {func(x *talk, _ *state.Session) {
			writeAll(t, state.ConfigFile(x.env), "{}", 0o600)
			writeAll(t, filepath.Join(x.dir, ".claude", "gchat-hooks.json"), `{"start_sessions": true}`, 0o600)
		}, "", "go on", "[Not read]"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newEnded(t, nil)
			if c.as != nil {
				c.as(x, x.is())
			}
			x.p.round(t.Context())
			x.reply(x.thread, c.from, c.says)
			told := x.hears()
			if c.told == "" && len(told) > 0 || c.told != "" && (len(told) != 1 || !strings.HasPrefix(told[0], c.told)) {
				t.Errorf("told %q", told)
			}
			if slices.ContainsFunc(told, func(text string) bool {
				return strings.HasPrefix(text, "[Not started]") && strings.Contains(text, "claude --resume")
			}) {
				t.Errorf("what the terminal cannot do, either, is told to be typed there: %q", told)
			}
			time.Sleep(100 * time.Millisecond)
			if len(x.begun()) > 0 {
				t.Errorf("started with %q", x.begun())
			}
		})
	}
}

// A new session is one, however often its message is read, in a project that is known and trusted, and by no path.
func TestNewSessions(t *testing.T) {
	needsTmux(t)
	x := newEnded(t, nil)
	shop := filepath.Join(x.dir, "shop")
	for _, dir := range []string{"work/app", "home/app", "stranger", "shop", "shop of mine"} {
		dir = filepath.Join(x.dir, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := state.RegisterProject(x.env, filepath.Join(dir, ".claude", "state"), dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := exec.Command("git", "init", "-q", filepath.Join(x.dir, "stranger")).Run(); err != nil { // else the folder above counts
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/new ../../etc words": "No project", "/new " + shop + " words": "No project", "/new str words": "No project",
		"/new app words": "Several projects", "/new shop": "Say what", "/NEW": "Say what",
	} {
		x.reply(x.thread, "", text)
		told := x.hears() // what is listed again is told again here, since the test takes the receipts away
		if !slices.ContainsFunc(told, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%s: told %q", text, told)
		}
	}
	x.reply(x.thread, "users/9", "/new shop mine")
	x.reply(x.thread, "", "/new shop Of mine --model opus\nand; more")
	for range 3 {
		x.hears()
	}
	bound.Until(t, "it runs", func() bool { return len(x.begun()) > 0 })
	got := x.begun()
	if len(got) != 1 || !strings.HasPrefix(got[0], "--session-id ") || strings.Contains(got[0], "opus") {
		t.Errorf("started with %q", got)
	}
	if said := x.said(); !slices.Equal(said, []string{"--model opus\nand; more"}) {
		t.Errorf("said %q", said)
	}
	all, _ := state.SessionsIn(state.UserStateDir(x.env)).All()
	if !slices.ContainsFunc(all, func(s *state.Session) bool { return s.ProjectDir == filepath.Join(x.dir, "shop of mine") }) {
		t.Error("it runs in another project")
	}
}
