package wake

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"gchat-hooks/e2e/golden"
)

var stamp = regexp.MustCompile(`(?m)^timestamp: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// screen has a pane show a recorded screen of 110x40 as it was.
func screen(name string) string {
	path, _ := filepath.Abs(filepath.Join("testdata", "2.1.329", name+".ansi"))
	return "head -c -1 '" + path + "'; exec sleep 600"
}

// The messages of all triggers, over the real tmux, to the last byte.
func TestGoldenMessages(t *testing.T) {
	transcript, err := filepath.Abs(filepath.Join("testdata", "2.1.329", "single.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := "i=1; while [ $i -le 60 ]; do echo \"line $i\"; i=$((i+1)); done; printf '\\033[1mbold\\033[0m \\342\\224\\202 boxed \\342\\224\\202\\n'; echo 'opus  ctx 83%'; exec sleep 600"
	for _, c := range []struct {
		name, screen, shows, hook string
		event                     []byte
	}{
		{"stop", screen("single-00-idle"), "? for shortcuts", "stop-hook", recorded(t, "single-07-Stop")},
		{"stop-transcript", screen("single-00-idle"), "? for shortcuts", "stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", transcript)},
		{"stop-pane", lines, "ctx 83%", "stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "")},
		{"question", screen("single-00-idle"), "? for shortcuts", "pre-tool-use-hook", recorded(t, "single-03-PreToolUse")},
		{"questions-multi", screen("single-00-idle"), "? for shortcuts", "pre-tool-use-hook", recorded(t, "multi-03-PreToolUse")},
		{"idle", screen("single-00-idle"), "? for shortcuts", "notification-idle-hook", recorded(t, "timing-09-Notification")},
		{"permission", screen("permission-02-open"), "Esc to cancel", "notification-permission-hook", recorded(t, "timing-05-Notification")},
		{"session-end", screen("single-00-idle"), "? for shortcuts", "session-end-hook", recorded(t, "timing-10-SessionEnd")},
		{"pre-compact", screen("single-00-idle"), "? for shortcuts", "pre-compact-hook", recorded(t, "timing-10-SessionEnd", "hook_event_name", "PreCompact", "trigger", "auto", "transcript_path", transcript)},
		{"menu", screen("single-02-open"), "Esc to cancel", "notification-permission-hook", recorded(t, "timing-05-Notification")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "warden-main", c.screen)
			w.shows(c.shows)
			if out := w.fire(c.hook, c.event); out != "" {
				t.Errorf("printed %q", out)
			}
			all := w.waiting()
			if len(all) != 1 {
				t.Fatalf("%d messages\n%s", len(all), w.log())
			}
			got := all[0].Wake
			if len(got.Args) != 5 || !slices.Equal(got.Args[:4], []string{"agent", "--session-id", "11111111-2222", "--message"}) {
				t.Errorf("called with %q", got.Args)
			}
			if got.Path != w.env["PATH"] || got.Reply {
				t.Errorf("called as %+v", got)
			}
			if !stamp.MatchString(w.last()) {
				t.Errorf("no timestamp in\n%s", w.last())
			}
			golden.Compare(t, "testdata/messages/"+c.name+".txt", stamp.ReplaceAllString(w.last(), "timestamp: TIME"))
		})
	}
}
