package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// formEvent is the event of a form.
const formEvent = "Elicitation"

// formServer as the first argument turns the test binary into an MCP server. The n-th
// call of its one tool asks its user for the n-th form in a file. The result is what came
// back, which is also added to another file: of a call that was broken off there is no
// result.
const formServer = "form-server"

// answersSuffix ends the name of the file with what came back.
const answersSuffix = ".answers"

// allowFormTool are the arguments that allow the server's tool.
var allowFormTool = []string{"--allowedTools", "mcp__form__ask"}

// nameForm is a form with one field.
var nameForm = claudecheck.NameForm()

func runFormServer(file string) int {
	raw, err := os.ReadFile(file)
	var forms []map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &forms)
	}
	if err == nil {
		err = claudecheck.ServeForms(os.Stdin, os.Stdout, forms, func(answer string) error {
			return appendLine(file+answersSuffix, answer)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "form server:", err)
		return 1
	}
	return 0
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// serveForms has a session use a server that asks for these forms, one after another.
func serveForms(forms ...map[string]any) (prepare func(t *testing.T, home, project string)) {
	return func(t *testing.T, home, project string) {
		file := filepath.Join(home, "forms.json")
		writeFile(t, file, forms)
		server := map[string]any{"command": testBinary(), "args": []string{formServer, file}}
		writeFile(t, filepath.Join(project, ".mcp.json"), map[string]any{
			"mcpServers": map[string]any{"form": server},
		})
		amendSettings(t, home, map[string]any{"enableAllProjectMcpServers": true})
	}
}

// formOfAllKinds is a form with a field of each kind.
var formOfAllKinds = map[string]any{
	"message": "Book a table?",
	"requestedSchema": map[string]any{
		"type": "object", "required": []string{"name", "seats"}, "properties": map[string]any{
			"name":  map[string]any{"type": "string", "title": "Your name"},
			"seats": map[string]any{"type": "integer", "minimum": 1, "maximum": 8},
			"smoke": map[string]any{"type": "boolean", "default": false},
			"place": map[string]any{
				"type":      "string",
				"enum":      []string{"in", "out"},
				"enumNames": []string{"Inside", "Outside"},
			},
			"food": map[string]any{
				"type":  "array",
				"items": map[string]any{"type": "string", "enum": []string{"a", "b"}},
			},
		},
	},
}

// drawnForm is what a form's dialog says, in both versions.
const drawnForm = "requests your input"

// A form is filled in by a reply, declined, and filled in while the poller is killed. Its
// dialog is not drawn meanwhile. No value of it is left.
func TestElicitation_FilledInFromChat(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Args:    allowFormTool,
		Prepare: serveForms(formOfAllKinds),
		Script: []turn{
			{fakemodel.FormCall()}, {fakemodel.FormCall()}, {fakemodel.FormCall()}, {textBlock("All are done.")},
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Form] Session:", `"form"`, "Book a table?", "Your name (name)",
			"does not show it")
		b.reply(q, "name: Ann Secret\nseats: 9")
		b.awaitPostInThread(q, "[Not used]", "seats: it takes")
		b.checkNotShown(drawnForm)
		b.reply(q, "name: Ann Secret\nseats: 2\nplace: outside\nfood: a, b")
		b.awaitResult(1,
			`{"food":["a","b"],"name":"Ann Secret","place":"out","seats":2,"smoke":false}`,
			`"action":"accept"`)
		b.awaitPostInThread(q, "[Answered]", "Accepted.")
		second := b.awaitNthPost(2, "[Form]")
		b.reply(second, "decline")
		b.awaitResult(2, `"action":"decline"`)
		b.awaitPostInThread(second, "[Answered]", "Declined.")
		third := b.awaitNthPost(3, "[Form]")
		b.killProcess("poller --detached")
		b.reply(third, "2: Ann Secret\n1: c")
		b.awaitPostInThread(third, "[Not used]", "1. food: it takes one or more of these")
		b.killProcess("poller --detached")
		b.reply(third, "name: Ann Secret\nseats: 3")
		b.awaitResult(3, `"seats":3`, `"action":"accept"`)
		b.awaitPostInThread(third, "[Answered]", "Accepted.")
		b.WaitScreen("All are done.")
		b.checkAbsent("Ann Secret")
	})
}

// checkAbsent checks that a text stands in no record and no log of ours.
func (b *hookedSession) checkAbsent(text string) {
	b.t.Helper()
	for _, dir := range []string{".local/state/gchat-hooks", ".claude/logs"} {
		left := ""
		bound.WaitFor(bound.Patience, func() bool {
			left = ""
			_ = filepath.WalkDir(filepath.Join(b.Home, dir), func(path string, _ os.DirEntry, _ error) error {
				if raw, err := os.ReadFile(path); err == nil &&
					strings.Contains(string(raw), text) {
					left = path + ": " + string(raw)
				}
				return nil
			})
			return left == ""
		})
		kit.Equalf(b.t, left, "", "%q is left in", text)
	}
}

// askForName has Claude call a tool whose server asks for a name.
func askForName() config {
	return config{
		Args:    allowFormTool,
		Prepare: serveForms(nameForm),
		Script:  []turn{{fakemodel.FormCall()}, thanksTurn},
	}
}

// Whoever is at the keyboard gets the dialog. What was filled in there is told as
// accepted, and not what it was.
func TestElicitation_GoesToTheKeyboard(t *testing.T) {
	eachSession(t, testedVersions, startApproving, askForName(), func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Form]", "Who are you?")
		b.sitDown(t)
		b.WaitScreen(drawnForm)
		b.awaitPostInThread(q, "[In the terminal]", "answer it there")
		b.reply(q, "name: Ben")
		b.awaitPostInThread(q, "[Not used]", "In the terminal since")
		b.Type("Ann Secret")
		b.Keys("Enter")
		b.WaitScreenFunc("the value",
			func(screen string) bool { return strings.Contains(screen, "✔ name: Ann Secret") })
		b.Choose("❯ Accept", "Enter")
		b.awaitResult(1, `{"name":"Ann Secret"}`)
		b.awaitPostInThread(q, "[Answered]", "Accepted.", "in the terminal")
		b.WaitScreen("Thanks, understood.")
		b.checkAbsent("Ann Secret")
		b.checkPosts(0, "[Permission]")
	})
}

// Esc while the dialog is hidden ends the turn. No hook is told, and a reply comes too
// late. The form's hook has it cancelled: its dialog, which nobody asked for, is not
// drawn.
func TestElicitation_EscCancelsHiddenForm(t *testing.T) {
	eachSession(t, bothVersions, startApproving, askForName(), func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Form]", "Who are you?")
		b.Keys("Escape")
		b.awaitPostInThread(q, "[Cancelled]", "Dismissed")
		answers := filepath.Join(b.Home, "forms.json"+answersSuffix)
		bound.Until(t, "the form is cancelled", func() bool {
			raw, _ := os.ReadFile(answers)
			return strings.Contains(string(raw), `"action":"cancel"`)
		})
		b.reply(q, "name: Ann")
		b.awaitPostInThread(q, "[Not used]")
		b.Prompt("go on") // at the prompt, not in a dialog
		b.WaitScreen("Thanks, understood.")
		b.checkNotShown(drawnForm)
	})
}

// A link is shown, and opened by nobody. 2.1.197 takes none.
func TestElicitation_LinkAcceptedUnopened(t *testing.T) {
	eachClaude(t, []string{newestVersion}, func(t *testing.T, c claude) {
		const to = "https://login.example/x?state=1"
		link := map[string]any{"mode": "url", "message": "Log in", "url": to, "elicitationId": "e1"}
		opened := filepath.Join(t.TempDir(), "opened")
		opener := filepath.Join(t.TempDir(), "xdg-open")
		kit.NoError(t, os.WriteFile(opener, []byte("#!/bin/sh\necho \"$@\" >>"+opened+"\n"), 0o700))
		b := startApproving(t, c, config{
			Args:    allowFormTool,
			Prepare: serveForms(link, link),
			Script:  []turn{{fakemodel.FormCall()}, {fakemodel.FormCall()}, thanksTurn},
			Env: []string{
				"BROWSER=" + opener, "PATH=" + filepath.Dir(opener) + ":" + os.Getenv("PATH"),
			},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Form]", "asks you to open a link",
			"It leads to login.example:\n```\n"+to+"\n```", "does not open it")
		b.reply(q, "accept")
		b.awaitResult(1, `"action":"accept"`)
		b.awaitPostInThread(q, "[Answered]", "Accepted.")
		next := b.awaitPostInOtherThread(q, "[Form]")
		b.reply(next, "cancel")
		b.awaitResult(2, `"action":"cancel"`)
		b.WaitScreen("Thanks, understood.")
		if raw, err := os.ReadFile(opened); err == nil {
			t.Errorf("opened: %s", raw)
		}
	})
}

// What cannot be shown whole is drawn at once, and its thread says so, and how it ended.
func TestElicitation_LargeFormOnlyInTerminal(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		large := map[string]any{
			"message":         strings.Repeat("long ", 2000),
			"requestedSchema": nameForm["requestedSchema"],
		}
		b := startApproving(t, c, config{
			Args:    allowFormTool,
			Prepare: serveForms(large),
			Script:  []turn{{fakemodel.FormCall()}, thanksTurn},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Form]", "only the terminal shows", "answer it there")
		b.Choose(drawnForm, "Escape") // before it is drawn, Esc would end the turn
		b.awaitResult(1, `"action":"cancel"`)
		b.awaitPostInThread(q, "[Answered]", "Cancelled.", "in the terminal")
	})
}
