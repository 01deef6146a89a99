package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// killAtEachStep runs a scenario once for each victim and each step at which it is killed.
// At least atLeast of them must really have been killed. The steps are system calls:
// strace kills the real program right at them, so the test cannot miss a step.
func killAtEachStep(t *testing.T, atLeast int64, scenario func(w *world, killCommand func(victim string) []string) (killed bool),
	victims ...string) {
	kit.NeedProgram(t, "strace")
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, victim := range victims {
			for _, call := range []string{"flock", "linkat", "renameat,renameat2", "fsync",
				"unlinkat", "write", "openat"} {
				for nth := 1; nth <= 6; nth++ {
					step := nth
					if call == "openat" {
						step += 5 // the first ones belong to the loader and the runtime
					}
					t.Run(fmt.Sprintf("%s/%s/%d", victim, call, step), func(t *testing.T) {
						t.Parallel()
						strace := []string{"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull,
							"-e", "trace=" + call,
							"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, step)}
						if scenario(newChatWorld(t), func(name string) []string {
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
	kit.True(t, killed.Load() >= atLeast, "only %d processes were killed: the test does not do what it says", killed.Load())
}

// TestKilledHook_OneAnswer kills each hook of a question with -9 at each of its steps that
// other processes can see. Then it runs what Claude Code or the next hook would run. It
// expects one question, one answer and one confirmation.
func TestKilledHook_OneAnswer(t *testing.T) {
	t.Parallel()
	killAtEachStep(t, 40, killOnce, "PreToolUse", "PermissionRequest", "PostToolUse")
}

func killOnce(w *world, killCommand func(string) []string) (killed bool) {
	run := func(hook, name string, event []byte) string {
		p := w.startHook(hook, event, killCommand(name)...)
		<-p.done
		if p.ProcessState.Success() {
			return p.out.String()
		}
		killed = true
		again := w.runHook(hook, event)
		if first := p.out.String(); first != "" && again != "" && first != again {
			w.Errorf("two answers: %s and %s", first, again)
		}
		return again
	}
	run(forwardHook, "PreToolUse", recorded(w, "single-03-PreToolUse"))
	// whichever process is being killed meanwhile
	go func() { w.sendAsUser(ann, w.awaitThread(1), "canary") }()
	kit.Equalf(w, w.readAnswers(run(forwardHook, "PermissionRequest",
		recorded(w, "single-04-PermissionRequest")))[singleQuestion], "Canary", "answered")
	run(answeredHook, "PostToolUse", answeredEvent(w, "Canary"))
	w.awaitMessage("[Answered]")
	w.wantEnd(w.question(), state.Resolved, "chat")
	w.wantSentOnce()
	return killed
}

// wantSentOnce checks that the space has one question and one confirmation, and no
// other message about it.
func (w *world) wantSentOnce() {
	w.Helper()
	for prefix, want := range map[string]int{
		"[AskUserQuestion]": 1, "[Answered]": 1, "[Cancelled]": 0, "[Not used]": 0, "[Timeout]": 0,
	} {
		kit.Equalf(w, len(w.messages(prefix)), want, "messages %s", prefix)
	}
}

// TestKilledHook_DeniedReplyArrivesOnce kills each hook of a denied question with -9 at each
// of its steps. Then it runs what Claude Code would run next. It expects one question in the
// space, and that Claude gets the reply once.
func TestKilledHook_DeniedReplyArrivesOnce(t *testing.T) {
	t.Parallel()
	killAtEachStep(t, 20, killWhileDenied, forwardHook, rewakeHook)
}

func killWhileDenied(w *world, killCommand func(string) []string) (killed bool) {
	w.env["GCHAT_ASK_MODE"] = "deny"
	pre := recorded(w, "single-03-PreToolUse")
	wakes := w.startHook(rewakeHook, pre, killCommand(rewakeHook)...)
	ask := w.startHook(forwardHook, pre, killCommand(forwardHook)...)
	<-ask.done
	if strings.Contains(ask.out.String(), `"permissionDecision":"deny"`) {
		w.sendAsUser(ann, w.awaitThread(1), "canary")
		<-wakes.done
		text := wakes.err.String()
		if wakes.ProcessState.ExitCode() != 2 {
			killed = true
			transcript := filepath.Join(w.dir, "transcript.jsonl")
			writeFile(w, transcript, `{"type":"user"}`)
			session := w.question().ClaudeSessionID
			text = w.startHook(rewakeHook, namedEvent(w, "Stop", session, "transcript_path",
				transcript)).awaitWakeText()
		}
		kit.Containsf(w, text, `="Canary"`, "woken with")
	} else { // no decision: Claude Code draws the dialog
		killed = true
		p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"))
		w.waitUntil("the question of the dialog", func() bool {
			return slices.ContainsFunc(w.questions(),
				func(q *state.Question) bool { return q.Mode == state.ModeNative })
		})
		w.sendAsUser(ann, w.awaitThread(1), "canary")
		p.wantAnswer("Canary")
		w.runHook(answeredHook, answeredEvent(w, "Canary"))
		terminate(wakes) // it searches its marker for a while
		<-wakes.done
	}
	w.awaitMessage("[Answered]")
	w.wantSentOnce()
	return killed
}
