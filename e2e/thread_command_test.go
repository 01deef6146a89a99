package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
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
	env := func(name string) string {
		for _, pair := range slices.Backward(b.tmux.env) {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(env("GOOGLE_CHAT_WEBHOOK_URL"), "http://"), "/")
	_, err = state.SessionsIn(state.UserStateDir(env)).Change("the-session", func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment = "here", m.Thread.Name, host+"/"+space.Name, state.Environment(env)
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.ProjectDir = true, time.Now(), time.Now(), b.Dir
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
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{
			Args: []string{"--allowedTools", "Bash(" + forever + ")"},
			Prepare: func(_, project string) {
				kit.NoError(t, os.WriteFile(filepath.Join(project, "forever.sh"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
			},
			Script: []turn{{toolCall("Bash", map[string]any{"command": forever})}, {toolCall("Bash", map[string]any{"command": "mkdir -p out/of/reach"})}, thanksTurn},
		}, questionEvents...)
		thread := b.startSteering()
		b.startDaemon()
		say := func(from *chat.User, text string) {
			t.Helper()
			if _, err := b.space.PostAs(from, thread, text); err != nil {
				t.Fatal(err)
			}
		}
		say(space.Person(), "/status")
		b.awaitPost("[Status] here", "Claude is idle", "Nothing needs you.")
		say(space.Person(), "/stop")
		b.awaitPost("[Not used] Claude is not working.")

		b.Prompt("go ahead")
		b.WaitScreen(forever)
		b.WaitScreenFunc("a command that runs", func(string) bool {
			capture, err := b.capture()
			return err == nil && inject.ReadScreen(capture).Busy
		})
		say(&chat.User{Name: "users/9", Type: "HUMAN"}, "/stop")
		say(space.Person(), "/screen")
		b.awaitPost("[Screen] ", "go ahead", forever) // by the name that its first prompt gave it
		say(space.Person(), "/Stop ")
		b.awaitPost("[Stopped] ", forever)
		b.WaitScreen("Interrupted")

		b.Prompt("once more")
		b.WaitScreen("Do you want to proceed?")
		say(space.Person(), "/stop")
		b.awaitPost("[Not used] A dialog is open in the terminal")
		b.WaitScreen("Do you want to proceed?")
		kit.Equalf(t, strings.Count(b.postTexts(), "[Stopped]"), 1, "stopped")
		if made, _ := filepath.Glob(filepath.Join(b.Dir, "out")); made != nil {
			t.Error("the command was run")
		}
	})
}

// A /stop before Claude said anything has Claude Code put the prompt back into its box.
// What we typed is taken out of it again, and what is said next goes in.
func TestCommand_StopBeforeFirstOutput(t *testing.T) {
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

// Claude Code's own commands are typed as they are when Claude is idle, and the thread is
// told what the terminal says of them.
func TestCommand_ClaudesOwn(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{askBackTurn, askBackTurn, askBackTurn, askBackTurn}})
		b.Prompt("go ahead")
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
		b.awaitPost("[Sent] Sent to Claude.")
		b.API.WaitText(t, "now the next")
		if b.process.Exited(0) {
			t.Error("Claude Code has ended")
		}
		bound.Until(t, "asked again", func() bool { return b.countPosts("[Waiting for you]") == 2 })
		for _, m := range b.space.Messages() {
			kit.Equalf(t, m.Thread.Name, q.Thread.Name, "after /clear it goes on in another thread: %q", m.Text)
		}
		kit.Equalf(t, b.API.maxCount("now the next"), 1, "Claude has it")
	})
}

// In a question's thread our commands are commands, and "help" and "?" ask what to write:
// Claude gets the answer alone.
func TestCommand_InAQuestionsThread(t *testing.T) {
	t.Parallel()
	for name, onPage := range map[string]bool{"chat": false, "page": true} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startApproving(t, c, config{App: onPage, Script: []turn{askBackTurn, {questionCall(deployQuestion)}, thanksTurn}})
				b.Prompt("go ahead")
				b.reply(b.awaitPost("[Waiting for you]"), "yes")
				q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
				b.WaitScreen(firstOption)
				say := func(text string) { b.reply(q, text) }
				if onPage {
					p := b.openPhonePage()
					say = func(text string) {
						p.typeAnswer(text)
						p.tapAnswer(`#send`)
					}
				}
				say("/status")
				b.awaitPostInThread(q, "[Status]", "A dialog is open in the terminal", deployQuestion.Question)
				say("/stop")
				b.awaitPostInThread(q, "[Not used]", "A dialog is open in the terminal: answer it first.")
				for range 2 {
					say("help")
					b.awaitPostInThread(q, "[Not used]", "Reply with the option number", "`chat` tells Claude")
				}
				say("3")
				b.awaitResult(1, `="Canary"`)
				b.awaitPostInThread(q, "[Answered]", "Selected: Canary")
			})
		})
	}
}
