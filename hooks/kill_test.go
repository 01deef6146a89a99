package hooks_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/state"
)

// TestKilledAtEveryStep kills -9 each hook of a question's way at each of its steps that other processes can see, runs
// what Claude Code or the next hook would run again, and wants one question, one answer, one confirmation. The steps
// are system calls: strace kills the real program right at them, so there is no step that the test forgot to name.
func TestKilledAtEveryStep(t *testing.T) {
	killAtEachStep(t, 40, killOnce, "PreToolUse", "PermissionRequest", "PostToolUse", "flush")
}

// killAtEachStep runs a story once for each victim and step at which it is killed; so many must really have been.
func killAtEachStep(t *testing.T, atLeast int64, story func(t *testing.T, victim, call string, nth int, killed *atomic.Int64), victims ...string) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace to kill at system calls: apt-get install strace")
	}
	steps := []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "connect", "write", "openat"}
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, victim := range victims {
			for _, call := range steps {
				for nth := 1; nth <= 6; nth++ {
					if call == "openat" {
						nth += 5 // the first ones belong to the loader and the runtime
					}
					t.Run(fmt.Sprintf("%s/%s/%d", victim, call, nth), func(t *testing.T) {
						t.Parallel()
						story(t, victim, call, nth, &killed)
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

// killing is the wrapping of a hook that is killed at the nth of these system calls.
func killing(call string, nth int) []string {
	return []string{"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, nth)}
}

func killOnce(t *testing.T, victim, call string, nth int, killed *atomic.Int64) {
	w := newWorld(t)
	strace := killing(call, nth)
	died := func(p *process) bool {
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Fatal("the victim does not end")
		}
		if p.ProcessState.Success() {
			return false
		}
		killed.Add(1)
		return true
	}
	events := map[string][]byte{
		"PreToolUse": recorded(t, "single-03-PreToolUse"), "PermissionRequest": recorded(t, "single-04-PermissionRequest"),
		"PostToolUse": recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Canary"}}),
	}
	run := func(hook, event string) {
		if victim == event && !died(w.start(hook, events[event], strace...)) {
			return
		}
		w.run(hook, events[event])
	}
	run(forward, "PreToolUse")

	stop := make(chan struct{})
	replied := make(chan struct{})
	go func() { // the person replies as soon as the question is there, whoever is being killed meanwhile
		defer close(replied)
		for {
			if ms := w.messages("[AskUserQuestion]"); len(ms) > 0 {
				_, _ = w.chat.Say(ann, ms[0].Thread.Name, "canary")
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	defer func() { close(stop); <-replied }()
	out := ""
	if victim == "PermissionRequest" {
		p := w.start(forward, events[victim], strace...)
		if died(p) {
			out = w.run(forward, events[victim])
		} else {
			out = p.end()
		}
		if first := p.out.String(); first != "" && out != "" && first != out {
			t.Errorf("two answers: %s and %s", first, out)
		} else if out == "" {
			out = first
		}
	} else {
		out = w.run(forward, events["PermissionRequest"])
	}
	if got := w.answers(out); !maps.Equal(got, map[string]string{single: "Canary"}) {
		t.Errorf("answers %v", got)
	}
	run(answered, "PostToolUse")
	if victim == "flush" {
		w.endOfFlusherNow()
		w.flush(strace...)
	}
	// Whatever was cut short, the next hook of the machine has it sent.
	w.until("the confirmation", func() bool {
		if len(w.messages("[Answered]")) > 0 {
			return true
		}
		w.flush()
		return false
	})
	w.endFlusher()
	if q := w.question(); q.Status != state.Resolved || q.ResolvedBy != "chat" {
		t.Errorf("at the end: %s by %s", q.Status, q.ResolvedBy)
	}
	for beginning, want := range map[string]int{"[AskUserQuestion]": 1, "[Answered]": 1, "[Cancelled]": 0, "[Not used]": 0} {
		if n := len(w.messages(beginning)); n != want {
			t.Errorf("%d messages %s, want %d", n, beginning, want)
		}
	}
}

// flush runs `gchat-hooks flush` to its end.
func (w *world) flush(wrap ...string) {
	argv := append(append([]string{}, wrap...), program, "flush", "--timeout", "20s")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = w.environ()
	_ = cmd.Run()
}

// TestKilledWhileChatAnswers kills the waiting hook when Chat has its request and has not answered: before the message
// is stored, after it, and while it lists.
func TestKilledWhileChatAnswers(t *testing.T) {
	for _, when := range []string{"post not stored", "post stored", "list", "list answered"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var victim atomic.Pointer[process]
			handler := w.chat.Handler()
			done := atomic.Bool{}
			w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
				post := r.Method == http.MethodPost
				if post != strings.HasPrefix(when, "post") || done.Swap(true) {
					return false
				}
				if when != "post not stored" && when != "list" {
					handler.ServeHTTP(rw, r)
				}
				for victim.Load() == nil {
					time.Sleep(time.Millisecond)
				}
				_ = victim.Load().Process.Kill()
				return true
			})
			request := recorded(t, "single-04-PermissionRequest")
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, request)
			victim.Store(p)
			<-p.done
			if p.out.Len() > 0 {
				t.Errorf("printed %q", &p.out)
			}
			p = w.start(forward, request)
			w.say(ann, w.thread(1), "canary")
			if got := w.answers(p.end())[single]; got != "Canary" {
				t.Errorf("answered %q", got)
			}
			if n := len(w.messages("[AskUserQuestion]")); n != 1 {
				t.Errorf("posted %d times", n)
			}
		})
	}
}
