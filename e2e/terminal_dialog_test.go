package e2e

import (
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
)

// Auto mode, in which sessions of 2.1.332 begin, cannot check actions behind a gateway:
// each waits for its person in a dialog that no PermissionRequest comes for. The
// session's thread is told, once, also beside the preset report; nothing that is written
// there answers it; and what is written there goes to Claude when it is over.
func TestTerminalDialog_AutoModeNoted(t *testing.T) {
	eachClaude(t, []string{newestVersion}, func(t *testing.T, c claude) {
		push := toolCall("Bash", map[string]string{
			"command": "git push --force", "description": "push",
		})
		b := startHooked(t, c, config{
			Hooks: approveAndReportHooks(t),
			Args:  []string{"--permission-mode", "auto"},
			Script: []turn{
				{textBlock("I push."), push}, {textBlock("Pushed.")}, {textBlock("And tested.")},
			},
		})
		b.Prompt("go ahead")
		b.WaitScreen("Enter to stay in auto mode")
		began := time.Now()
		note := b.awaitPost("[Permission] ",
			"Claude waits in the terminal: Auto mode can't check actions", "git push --force")
		t.Logf("noted %v after the dialog was seen", time.Since(began))
		kit.Containsf(t, b.runCommand("status"), "Claude waits in the terminal", "status")
		kit.Containsf(t, b.runCommand("doctor"), "waits only in its terminal", "doctor")
		b.reply(note, "yes")
		b.awaitPostAfter(note, "[Not used] Only the terminal can answer this")
		b.reply(note, "/status")
		b.awaitPostAfter(note, "[Status]", "Waits for you:\n• Claude waits in the terminal")
		b.reply(note, "then run the tests")
		b.awaitPostAfter(note, "[Kept]")
		b.Keys("Enter")
		b.WaitScreen("so this one needs your approval")
		b.awaitPostAfter(note, "[Gone on]")
		again := b.awaitPostAfter(note, "[Permission] ", "waits for a permission",
			"git push --force")
		b.WaitScreen("so this one needs your approval") // nothing was typed into it
		b.Keys("Down")
		b.Keys("Enter")
		b.awaitResult(1)
		b.awaitPostAfter(again, "[Gone on]")
		b.WaitScreen("then run the tests")
		b.checkPosts(2, "[Permission] ")
		checkLacks(t, b.runCommand("status"), "Claude waits")
	})
}

// The form of an MCP server waits in the terminal: the session's thread is told, and
// words for the session are kept, and not typed into the form's field.
func TestTerminalDialog_FormNoted(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		hooks := approveHooks(t)
		delete(hooks, formEvent) // as where the preset was registered by an earlier version
		b := startHooked(t, c, config{
			Hooks: hooks,
			Args:  allowFormTool,
			Script: []turn{
				{textBlock("A form."), fakemodel.FormCall()}, {textBlock("Filled in.")},
				{textBlock("And tested.")},
			},
			Prepare: serveForms(nameForm),
		})
		b.Prompt("go ahead")
		b.WaitScreen("Who are you?")
		note := b.awaitPost("[Permission] ", "Claude waits in the terminal")
		b.reply(note, "then run the tests")
		b.awaitPostAfter(note, "[Kept]")
		b.checkNotShown("then run the tests")
		b.Keys("Escape")
		b.awaitPostAfter(note, "[Gone on]")
		b.WaitScreen("then run the tests")
	})
}
