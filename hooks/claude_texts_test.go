package hooks

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Texts for Claude name the place where the person really answered.
func TestClaudeText_NamesTheChat(t *testing.T) {
	const google, page = "chat.googleapis.com/spaces/AAAA", "127.0.0.1:8765/spaces/local"
	texts := map[string]func(*state.Question) string{
		"an answer": answerText,
		"the next instruction": func(q *state.Question) string {
			return promptText(q, "go on")
		},
		"a prompt for the session": func(q *state.Question) string { q.Kind = state.KindPrompt; return promptText(q, "go on") },
		"a denial":                 refusalText,
		"a plan sent back": func(q *state.Question) string {
			q.Answers["Which DB?"] = state.LabelSendBack
			return refusalText(q)
		},
	}
	for name, text := range texts {
		for _, where := range []struct{ chat, by, says string }{
			{google, "users/1", " from Google Chat"},
			{page, "users/human", " from the chat page"},
			{page, state.LocalSender, " on this machine"},
			{google, state.LocalSender, " on this machine"},
		} {
			q := &state.Question{
				SubQuestions: []state.SubQuestion{{Question: "Which DB?"}}, Chat: where.chat,
				AnsweredBy: where.by,
				Answers:    map[string]string{"Which DB?": state.LabelDeny},
			}
			kit.Containsf(t, text(q), where.says, "%s at %s by %s", name, where.chat, where.by)
		}
	}
	q := &state.Question{Chat: page}
	kit.Contains(t, timeoutText(q, true), "The chat page cannot be read at present")
}

func TestClaudeText_IsShortened(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"  short \n", "short"}, {strings.Repeat("ä", 20), strings.Repeat("ä", 5) + "…"},
		{"1\n2\n3\n4", "1\n2\n3…"},
		{"```\n1\n2\n3", "```\n1\n2…\n```"}, {"", ""},
		{"0123456789\n", "0123456789"},
	} {
		kit.Equalf(t, shorten(c.in, 11, 3), c.want, "%q", c.in)
	}
}

func TestClaudeText_MarkdownIsEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"main": "main", "fix(x): it works, 100%": "fix(x): it works, 100%",
		"foo_test.go": "foo_test.go",
		"__init__.py": "`__init__.py`", "*x*": "`*x*`",
		"<users/all>": "`<users/all>`", "a`b": "`a'b`", "[x](http://y)": "`[x](http://y)`",
		"_x_": "`_x_`", "": "",
		"日本_語": "`日本_語`", "&lt;": "`&lt;`",
	} {
		kit.Equalf(t, escapeMarkdown(in), want, "%q", in)
	}
}
