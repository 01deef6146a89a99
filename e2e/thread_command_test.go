package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// startSteering has the session steered from a thread of the space, as its hooks do after
// its first report, and returns that thread.
func (b *hookedSession) startSteering() (thread string) {
	b.t.Helper()
	m, err := b.space.PostAs(&chat.User{Name: "users/app", Type: "BOT"}, "", "[Session Start] here")
	kit.NoError(b.t, err)
	env := lookupIn(b.tmux.env)
	host, _, _ := strings.Cut(strings.TrimPrefix(env("GOOGLE_CHAT_WEBHOOK_URL"), "http://"), "/")
	_, err = state.SessionsIn(state.UserStateDir(env)).Change("the-session", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment = "here", m.Thread.Name, host+"/"+space.Name,
			state.Environment(env)
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.ProjectDir = true, time.Now(), time.Now(),
			b.Dir
		s.ClaudePID, s.ClaudeStart = b.ClaudePID(), inject.ProcessStart(b.ClaudePID())
		s.TmuxPane, s.TmuxSocket = b.Pane(), inject.ServerOf(b.TMUX()).Socket
	})
	kit.NoError(b.t, err)
	return m.Thread.Name
}

// A person looks at a session from its thread, and stops what it runs. A dialog is left
// alone, and a stranger is not heard.
func TestCommand_StatusScreenStop(t *testing.T) {
	const forever = "./forever.sh"
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{
			Args:  []string{"--allowedTools", "Bash(" + forever + ")"},
			Files: map[string]string{forever: "#!/bin/sh\nexec sleep 1000\n"},
			Script: []turn{
				{toolCall("Bash", map[string]any{"command": forever})},
				{toolCall("Bash", map[string]any{"command": "mkdir -p out/of/reach"})}, thanksTurn,
			},
		})
		thread := b.startSteering()
		b.startDaemon()
		b.post(thread, "/status")
		b.awaitPost("[Status] here", "Claude is idle", "Nothing needs you.")
		b.post(thread, "/stop")
		b.awaitPost("[Not used]", "not working")

		b.Prompt("go ahead")
		b.WaitScreen(forever)
		b.awaitBusy()
		_, err := b.space.PostAs(&chat.User{Name: "users/9", Type: "HUMAN"}, thread, "/stop")
		kit.NoError(t, err)
		b.post(thread, "/screen")
		b.awaitPost("[Screen] ", "go ahead", forever) // by the name that its first prompt gave it
		b.post(thread, "/Stop ")
		b.awaitPost("[Stopped] ", forever)
		b.WaitScreen("Interrupted")

		b.Prompt("once more")
		b.WaitScreen(permissionDialog)
		b.post(thread, "/stop")
		b.awaitPost("[Not used]", "A dialog is open")
		b.WaitScreen(permissionDialog)
		b.checkPosts(1, "[Stopped]")
		b.checkMade(false, "out")
	})
}

// A /stop before the first output has Claude Code put the prompt back into its box. What
// we typed is taken out of it again, and the next prompt goes in. It also does if the
// prompt is put back when no /stop looks, as it happens on a busy machine.
func TestCommand_StopBeforeFirstOutput(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		prompts := []string{
			"yes, and publish it",
			"yes, and publish it: " +
				strings.Repeat("the whole of it, with each part in its place, ", 6) + "today",
			"yes,\nand publish \"it\"; then rest  twice",
			"yes ⚠️ publish it late", // Esc comes from no /stop
		}
		script := []turn{askBackTurn}
		for range prompts {
			script = append(script, turn{fakemodel.Silence}, askBackTurn)
		}
		b := startApproving(t, c, config{Script: script})
		b.Prompt("go ahead")
		for i, prompt := range prompts {
			b.awaitPosts(i+1, "[Waiting for you]")
			q := b.awaitPostNumber(i+1, "[Waiting for you]")
			b.reply(q, prompt)
			b.awaitPosts(2*i+1, "[Sent]")
			b.awaitBusy()
			if i < len(prompts)-1 {
				b.reply(q, "/stop")
				b.awaitPosts(i+1, "[Stopped]")
			} else {
				b.Keys("Escape")
				b.WaitScreenFunc("the prompt in the box", func(screen string) bool {
					return strings.Contains(inject.ReadScreen(screen).Draft, "publish it late")
				})
			}
			other := fmt.Sprint("rather the other ", i)
			b.reply(q, other)
			b.API.WaitText(t, other)
		}
	})
}

// Claude Code's own commands are typed as they are when Claude is idle, and the thread is
// told what the terminal says of them.
func TestCommand_ClaudesOwn(t *testing.T) {
	eachSession(t, bothVersions, startApproving, config{
		Script: []turn{askBackTurn, askBackTurn, askBackTurn, askBackTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Waiting for you]")
		b.reply(q, "/model haiku")
		b.awaitPost("[Sent] /model haiku", "Haiku")
		b.reply(q, "/compact keep the names")
		b.awaitPost("[Sent] /compact keep the names")
		b.reply(q, "/clear")
		b.awaitPost("[Sent] /clear")
		b.reply(q, "/exit")
		b.awaitPost("[Not used] There is no command /exit")
		b.reply(q, "now the next")
		b.awaitPost("[Sent] Sent")
		kit.Equalf(t, b.process.Exited(0), false, "Claude Code has ended")
		b.awaitPosts(2, "[Waiting for you]")
		b.checkOneThread(q) // also after /clear
		b.API.WaitTextOnce(t, "now the next")
	})
}

// In a question's thread our commands are commands, and "help" and "?" ask what to write:
// Claude gets the answer alone.
func TestCommand_InAQuestionsThread(t *testing.T) {
	eachCase(t, testedVersions, map[string]bool{"chat": false, "page": true}, func(
		t *testing.T, c claude, onPage bool,
	) {
		b := startApproving(t, c, config{
			App:    onPage,
			Script: []turn{askBackTurn, {questionCall(deployQuestion)}, thanksTurn},
		})
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Waiting for you]"), "yes")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.WaitScreen(firstOption)
		say := func(text string) { b.reply(q, text) }
		if onPage {
			p := b.openPhonePage()
			say = func(text string) { p.sendAnswer(text, `#send`) }
		}
		say("/status")
		b.awaitPostInThread(q, "[Status]", "A dialog is open", deployQuestion.Question)
		say("/stop")
		b.awaitPostInThread(q, "[Not used]", "A dialog is open")
		for range 2 {
			say("help")
			b.awaitPostInThread(q, "[Not used]", "option number", "`chat`")
		}
		say("3")
		b.awaitResult(1, `="Canary"`)
		b.awaitPostInThread(q, "[Answered]", "Selected: Canary")
	})
}
