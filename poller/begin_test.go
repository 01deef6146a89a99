package poller

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const endedID = "5f0c8a52-8b25-4a59-9f6e-3a7d1f0f8a11"

// newEnded is a session that has ended, whose person wants sessions to be started. What stands for Claude Code writes down its
// arguments, and stays; what it cannot prove, e2e does.
func newEnded(t *testing.T, as func(*state.Session)) (x *talk, args string) {
	t.Helper()
	x = newTalk(t, nil)
	home := t.TempDir()
	x.env = withEnv(x.env, "HOME", home)
	x.p.Env = x.env
	args = filepath.Join(home, "args")
	program := filepath.Join(home, "claude")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(program, "#!/bin/sh\nprintf '%s\\n' \"$@\" >>'"+args+"'\nexec sleep 60\n", 0o700)
	trusted, _ := json.Marshal(map[string]any{"projects": map[string]any{x.dir: map[string]bool{"hasTrustDialogAccepted": true}}})
	write(filepath.Join(home, ".claude.json"), string(trusted), 0o600)
	write(state.ConfigFile(x.env), `{"start_sessions": true}`, 0o600)
	write(filepath.Join(home, "projects", "p", "t.jsonl"), "{}\n", 0o600)
	x.id = endedID
	x.session(x.id, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Env, s.ProjectDir = "shop", x.thread, x.r.chat, state.Environment(x.env), x.dir
		s.Listens, s.StartedAt, s.LastSeen, s.EndedAt = true, time.Now().Add(-time.Hour), time.Now(), time.Now()
		s.ClaudePID, s.ClaudeStart = 1<<22+1, ""
		s.Program, s.TranscriptPath = []string{program}, filepath.Join(home, "projects", "p", "t.jsonl")
		if as != nil {
			as(s)
		}
	})
	t.Cleanup(func() {
		if pid := x.is().ClaudePID; pid > 1 && pid < 1<<22 {
			_ = inject.Own(state.UserState(x.env)).End(t.Context())
		}
	})
	return x, args
}
