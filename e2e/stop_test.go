package e2e

import (
	"strings"
	"testing"

	"gchat-hooks/inject"
)

// A /stop before Claude said anything has Claude Code put the prompt back into its box. What we typed is taken out of it again, and
// what is said next goes in.
func TestAStopBeforeTheFirstWord(t *testing.T) {
	for name, words := range map[string]string{
		"words":      "yes, and publish it",
		"long words": "yes, and publish it: " + strings.Repeat("the whole of it, with each part in its place, ", 6) + "today",
		"two lines":  "yes,\nand publish \"it\"; then rest  twice",
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, c claude) {
				b := approve(t, c, config{Script: []turn{asksBack, {silence}, thanks}})
				b.Prompt("go ahead")
				q := b.await("[Waiting for you]")
				b.reply(q, words)
				b.await("[Sent]")
				b.busy()
				b.reply(q, "/stop")
				b.await("[Stopped]")
				b.reply(q, "rather the other")
				b.API.WaitText(t, "rather the other")
			})
		})
	}
}

// busy waits until Claude works.
func (b *bridge) busy() {
	b.t.Helper()
	b.WaitScreenFunc("Claude works", func(string) bool {
		capture, err := b.capture()
		return err == nil && inject.ReadScreen(capture).Busy
	})
}
