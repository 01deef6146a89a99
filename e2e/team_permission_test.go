package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/bound"
)

// A teammate in a tmux pane of its own asks its leader, whose terminal draws the dialog:
// no PermissionRequest comes in either. The leader's thread is told, once, with the
// teammate's name, and it is taken back when it is over.
func TestATeammatesPermissionIsSeen(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		task := toolCall("Agent", map[string]any{
			"description": "research", "prompt": agentErrand + "mkdir team", "subagent_type": "general-purpose", "name": "researcher",
		})
		b := startApproving(t, c, config{
			Env: []string{"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"}, Script: []turn{{task}, {textBlock("I wait for it.")}},
			Prepare: func(home, _ string) { setMember(t, home, "teammateMode", "tmux") },
		})
		b.Prompt("go ahead")
		note := b.awaitPost("[Permission]", "Claude waits for a permission in the terminal", "researcher needs permission for Bash")
		b.WaitScreen("researcher")
		b.reply(note, "then run the tests")
		b.awaitPostAfter(note, "[Kept]")
		b.Choose("❯ 1. Yes", "1")
		b.awaitPostAfter(note, "[Gone on]")
		bound.Until(t, "the folder", func() bool { return b.hasFolder("team") })
		b.API.WaitText(t, "then run the tests")
		if n := b.countPosts("[Permission]"); n != 1 {
			t.Errorf("told %d times:\n%s", n, b.postTexts())
		}
	})
}

// setMember puts a member into a person's settings.
func setMember(t *testing.T, home, member string, value any) {
	t.Helper()
	path := filepath.Join(home, ".claude", "settings.json")
	var settings map[string]any
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &settings) != nil {
		t.Fatal(err)
	}
	settings[member] = value
	writeFile(t, path, settings)
}
