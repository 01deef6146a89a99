package e2e

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
)

// allowUntil allows calls in auto mode, whose check cannot run here, until the screen shows these words.
func (b *bridge) allowUntil(words string) {
	b.t.Helper()
	keys := []struct{ shows, key string }{{"Enter to stay in auto mode", "Enter"}, {"❯ No", "Down"}, {"❯ Yes", "Enter"}}
	bound.Until(b.t, "the screen shows "+words, func() bool {
		screen := b.Screen()
		for _, k := range keys {
			if strings.Contains(screen, k.shows) {
				b.Keys(k.key)
				bound.Soon(2*time.Second, func() bool { return !strings.Contains(b.Screen(), k.shows) })
				return false
			}
		}
		return strings.Contains(screen, words)
	})
}

// In auto mode a subagent hands its report back by a tool (2.1.332; 2.1.197 has none): that is told once, with the report.
func TestASubagentHandsBackByATool(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := bridged(t, c, config{
			Hooks: reporting(t), Args: []string{"--permission-mode", "auto"},
			Script: append(helped(c, "The sub work is done."), turn{say("Over.")}),
		})
		b.Prompt("go ahead")
		b.allowUntil("Over.")
		b.await("[Subagent Done]", "general-purpose completed task\nThe sub work is done.")
		b.Quit()
		b.await("[Session End]")
		if n := b.count("[Subagent Done]"); n != 1 {
			t.Errorf("told %d times:\n%s", n, b.texts())
		}
	})
}
