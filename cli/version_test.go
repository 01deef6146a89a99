package cli

import (
	"encoding/json"
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
	changelog := kit.ReadFile(t, "CHANGELOG.md")
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(changelog, -1)
	if len(headings) < 2 || headings[0][1] != "Unreleased" || headings[1][1] != state.ReleaseVersion {
		t.Errorf("the changelog has the headings %q", headings)
	}
	plugins, err := filepath.Glob("plugins/*/.claude-plugin/plugin.json")
	if err != nil || len(plugins) == 0 {
		t.Fatal("no plugins", err)
	}
	for _, path := range plugins {
		var plugin struct{ Version string }
		kit.NoError(t, json.Unmarshal([]byte(kit.ReadFile(t, path)), &plugin))
		kit.Equalf(t, plugin.Version, state.ReleaseVersion, "the version in %s", path)
	}
}
