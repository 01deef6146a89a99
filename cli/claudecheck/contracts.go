package claudecheck

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// contract is one thing that must hold between Claude Code and this program.
type contract struct {
	id    string
	claim string // what holds, for a person
	// meaning is what it means for a person if it does not hold, and what happens
	// instead.
	meaning string
	scene   *scene
	run     func(*trial)
	// needs is the id of a contract of the same scene. If that one does not hold, this
	// one cannot be tried.
	needs string
}

var (
	// The contracts of the same settings are in several scenes, which run side by side.
	questionScene = &scene{presets: []string{"approve"}}
	promptScene   = &scene{presets: []string{"approve"}}
	agentScene    = &scene{presets: []string{"approve"}}
	planScene     = &scene{presets: []string{"approve"}, args: []string{"--permission-mode", "plan"}}
	autoScene     = &scene{presets: []string{"approve"}, args: []string{"--permission-mode", "auto"}}
	formScene     = &scene{
		presets: []string{"approve"}, hasForms: true, args: []string{"--allowedTools", "mcp__form__ask"},
	}
	injectScene = &scene{presets: []string{"answer"}, env: []string{"GCHAT_ASK_MODE=inject"}}
	denyScene   = &scene{presets: []string{"system3"}, env: []string{"GCHAT_ASK_MODE=deny"}}
	plainScene  = &scene{
		presets: []string{"approve"}, env: []string{"GCHAT_IDLE=on"}, outsideTmux: true,
	}
)

const inTerminal = "Nothing is lost: the terminal takes the answer."

// contracts are all contracts. Those of one scene are tried in this order.
var contracts = []contract{
	{
		state.ContractQuestion, "A question is answered from Chat",
		"Claude Code takes no answer to a question from Chat. In tmux, the answer is typed instead. " +
			"Elsewhere only the terminal answers it.",
		questionScene, tryQuestion, "",
	},
	{
		state.ContractDialog, "The terminal shows its dialog while Chat is asked",
		"The terminal would show nothing while Chat is asked. So permissions and plans are " +
			"answered only in the terminal, and questions from Chat only in tmux.",
		questionScene, tryDialog, "",
	},
	{
		"question.terminal", "A question is answered in the terminal, and Chat says so",
		"The thread of a question may go on asking after it was answered in the terminal.",
		questionScene, tryTerminalFirst, state.ContractDialog,
	},
	{
		"question.several", "Several questions and several choices are answered from Chat",
		"Several questions at once, or several choices, cannot be answered from Chat. " + inTerminal,
		questionScene, trySeveral, state.ContractQuestion,
	},
	{
		"question.words", "A question is answered with your own words",
		"Your own words do not answer a question. " + inTerminal,
		questionScene, tryOwnWords, state.ContractQuestion,
	},
	{
		state.ContractPermission, "A permission is allowed from Chat",
		"Permissions cannot be allowed from Chat. " + inTerminal,
		questionScene, tryAllow, "",
	},
	{
		"permission.denied", "A permission is denied from Chat, with a reason that Claude is told",
		"Permissions cannot be denied from Chat. " + inTerminal,
		questionScene, tryDeny, state.ContractPermission,
	},
	{
		"transcript.members", "The transcript has what gchat-hooks reads",
		"Chat may not say what Claude does or waits for, nor how a permission was answered in " +
			"the terminal.",
		questionScene, tryTranscript, state.ContractDialog,
	},
	{
		"permission.always", "After \"always\", the same command is not asked about again",
		"\"Always\" allows once only. The next time, the permission is asked again.",
		questionScene, tryAlways, state.ContractPermission,
	},
	{
		"next.typed", "The next instruction is typed at the prompt",
		"The next instruction does not reach Claude from Chat. Write it in the terminal.",
		promptScene, tryNextInstruction, "",
	},
	{
		"next.draft", "The next instruction waits while a draft is at the prompt",
		"What is written in Chat may mix with what somebody types in the terminal.",
		promptScene, tryDraft, "next.typed",
	},
	{
		"next.menu", "The next instruction waits while a menu is open",
		"What is written in Chat may be taken by a menu that is open in the terminal.",
		promptScene, tryMenu, "next.typed",
	},
	{
		"command.stop", "/stop interrupts Claude",
		"/stop does not work from Chat. Press Esc in the terminal.",
		promptScene, tryStop, "",
	},
	{
		"events.members", "The hook events have what gchat-hooks reads",
		"The thread may not say how a permission or a turn ended.",
		questionScene, tryEvents, "",
	},
	{
		"command.clear", "/clear begins a new conversation, in the same thread",
		"/clear does not work from Chat. Type it in the terminal.",
		promptScene, tryClear, "next.typed",
	},
	{
		"session.resumed", "A session that was resumed keeps its thread",
		"A resumed session begins a new thread.",
		promptScene, tryResume, "next.typed",
	},

	{
		state.ContractPlan, "A plan is sent back and approved from Chat",
		"Plans cannot be answered from Chat. " + inTerminal,
		planScene, tryPlan, "",
	},
	{
		state.ContractForm, "A form of an MCP server is filled in from Chat",
		"Forms cannot be filled in from Chat. " + inTerminal,
		formScene, tryForm, "",
	},
	{
		"permission.prompt", "A permission reaches Chat when its dialog opens",
		"A permission reaches Chat seconds after its dialog has opened, or not at all. Until then, " +
			"only the terminal takes the answer.",
		agentScene, tryInTime, "",
	},
	{
		state.ContractAgent, "A background agent's permission is answered from Chat",
		"Permissions of background agents cannot be answered from Chat. " + inTerminal,
		agentScene, tryAgent, "",
	},
	{
		state.ContractAgentKeyboard, "A background agent's permission goes to somebody at the keyboard",
		"A background agent's permission would stay hidden from somebody at the keyboard. " +
			"So it is answered only in the terminal.",
		agentScene, tryAgentAtKeyboard, state.ContractAgent,
	},
	{
		"auto.question", "A question is answered from Chat in auto mode",
		"In auto mode, questions cannot be answered from Chat. " + inTerminal,
		autoScene, tryQuestion, "",
	},
	{
		"auto.noted", "In auto mode, Chat says that a permission waits in the terminal",
		"In auto mode, Chat does not say that a permission waits in the terminal.",
		autoScene, tryAutoDialog, "",
	},
	{
		state.ContractTyped, "An answer is typed into the dialog of a question",
		"Answers cannot be typed into a question's dialog. In inject mode, a hook gives them instead.",
		injectScene, tryTyped, "",
	},
	{
		state.ContractDeny, "In deny mode, a reply wakes the session",
		"In deny mode, a reply would not wake the session. So Claude waits for it instead.",
		denyScene, tryDenyMode, "",
	},
	{
		"next.wakes", "Outside tmux, the next instruction wakes the session",
		"Outside tmux, the next instruction reaches Claude only with the next prompt.",
		plainScene, tryWake, "",
	},
}

var (
	deployQuestion = fakemodel.Question{
		Question: "Which deployment approach should we use?",
		Header:   "Deploy",
		Options: []fakemodel.Option{
			{Label: "Blue-green deployment", Description: "Zero downtime."},
			{Label: "Rolling deployment", Description: "Gradual rollout."},
			{Label: "Canary", Description: "Small slice first."},
		},
	}
	databaseQuestion = fakemodel.Question{
		Question: "Which DB?", Header: "DB",
		Options: []fakemodel.Option{
			{Label: "Postgres", Description: "relational"}, {Label: "SQLite", Description: "embedded"},
		},
	}
	featuresQuestion = fakemodel.Question{
		Question: "Which features do you want?", Header: "Features", MultiSelect: true,
		Options: []fakemodel.Option{
			{Label: "Auth", Description: "Sign-in"}, {Label: "Billing", Description: "Invoices"},
			{Label: "Search", Description: "Full text"},
		},
	}
)

func say(text string) fakemodel.Turn { return fakemodel.Turn{fakemodel.Text(text)} }

func bash(command string) fakemodel.Turn { return fakemodel.Turn{fakemodel.Bash(command)} }

func ask(questions ...fakemodel.Question) fakemodel.Turn {
	return fakemodel.Turn{fakemodel.Ask(questions...)}
}

// onlyInDialog is on the screen only while deployQuestion's dialog is open.
const onlyInDialog = "Small slice first."

// ends is a turn that ends without a question.
var ends = say("Understood.")

func tryQuestion(t *trial) {
	t.play(ask(deployQuestion), ends)
	t.prompt("ask me")
	t.awaitCall()
	m := t.awaitMessage("[AskUserQuestion]", deployQuestion.Question)
	t.tap(m, "2", nil)
	t.awaitResult(1, "Rolling deployment")
	t.awaitChange(m, "[Answered]", "Rolling deployment")
}

func tryTyped(t *trial) {
	t.play(ask(featuresQuestion), ask(deployQuestion), ends)
	t.prompt("ask me")
	t.reply(t.awaitMessage("[AskUserQuestion]", featuresQuestion.Question), "1,3")
	t.awaitResult(1, "Auth, Search")
	t.reply(t.awaitMessage("[AskUserQuestion]", deployQuestion.Question), "wait for Monday")
	t.awaitResult(2, "wait for Monday")
}

func tryTerminalFirst(t *trial) {
	t.play(ask(deployQuestion), ends)
	t.prompt("ask me once more")
	m := t.awaitMessage("[AskUserQuestion]", deployQuestion.Question)
	t.choose("3", onlyInDialog)
	t.awaitResult(1, "Canary")
	t.awaitChange(m, "Canary", "in the terminal")
}

// tryDialog answers in the terminal only. It reads nothing of a dialog that Claude Code
// words: such a line may have another name, and still be a dialog for a person.
func tryDialog(t *trial) {
	t.play(ask(deployQuestion), bash("mkdir chosen"), ends)
	t.prompt("ask me in the terminal")
	t.choose("3", onlyInDialog)
	t.awaitResult(1, "Canary")
	t.choose("1", "mkdir chosen")
	t.awaitResult(2)
	t.require(t.isMade("chosen"), "the command was allowed in the terminal, and did not run")
}

func trySeveral(t *trial) {
	t.play(ask(databaseQuestion, featuresQuestion), ends)
	t.prompt("ask for several")
	t.awaitCall()
	m := t.awaitMessage("[AskUserQuestion]", featuresQuestion.Question)
	t.tap(m, "send", map[string][]string{"q1": {"2"}, "q2": {"1", "3"}})
	t.awaitResult(1, `"Which DB?"="SQLite"`, `"="Auth, Search"`)
}

func tryOwnWords(t *trial) {
	const words = "neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"
	t.play(ask(deployQuestion), ask(databaseQuestion), ends)
	t.prompt("ask for words")
	t.awaitCall()
	m := t.awaitMessage("[AskUserQuestion]", deployQuestion.Question)
	t.tap(m, "send", map[string][]string{"w1": {words}})
	t.awaitResult(1, words)
	t.awaitCall()
	m = t.awaitMessage("[AskUserQuestion]", databaseQuestion.Question)
	t.reply(m, "2 - but keep a dump")
	t.awaitResult(2, "SQLite", "but keep a dump")
}

func tryAllow(t *trial) {
	t.play(bash("mkdir allowed"), ends)
	t.prompt("make a folder")
	m := t.awaitPermission("mkdir allowed")
	t.tap(m, "allow", nil)
	t.awaitResult(1)
	t.awaitChange(m, "[Answered]", "Allowed")
	t.require(t.isMade("allowed"), "the command was allowed, and did not run")
}

func tryDeny(t *trial) {
	t.play(bash("mkdir denied"), ends)
	t.prompt("make another folder")
	m := t.awaitPermission("mkdir denied")
	t.tap(m, "deny", map[string][]string{"w1": {"use the one there is"}})
	t.awaitResult(1, "use the one there is")
	t.awaitChange(m, "Reason: use the one there is")
	t.require(!t.isMade("denied"), "the command was denied, and ran")
}

func tryAlways(t *trial) {
	t.play(bash("touch a.txt"), bash("touch b.txt"), ends)
	t.prompt("touch two files")
	m := t.awaitPermission("touch a.txt")
	t.tap(m, "always", nil)
	t.awaitResult(2)
	t.awaitChange(m, "Always allowed from now on:")
	t.require(t.isMade("b.txt"), "the second command did not run")
}

// asksBack is a turn that ends with a question, so that the next instruction is asked for.
var asksBack = say("The tests pass. Shall I commit?")

// askNext has Claude end a turn with a question, and returns the message that asks for
// the next instruction.
func (t *trial) askNext(prompt string, then ...fakemodel.Turn) message {
	t.play(append([]fakemodel.Turn{asksBack}, then...)...)
	t.prompt(prompt)
	m := t.awaitMessage("[Waiting for you]", "Shall I commit?")
	t.awaitIdle()
	return m
}

func tryNextInstruction(t *trial) {
	m := t.askNext("go on", ends)
	t.reply(m, "yes, and push \"it\"\nwith $care; Enter 然后")
	t.awaitTold("yes, and push \"it\"")
	t.awaitTold("with $care; Enter 然后")
	t.awaitMessage("", "[Sent]") // in the card, or in a note where Claude Code is slow
}

func tryDraft(t *trial) {
	m := t.askNext("go on again", ends)
	t.typeText("half a thought")
	t.awaitScreen("half a thought")
	t.reply(m, "push it")
	kept := t.awaitMessage("[Kept]", "Someone is typing")
	t.require(!strings.Contains(kept.text, "half a thought"), "the draft was sent to Chat")
	t.require(t.model.CountText("push it") == 0, "the instruction was typed behind the draft")
	t.awaitScreen("half a thought")
	t.keys("C-u")
	t.awaitTold("push it")
}

func tryMenu(t *trial) {
	m := t.askNext("go on once more", ends)
	t.typeText("/model")
	t.awaitScreen("/model")
	t.keys("Enter")
	t.await("a menu opens", func() bool { return t.isDialogOpen("") })
	t.reply(m, "tag it")
	t.awaitMessage("[Kept]")
	t.keys("Escape")
	t.awaitTold("tag it")
}

func tryStop(t *trial) {
	t.play(say("Hm."))
	t.model.AddTurns(fakemodel.Turn{fakemodel.Silence})
	t.prompt("think")
	t.awaitIdle()
	thread := t.awaitMessage("[")
	t.prompt("think for long")
	t.reply(thread, "/stop")
	t.awaitMessage("[Stopped]")
	t.await("Claude stops", func() bool {
		_, screen, _ := t.readScreen(t.ctx)
		return !screen.Busy
	})
	t.keys("C-u") // Claude Code may have put the prompt back into its box
}

func tryEvents(t *trial) {
	t.play(bash("ls"), ends)
	t.prompt("list the files")
	t.awaitResult(1)
	t.awaitIdle()
	always := []string{"session_id", "cwd", "hook_event_name", "transcript_path"}
	t.awaitEvent("PostToolUse", append(always, "tool_name", "tool_use_id", "tool_input", "tool_response")...)
	t.awaitEvent("PostToolBatch", append(always, "tool_calls")...)
	t.awaitEvent("Stop", append(always, "last_assistant_message", "stop_hook_active")...)
}

func tryClear(t *trial) {
	m := t.askNext("before clearing", ends)
	t.reply(m, "/clear")
	t.awaitMessage("[Sent]", "/clear")
	t.awaitEvent("SessionEnd", "session_id", "reason")
	t.play(ends)
	t.prompt("after clearing")
	t.require(t.model.CountText("before clearing") <= 1, "the conversation was not cleared")
}

func tryResume(t *trial) {
	t.play(ends, ends)
	t.prompt("before the end")
	thread := t.awaitMessage("[")
	t.awaitIdle()
	t.typeText("/exit")
	t.awaitScreen("/exit")
	t.keys("Enter")
	t.awaitScreen("claude exited: 0")
	t.typeText("clear; " + t.check.Claude + " --continue")
	t.keys("Enter")
	t.awaitIdle()
	t.reply(thread, "go on after the end")
	t.awaitTold("go on after the end")
}

func tryPlan(t *trial) {
	plan := fakemodel.Turn{fakemodel.Call("ExitPlanMode", map[string]any{"plan": "# The plan"})}
	t.play(ends, plan, plan, ends)
	t.prompt("think")
	t.awaitIdle()
	// The transcript names the file in which the session keeps its plan (2.1.329).
	planFile := regexp.MustCompile(`"planFilePath":"([^"]+)"`)
	var file string
	t.await("the transcript names the plan's file", func() bool {
		for _, path := range t.transcripts() {
			b, _ := os.ReadFile(path)
			if m := planFile.FindSubmatch(b); m != nil {
				file = string(m[1])
			}
		}
		return file != ""
	})
	if t.err == nil {
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
		t.err = os.WriteFile(file, []byte("# The plan"), 0o600)
	}
	t.prompt("show the plan")
	t.awaitCall()
	first := t.awaitMessage("[Plan]")
	t.tap(first, "back", map[string][]string{"w1": {"leave a step out"}})
	t.awaitResult(1, "leave a step out")
	t.awaitChange(first, "plan back", "leave a step out")
	t.firstMessage = len(t.chat.Messages())
	t.awaitCall()
	t.tap(t.awaitMessage("[Plan]"), "approve", nil)
	t.awaitResult(2)
	t.awaitIdle()
}

func tryForm(t *trial) {
	t.play(fakemodel.Turn{fakemodel.FormCall()}, ends)
	t.prompt("fill in the form")
	m := t.awaitMessage("[Form]", "Who are you?")
	t.reply(m, "name: Ann")
	t.awaitResult(1, "Ann")
}

// startAgent has the session start an agent in the background, which asks for a
// permission.
func (t *trial) startAgent(folder string) {
	t.play(fakemodel.Turn{fakemodel.StartAgent("mkdir " + folder)}, say("I wait for it."), ends)
	t.prompt("start an agent for " + folder)
}

func tryAgent(t *trial) {
	t.startAgent("first")
	t.tap(t.awaitPermission("mkdir first"), "allow", nil)
	t.await("the agent's command runs", func() bool { return t.isMade("first") })
	t.awaitIdle()
}

func tryAgentAtKeyboard(t *trial) {
	t.startAgent("second")
	m := t.awaitPermission("mkdir second")
	t.reply(m, "terminal")
	t.awaitDialog("mkdir second")
	t.awaitChange(m, "In the terminal since")
	t.reply(m, "yes")
	t.awaitMessage("[Not used]", "In the terminal since")
	t.require(!t.isMade("second"), "a reply allowed what the terminal's dialog asks")
	t.choose("1", "mkdir second")
	t.await("the agent's command runs", func() bool { return t.isMade("second") })
	t.awaitChange(m, "[Answered]", "in the terminal")
	t.awaitIdle()
}

// tryInTime compares when a dialog opens with when Claude Code calls the hook that asks
// in Chat.
func tryInTime(t *trial) {
	t.play(bash("mkdir intime"), ends)
	t.prompt("make it in time")
	delay := t.awaitCall()
	t.require(delay < lateAfter, "the hook PermissionRequest was called %.0f s after "+
		"its dialog was open", delay.Seconds())
	t.tap(t.awaitMessage("[Permission]", "mkdir intime", hasButtons), "allow", nil)
	t.awaitResult(1)
	t.awaitIdle()
}

// tryTranscript reads the transcript as hooks and the poller do.
func tryTranscript(t *trial) {
	t.play(bash("mkdir refused"), bash("ls"), ends)
	t.prompt("make a folder")
	t.choose("Escape", "mkdir refused")
	t.prompt("list the files")
	t.awaitResult(2)
	t.awaitIdle()
	t.await("the transcript says what Claude did", func() bool {
		calls := t.model.ToolResults()[t.firstResult:]
		return slices.ContainsFunc(t.transcripts(), func(path string) bool {
			words, _ := hooks.LastClaudeText(path)
			turn, _ := inject.ReadTurn(path, inject.ProgressBytes)
			return words == ends[0].Text && turn.CallCount == 1 &&
				hooks.CallOutcome(path, calls[0].ToolUseID) == "refused" &&
				hooks.CallOutcome(path, calls[1].ToolUseID) == "ran"
		})
	})
}

func tryAutoDialog(t *trial) {
	t.play(bash("git push --force"), ends)
	t.prompt("push it")
	t.await("a dialog, or Claude goes on", func() bool {
		_, screen, _ := t.readScreen(t.ctx)
		return screen.Shows != inject.Prompt && !screen.Busy || len(t.model.ToolResults()) > t.firstResult
	})
	if t.err == nil && len(t.model.ToolResults()) == t.firstResult {
		t.awaitMessage("[Permission]")
	}
}

func tryDenyMode(t *trial) {
	t.play(ask(deployQuestion), say("I go on meanwhile."), ends)
	t.prompt("ask me")
	m := t.awaitMessage("[AskUserQuestion]", deployQuestion.Question)
	t.awaitResult(1, "forwarded")
	t.awaitIdle()
	t.tap(m, "2", nil)
	t.awaitTold("GCHAT_RESPONSE: The user has answered your question from the chat page: " +
		`"Which deployment approach should we use?"="Rolling deployment"`)
	t.awaitChange(m, "Selected: Rolling deployment")
}

func tryWake(t *trial) {
	m := t.askNext("go on", ends)
	const warning = "does not count as your approval"
	t.awaitMessage("[Session Start]", warning)
	t.require(strings.Contains(m.text, warning), "the message does not say: "+warning)
	t.reply(m, "run the tests")
	t.awaitTold("this is the next instruction: run the tests")
	t.awaitMessage("", "[Sent]") // in the card, or in a note where Claude Code is slow
}
