package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

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
func TestASessionIsSteeredFromItsThread(t *testing.T) {
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
