package inject

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSessionOfAsksTheRealTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("tmux is missing")
		}
		t.Skip("needs tmux")
	}
	socket := filepath.Join(t.TempDir(), "s")
	tmux := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("tmux", append([]string{"-S", socket, "-f", os.DevNull}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	first := tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "first", "sleep 60")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() })
	second := tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "orch epic4", "sleep 60")
	for pane, want := range map[string]string{first: "first", second: "orch epic4"} {
		if got, err := SessionOf(t.Context(), socket+",1,0", pane); err != nil || got != want {
			t.Errorf("pane %s: %q, %v; want %q", pane, got, err, want)
		}
	}
	for _, c := range [][2]string{{"", first}, {socket + ",1,0", ""}, {socket + ",1,0", "first"}, {socket + ",1,0", "%0; kill-server"}, {socket + "x,1,0", first}} {
		if got, err := SessionOf(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%q: %q", c, got)
		}
	}
	tmux("has-session", "-t", "=first")
}
