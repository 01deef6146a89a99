package e2e

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"

	"google.golang.org/api/chat/v1"
)

// An answerCase is a reply to questions, and what becomes of it.
type answerCase struct {
	asks    []question
	reply   string
	results []string // to Claude
	notes   []string // by the thread
}

const hostileReply = "neither: use \"$(rm -rf ~)\" & 'wait'; C-c Enter {}\n然后 日本語 ✅;"

var answerCases = []answerCase{
	{ // single choice
		[]question{deployQuestion}, "2",
		[]string{`"="Rolling deployment"`}, []string{"Selected: Rolling deployment"},
	},
	{ // multi-select
		[]question{featuresQuestion}, "1,3",
		[]string{`"="Auth, Search"`}, []string{"Selected: Auth, Search"},
	},
	{ // two questions
		[]question{databaseQuestion, featuresQuestion}, "Q1: sqlite\nQ2: 3, 1",
		[]string{`"Which DB?"="SQLite"`, `"="Auth, Search"`},
		[]string{"Selected: SQLite", "Selected: Auth, Search"},
	},
	{ // free text
		[]question{deployQuestion}, hostileReply,
		[]string{hostileReply}, []string{"Custom response:", "日本語"},
	},
	{ // a remark
		[]question{deployQuestion}, "2 - but keep the old one",
		[]string{"Rolling deployment", "but keep the old one"},
		[]string{"Rolling deployment", "but keep the old one"},
	},
}

// answerScript has Claude ask the questions of all cases, each after a prompt.
func answerScript() (script []turn) {
	for _, c := range answerCases {
		script = append(script, turn{textBlock("A question."), questionCall(c.asks...)}, thanksTurn)
	}
	return script
}

// answerInChat replies to the question of each case. afterwards checks what is left of the
// nth.
func (b *hookedSession) answerInChat(afterwards func(n int)) {
	b.t.Helper()
	for i, c := range answerCases {
		b.t.Logf("the reply is %q", c.reply)
		b.Prompt("go ahead")
		q := b.awaitPostNumber(i+1, "[AskUserQuestion]", c.asks[0].Question)
		// the dialog stands open beside it
		dialog := regexp.MustCompile(`(?m)❯ 1\. .*` + c.asks[0].Options[0].Label)
		b.WaitScreenFunc("the dialog", dialog.MatchString)
		b.reply(q, c.reply)
		b.awaitResult(i+1, c.results...)
		b.awaitPostInThread(q, "[Answered]", c.notes...)
		b.WaitDone("Thanks, understood.")
		afterwards(i + 1)
	}
}

// The replies of a person on the phone, and what the model is told.
func TestAnswer_RepliedInChat(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: answerScript()})
		b.answerInChat(func(int) {})
	})
}

// A question that was cut within an emoji: Claude Code takes an answer only by the
// question's text as it has it.
func TestAnswer_QuestionCutWithinAnEmoji(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		half := questionCall(question{
			Question: "Which HALF?",
			Header:   "Pick",
			Options: []option{
				{Label: "Red HALF", Description: "r"}, {Label: "Blue", Description: "b"},
			},
		})
		half.Input = bytes.ReplaceAll(half.Input, []byte("HALF"), []byte(`\ud83d`))
		b := startAsking(t, c, config{Script: []turn{{half}, thanksTurn}})
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]", "Which"), "1")
		b.awaitResult(1, `"="Red`)
		b.awaitPost("[Answered]", "Selected: Red")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestAnswer_PassesOnThePreview(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Script: []turn{{questionCall(layoutsQuestion)}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		b.reply(b.awaitPost("[AskUserQuestion]"), "top")
		b.awaitResult(1, "Top bar", "selected preview", "==nav==")
	})
}

func TestAnswer_TwoCallsStayApart(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Script: []turn{{questionCall(databaseQuestion), questionCall(deployQuestion)}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		second := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.reply(second, "3")
		b.reply(b.awaitPost("[AskUserQuestion]", databaseQuestion.Question), "2")
		b.awaitResults(`"Which DB?"="SQLite"`,
			`"Which deployment approach should we use?"="Canary"`)
		b.awaitPost("[Answered]", "Selected: SQLite")
		b.awaitPost("[Answered]", "Selected: Canary")
	})
}

func TestAnswer_TerminalFirst(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Script: twiceScript,
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]")
		b.Choose(firstOption, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Answered]", "Selected: Canary", "in the terminal")
		// A reply that comes too late changes nothing, and the next question of the
		// session tells its person.
		b.reply(q, "1")
		b.WaitScreen("Thanks, understood.")
		b.Prompt("and again")
		b.reply(b.awaitPost("[AskUserQuestion]", databaseQuestion.Question), "1")
		b.awaitResult(2, "Postgres")
		b.awaitPost("[Not used]", "already answered")
	})
}

func TestAnswer_DismissedInTheTerminal(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{
			// "Chat about this" has Claude go on, Esc does not
			Script: []turn{
				{questionCall(deployQuestion)}, thanksTurn, {questionCall(deployQuestion)}, thanksTurn,
			},
		})
		for i, key := range []string{"5", "Escape"} {
			b.Prompt("go ahead")
			q := b.awaitPostNumber(i+1, "[AskUserQuestion]")
			b.Choose(firstOption, key)
			b.WaitIdle()
			b.awaitPostInThread(q, "[Cancelled]")
		}
	})
}

func TestAnswer_ClaudeKilledCancels(t *testing.T) {
	eachCase(t, testedVersions, map[string]syscall.Signal{
		"by the system": syscall.SIGKILL, "by a person": syscall.SIGTERM,
	}, func(t *testing.T, c claude, sig syscall.Signal) {
		b := startAsking(t, c, config{Script: deployScript})
		b.Prompt("go ahead")
		b.awaitPost("[AskUserQuestion]")
		b.WaitScreen(firstOption)
		b.Kill(sig)
		b.WaitExit()
		// The hook outlives a killed Claude Code; it sees the end itself, tells
		// the thread and goes.
		b.awaitPost("[Cancelled]")
		b.checkNoWaiter()
	})
}

// The check of Claude Code shows the other modes.
func TestAnswer_BypassPermissionsMode(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Script: deployScript,
		Env:    []string{"IS_SANDBOX=1"},
		Args:   []string{"--permission-mode", "bypassPermissions"},
	}, func(t *testing.T, b *hookedSession) {
		b.reply(b.awaitPost("[AskUserQuestion]"), "blue")
		b.awaitResult(1, "Blue-green deployment")
		b.awaitPost("[Answered]", "Selected: Blue-green deployment")
	})
}

func TestAnswer_OneHookIsEnough(t *testing.T) {
	eachCase(t, testedVersions, map[string]string{
		"waiting": "PermissionRequest", "asking": "PreToolUse",
	}, func(t *testing.T, c claude, event string) {
		b := startAsking(t, c, config{
			Hooks:  questionHooks(t, event),
			Script: deployScript,
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		if event == "PermissionRequest" {
			b.reply(q, "2")
		} else {
			b.Choose(firstOption, "2")
		}
		b.awaitResult(1, "Rolling deployment")
	})
}

// A question in hold mode goes to whoever comes to the keyboard, too.
func TestAnswer_HeldQuestionGoesToTheKeyboard(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Env:    []string{"GCHAT_ASK_MODE=hold"},
		Script: deployScript,
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.checkNotShown(firstOption)
		b.sitDown(t)
		b.WaitScreen(firstOption)
		b.awaitPostInThread(q, "[In the terminal]", "answer it there")
		b.reply(q, "3")
		b.awaitPostInThread(q, "[Not used]", "In the terminal since")
		b.Choose(firstOption, "2")
		b.awaitResult(1, "Rolling deployment")
		b.awaitPostInThread(q, "[Answered]", "Selected: Rolling deployment", "in the terminal")
	})
}

// Claude Code goes on by itself where nobody answers (2.1.200). What was answered to one
// of two questions goes to Claude as a prompt.
func TestAnswer_ClaudeContinuesAlone(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Env: []string{"CLAUDE_AFK_TIMEOUT_MS=25000"},
			Script: []turn{
				{textBlock("Shall I begin?")}, {questionCall(databaseQuestion, deployQuestion)},
				{textBlock("I go on, then.")}, {textBlock("SQLite it is.")},
			},
		})
		b.Prompt("hello")
		b.awaitPost("[Waiting for you]", "Shall I begin?") // it takes prompts from now on
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		b.reply(q, "Q1: 2")
		b.awaitPost("[Kept]", "Still missing: Q2")
		b.awaitResult(1, "No response after")
		b.awaitPostInThread(q, "[Timeout]", "after 25 s", "Your answer: SQLite", `Reply "send"`)
		b.WaitDone("I go on, then.")
		b.reply(q, "send")
		b.awaitPost("[Kept]", "with the next instruction")
		b.WaitScreen("SQLite it is.")
		kit.Equalf(t, b.API.CountText(`You asked "Which DB?". The answer: SQLite.`) > 0, true,
			"Claude is told what was answered")
		b.checkNoPost("Answered in the terminal")
	})
}

// After kill -9 of everything, as a machine's restart does it, one command is enough: the
// thread is told that the session is gone, and a reply there is answered. The command
// comes from a shell that has not all that Claude Code's had in its environment.
func TestAnswer_MachineRestartCancels(t *testing.T) {
	eachAsked(t, startAsking, func(t *testing.T, b *hookedSession, q *chat.Message) {
		b.WaitScreen("Rolling deployment")
		// one that is just ending still has its locks
		bound.Until(t, "nothing of it is left", func() bool { return b.killProcesses("") == 0 })
		runIn(t, b.Dir, slices.Concat(b.spaceEnv, []string{
			"HOME=" + b.Home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), b.mark(),
			runVariable + "=" + os.Getenv(runVariable),
		}), builtProgram(t), "status")
		b.awaitPostInThread(q, "[Cancelled]", "Claude Code has ended.")
		b.reply(q, "2")
		b.awaitPost("[Not used]")
		is := b.loadQuestions()[0]
		kit.Equal(t, is.Status, state.Cancelled)
		kit.Equal(t, is.ResolvedBy, "claude_gone")
	})
}
