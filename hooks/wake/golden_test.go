package wake

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
)

var timestampPattern = regexp.MustCompile(`(?m)^timestamp: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// readScreenFile makes a pane show a recorded screen of 110x40, unchanged.
func readScreenFile(name string) string {
	path, _ := filepath.Abs(filepath.Join("testdata", "2.1.329", name+".ansi"))
	return "head -c -1 '" + path + "'; exec sleep 600"
}

// This test compares the messages of all triggers, through a real tmux, to the last byte.
func TestWakeMessage_OfEachTrigger(t *testing.T) {
	transcript, err := filepath.Abs(filepath.Join("testdata", "2.1.329", "single.jsonl"))
	kit.NoError(t, err)
	lines := "i=1; while [ $i -le 60 ]; do echo \"line $i\"; i=$((i+1)); done; printf '\\033[1mbold\\033[0m \\342\\224\\202 boxed \\342\\224\\202\\n'; echo 'opus  ctx 83%'; exec sleep 600"
	for _, c := range []struct {
		name, screen, shows, hook string
		event                     []byte
	}{
		{"stop", readScreenFile("single-00-idle"), "? for shortcuts", "stop-hook", recorded(t, "single-07-Stop")},
		{"stop-transcript", readScreenFile("single-00-idle"), "? for shortcuts", "stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", transcript)},
		{"stop-pane", lines, "ctx 83%", "stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "")},
		{"question", readScreenFile("single-00-idle"), "? for shortcuts", "pre-tool-use-hook", recorded(t, "single-03-PreToolUse")},
		{"questions-multi", readScreenFile("single-00-idle"), "? for shortcuts", "pre-tool-use-hook", recorded(t, "multi-03-PreToolUse")},
		{"idle", readScreenFile("single-00-idle"), "? for shortcuts", "notification-idle-hook", recorded(t, "timing-09-Notification")},
		{"permission", readScreenFile("permission-02-open"), "Esc to cancel", "notification-permission-hook", recorded(t, "timing-05-Notification")},
		{"session-end", readScreenFile("single-00-idle"), "? for shortcuts", "session-end-hook", recorded(t, "timing-10-SessionEnd")},
		{"pre-compact", readScreenFile("single-00-idle"), "? for shortcuts", "pre-compact-hook", recorded(t, "timing-10-SessionEnd", "hook_event_name", "PreCompact", "trigger", "auto", "transcript_path", transcript)},
		{"menu", readScreenFile("single-02-open"), "Esc to cancel", "notification-permission-hook", recorded(t, "timing-05-Notification")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "warden-main", c.screen)
			w.awaitOnPane(c.shows)
			kit.Equalf(t, w.runHook(c.hook, c.event), "", "printed")
			all := w.wakeMessages()
			if len(all) != 1 {
				t.Fatalf("%d messages\n%s", len(all), w.errorLines())
			}
			got := all[0].Wake
			if len(got.Args) != 5 || !slices.Equal(got.Args[:4], []string{"agent", "--session-id", "11111111-2222", "--message"}) {
				t.Errorf("called with %q", got.Args)
			}
			if got.SearchPath != w.env["PATH"] || got.NeedsReply {
				t.Errorf("called as %+v", got)
			}
			if !timestampPattern.MatchString(w.lastMessageText()) {
				t.Errorf("no timestamp in\n%s", w.lastMessageText())
			}
			golden.Compare(t, "testdata/messages/"+c.name+".txt", timestampPattern.ReplaceAllString(w.lastMessageText(), "timestamp: TIME"))
		})
	}
}
