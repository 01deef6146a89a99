package commands

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// These tests fail if anything slow happens while a record is locked.
func TestMain(m *testing.M) { os.Exit(underlock.Run(m)) }

// A draft in the input box is not what Claude works on.
func TestTerminalCommands_DraftIsNoWork(t *testing.T) {
	rule := strings.Repeat("─", 60)
	runner := Runner{
		Log: state.NewLog(func(string) string { return "" }, "test"), Config: &config.Config{},
	}
	screen := []string{
		"❯ go ahead", "", "✻ Working… (3s)", rule, "❯ my draft", rule, "  ? for shortcuts",
	}
	kit.Contains(t, runner.currentWork(screen), "go ahead")
}

// What a person reads about a session. If a question is open in Chat, its dialog waits
// for the person.
func TestTerminalCommands_ScreenState(t *testing.T) {
	for _, c := range []struct {
		screen inject.Screen
		err    error
		asked  bool
		want   string
	}{
		{screen: inject.Screen{Shows: inject.Prompt, Busy: true}, want: "works"},
		// deny mode: Claude continues
		{screen: inject.Screen{Shows: inject.Prompt, Busy: true}, asked: true, want: "works"},
		{screen: inject.Screen{Shows: inject.Question, Busy: true}, want: "dialog open"},
		{screen: inject.Screen{Shows: inject.Permission}, asked: true, want: "waits for you"},
		{screen: inject.Screen{Shows: inject.Prompt}, want: "idle"},
		{screen: inject.Screen{Shows: inject.Draft}, want: "idle"},
		{screen: inject.Screen{Shows: inject.Prompt}, asked: true, want: "waits for you"},
		{screen: inject.Screen{Why: "a shell"}, want: "out of reach"},
		{err: inject.ErrNoTmux, want: "out of reach"},
		{err: inject.ErrNoTmux, asked: true, want: "waits for you"},
	} {
		kit.Equalf(t, screenState(c.screen, c.err, c.asked), c.want, "%+v, %v, asked %v",
			c.screen.Shows, c.err, c.asked)
	}
}

// After /clear, two sessions share a thread. It belongs to the one that was seen last.
func TestTerminalCommands_ThreadOfLastSession(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	now := time.Now()
	for id, one := range map[string]state.Session{
		"a": {
			ThreadName: "spaces/s/threads/1", LastSeen: now.Add(-time.Minute), EndedAt: now,
			AcceptsCommands: true,
		},
		"b": {ThreadName: "spaces/s/threads/1", LastSeen: now, AcceptsCommands: true},
		"c": {ThreadName: "spaces/s/threads/2", LastSeen: now, EndedAt: now, AcceptsCommands: true},
		"d": {LastSeen: now},
		"e": {
			ThreadName: "spaces/s/threads/4", LastSeen: now, AcceptsCommands: true, TmuxPane: "%1",
		},
	} {
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(id, func(s *state.Session) {
			s.ThreadName, s.LastSeen, s.EndedAt, s.AcceptsCommands =
				one.ThreadName, one.LastSeen, one.EndedAt, one.AcceptsCommands
			s.TmuxPane = one.TmuxPane
		})
		kit.NoError(t, err)
	}
	for thread, want := range map[string]string{
		"spaces/s/threads/1": "out of reach true true", "spaces/s/threads/2": "ended false false",
		"spaces/s/threads/3": " false false", "": " false false",
		"spaces/s/threads/4": "out of reach true false",
	} {
		does, reads, outside := DescribeThread(t.Context(), env, thread)
		kit.True(t, fmt.Sprint(does, " ", reads, " ", outside) == want,
			"%s: %q %v %v, want %q", thread, does, reads, outside, want)
	}
}
