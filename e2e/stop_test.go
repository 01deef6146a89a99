package e2e

import (
	"strings"
	"testing"

	"gchat-hooks/inject"
)

// A /stop before Claude said anything has Claude Code put the prompt back into its box.
// What we typed is taken out of it again, and what is said next goes in.
func TestAStopBeforeTheFirstWord(t *testing.T) {
	for name, words := range map[string]string{
		"words":      "yes, and publish it",
		"long words": "yes, and publish it: " + strings.Repeat("the whole of it, with each part in its place, ", 6) + "today",
		"two lines":  "yes,\nand publish \"it\"; then rest  twice",
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startApproving(t, c, config{Script: []turn{askBackTurn, {emptyBlock}, thanksTurn}})
				b.Prompt("go ahead")
				q := b.awaitPost("[Waiting for you]")
				b.reply(q, words)
				b.awaitPost("[Sent]")
				b.awaitBusy()
				b.reply(q, "/stop")
				b.awaitPost("[Stopped]")
				b.reply(q, "rather the other")
				b.API.WaitText(t, "rather the other")
			})
		})
	}
}

// awaitBusy waits until Claude works.
func (b *hookedSession) awaitBusy() {
	b.t.Helper()
	b.WaitScreenFunc("Claude works", func(string) bool {
		capture, err := b.capture()
		return err == nil && inject.ReadScreen(capture).Busy
	})
}
