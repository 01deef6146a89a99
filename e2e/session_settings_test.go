package e2e

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// amendJSON puts members into a JSON file.
func amendJSON(t *testing.T, path string, members map[string]any) {
	t.Helper()
	all := map[string]any{}
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &all) != nil {
		t.Fatal(path, err)
	}
	maps.Copy(all, members)
	writeFile(t, path, all)
}

// hooks is what a settings.json registers: event name → entries.
type hooks map[string][]hook

// A hook is one command of one event.
type hook struct {
	Matcher     string // "" matches everything
	Command     string // run by a shell
	Timeout     int    // seconds, 0 leaves Claude Code's default
	AsyncRewake bool
}

// MarshalJSON writes Claude Code's own form, a matcher with a list of commands.
func (h hook) MarshalJSON() ([]byte, error) {
	type command struct {
		Type        string `json:"type"`
		Command     string `json:"command"`
		Timeout     int    `json:"timeout,omitempty"`
		AsyncRewake bool   `json:"asyncRewake,omitempty"`
	}
	return json.Marshal(struct {
		Matcher string    `json:"matcher,omitempty"`
		Hooks   []command `json:"hooks"`
	}{h.Matcher, []command{{"command", h.Command, h.Timeout, h.AsyncRewake}}})
}

// personalConfig is the file of a person's own configuration, as [config] names it.
const personalConfig = "~/.config/gchat-hooks/config.json"

// writeSettings writes the files of a HOME whose owner has been through onboarding,
// trusts project and approved the key, so that a session starts at its prompt.
func writeSettings(t *testing.T, home, project string, h hooks) {
	t.Helper()
	person := fakemodel.PersonState(project)
	person["bypassPermissionsModeAccepted"] = true
	writeFile(t, filepath.Join(home, ".claude.json"), person)
	settings := fakemodel.Settings()
	if len(h) > 0 {
		settings["hooks"] = h
	}
	writeFile(t, filepath.Join(home, ".claude", "settings.json"), settings)
}

func writeFile(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	kit.NoError(t, err)
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	// At once: a hook may wait for it, and must not read a half of it.
	kit.NoError(t, errors.Join(os.WriteFile(path+".new", raw, 0o600), os.Rename(path+".new", path)))
}

// amendSettings puts members into a person's settings.
func amendSettings(t *testing.T, home string, members map[string]any) {
	t.Helper()
	amendJSON(t, filepath.Join(home, ".claude", "settings.json"), members)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// runIn runs a command in a folder with that environment, and returns what it prints.
func runIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	return runWithInput(t, "", dir, env, name, args...)
}

// runWithInput is runIn with a standard input.
func runWithInput(t *testing.T, input, dir string, env []string, name string,
	args ...string) string {
	t.Helper()
	cmd := bound.Command(t, name, args...)
	cmd.Stdin, cmd.Dir, cmd.Env = strings.NewReader(input), dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// lookupIn looks a variable up in an environment, whose last word counts.
func lookupIn(env []string) func(name string) string {
	return func(name string) (value string) {
		for _, pair := range env {
			if is, found := strings.CutPrefix(pair, name+"="); found {
				value = is
			}
		}
		return value
	}
}

func absPath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	kit.NoError(t, err)
	return path
}
