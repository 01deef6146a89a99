package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// TestVersion_IsTheSameEverywhere compares the places that name the version: the program,
// the changelog's newest release and the plugins.
func TestVersion_IsTheSameEverywhere(t *testing.T) {
	changeToRoot(t)
	if !strings.HasPrefix(version(), state.ReleaseVersion) {
		t.Errorf("the program says %s", version())
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	kit.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(changelog), -1)
	if len(headings) < 2 || headings[0][1] != "Unreleased" || headings[1][1] != state.ReleaseVersion {
		t.Errorf("the changelog has the headings %q", headings)
	}
	plugins, err := filepath.Glob("plugins/*/.claude-plugin/plugin.json")
	if err != nil || len(plugins) == 0 {
		t.Fatal("no plugins", err)
	}
	for _, path := range plugins {
		b, err := os.ReadFile(path)
		kit.NoError(t, err)
		var plugin struct{ Version string }
		if err := json.Unmarshal(b, &plugin); err != nil || plugin.Version != state.ReleaseVersion {
			t.Errorf("%s has version %q (%v)", path, plugin.Version, err)
		}
	}
}
