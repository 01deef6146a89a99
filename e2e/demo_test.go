package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// The demo in a real session: what a new user tries second.
func TestDemoInARealSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		requireIsolation(t)
		takeSessionSlot(t)
		exe, err := buildProgram()
		if err != nil {
			t.Fatal("build gchat-hooks:", err)
		}
		root, err := os.MkdirTemp("", "d-")
		kit.NoError(t, err)
		s := &session{t: t, Claude: c, API: newFakeModel(t, turn{questionCall(deployQuestion)}, thanksTurn), Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), processMark: rand.Text()}
		s.tmux.dir = root
		t.Cleanup(func() {
			// The session ends with its tmux server; Claude Code takes a moment to go.
			bound.WaitFor(patience, func() bool { return len(markedProcesses(sessionVariable+"="+s.processMark)) == 0 })
			for _, p := range markedProcesses(sessionVariable + "=" + s.processMark) {
				t.Errorf("the demo left %s", p)
			}
			os.RemoveAll(root)
		})
		kit.NoError(t, os.MkdirAll(s.Dir, 0o700))
		writeSettings(t, s.Home, s.Dir, nil)
		bin := filepath.Join(root, "bin")
		shim := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.Join(c.Argv, "' '"))
		kit.NoError(t, os.MkdirAll(bin, 0o700))
		kit.NoError(t, os.WriteFile(filepath.Join(bin, "claude"), []byte(shim), 0o700))
		cmd := bound.Within(t, 3*bound.Patience, exe, "demo", "--claude", "--answer", "canary")
		cmd.Dir, cmd.Env = s.Dir, s.sessionEnv([]string{"PATH=" + bin + ":" + os.Getenv("PATH")})
		out, err := cmd.CombinedOutput()
		if err != nil || !containsAll(string(out), []string{"tmux -S ", "[Answered]", "Selected: Canary"}) {
			t.Errorf("the demo showed %v: %s", err, out)
		}
		if got := s.API.WaitToolResult(t, 1); !strings.Contains(got.Text, `"="Canary"`) {
			t.Errorf("the model was told %q", got.Text)
		}
	})
}
