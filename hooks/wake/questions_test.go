package wake

import (
	"encoding/json"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestWakeMessage_QuestionsOfACall(t *testing.T) {
	for input, want := range map[string]string{
		`{"questions":[{"question":"Why?\nReally?","options":[]}]}`: "Question: Why?\nReally?\nMulti-select: no",
		`{"questions":[{"question":"A","header":"H","multiSelect":true,"options":[{"label":"x\ny","description":""}]},{"question":"B","options":[{"label":"z","description":"d\n e"}]}]}`: "Question: A\nHeader: H\nMulti-select: yes\nOptions:\n  1. x y\n\nQuestion: B\nMulti-select: no\nOptions:\n  1. z: d  e",
	} {
		if got := questionsText([]byte(input)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", input, got, want)
		}
	}
}

// A label is sent as it is on the screen. Only line ends and control characters are
// replaced.
func TestWakeMessage_LabelIsOneLine(t *testing.T) {
	for s, want := range map[string]string{
		"a  b": "a  b", " a ": " a ", "a\nb": "a b", "a\r\nb": "a b", "a\tb": "a b", "a\x1b[31mb\x00": "ab", "a\u2028b": "a b", "a\u009bb": "a", "ä\xff": "ä\uFFFD", "a\u00a0b": "a\u00a0b",
	} {
		kit.Equalf(t, oneLine(s), want, "%q", s)
	}
	ask := `{"questions":[{"question":"Why?","header":" ","options":[{"label":"a  b","description":" "},{"label":" ","description":"d"}]}]}`
	if got, want := questionsText([]byte(ask)), "Question: Why?\nMulti-select: no\nOptions:\n  1. a  b\n  2. : d"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// If no question can be read, the agent gets the call's input.
func TestWakeMessage_UnreadableQuestions(t *testing.T) {
	for input, want := range map[string]string{
		``: "", `{"questions":[]}`: "\n{\"questions\":[]}", `{"ask":"Why?"}`: "\n{\"ask\":\"Why?\"}", `["Why?"]`: "\n[\"Why?\"]", `{"questions":7}`: "\n{\"questions\":7}", `null`: "\nnull",
		`{"questions":[{"prompt":"Why?"}]}`: "\n{\"questions\":[{\"prompt\":\"Why?\"}]}", `{"questions":[{"question":7}]}`: "\n{\"questions\":[{\"question\":7}]}", `{"questions":[{"question":"Why?","options":"one"}]}`: "\n{\"questions\":[{\"question\":\"Why?\",\"options\":\"one\"}]}",
		`{"ask":"` + strings.Repeat("ä", 3000) + `"}`: "\n{\"ask\":\"" + strings.Repeat("ä", maxRawChars-8),
	} {
		if got := questionsText([]byte(input)); got != "(could not parse questions)"+want {
			t.Errorf("%s:\n%s\nwant\n%s", input, got, want)
		}
	}
}

// Claude Code notifies of a question's dialog, too. The agent gets one message about it,
// and one about each other dialog.
func TestWake_QuestionIsSentOnce(t *testing.T) {
	w := newWorld(t, "warden-main", readScreenFile("single-02-open"))
	w.awaitOnPane("Esc to cancel")
	ask, notification := recorded(t, "single-03-PreToolUse"), recorded(t, "timing-05-Notification")
	told := func(what, hook string, event []byte, want int) {
		t.Helper()
		before := len(w.wakeMessages())
		if w.runHook(hook, event); len(w.wakeMessages())-before != want {
			t.Errorf("%s: %d messages, want %d", what, len(w.wakeMessages())-before, want)
		}
	}
	var other map[string]any
	w.must(json.Unmarshal([]byte(`{"questions":[{"question":"And then?","options":[]}]}`), &other))
	told("a question", "pre-tool-use-hook", ask, 1)
	told("the notification of it", "notification-permission-hook", notification, 0)
	told("another question", "pre-tool-use-hook", recorded(t, "single-03-PreToolUse", "tool_input", other), 1)
	told("a dialog that was not told", "notification-permission-hook", notification, 1)
	w.runTmux("respawn-pane", "-k", "-t", w.pane, "sh", "-c", readScreenFile("permission-02-open"))
	w.awaitOnPane("git push --force")
	told("a tool's permission", "notification-permission-hook", notification, 1)
	kit.Containsf(t, section(w.lastMessageText(), "CONTENT"), "rm -rf build && git push --force", "told")
}
