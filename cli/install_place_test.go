package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// A program is noted before it is put anywhere.
func TestPlaceNotesFirst(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	if err := os.WriteFile(filepath.Join(home, "bin"), nil, 0o600); err != nil { // where the folder would have to be
		t.Fatal(err)
	}
	to := filepath.Join(home, "bin", "gchat-hooks")
	if err := (install{env: env, self: program(t), out: io.Discard, scope: settings.User}).place(context.Background(), to); err == nil {
		t.Error("a program was placed below a file")
	}
	if m, err := state.ReadMade(env); err != nil || !slices.Equal(m.Programs, []string{to}) {
		t.Errorf("it is noted as %v: %v", m, err)
	}
}
