package hooks_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// endWorld is a guarded session that was asked something, has begun and worked for one turn.
func endWorld(t testing.TB) *world {
	t.Helper()
	w := namedWorld(t)
	w.env["GCHAT_ASK_MODE"] = "deny"
	w.marker("ask-sess-1-0a1b2c3d", "sess-1", "pending", time.Now())
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.rewindStart(72*time.Minute + time.Second/2)
	return w
}

const stoppedText = "[Session End] orch-epic4\n\nDuration: 1 h 12 min\nTurns: %d\nReason: stopped; the session is still open\nLast words: Thanks, understood."

// pass lets the session stop.
func (w *world) pass(kv ...any) {
	w.Helper()
	if v := w.stop(kv...); v != (verdict{}) {
		w.Errorf("said %+v", v)
	}
}

// The turn that ends is counted once, whichever hook of its Stop comes first; and the summary comes once.
func TestGateSendsTheSummaryOnce(t *testing.T) {
	for name, stops := range map[string][]string{
		"alone": {stopGate}, "after the ledger's hook": {sessionHook, stopGate}, "before it": {stopGate, sessionHook},
		"twice": {stopGate, stopGate, sessionHook, sessionHook},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			for _, hook := range stops {
				w.run(hook, w.event("single-07-Stop"))
			}
			w.wantSummary(fmt.Sprintf(stoppedText, 1))
			if l := w.ledger(); l.Turns != 1 || !l.EndedAt.IsZero() || l.AtGate {
				t.Errorf("running on: %+v", l)
			}
			for _, hook := range stops {
				w.run(hook, w.event("single-07-Stop", "prompt_id", "p2"))
			}
			w.flush()
			w.wantSummary(fmt.Sprintf(stoppedText, 1))
		})
	}
}

// The end itself is told where something happened since the stop.
func TestSessionEndAfterTheGate(t *testing.T) {
	end := func(w *world) { w.run(sessionHook, w.event("timing-10-SessionEnd")) }
	for name, c := range map[string]struct {
		since func(w *world)
		want  int
	}{
		"nothing since":            {func(*world) {}, 1},
		"the same stop, told late": {func(w *world) { w.run(sessionHook, w.event("single-07-Stop")) }, 1},
		"a turn since":             {func(w *world) { w.run(sessionHook, w.event("single-07-Stop", "prompt_id", "p2")) }, 2},
		"a turn since, and a stop": {func(w *world) {
			w.run(sessionHook, w.event("single-07-Stop", "prompt_id", "p2"))
			w.pass("prompt_id", "p2")
		}, 2},
		"ended before, in two installs": {end, 1},
		"a turn, ended before":          {func(w *world) { w.run(sessionHook, w.event("single-07-Stop", "prompt_id", "p2")); end(w) }, 2},
	} {
		for _, late := range []bool{false, true} { // the first summary still waits
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				t.Parallel()
				w := endWorld(t)
				if late {
					w.trace.set(func(rw http.ResponseWriter, _ *http.Request) bool {
						rw.WriteHeader(http.StatusServiceUnavailable)
						return true
					})
				}
				w.pass()
				if !late {
					w.wantSummary(fmt.Sprintf(stoppedText, 1))
				}
				c.since(w)
				end(w)
				w.trace.set(nil)
				w.endOfFlusherNow()
				w.flush()
				w.until("the summaries", func() bool { return len(w.messages("[Session End]")) >= c.want })
				w.endFlusher()
				got := w.sessionMessages("[Session End]")
				if len(got) != c.want || !strings.Contains(got[0], "still open") || c.want == 2 && (!strings.Contains(got[1], "Turns: 2\nReason: prompt_input_exit")) {
					t.Errorf("got %q", got)
				}
				if _, err := w.ledgers().Load("sess-1"); err == nil {
					t.Error("the running ledger is left")
				}
				if ls, _ := w.ledgers().Ended(); len(ls) != 0 {
					t.Errorf("%d ends are left to tell", len(ls))
				}
			})
		}
	}
}

func TestGateSummaryOfEachStart(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.pass()
	w.awaitMessage("[Session End]")
	w.run(sessionHook, w.event("single-01-SessionStart", "source", "compact"))
	w.pass("prompt_id", "p2")
	w.flush()
	if n := len(w.messages("[Session End]")); n != 1 {
		t.Errorf("%d summaries after a compaction", n)
	}
	w.run(sessionHook, w.event("single-01-SessionStart", "source", "resume"))
	w.pass("prompt_id", "p3")
	w.until("the summary of the resumed session", func() bool { return len(w.messages("[Session End]")) == 2 })
}

func TestGateSummaryThatIsNotDue(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(w *world)
		stop []any
	}{
		"sent back":         {func(w *world) { _ = os.Remove(w.markerPath("ask-sess-1-0a1b2c3d")) }, nil},
		"not guarded":       {func(w *world) { w.env["GCHAT_ASK_MODE"] = "native" }, nil},
		"nobody wants it":   {func(w *world) { w.config(`{"reports":{"session_end":"off"}}`) }, nil},
		"nobody to tell":    {func(w *world) { delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL") }, nil},
		"a task still runs": {func(*world) {}, []any{"background_tasks", []any{map[string]any{"id": "1", "status": "running"}}}},
		"a subagent's":      {func(*world) {}, []any{"agent_id", "a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			c.set(w)
			w.stop(c.stop...)
			if ls, _ := w.ledgers().Ended(); len(ls) != 0 {
				t.Errorf("%d summaries wait", len(ls))
			}
			if log := w.log(); strings.Contains(log, `"level":"error"`) {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// A session that was sent back once, advised, or let go in the end is told of, too.
func TestGateSummaryOfWhoeverIsLetStop(t *testing.T) {
	for name, c := range map[string]struct {
		gate string
		kv   []any
	}{"sent back once": {"on", []any{"stop_hook_active", true}}, "advised": {"advice", nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			_ = os.Remove(w.markerPath("ask-sess-1-0a1b2c3d"))
			w.env["GCHAT_STOP_GATE"] = c.gate
			w.stop(c.kv...)
			w.wantSummary(fmt.Sprintf(stoppedText, 1))
		})
	}
}

// Nothing that is wrong with the summary keeps a session, or its decision, up.
func TestGateSummaryThatFails(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	ledgers := w.ledgers().Dir
	if err := os.RemoveAll(ledgers); err != nil {
		t.Fatal(err)
	}
	writeFile(t, ledgers, "a file where a folder should be")
	w.pass()
	if !strings.Contains(w.log(), "tell of the stop") {
		t.Errorf("log: %s", w.log())
	}
}

// TestGateKilled kills -9 the gate at each system call by which others see it, lets the session stop once more, and wants
// one summary.
func TestGateKilled(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace to kill at system calls: apt-get install strace")
	}
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, call := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "clone,clone3,vfork"} {
			for nth := 1; nth <= 3; nth++ {
				t.Run(fmt.Sprintf("%s/%d", call, nth), func(t *testing.T) {
					t.Parallel()
					w := endWorld(t)
					p := w.start(stopGate, w.event("single-07-Stop"), "strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace="+call,
						"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, nth))
					<-p.done
					if !p.ProcessState.Success() {
						killed.Add(1)
					}
					w.pass()
					w.wantSummary(fmt.Sprintf(stoppedText, 1))
					w.run(sessionHook, w.event("single-07-Stop"))
					w.run(sessionHook, w.event("timing-10-SessionEnd"))
					w.flush()
					w.wantSummary(fmt.Sprintf(stoppedText, 1))
					if _, err := w.ledgers().Load("sess-1"); err == nil {
						t.Error("the running ledger is left")
					}
				})
			}
		}
	})
	t.Logf("%d processes were killed", killed.Load())
	if killed.Load() < 6 {
		t.Errorf("only %d processes were killed: the test does not do what it says", killed.Load())
	}
}
