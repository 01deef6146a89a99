package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// menuDriver drives a session as a person or an agent does.
type menuDriver struct {
	*session
	state   string
	decides bool
}

// run runs one action and returns its exit code and its output.
func (m menuDriver) run(action string, args ...string) (int, string) {
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
	menu := inject.Menu{
		UserState:     m.state,
		Env:           env,
		Out:           &out,
		EffectTimeout: patience,
		MayDecide:     m.decides,
	}
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

// mustRun runs an action that has to come to effect. A digit that meets a dialog just
// drawn may be lost by a busy 2.1.329; exit code 3 says so, and the caller chooses once
// more.
func (m menuDriver) mustRun(action string, args ...string) {
	m.t.Helper()
	code, output := m.run(action, args...)
	if code == 3 && action == "choose" && strings.Contains(output, "but the screen still shows") {
		m.t.Logf("%s %q: %s; once more", action, args, output)
		code, output = m.run(action, args...)
	}
	if code != 0 {
		m.t.Fatalf("%s %q: exit %d: %s", action, args, code, output)
	}
}

// mustRefuse checks that an action is refused with this message and leaves the screen as
// it is.
func (m menuDriver) mustRefuse(message, action string, args ...string) {
	m.t.Helper()
	if code, output := m.run(action, args...); code != 2 || !strings.Contains(output, message) {
		m.t.Errorf("%s %q: exit %d: %s; want it refused with %q", action, args, code, output,
			message)
	}
}

// deployNextQuestion is another question than deploy: of two equal ones in a row, the
// second can be on the screen before anybody saw the first one go, and then the driver
// rightly says that it saw no effect.
var deployNextQuestion = question{
	Question: "And how should the second service go?",
	Header:   deployQuestion.Header,
	Options:  deployQuestion.Options,
}

func newMenuDriver(t *testing.T, c claude, script ...turn) menuDriver {
	return menuDriver{session: startSession(t, c, config{Script: script}), state: t.TempDir()}
}

func TestMenuDriver_Answers(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c,
			turn{questionCall(deployQuestion)}, turn{questionCall(deployNextQuestion)},
			turn{questionCall(featuresQuestion)}, turn{questionCall(featuresQuestion)},
			turn{questionCall(deployQuestion, featuresQuestion)},
			turn{questionCall(deployQuestion)},
			thanksTurn)
		m.mustRefuse("no dialog is open", "choose", "1")
		m.mustRefuse("an empty input box", "submit")
		m.mustRefuse("an empty input box", "enter")
		m.mustRefuse("an empty input box", "esc")
		m.Type("a person's draft")
		m.WaitScreen("a person's draft")
		m.mustRefuse("nothing was typed: there already is a text, \"a person's draft\"", "type",
			"more")
		m.mustRefuse("nothing to leave", "esc")
		m.mustRun("submit")

		m.WaitScreen(firstOption)
		m.mustRefuse("no row is numbered 7", "choose", "7")
		m.mustRefuse("nothing to submit", "submit")
		m.mustRun("choose", "2")
		m.awaitResult(1, "Rolling deployment")

		m.WaitScreen(firstOption)
		m.mustRun("type", `quick; "$(rm)" Enter 日本 👩‍💻;`)
		m.awaitResult(2, `quick; "$(rm)" Enter 日本 👩‍💻;`)

		m.WaitScreen("Auth")
		m.mustRun("choose", "1")
		m.mustRun("choose", "2")
		m.mustRun("choose", "1") // taken back
		m.mustRun("choose", "3")
		m.mustRun("submit")
		m.WaitScreen("Review your answers")
		m.mustRefuse("no place for a text", "type", "more")
		m.mustRun("submit")
		m.awaitResult(3, "Billing, Search")

		m.WaitScreen("Auth")
		m.mustRun("choose", "1")
		m.mustRun("type", "dark mode")
		m.awaitResult(4, "Auth", "dark mode")

		m.WaitScreen(firstOption)
		m.mustRun("choose", "4")
		m.Type("a person's words")
		m.WaitScreen("a person's words")
		m.mustRefuse("nothing was typed: there already is a text, \"a person's words\"", "type",
			"more")
		m.mustRefuse("would be lost", "choose", "1")
		m.mustRun("submit")
		m.WaitScreen("Sign-in")
		m.mustRun("type", "dark mode")
		m.WaitScreen("Review your answers") // of two questions
		m.mustRun("choose", "1")
		m.awaitResult(5, "a person's words", "dark mode")

		m.WaitScreen(firstOption)
		m.mustRun("esc")
		m.WaitIdle()
		m.Quit()
		for action, args := range map[string][]string{
			"choose":     {"1"},
			"type":       {"rm -rf ~"},
			"submit":     nil,
			"enter":      nil,
			"esc":        nil,
			"clear_then": {"x"},
		} {
			m.mustRefuse("the pane runs sh", action, args...)
		}
		if code, output := m.run("snapshot"); code != 0 ||
			!strings.Contains(output, "claude exited: 0") || strings.Contains(output, "\x1b") {
			t.Errorf("snapshot: exit %d: %q", code, output)
		}
	})
}

func TestMenuDriver_ChoosesAmongPreviews(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{questionCall(layoutsQuestion)}, thanksTurn)
		m.Prompt("go ahead")
		m.WaitScreen("Side bar")
		m.mustRefuse("no place for a text", "type", "more")
		m.mustRun("choose", "2")
		m.awaitResult(1, "Top bar")
	})
}

// A pane that nobody is attached to may be too small for a dialog: then the rows are
// looked for.
func TestMenuDriver_SmallPane(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{questionCall(deployQuestion)},
			turn{questionCall(deployNextQuestion)}, thanksTurn)
		m.resize("60", "15")
		m.Prompt("go ahead")
		m.WaitScreen(firstOption)
		m.mustRun("choose", "3")
		m.awaitResult(1, "Canary")
		m.WaitScreen(firstOption)
		m.mustRun("type", "whatever is quick")
		m.awaitResult(2, "whatever is quick")
	})
}

func TestMenuDriver_DecidesOnTools(t *testing.T) {
	bash := func(command string) turn {
		return turn{toolCall("Bash", map[string]string{"command": command, "description": "Test"})}
	}
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, bash("touch one"), bash("touch two"), bash("touch three"),
			bash("touch four; until test -e never; do sleep 1; done"), thanksTurn)
		m.decides = true
		m.mustRun("type", "go", "ahead; C-c 日本 $(x)")
		m.WaitScreen("Do you want to")
		m.mustRefuse("no place for a text", "type", "yes")
		m.mustRun("enter")
		m.awaitResult(1)
		m.WaitScreen("touch two", "Do you want to")
		m.mustRun("choose", "1")
		m.awaitResult(2)
		m.WaitScreen("touch three", "Do you want to")
		m.mustRun("esc")
		m.WaitIdle()
		m.Prompt("once more")
		m.WaitScreen("test -e never", "Do you want to")
		m.mustRun("choose", "1")
		m.WaitScreenFunc("Claude at work",
			func(screen string) bool { return inputBox.MatchString(screen) && !isIdle(screen) })
		m.mustRefuse("not idle", "clear_then", "x")
		m.mustRun("esc")
		m.WaitIdle()
	})
}

// Only the person's own file lets menu-driver choose in a permission or a plan. A
// project's file does not.
func TestMenuDriver_DecidesByThePersonsSetting(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		script := []turn{
			planTurn("# The plan"), {bash("mkdir one")},
			thanksTurn,
		}
		word := map[string]bool{"menu_decides": true}
		s := startSession(t, c, config{
			Script: script,
			Args:   []string{"--permission-mode", "plan"},
			Files:  map[string]string{".claude/gchat-hooks.json": `{"menu_decides": true}`},
		})
		run := func(args ...string) (int, string) {
			cmd := exec.Command(builtProgram(t), append([]string{"menu", "clau"}, args...)...)
			cmd.Dir = s.Dir
			cmd.Env = []string{"HOME=" + s.Home, "PATH=" + os.Getenv("PATH"), "TMUX=" +
				s.TMUX(), "CLAUDE_PROJECT_DIR=" + s.Dir,
				"menu_decides=true", "MENU_DECIDES=true", "GCHAT_MENU_DECIDES=true"}
			out, _ := cmd.CombinedOutput()
			return cmd.ProcessState.ExitCode(), string(out)
		}
		refused := func(dialog string) {
			t.Helper()
			s.WaitScreen(dialog)
			for _, args := range [][]string{{"choose", "1"}, {"enter"}} {
				if code, output := run(args...); code != 2 ||
					!containsAll(output, []string{"does not decide", "menu_decides"}) {
					t.Errorf("%q: exit %d: %s", args, code, output)
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
			if code, output := run("choose", "1"); code != 0 {
				t.Errorf("choose 1: exit %d: %s", code, output)
			}
			s.API.WaitToolResult(t, i+1)
			writeFile(t, mine, struct{}{})
		}
		s.WaitScreen("Thanks, understood.")
		s.checkMade(true, "one")
		log := kit.ReadFile(t, filepath.Join(s.Home, ".claude", "logs", "gchat-hooks-audit.log"))
		lines := strings.Split(strings.TrimSpace(log), "\n")
		if len(lines) != 2 ||
			!containsAll(lines[0], []string{
				`"kind":"plan"`, `"by":"menu-driver"`, `"replied":"choose 1"`, `"told":"Yes`,
			}) ||
			!containsAll(lines[1], []string{`"kind":"permission"`, "mkdir one", `"told":"Yes"`}) {
			t.Errorf("the log of decisions: %s", log)
		}
	})
}

// Claude Code completes the last word of some texts, and Enter would take what it offers.
func TestMenuDriver_SendsCompletableText(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c)
		for _, text := range []string{
			"@/etc/hosts", "look at @README.md", "ask a@example.org now", "say :qa", "then run /cl",
			`a\`, "#note",
		} {
			writeFile(t, filepath.Join(m.Dir, "README.md"), "read me")
			m.mustRun("type", text)
			m.API.WaitText(t, strings.TrimSuffix(text, `\`))
			m.WaitIdle()
		}
	})
}

func TestMenuDriver_ClearsThenSends(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		m := newMenuDriver(t, c, turn{textBlock("The first conversation.")},
			turn{textBlock("The second one.")}, turn{textBlock("The third.")},
			turn{textBlock("The fourth.")})
		m.Prompt("remember the heron")
		m.WaitDone("The first conversation.")
		for _, next := range []struct{ command, reply string }{
			{"now the second", "The second one."},
			{"now the third\nof several\nlines\nof text", "The third."},
		} {
			m.mustRun("clear_then", next.command)
			m.WaitDone(next.reply)
		}
		m.mustRun("clear_then", "/clear") // two clears with nothing said in between
		m.mustRun("clear_then", "now the fourth")
		m.WaitScreen("The fourth.")
		all := m.API.Requests()
		last := string(all[len(all)-1].Body)
		if !strings.Contains(last, "now the fourth") || strings.Contains(last, "heron") ||
			strings.Contains(last, "now the second") {
			t.Errorf("the conversation was not cleared: %.2000s", last)
		}
		kit.Equalf(t, m.API.CountText("of several"), 1, "the text of several lines came")
		m.WaitIdle()
		m.Type("a person's draft")
		m.WaitScreen("a person's draft")
		m.mustRefuse("a person's draft", "clear_then", "x")
		m.mustRefuse("a person's draft", "type", "x")
	})
}
