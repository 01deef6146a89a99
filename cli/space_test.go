package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// The page offers projects that Claude Code trusts, by names that are shown as they are, and none where sessions cannot be begun.
func TestThePageOffersTrustedProjects(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	trusted := map[string]map[string]bool{}
	for i, name := range []string{"web-shop", "api", "sub/api", "stranger", "\u202egpj.evil", "<script>"} {
		dir := filepath.Join(home, "src", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := state.Register(env, filepath.Join(dir, ".claude", "state"), dir); err != nil {
			t.Fatal(err)
		}
		trusted[dir] = map[string]bool{"hasTrustDialogAccepted": i != 3}
	}
	b, _ := json.Marshal(map[string]any{"projects": trusted})
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.SetMember(state.ConfigFile(env), "start_sessions", true); err != nil {
		t.Fatal(err)
	}
	door := &spaceDoor{Program: Program{env: env}}
	if names, start := door.projects(); !start || fmt.Sprint(names) != "[<script> api web-shop]" {
		t.Errorf("offers %q, %v", names, start)
	}
	if err := config.SetMember(state.ConfigFile(env), "start_sessions", false); err != nil {
		t.Fatal(err)
	}
	if names, start := door.projects(); start || names != nil {
		t.Errorf("offers %q, %v where sessions cannot be begun", names, start)
	}
}
