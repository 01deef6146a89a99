package hooks_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/state"
)

// killAtEachStep runs a story once for each victim and step at which it is killed; so many must really have been. The steps are
// system calls: strace kills the real program right at them, so there is no step that the test forgot to name.
func killAtEachStep(t *testing.T, atLeast int64, story func(w *world, killing func(victim string) []string) (killed bool),
	victims ...string) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace to kill at system calls: apt-get install strace")
	}
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, victim := range victims {
			for _, call := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "write", "openat"} {
				for nth := 1; nth <= 6; nth++ {
					when := nth
					if call == "openat" {
						when += 5 // the first ones belong to the loader and the runtime
					}
					t.Run(fmt.Sprintf("%s/%s/%d", victim, call, when), func(t *testing.T) {
						t.Parallel()
						strace := []string{"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=" + call,
							"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, when)}
						if story(newWorld(t), func(name string) []string {
							if name == victim {
								return strace
							}
							return nil
						}) {
							killed.Add(1)
						}
					})
				}
			}
		}
	})
	t.Logf("%d processes were killed", killed.Load())
	if killed.Load() < atLeast {
		t.Errorf("only %d processes were killed: the test does not do what it says", killed.Load())
	}
}

// TestKilledAtEveryStep kills -9 each hook of a question's way at each of its steps that other processes can see, runs what
// Claude Code or the next hook would run again, and wants one question, one answer, one confirmation.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	killAtEachStep(t, 40, killOnce, "PreToolUse", "PermissionRequest", "PostToolUse")
}

func killOnce(w *world, killing func(string) []string) (killed bool) {
	run := func(hook, name string, event []byte) string {
		p := w.start(hook, event, killing(name)...)
		<-p.done
		if p.ProcessState.Success() {
			return p.out.String()
		}
		killed = true
		again := w.run(hook, event)
		if first := p.out.String(); first != "" && again != "" && first != again {
			w.Errorf("two answers: %s and %s", first, again)
		}
		return again
	}
	run(forward, "PreToolUse", recorded(w, "single-03-PreToolUse"))
	go func() { w.say(ann, w.thread(1), "canary") }() // whichever process is being killed meanwhile
	if got := w.answers(run(forward, "PermissionRequest", recorded(w, "single-04-PermissionRequest")))[single]; got != "Canary" {
		w.Errorf("answered %q", got)
	}
	run(answered, "PostToolUse", told(w, "Canary"))
	w.awaitMessage("[Answered]")
	if q := w.question(); q.Status != state.Resolved || q.ResolvedBy != "chat" {
		w.Errorf("at the end: %s by %s", q.Status, q.ResolvedBy)
	}
	w.saidOnce()
	return killed
}

// saidOnce checks that the space holds one question and one confirmation, and nothing else of ours about it.
func (w *world) saidOnce() {
	w.Helper()
	for beginning, want := range map[string]int{
		"[AskUserQuestion]": 1, "[Answered]": 1, "[Cancelled]": 0, "[Not used]": 0, "[Timeout]": 0,
	} {
		if n := len(w.messages(beginning)); n != want {
			w.Errorf("%d messages %s, want %d", n, beginning, want)
		}
	}
}

// TestDeniedKilledAtEveryStep kills -9 each hook of a denied question's way at each of its steps, runs what Claude Code would
// run next, and wants one question in the space and the reply with Claude, once.
func TestDeniedKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	killAtEachStep(t, 20, killDenied, forward, rewake)
}

func killDenied(w *world, killing func(string) []string) (killed bool) {
	w.env["GCHAT_ASK_MODE"] = "deny"
	pre := recorded(w, "single-03-PreToolUse")
	wakes := w.start(rewake, pre, killing(rewake)...)
	ask := w.start(forward, pre, killing(forward)...)
	<-ask.done
	if strings.Contains(ask.out.String(), `"permissionDecision":"deny"`) {
		w.say(ann, w.thread(1), "canary")
		<-wakes.done
		told := wakes.err.String()
		if wakes.ProcessState.ExitCode() != 2 {
			killed = true
			transcript := filepath.Join(w.dir, "transcript.jsonl")
			writeFile(w, transcript, `{"type":"user"}`)
			session := w.question().ClaudeSessionID
			told = w.start(rewake, event(w, "Stop", session, "transcript_path", transcript)).woken()
		}
		if !strings.Contains(told, `="Canary"`) {
			w.Errorf("woken with %q", told)
		}
	} else { // no decision: Claude Code draws the dialog
		killed = true
		p := w.start(forward, recorded(w, "single-04-PermissionRequest"))
		w.until("the question of the dialog", func() bool {
			return slices.ContainsFunc(w.questions(), func(q *state.Question) bool { return q.Mode == state.Native })
		})
		w.say(ann, w.thread(1), "canary")
		if got := w.answers(p.end())[single]; got != "Canary" {
			w.Errorf("answered %q", got)
		}
		w.run(answered, told(w, "Canary"))
		terminate(wakes) // it looks for its marker for a while
		<-wakes.done
	}
	w.awaitMessage("[Answered]")
	w.saidOnce()
	return killed
}

// storesAndHangs is a Chat that stores the first message and does not answer until open is closed.
func storesAndHangs(w *world, open <-chan struct{}, once *sync.Once) func(http.ResponseWriter, *http.Request) bool {
	handler := w.chat.Handler()
	return func(_ http.ResponseWriter, r *http.Request) (hang bool) {
		if r.Method != http.MethodPost {
			return false
		}
		once.Do(func() { hang = true })
		if hang {
			handler.ServeHTTP(&unheard{header: http.Header{}}, r)
			select {
			case <-open:
			case <-time.After(patience):
			}
		}
		return hang
	}
}

// unheard takes an answer that does not reach its client.
type unheard struct{ header http.Header }

func (u *unheard) Header() http.Header         { return u.header }
func (u *unheard) Write(b []byte) (int, error) { return len(b), nil }
func (u *unheard) WriteHeader(int)             {}
