package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
)

// withReports are the hooks of the presets approve and report.
func withReports(t testing.TB) hooks {
	all := approving(t)
	for event, entries := range reporting(t) {
		all[event] = append(all[event], entries...)
	}
	return all
}

// run runs a command of ours as the person does in the project, and returns what it prints.
func (b *bridge) run(args ...string) string {
	b.t.Helper()
	cmd := bound.Command(b.t, built(b.t), args...)
	cmd.Env, cmd.Dir = b.tmux.env, b.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Logf("%v: %v", args, err)
	}
	return string(out)
}

// after waits for a message of a thread that came after another one.
func (b *bridge) after(m *chat.Message, beginning string, parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitMessage(fmt.Sprintf("%s with %q, after %q", beginning, parts, m.Text), func(one *chat.Message) bool {
		later := one.Thread.Name == m.Thread.Name && one.Name != m.Name && one.CreateTime > m.CreateTime
		return later && strings.HasPrefix(one.Text, beginning) && holdsAll(one.Text, parts)
	})
}

// Auto mode, in which sessions of 2.1.332 begin, cannot check actions behind a gateway: each waits for its person in a dialog
// that no PermissionRequest comes for. The session's thread is told, once, also beside the preset report; nothing that is written
// there answers it; and what is written there goes to Claude when it is over.
func TestAutoModeBehindAGatewayIsSeen(t *testing.T) {
	eachClaude(t, []string{newest}, func(t *testing.T, c claude) {
		push := call("Bash", map[string]string{"command": "git push --force", "description": "push"})
		b := bridged(t, c, config{
			Hooks: withReports(t), Args: []string{"--permission-mode", "auto"},
			Script: []turn{{say("I push."), push}, {say("Pushed.")}, {say("And tested.")}},
		})
		b.Prompt("go ahead")
		b.WaitScreen("Enter to stay in auto mode")
		began := time.Now()
		note := b.await("[Permission] ", "Claude waits in the terminal: Auto mode can't check actions", "git push --force")
		t.Logf("noted %v after the dialog was seen", time.Since(began))
		if said := b.run("status"); !strings.Contains(said, "Claude waits in the terminal") {
			t.Errorf("status: %s", said)
		}
		if said := b.run("doctor"); !strings.Contains(said, "waits in its terminal") {
			t.Errorf("doctor: %s", said)
		}
		b.reply(note, "yes")
		b.after(note, "[Not used] Claude waits in the terminal, and only there")
		b.reply(note, "/status")
		b.after(note, "[Status]", "Waits for you:\n• Claude waits in the terminal")
		b.reply(note, "then run the tests")
		b.after(note, "[Kept]")
		b.Keys("Enter")
		b.WaitScreen("so this one needs your approval")
		b.after(note, "[Gone on]")
		again := b.after(note, "[Permission] ", "Claude waits for a permission in the terminal", "git push --force")
		b.WaitScreen("so this one needs your approval") // nothing was typed into it
		b.Keys("Down")
		b.Keys("Enter")
		b.told(1)
		b.after(again, "[Gone on]")
		b.WaitScreen("then run the tests")
		if n := b.count("[Permission] "); n != 2 {
			t.Errorf("told of two dialogs %d times", n)
		}
		if said := b.run("status"); strings.Contains(said, "Claude waits") {
			t.Errorf("status: %s", said)
		}
	})
}

// The form of an MCP server waits in the terminal: the session's thread is told, and words for the session are kept, and not typed
// into the form's field.
func TestAFormInTheTerminalIsSeen(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		hooks := approving(t)
		delete(hooks, onForm) // as where the preset was registered by an earlier version
		b := bridged(t, c, config{
			Hooks: hooks, Args: takesForms,
			Script:  []turn{{say("A form."), fill}, {say("Filled in.")}, {say("And tested.")}},
			Prepare: forms(t, whoAreYou),
		})
		b.Prompt("go ahead")
		b.WaitScreen("Who are you?")
		note := b.await("[Permission] ", "Claude waits in the terminal")
		before := b.Screen()
		b.reply(note, "then run the tests")
		b.after(note, "[Kept]")
		if after := b.Screen(); strings.Contains(after, "then run the tests") {
			t.Errorf("typed into the form:\n%s\nbefore:\n%s", after, before)
		}
		b.Keys("Escape")
		b.after(note, "[Gone on]")
		b.WaitScreen("then run the tests")
	})
}
