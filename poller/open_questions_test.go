package poller

import (
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/state"
)

// A question that another program wrote down has no chat of ours in it. Its thread's link follows from what is configured;
// a webhook that a command would print is not asked for.
func TestOpenQuestionsLinkThreadsOfOtherPrograms(t *testing.T) {
	const webhook, thread = "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=k&token=t", "https://chat.google.com/room/AAAA/T"
	for name, c := range map[string]struct {
		env  map[string]string
		file string // config.json
		want string
	}{
		"a webhook":                 {env: map[string]string{"GOOGLE_CHAT_WEBHOOK_URL": webhook}, want: thread},
		"a webhook of another room": {env: map[string]string{"GOOGLE_CHAT_WEBHOOK_URL": "https://chat.googleapis.com/v1/spaces/BBBB/messages?key=k&token=t"}},
		"a space":                   {env: map[string]string{"GOOGLE_CHAT_SPACE_ID": "AAAA"}, want: thread},
		"a command and a space":     {file: `{"webhook_url_command": "touch asked", "space_id": "AAAA"}`, want: thread},
		"a command":                 {file: `{"webhook_url_command": "touch asked"}`},
		"nothing":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			env := map[string]string{"HOME": dir, "CLAUDE_PROJECT_DIR": filepath.Join(dir, "p")}
			for name, value := range c.env {
				env[name] = value
			}
			p := &Poller{Env: func(name string) string { return env[name] }}
			p.Log = state.NewLog(p.Env, "test")
			for path, text := range map[string]string{
				"p/.claude/state/pending-questions/s-1763726400.json": `{"question_id": "1a2b3c4d-0000-0000-0000-000000000000", "session_id": "s", "tmux_session": "orch", "asked_at": "` +
					p.now().UTC().Format("2006-01-02T15:04:05Z") + `", "gchat_thread_key": "ask-user-1a2b3c4d", "gchat_thread_name": "spaces/AAAA/threads/T", "gchat_message_sent": true,
					"gchat_message_name": "spaces/AAAA/messages/T.T", "questions": [{"question": "Which?", "header": "DB", "options": [{"label": "a", "description": ""}], "multiSelect": false, "option_count": 1}],
					"status": "pending"}`,
				".config/gchat-hooks/config.json": c.file,
			} {
				if text == "" {
					continue
				}
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			open, bad := p.OpenQuestions(&Look{})
			if len(open) != 1 || len(bad) > 0 {
				t.Fatalf("%d questions, %v", len(open), bad)
			}
			if open[0].ThreadURL != c.want {
				t.Errorf("its link is %q, want %q", open[0].ThreadURL, c.want)
			}
			if _, err := os.Stat("asked"); err == nil {
				t.Error("the command was run")
			}
		})
	}
}
