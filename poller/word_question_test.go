package poller

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// modelAt is a server that words every question so, or fails with that status.
func modelAt(t *testing.T, status int, body string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "sk-secret" {
			t.Errorf("key %q", r.Header.Get("X-Api-Key"))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{
			"id": "m", "type": "message", "role": "assistant", "model": "claude-haiku-4-5-20251001", "stop_reason": "end_turn",
			"content": []any{map[string]any{"type": "text", "text": body}}, "usage": map[string]any{"input_tokens": 400, "output_tokens": 100},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestQuestionIsWordedByTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		body, format string
		want         string
		cost         bool
	}{
		"worded":         {200, `["Time to *pick* a database."]`, "haiku", "Time to *pick* a database.", true},
		"no wording":     {200, "Pick one.", "haiku", "Which DB?", true},
		"no model":       {529, "", "haiku", "Which DB?", false},
		"not configured": {200, `["Time to *pick* a database."]`, "", "Which DB?", false},
	} {
		t.Run(name, func(t *testing.T) {
			chat, err := space.Open(space.Options{})
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(chat.Handler())
			t.Cleanup(func() { srv.Close(); chat.Close() })
			dir := t.TempDir()
			env := map[string]string{
				"HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, "user"), "CLAUDE_PROJECT_DIR": dir, "GOOGLE_CHAT_WEBHOOK_URL": chat.WebhookURL(srv.URL),
				"GCHAT_FORMAT": c.format, "ANTHROPIC_API_KEY": "sk-secret", "ANTHROPIC_BASE_URL": modelAt(t, c.status, c.body),
			}
			getenv := func(name string) string { return env[name] }
			p := &Poller{Env: getenv, Log: state.NewLog(getenv, "test")}
			q, err := state.QuestionsIn(filepath.Join(dir, ".claude", "state")).Record("s", func([]*state.Question) *state.Question {
				return &state.Question{QuestionID: "0123456789", SessionID: "s", SessionName: "web", ThreadKey: "ask-user-01234567", Status: state.Pending, AskedAt: time.Now().UTC(),
					ProjectDir: dir, Mode: state.Native, Questions: []state.Prompt{{Question: "Which DB?", Options: []state.Option{{Label: "SQLite", Description: "a file"}, {Label: "Postgres", Description: "a server"}}}}}
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Post(t.Context(), q.Path, true); err != nil {
				t.Fatal(err)
			}
			ms := chat.Messages()
			if len(ms) != 1 || !strings.Contains(ms[0].Text, c.want) || !strings.Contains(ms[0].Text, "2. Postgres") || !strings.HasSuffix(ms[0].Text, "Thread key: ask-user-01234567") {
				t.Errorf("posted %q", fmt.Sprint(ms[0].Text))
			}
			logged, _ := os.ReadFile(filepath.Join(dir, ".claude", "logs", "gchat-hooks.log"))
			if strings.Contains(string(logged), `"usd":0.0009`) != c.cost || strings.Contains(string(logged), "sk-secret") {
				t.Errorf("log: %s", logged)
			}
			l, err := state.LedgersIn(state.UserState(getenv)).Load("s")
			if (err == nil) != c.cost {
				t.Errorf("ledger: %+v, %v", l, err)
			} else if c.cost && (l.FormattingQuestions != 1 || l.FormattingUSD != 0.0009) {
				t.Errorf("cost: %+v", l)
			}
		})
	}
}
