package wake

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
)

// A notification does not repeat what the agent knows. It shows what the session waits
// for.
func TestWakeMessage_PermissionAfterText(t *testing.T) {
	w := newWorld(t, "warden-main", readScreenFile("permission-02-open"))
	w.awaitOnPane("Esc to cancel")
	transcript := w.path("project/t.jsonl")
	kit.NoError(w, os.WriteFile(transcript, []byte(`{"type":"user","uuid":"u","message":{"content":"go"}}
{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Let me look around first."}]}}
{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}
`), 0o600))
	w.runHook("notification-permission-hook",
		recorded(t, "timing-05-Notification", "transcript_path", transcript))
	kit.Equalf(t, len(w.wakeMessages()), 1, "messages")
	kit.Contains(t, w.lastContent(), "rm -rf build")
}

// openclaw gets exactly Claude's text, without control characters for a terminal.
func TestWakeMessage_TextIsExact(t *testing.T) {
	w := newQuietWorld(t)
	w.runStopWith("He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s\x00\x1b[31m")
	kit.Equalf(t, w.lastContent(), "He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s", "content")
}

var timestampPattern = regexp.MustCompile(`(?m)^timestamp: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// This test compares the messages of all triggers, through a real tmux, to the last byte.
func TestWakeMessage_OfEachTrigger(t *testing.T) {
	transcript, err := filepath.Abs(filepath.Join("testdata", "2.1.329", "single.jsonl"))
	kit.NoError(t, err)
	lines := "i=1; while [ $i -le 60 ]; do echo \"line $i\"; i=$((i+1)); done; printf '\\033[1mbold\\033[0m \\342\\224\\202 boxed \\342\\224\\202\\n'; echo 'opus  ctx 83%'; exec sleep 600"
	for _, c := range []struct {
		name, screen, shows, hook string
		event                     []byte
	}{
		{"stop", readScreenFile("single-00-idle"), "? for shortcuts", "stop-hook",
			recorded(t, "single-07-Stop")},
		{"stop-transcript", readScreenFile("single-00-idle"), "? for shortcuts", "stop-hook",
			recorded(t, "single-07-Stop", "last_assistant_message", nil,
				"transcript_path", transcript)},
		{"stop-pane", lines, "ctx 83%", "stop-hook",
			recorded(t, "single-07-Stop", "last_assistant_message", "")},
		{"question", readScreenFile("single-00-idle"), "? for shortcuts", "pre-tool-use-hook",
			recorded(t, "single-03-PreToolUse")},
		{"questions-multi", readScreenFile("single-00-idle"), "? for shortcuts",
			"pre-tool-use-hook", recorded(t, "multi-03-PreToolUse")},
		{"idle", readScreenFile("single-00-idle"), "? for shortcuts", "notification-idle-hook",
			recorded(t, "timing-09-Notification")},
		{"permission", readScreenFile("permission-02-open"), "Esc to cancel",
			"notification-permission-hook", recorded(t, "timing-05-Notification")},
		{"session-end", readScreenFile("single-00-idle"), "? for shortcuts", "session-end-hook",
			recorded(t, "timing-10-SessionEnd")},
		{"pre-compact", readScreenFile("single-00-idle"), "? for shortcuts", "pre-compact-hook",
			recorded(t, "timing-10-SessionEnd", "hook_event_name", "PreCompact", "trigger", "auto",
				"transcript_path", transcript)},
		{"menu", readScreenFile("single-02-open"), "Esc to cancel", "notification-permission-hook",
			recorded(t, "timing-05-Notification")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "warden-main", c.screen)
			w.awaitOnPane(c.shows)
			w.wantNew(c.name, c.hook, c.event, 1)
			got := w.wakeMessages()[0].Wake
			arguments := []string{"agent", "--session-id", "11111111-2222", "--message",
				w.lastMessageText()}
			kit.Equalf(t, got.Args, arguments, "arguments")
			kit.Equalf(t, got.SearchPath, w.env["PATH"], "PATH")
			kit.True(t, !got.NeedsReply, "needs a reply")
			text := timestampPattern.ReplaceAllString(w.lastMessageText(), "timestamp: TIME")
			golden.Compare(t, "testdata/messages/"+c.name+".txt", text)
		})
	}
}

func TestWakeMessage_QuestionsOfACall(t *testing.T) {
	for input, want := range map[string]string{
		`{"questions":[{"question":"Why?\nReally?","options":[]}]}`: "Question: Why?\nReally?\nMulti-select: no",
		`{"questions":[{"question":"A","header":"H","multiSelect":true,"options":[{"label":"x\ny","description":""}]},{"question":"B","options":[{"label":"z","description":"d\n e"}]}]}`: "Question: A\nHeader: H\nMulti-select: yes\nOptions:\n  1. x y\n\nQuestion: B\nMulti-select: no\nOptions:\n  1. z: d  e",
	} {
		kit.Equalf(t, questionsText([]byte(input)), want, "%s", input)
	}
}

// A label is sent as it is on the screen. Only line ends and control characters are
// replaced.
func TestWakeMessage_LabelIsOneLine(t *testing.T) {
	for s, want := range map[string]string{
		"a  b": "a  b", " a ": " a ", "a\nb": "a b", "a\r\nb": "a b", "a\tb": "a b",
		"a\x1b[31mb\x00": "ab", "a\u2028b": "a b", "a\u009bb": "a", "ä\xff": "ä\uFFFD",
		"a\u00a0b": "a\u00a0b",
	} {
		kit.Equalf(t, oneLine(s), want, "%q", s)
	}
	ask := `{"questions":[{"question":"Why?","header":" ","options":[{"label":"a  b","description":" "},{"label":" ","description":"d"}]}]}`
	want := "Question: Why?\nMulti-select: no\nOptions:\n  1. a  b\n  2. : d"
	kit.Equal(t, questionsText([]byte(ask)), want)
}

// If no question can be read, the agent gets the call's input.
func TestWakeMessage_UnreadableQuestions(t *testing.T) {
	for input, want := range map[string]string{
		``: "", `{"questions":[]}`: "\n{\"questions\":[]}",
		`{"ask":"Why?"}`: "\n{\"ask\":\"Why?\"}", `["Why?"]`: "\n[\"Why?\"]",
		`{"questions":7}`: "\n{\"questions\":7}", `null`: "\nnull",
		`{"questions":[{"prompt":"Why?"}]}`:                   "\n{\"questions\":[{\"prompt\":\"Why?\"}]}",
		`{"questions":[{"question":7}]}`:                      "\n{\"questions\":[{\"question\":7}]}",
		`{"questions":[{"question":"Why?","options":"one"}]}`: "\n{\"questions\":[{\"question\":\"Why?\",\"options\":\"one\"}]}",
		`{"ask":"` + strings.Repeat("ä", 3000) + `"}`: "\n{\"ask\":\"" + strings.Repeat("ä",
			maxRawChars-8),
	} {
		kit.Equalf(t, questionsText([]byte(input)), "(could not parse questions)"+want, "%s", input)
	}
}

func TestWakeMessage_NewLines(t *testing.T) {
	words := func(s string) []string { return strings.Fields(s) }
	for name, c := range map[string]struct {
		was   []string
		is    string
		least int
		want  string
	}{
		"the first time":        {nil, "a b c d", 2, "c d"},
		"the first time, short": {nil, "a", 10, "a"},
		"the first time, all":   {nil, "a b", 0, "a b"},
		"scrolled":              {words("a b c"), "b c d e", 0, "d e"},
		"nothing new":           {words("a b c"), "a b c", 0, ""},
		"nothing new, context":  {words("a b c"), "a b c", 2, "b c"},
		"in the middle":         {words("a b c"), "a x b y c", 0, "x y"},
		"few, with context":     {words("a b c d"), "a x b c d", 3, "x c d"},
		"said twice":            {words("ok a ok"), "ok a ok ok", 0, "ok"},
		"all of it":             {words("a b"), "c d", 1, "c d"},
		"an empty pane before":  {[]string{}, "a b", 0, "a b"},
	} {
		kit.Equalf(t, strings.Join(newLines(c.was, words(c.is), c.least), " "), c.want, "%s", name)
	}
}

func TestWakeMessage_TextIsCut(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "bcd"}, {"äöü", 2, "öü"}, {"🙂🙃", 1, "🙃"}} {
		kit.Equalf(t, lastChars(c.s, c.n), c.want, "%q to %d", c.s, c.n)
	}
	kit.Equal(t, firstChars("🙂🙃", 1), "🙂")
}
