package hooks_test

import (
	"fmt"
	"os"
	"os/exec"
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
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace to kill at system calls: apt-get install strace")
	}
	steps := []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "connect", "write", "openat"}
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, victim := range []string{forward, rewake} {
			for _, call := range steps {
				for nth := 1; nth <= 5; nth++ {
					if call == "openat" {
						nth += 6 // the first ones belong to the loader and the runtime
					}
					t.Run(fmt.Sprintf("%s/%s/%d", victim, call, nth), func(t *testing.T) {
						t.Parallel()
						killDenied(t, victim, call, nth, &killed)
					})
				}
			}
		}
	})
	t.Logf("%d processes were killed", killed.Load())
	if killed.Load() < 25 {
		t.Errorf("only %d processes were killed: the test does not do what it says", killed.Load())
	}
}

func killDenied(t *testing.T, victim, call string, nth int, killed *atomic.Int64) {
	w := denying(t)
	strace := func(name string) []string {
		if name != victim {
			return nil
		}
		return []string{"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=" + call,
			"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, nth)}
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
