package hooks

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Texts for Claude name the place where the person really answered.
func TestClaudeText_NamesTheChat(t *testing.T) {
	const google, page = "chat.googleapis.com/spaces/AAAA", "127.0.0.1:8765/spaces/local"
	told := map[string]func(*state.Question) string{
		"an answer":             answerText,
		"the next instruction":  func(q *state.Question) string { return promptText(q, "go on") },
		"words for the session": func(q *state.Question) string { q.Kind = state.KindPrompt; return promptText(q, "go on") },
		"a denial":              refusalText,
		"a plan sent back": func(q *state.Question) string {
			q.Answers["Which DB?"] = state.LabelSendBack
			return refusalText(q)
		},
	}
	for name, tell := range told {
		for _, where := range []struct{ chat, by, says string }{
			{google, "users/1", " from Google Chat"},
			{page, "users/human", " from the chat page"},
			{page, state.LocalSender, " on this machine"},
			{google, state.LocalSender, " on this machine"},
		} {
			q := &state.Question{
				SubQuestions: []state.SubQuestion{{Question: "Which DB?"}}, Chat: where.chat, AnsweredBy: where.by,
				Answers: map[string]string{"Which DB?": state.LabelDeny},
			}
			if text := tell(q); !strings.Contains(text, where.says) {
				t.Errorf("%s at %s by %s: %q does not say %q", name, where.chat, where.by, text, where.says)
			}
		}
	}
	q := &state.Question{Chat: page}
	kit.Contains(t, timeoutText(q, true), "The chat page cannot be read at present")
}

// So do texts for Claude before any question was asked.
func TestStopGate_NamesTheChat(t *testing.T) {
	for _, tt := range []struct {
		cfg  config.Config
		want bool
	}{
		{config.Config{WebhookURL: "https://chat.googleapis.com/v1/spaces/AAAA/messages?key=k&token=t"}, false},
		{config.Config{WebhookURL: "http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"}, true},
		{config.Config{SpaceID: "spaces/local", Subscription: "projects/p/subscriptions/s"}, true},
		{config.Config{WebhookCommand: "pass webhook"}, false},
	} {
		kit.Equalf(t, tt.cfg.UsesChatPage(), tt.want, "%+v is on the page", tt.cfg)
	}
	m := newGate(t)
	m.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"
	if v := m.runGate(); !strings.Contains(v.Reason, "The question goes to the chat page") {
		t.Errorf("the stop gate says %q", v.Reason)
	}
}
