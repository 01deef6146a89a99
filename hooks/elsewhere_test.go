package hooks_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// The tests of this file have something else going on on the same machine: another project, another session, an equal
// question.

// project is another project of the same person whose space is in's.
func (w *world) project(t *testing.T, name string, in *world) *world {
	t.Helper()
	other := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, name), "GOOGLE_CHAT_WEBHOOK_URL", in.env["GOOGLE_CHAT_WEBHOOK_URL"], "GCHAT_API_ENDPOINT", in.env["GCHAT_API_ENDPOINT"])
	other.chat, other.url = in.chat, in.url
	if err := os.MkdirAll(other.env["CLAUDE_PROJECT_DIR"], 0o755); err != nil {
		t.Fatal(err)
	}
	return other
}

// A flusher serves all projects of the machine. It has the environment of the one that started it, which must not take
// another project's question into its own space: people there would read it.
func TestQuestionsOfTwoProjectsStayInTheirSpaces(t *testing.T) {
	t.Parallel()
	theirs := newWorld(t) // ends after w, whose flushers post here
	w := newWorld(t)
	b := w.project(t, "b", theirs)
	delete(b.env, "GOOGLE_CHAT_WEBHOOK_URL")
	delete(b.env, "GCHAT_API_ENDPOINT")
	writeFile(t, filepath.Join(b.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url":%q}`, theirs.env["GOOGLE_CHAT_WEBHOOK_URL"]))
	w.run(forward, recorded(t, "single-03-PreToolUse")) // no hook waits: the flusher posts both
	b.run(forward, recorded(t, "two-calls-03-PreToolUse"))
	w.thread(1)
	b.thread(1)
	w.endFlusher()
	for _, c := range []struct {
		where *world
		want  string
	}{{w, single}, {b, "First call?"}} {
		ms := c.where.messages("[AskUserQuestion]")
		if len(ms) != 1 || !strings.Contains(ms[0].Text, c.want) {
			t.Errorf("%d questions in the space, the first %q; want one, %q", len(ms), ms[0].Text, c.want)
		}
	}
}

// One project's Chat is down and its flusher tries on for an hour. Another project's notes, which that flusher has no
// webhook for, must not wait for it.
func TestNotesDoNotWaitForAnotherProjectsFlusher(t *testing.T) {
	for name, keepBusy := range map[string]func(a, theirs *world, down func()){
		"that has a question to post": func(a, theirs *world, down func()) {
			down()
			a.run(forward, recorded(a.TB, "two-calls-03-PreToolUse"))
		},
		"that has a note to send": func(a, theirs *world, down func()) {
			p := a.start(forward, recorded(a.TB, "two-calls-05-PermissionRequest"))
			a.thread(1)
			a.until("the question to be known as sent", func() bool { return a.question().MessageSent })
			down()
			terminate(p)
			p.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := newWorld(t)
			w := newWorld(t)
			defer w.stopFlushers() // theirs would go on
			keepBusy(w.project(t, "a", theirs), theirs, func() {
				theirs.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodPost {
						rw.WriteHeader(http.StatusServiceUnavailable)
					}
					return r.Method == http.MethodPost
				})
			})
			w.until("the other project's flusher", func() bool { return len(flushers(w.env["XDG_STATE_HOME"])) > 0 })
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.say(ann, w.thread(1), "2")
			p.wantSingle()
			w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Rolling deployment"}}))
			w.awaitMessage("[Answered]")
			if len(flushers(w.env["XDG_STATE_HOME"])) == 0 {
				t.Error("the other project's flusher is gone: the test shows nothing")
			}
		})
	}
}

// `claude --resume` of one session in two terminals: the one's end of a turn leaves the other's dialog open.
func TestSameSessionInTwoTerminals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.with("CLAUDE_PID", pid(t)), w.with("CLAUDE_PID", pid(t))
	p := one.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	for _, event := range []string{"single-07-Stop", "single-02-UserPromptSubmit"} {
		two.run(answered, recorded(t, event))
		if q := w.question(); q.Status != state.Pending {
			t.Errorf("the other terminal's %s made it %s by %q, want pending", event, q.Status, q.ResolvedBy)
		}
	}
	w.say(ann, thread, "2")
	p.wantSingle()
}

// A session is resumed, after its Claude Code was killed or in a second terminal, and asks in the same words: the reply goes
// to the dialog that is on the screen.
func TestEqualQuestionOfAnotherClaude(t *testing.T) {
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed: %v", killed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := claude(t)
			one, two := w.with("CLAUDE_PID", fmt.Sprint(first.Process.Pid)), w.with("CLAUDE_PID", pid(t))
			one.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
			w.thread(1)
			if killed {
				_ = first.Process.Kill()
				_ = first.Wait()
			}
			two.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			p := two.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.say(ann, w.thread(2), "2")
			p.wantSingle()
			want := map[string]state.Status{"toolu_a": state.Pending, "toolu_b": state.Answered}
			if killed {
				want["toolu_a"] = state.Cancelled
				w.awaitMessage("[Cancelled]")
			}
			for _, q := range w.questions() {
				if q.Status != want[q.ToolUseID] {
					t.Errorf("%s is %s by %q, want %s", q.ToolUseID, q.Status, q.ResolvedBy, want[q.ToolUseID])
				}
			}
		})
	}
}

// A subagent in the background asks, and the session's own turn ends: the dialog stands, and its reply counts.
func TestSubagentsQuestionOutlivesTheTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse", "agent_id", "a1"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest", "agent_id", "a1"))
	thread := w.thread(1)
	w.run(answered, recorded(t, "single-07-Stop"))
	if q := w.question(); q.Status != state.Pending {
		t.Errorf("the session's Stop made it %s by %q, want pending", q.Status, q.ResolvedBy)
	}
	w.say(ann, thread, "2")
	p.wantSingle()
	w.run(answered, recorded(t, "single-07-Stop")) // PostToolUse is not registered
	w.until("the end", func() bool { return w.question().Status == state.Resolved })
}

// pid is that of a process in the place of Claude Code, which lives as long as the test.
func pid(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(claude(t).Process.Pid)
}

func claude(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// Two equal questions are open, one is answered and confirmed. A PermissionRequest does not say whose it is, so the
// answered hook may have taken the other's record: PostToolUse puts that right, and the other hook waits on.
func TestEqualQuestionsEndEachForItself(t *testing.T) {
	for _, ids := range [][2]string{{"toolu_a", "toolu_b"}, {"toolu_b", "toolu_a"}} {
		t.Run("first dialog "+ids[0], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
			w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			first := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.thread(1)
			second := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.thread(2)
			confirm := func(p *process, id, want string) {
				got := w.answers(p.end())
				if got[single] != want {
					t.Errorf("%s answered %q, want %q", id, got[single], want)
				}
				w.run(answered, recorded(t, "single-05-PostToolUse", "tool_use_id", id, "tool_response", map[string]any{"answers": got}))
			}
			w.say(ann, w.thread(1), "1")
			confirm(first, ids[0], "Blue-green deployment")
			w.awaitMessage("[Answered]")
			time.Sleep(200 * time.Millisecond) // for the second hook to end, if it takes that for its own
			select {
			case <-second.done:
				t.Errorf("the second hook ended with the first: %q", &second.out)
			default:
			}
			w.say(ann, w.thread(2), "3")
			confirm(second, ids[1], "Canary")
			w.until("both confirmations", func() bool { return len(w.messages("[Answered]")) == 2 })
			for i, want := range []string{"Blue-green deployment", "Canary"} {
				for _, q := range w.questions() {
					if q.ToolUseID == ids[i] && (q.Status != state.Resolved || q.ResolvedBy != "chat" || q.Answers[single] != want) {
						t.Errorf("%s is %s by %q with %q, want resolved by chat with %q", q.ToolUseID, q.Status, q.ResolvedBy, q.Answers[single], want)
					}
				}
				if m := w.messages("[Answered]")[i]; m.Thread.Name != w.thread(i+1) || !strings.Contains(m.Text, want) {
					t.Errorf("confirmation %d in %s: %q; want %q in %s", i+1, m.Thread.Name, m.Text, want, w.thread(i+1))
				}
			}
		})
	}
}

// Where only PermissionRequest and PostToolUse are registered, the same question may come again in one prompt: it is a
// new question and not the old one's event once more.
func TestAskedAgainWithoutPreToolUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, want := range []string{"Blue-green deployment", "Rolling deployment"} {
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.say(ann, w.thread(i+1), fmt.Sprint(i+1))
		got := w.answers(p.end())
		if got[single] != want {
			t.Errorf("time %d answered %q, want %q", i+1, got[single], want)
		}
		w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": got}))
	}
	w.until("both confirmations", func() bool { return len(w.messages("[Answered]")) == 2 })
}
