package e2e

import (
	"strings"
	"testing"
)

// A guarded session that wants to stop is sent back to ask; its question, which waits in
// the space, then lets it stop.
func TestGuardedSessionAsksBeforeItStops(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		h := denyHooks(t)
		h["Stop"] = append(h["Stop"], hook{Command: builtProgram(t) + " hook gchat-stop-gate", Timeout: 10})
		b := startDenying(t, c, config{Hooks: h, Script: []turn{{textBlock("All is done.")}, {questionCall(deployQuestion)}, goOnTurn, actTurn}, Env: []string{"CLAUDE_SESSION_ID=s3-live-1"}})
		b.Prompt("go ahead")
		b.API.WaitText(t, "Ask with the AskUserQuestion tool what comes next")
		q := b.awaitPost("[AskUserQuestion] Session: s3-live-1")
		b.WaitScreen("I go on meanwhile.")
		b.WaitIdle()
		if strings.Contains(b.Screen(), "Acting on it.") {
			t.Error("sent back twice")
		}
		b.reply(q, "3")
		b.API.WaitText(t, `="Canary"`)
		b.WaitScreen("Acting on it.")
	})
}
