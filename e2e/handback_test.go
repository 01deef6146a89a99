package e2e

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
)

// allowUntilShown allows calls in auto mode, whose check cannot run here, until the
// screen shows these words.
func (b *hookedSession) allowUntilShown(words string) {
	b.t.Helper()
	keys := []struct{ shows, key string }{{"Enter to stay in auto mode", "Enter"}, {"❯ No", "Down"}, {"❯ Yes", "Enter"}}
	bound.Until(b.t, "the screen shows "+words, func() bool {
		screen := b.Screen()
		for _, k := range keys {
			if strings.Contains(screen, k.shows) {
				b.Keys(k.key)
				bound.WaitFor(2*time.Second, func() bool { return !strings.Contains(b.Screen(), k.shows) })
				return false
			}
		}
		return strings.Contains(screen, words)
	})
}

// In auto mode a subagent hands its report back by a tool (2.1.332; 2.1.197 has none):
// that is told once, with the report.
func TestASubagentHandsBackByATool(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startHooked(t, c, config{
			Hooks: reportHooks(t), Args: []string{"--permission-mode", "auto"},
			Script: append(subagentTurns(c, "The sub work is done."), turn{textBlock("Over.")}),
		})
		b.Prompt("go ahead")
		b.allowUntilShown("Over.")
		b.awaitPost("[Subagent Done]", "general-purpose completed task\nThe sub work is done.")
		b.Quit()
		b.awaitPost("[Session End]")
		if n := b.countPosts("[Subagent Done]"); n != 1 {
			t.Errorf("told %d times:\n%s", n, b.postTexts())
		}
	})
}
