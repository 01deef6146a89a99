package hooks_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gchat-hooks/state"
)

// TestDeniedKilledAtEveryStep kills -9 each hook of a denied question's way at each of its steps, runs what Claude Code would
// run next, and wants one question in the space and the reply with Claude, once.
func TestDeniedKilledAtEveryStep(t *testing.T) {
	killAtEachStep(t, 25, killDenied, forward, rewake)
}

func killDenied(t *testing.T, victim, call string, nth int, killed *atomic.Int64) {
	w := denying(t)
	strace := func(name string) []string {
		if name != victim {
			return nil
		}
		return killing(call, nth)
	}
	event := recorded(t, "single-03-PreToolUse")
	wakes := w.start(rewake, event, strace(rewake)...)
	ask := w.start(forward, event, strace(forward)...)
	<-ask.done
	told := ""
	if strings.Contains(ask.out.String(), `"permissionDecision":"deny"`) {
		w.say(ann, w.thread(1), "canary")
		<-wakes.done
		if wakes.ProcessState.ExitCode() == 2 {
			told = wakes.err.String()
		} else {
			killed.Add(1)
			transcript := filepath.Join(w.dir, "transcript.jsonl")
			writeFile(t, transcript, `{"type":"user"}`)
			told = w.start(rewake, recorded(t, "single-05-PostToolUse", "hook_event_name", "Stop", "transcript_path", transcript)).woken()
		}
		if !strings.Contains(told, `="Canary"`) {
			t.Errorf("woken with %q", told)
		}
	} else { // no decision: Claude Code draws the dialog
		killed.Add(1)
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		// Before that, the other hook may have read the reply already: it cannot know of the dialog.
		w.until("the question of the dialog", func() bool {
			return slices.ContainsFunc(w.questions(), func(q *state.Question) bool { return q.Mode == state.Native })
		})
		w.say(ann, w.thread(1), "canary")
		if got := w.answers(p.end())[single]; got != "Canary" {
			t.Errorf("answered %q", got)
		}
		w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Canary"}}))
		terminate(wakes) // it looks for its marker for a while
		<-wakes.done
	}
	w.until("the confirmation", func() bool {
		if len(w.messages("[Answered]")) > 0 {
			return true
		}
		w.flush()
		return false
	})
	w.endFlusher()
	for _, q := range w.questions() {
		if q.Status != state.Resolved && q.ResolvedBy != "instead" {
			t.Errorf("at the end: %s by %s", q.Status, q.ResolvedBy)
		}
	}
	for beginning, want := range map[string]int{"[AskUserQuestion]": 1, "[Answered]": 1, "[Cancelled]": 0, "[Not used]": 0, "[Timeout]": 0} {
		if n := len(w.messages(beginning)); n != want {
			t.Errorf("%d messages %s, want %d", n, beginning, want)
		}
	}
}
