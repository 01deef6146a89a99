package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// What is noted goes last: an uninstall that fails half-way, or is killed, can be run again and finds the rest.
func TestPurgeForgetsLast(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a [home]*")
	bin := filepath.Join(home, "bin")
	env := func(name string) string {
		return map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": home}[name]
	}
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	placed := install{env: env, self: program(t), out: io.Discard, scope: settings.User}
	if err := placed.place(context.Background(), filepath.Join(bin, "gchat-hooks")); err != nil {
		t.Fatal(err)
	}
	log := state.LogPath(env)
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fails := range []error{errors.New("interrupted"), nil} {
		p := &purge{env: env, self: "/elsewhere/gchat-hooks", out: io.Discard}
		if err := p.look(context.Background()); err != nil {
			t.Fatal(err)
		}
		p.add(part{name: "the last", what: []string{"x"}, gone: func(context.Context) error {
			if m, err := state.ReadMade(env); err != nil || !slices.Contains(m.Folders, bin) {
				t.Errorf("it is forgotten before all is gone: %v %v", m, err)
			}
			return fails
		}})
		if err := p.remove(context.Background()); !errors.Is(err, fails) {
			t.Errorf("it says %v, want %v", err, fails)
		}
		if _, err := os.Lstat(state.UserState(env)); (err == nil) != (fails != nil) {
			t.Errorf("after %v, the state: %v", fails, err)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("there are still %v %v", left, err)
	}
}
