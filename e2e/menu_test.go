package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// menuDriver drives a session as a person or an agent does.
type menuDriver struct {
	*session
	state   string
	decides bool
}

// code runs one action and returns its exit code and what it said.
func (m menuDriver) code(action string, args ...string) (int, string) {
	var out bytes.Buffer
	env := func(name string) string {
		switch name {
		case "TMUX":
			return m.TMUX()
		case "HOME":
			return m.Home
		}
		return os.Getenv(name)
	}
	menu := inject.Menu{UserState: m.state, Env: env, Out: &out, Patience: patience, Decides: m.decides}
	err := menu.Run(m.t.Context(), "clau", action, args) // the beginning of the session's name
	if err == nil {
		return 0, out.String()
	}
	var coded *state.UserError
	if !errors.As(err, &coded) {
		m.t.Fatalf("%s %q: no exit code: %v", action, args, err)
	}
	return coded.Code, err.Error()
}

// does runs an action that has to come to effect. A digit that meets a dialog just drawn may be lost by a busy 2.1.329; exit
// code 3 says so, and the caller chooses once more.
func (m menuDriver) does(action string, args ...string) {
	m.t.Helper()
	code, said := m.code(action, args...)
	if code == 3 && action == "choose" && strings.Contains(said, "but the screen still shows") {
		m.t.Logf("%s %q: %s; once more", action, args, said)
		code, said = m.code(action, args...)
	}
	if code != 0 {
		m.t.Fatalf("%s %q: exit %d: %s", action, args, code, said)
	}
}

// refuses checks that an action is refused with these words and leaves the screen as it is.
func (m menuDriver) refuses(words, action string, args ...string) {
	m.t.Helper()
	if code, said := m.code(action, args...); code != 2 || !strings.Contains(said, words) {
		m.t.Errorf("%s %q: exit %d: %s; want it refused with %q", action, args, code, said, words)
	}
}

func (m menuDriver) told(n int, parts ...string) {
	m.t.Helper()
	if got := m.API.WaitToolResult(m.t, n); !holdsAll(got.Text, parts) {
		m.t.Errorf("Claude was told %q, want %q", got.Text, parts)
	}
}

// deployNext is another question than deploy: of two equal ones in a row, the second can be on the screen before anybody saw
// the first one go, and then the driver rightly says that it saw no effect.
var deployNext = question{Question: "And how should the second service go?", Header: deploy.Header, Options: deploy.Options}

func newMenuDriver(t *testing.T, c claude, script ...turn) menuDriver {
	return menuDriver{session: start(t, c, config{Script: script}), state: t.TempDir()}
}

func TestMenuDriverAnswers(t *testing.T) {
	features := question{Question: "Which features?", Header: "Features", MultiSelect: true,
		Options: []option{{Label: "Auth", Description: "Log in."}, {Label: "Search", Description: "Find."}, {Label: "Export", Description: "Take out."}}}
	eachClaude(t, both, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c,
			turn{ask(deploy)}, turn{ask(deployNext)}, turn{ask(features)}, turn{ask(features)}, turn{ask(deploy, features)}, turn{ask(deploy)}, thanks)
		m.refuses("no dialog is open", "choose", "1")
		m.refuses("an empty input box", "submit")
		m.refuses("an empty input box", "enter")
		m.refuses("an empty input box", "esc")
		m.Type("a person's draft")
		m.WaitScreen("a person's draft")
		m.refuses("nothing was typed: there already is a text, \"a person's draft\"", "type", "more")
		m.refuses("nothing to leave", "esc")
		m.does("submit")

		m.WaitScreen(firstOption)
		m.refuses("no row is numbered 7", "choose", "7")
		m.refuses("nothing to submit", "submit")
		m.does("choose", "2")
		m.told(1, "Rolling deployment")

		m.WaitScreen(firstOption)
		m.does("type", `quick; "$(rm)" Enter 日本 👩‍💻;`)
		m.told(2, `quick; "$(rm)" Enter 日本 👩‍💻;`)

		m.WaitScreen("Auth")
		m.does("choose", "1")
		m.does("choose", "2")
		m.does("choose", "1") // taken back
		m.does("choose", "3")
		m.does("submit")
		m.WaitScreen("Review your answers")
		m.refuses("no place for a text", "type", "more")
		m.does("submit")
		m.told(3, "Search, Export")

		m.WaitScreen("Auth")
		m.does("choose", "1")
		m.does("type", "dark mode")
		m.told(4, "Auth", "dark mode")

		m.WaitScreen(firstOption)
		m.does("choose", "4")
		m.Type("a person's words")
		m.WaitScreen("a person's words")
		m.refuses("nothing was typed: there already is a text, \"a person's words\"", "type", "more")
		m.refuses("would be lost", "choose", "1")
		m.does("submit")
		m.WaitScreen("Log in.")
		m.does("type", "dark mode")
		m.WaitScreen("Review your answers") // of two questions
		m.does("choose", "1")
		m.told(5, "a person's words", "dark mode")

		m.WaitScreen(firstOption)
		m.does("esc")
		m.WaitIdle()
		m.Quit()
		for action, args := range map[string][]string{"choose": {"1"}, "type": {"rm -rf ~"}, "submit": nil, "enter": nil, "esc": nil, "clear_then": {"x"}} {
			m.refuses("the pane runs sh", action, args...)
		}
		if code, said := m.code("snapshot"); code != 0 || !strings.Contains(said, "claude exited: 0") || strings.Contains(said, "\x1b") {
			t.Errorf("snapshot: exit %d: %q", code, said)
		}
	})
}

func TestMenuDriverChoosesAmongPreviews(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{ask(question{Question: "Which layout?", Header: "Layout", Options: []option{
			{Label: "Side bar", Description: "left", Preview: "|nav|page|"}, {Label: "Top bar", Description: "above", Preview: "==nav==\npage"}}})}, thanks)
		m.Prompt("go ahead")
		m.WaitScreen("Side bar")
		m.refuses("no place for a text", "type", "more")
		m.does("choose", "2")
		m.told(1, "Top bar")
	})
}

// A pane that nobody is attached to may be too small for a dialog: then the rows are looked for.
func TestMenuDriverInASmallPane(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{ask(deploy)}, turn{ask(deployNext)}, thanks)
		m.command("resize-window", "-t", "=claude:", "-x", "60", "-y", "15")
		m.Prompt("go ahead")
		m.WaitScreen(firstOption)
		m.does("choose", "3")
		m.told(1, "Canary")
		m.WaitScreen(firstOption)
		m.does("type", "whatever is quick")
		m.told(2, "whatever is quick")
	})
}

func TestMenuDriverDecidesOnTools(t *testing.T) {
	bash := func(command string) turn {
		return turn{call("Bash", map[string]string{"command": command, "description": "Test"})}
	}
	eachClaude(t, both, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, bash("touch one"), bash("touch two"), bash("touch three"), bash("touch four; until test -e never; do sleep 1; done"), thanks)
		m.decides = true
		m.does("type", "go", "ahead; C-c 日本 $(x)")
		m.WaitScreen("Do you want to")
		m.refuses("no place for a text", "type", "yes")
		m.does("enter")
		m.told(1)
		m.WaitScreenFunc("the dialog", func(screen string) bool { return holdsAll(screen, []string{"touch two", "Do you want to"}) })
		m.does("choose", "1")
		m.told(2)
		m.WaitScreenFunc("the dialog", func(screen string) bool { return holdsAll(screen, []string{"touch three", "Do you want to"}) })
		m.does("esc")
		m.WaitIdle()
		m.Prompt("once more")
		m.WaitScreenFunc("the dialog", func(screen string) bool { return holdsAll(screen, []string{"test -e never", "Do you want to"}) })
		m.does("choose", "1")
		m.WaitScreenFunc("Claude at work", func(screen string) bool { return inputBox.MatchString(screen) && !idle(screen) })
		m.refuses("not idle", "clear_then", "x")
		m.does("esc")
		m.WaitIdle()
	})
}

// Only the person's own file lets menu-driver choose in a permission or a plan. A project's file does not.
func TestMenuDriverDecidesWhereItsPersonSaysSo(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		script := []turn{{call("ExitPlanMode", map[string]any{"plan": "# The plan"})}, {bash("mkdir one")}, thanks}
		word := map[string]bool{"menu_decides": true}
		s := start(t, c, config{Script: script, Args: []string{"--permission-mode", "plan"}, Prepare: func(_, dir string) {
			writeFile(t, filepath.Join(dir, ".claude", "gchat-hooks.json"), word)
		}})
		run := func(args ...string) (int, string) {
			cmd := exec.Command(built(t), append([]string{"menu", "clau"}, args...)...)
			cmd.Dir = s.Dir
			cmd.Env = []string{"HOME=" + s.Home, "PATH=" + os.Getenv("PATH"), "TMUX=" + s.TMUX(), "CLAUDE_PROJECT_DIR=" + s.Dir,
				"menu_decides=true", "MENU_DECIDES=true", "GCHAT_MENU_DECIDES=true"}
			out, _ := cmd.CombinedOutput()
			return cmd.ProcessState.ExitCode(), string(out)
		}
		refused := func(dialog string) {
			t.Helper()
			s.WaitScreen(dialog)
			for _, args := range [][]string{{"choose", "1"}, {"enter"}} {
				if code, said := run(args...); code != 2 || !holdsAll(said, []string{"does not decide", "menu_decides"}) {
					t.Errorf("%q: exit %d: %s", args, code, said)
				}
			}
			if !strings.Contains(s.Screen(), dialog) {
				t.Error("the dialog is gone")
			}
		}
		mine := filepath.Join(s.Home, ".config", "gchat-hooks", "config.json")
		s.Prompt("go ahead")
		for i, dialog := range []string{"exit plan mode", "Do you want to"} {
			refused(dialog)
			writeFile(t, mine, word)
			if code, said := run("choose", "1"); code != 0 {
				t.Errorf("choose 1: exit %d: %s", code, said)
			}
			s.API.WaitToolResult(t, i+1)
			writeFile(t, mine, struct{}{})
		}
		s.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(s.Dir, "one")); err != nil {
			t.Error(err)
		}
		log, err := os.ReadFile(filepath.Join(s.Home, ".claude", "logs", "gchat-hooks-audit.log"))
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		if err != nil || len(lines) != 2 || !holdsAll(lines[0], []string{`"kind":"plan"`, `"by":"menu-driver"`, `"replied":"choose 1"`, `"told":"Yes`}) ||
			!holdsAll(lines[1], []string{`"kind":"permission"`, "mkdir one", `"told":"Yes"`}) {
			t.Errorf("the log of decisions: %v: %s", err, log)
		}
	})
}

// Claude Code completes the last word of some texts, and Enter would take what it offers.
func TestMenuDriverSendsWhatThePromptWouldComplete(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c)
		for _, text := range []string{"@/etc/hosts", "look at @README.md", "ask a@example.org now", "say :qa", "then run /cl", `a\`, "#note"} {
			writeFile(t, filepath.Join(m.Dir, "README.md"), "read me")
			m.does("type", text)
			m.API.WaitText(t, strings.TrimSuffix(text, `\`))
			m.WaitIdle()
		}
	})
}

func TestMenuDriverClearsThenSends(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{say("The first conversation.")}, turn{say("The second one.")}, turn{say("The third.")}, turn{say("The fourth.")})
		m.Prompt("remember the heron")
		m.WaitScreen("The first conversation.")
		m.WaitIdle()
		for _, next := range []struct{ command, reply string }{{"now the second", "The second one."}, {"now the third\nof several\nlines\nof text", "The third."}} {
			m.does("clear_then", next.command)
			m.WaitScreen(next.reply)
			m.WaitIdle()
		}
		m.does("clear_then", "/clear") // two clears with nothing said in between
		m.does("clear_then", "now the fourth")
		m.WaitScreen("The fourth.")
		all := m.API.Requests()
		last := string(all[len(all)-1].Body)
		if !strings.Contains(last, "now the fourth") || strings.Contains(last, "heron") || strings.Contains(last, "now the second") {
			t.Errorf("the conversation was not cleared: %.2000s", last)
		}
		if n := m.API.count("of several"); n != 1 {
			t.Errorf("the text of several lines came %d times", n)
		}
		m.WaitIdle()
		m.Type("a person's draft")
		m.WaitScreen("a person's draft")
		m.refuses("a person's draft", "clear_then", "x")
		m.refuses("a person's draft", "type", "x")
	})
}
