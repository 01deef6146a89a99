package hooks_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/state"
)

// The tests of this file end a question, its hook or its Claude Code at a bad moment. A thread that is never told looks
// open for ever, and people answer into it.

// A question can be closed while its message is on its way, which nobody can call back.
func TestClosedWhileItsMessageIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		end       func(w *world, p *process)
		begin, of string // what the thread is told
	}{
		"answered in the terminal": {func(w *world, p *process) { w.run(answered, recorded(w.TB, "single-05-PostToolUse")) }, "[Answered]", "in the terminal"},
		"dismissed": {func(w *world, p *process) {
			terminate(p)
			time.Sleep(200 * time.Millisecond) // for the signal to arrive before Chat's answer
		}, "[Cancelled]", "Dismissed in the terminal"},
		"dismissed, and Chat answers when the hook has ended": {func(w *world, p *process) { terminate(p); p.end() }, "[Cancelled]", "Dismissed in the terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			handler, once, release := w.chat.Handler(), sync.Once{}, make(chan struct{})
			w.trace.set(func(rw http.ResponseWriter, r *http.Request) (first bool) {
				if r.Method != http.MethodPost {
					return false
				}
				once.Do(func() { first = true })
				if !first {
					return false
				}
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, r)
				select {
				case <-release:
				case <-time.After(patience):
				}
				rw.WriteHeader(rec.Code)
				_, _ = rw.Write(rec.Body.Bytes())
				return true
			})
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			thread := w.thread(1)
			c.end(w, p)
			close(release)
			if out := p.end(); out != "" {
				t.Errorf("printed %q, want nothing", out)
			}
			if got := w.awaitMessage(c.begin); !strings.Contains(got, c.of) {
				t.Errorf("the thread says %q, want %q", got, c.of)
			}
			w.endFlusher()
			ms := w.messages("")
			if len(ms) != 2 || ms[1].Thread.Name != thread {
				t.Errorf("%d messages in the space, want the question and its end in one thread", len(ms))
			}
		})
	}
}

// The waiting hook is killed while Chat is down. Claude Code's dialog is still open, so the flusher has to post for it,
// and its thread hears nothing that may not be true: a hook could still come.
func TestFlusherPostsForAHookThatWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.until("a try to fail", func() bool { return w.question().PostError != "" })
	_ = p.Process.Kill()
	<-p.done
	w.trace.set(nil)
	w.thread(1)
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times, want 1", n)
	}
	w.asked(15 * time.Second) // so that the flusher ends
}

// asked moves a question's asking back by so long: what waits for time to pass sees it passed.
func (w *world) asked(ago time.Duration) {
	w.Helper()
	if _, err := state.UpdateQuestion(w.question().Path, func(q *state.Question) error {
		q.AskedAt = q.AskedAt.Add(-ago)
		return nil
	}); err != nil {
		w.Fatal(err)
	}
}

// On a slow machine the PermissionRequest hook comes long after PreToolUse. It takes over, and its thread does not hear of it.
func TestHookThatComesLate(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 3 * time.Second, 4500 * time.Millisecond, 8 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			w.asked(after)
			if after > 5*time.Second {
				w.thread(1) // posted for want of a hook
			}
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.until("the hook", func() bool { return state.HasWaiter(w.question()) })
			w.say(ann, w.thread(1), "2")
			if out := p.end(); !strings.Contains(out, `"answers"`) {
				t.Errorf("the hook printed %q", out)
			}
			w.run(answered, recorded(t, "single-05-PostToolUse"))
			w.awaitMessage("[Answered]")
			w.endFlusher()
			if n := len(w.messages("")); n != 3 { // with the reply
				t.Errorf("%d messages, want the question, the reply and what was answered", n)
			}
		})
	}
}

// The PermissionRequest hook is not registered: the question is posted all the same, and after a while its thread is told
// where it can be answered.
func TestHookThatNeverComes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	w.asked(6 * time.Second)
	w.thread(1)
	if n := len(w.messages("")); n != 1 {
		t.Errorf("%d messages, want the question alone", n)
	}
	w.asked(10 * time.Second)
	if got := w.awaitMessage("[Not read]"); !strings.Contains(got, "No hook waits") {
		t.Errorf("the thread says %q, want that no hook waits", got)
	}
	w.endFlusher()
}

// unheard answers a waiting hook whose stdout nobody reads any more, and returns when it has ended.
func (w *world) unheard(event []byte) {
	w.Helper()
	r, stdout, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(program, "hook", forward)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.environ(), w.env["CLAUDE_PROJECT_DIR"], bytes.NewReader(event), stdout, &stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	stdout.Close()
	r.Close()
	w.say(ann, w.thread(1), "2")
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		w.Errorf("ended with %v, stderr %q; want neither", err, &stderr)
	}
}

// Claude Code is gone when the answer comes. That is no error of the hook's, and no reason to end otherwise than with 0.
func TestNobodyReadsTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.unheard(recorded(t, "single-04-PermissionRequest"))
	if q := w.question(); q.Status != state.Answered || q.Printed {
		t.Errorf("the question is %s, printed %v; want answered and not printed", q.Status, q.Printed)
	}
}

// An answer that was claimed but never reached Claude Code must not be confirmed to the person who gave it.
func TestAnswerThatDidNotReachClaudeIsNotConfirmed(t *testing.T) {
	for _, event := range []string{"single-02-UserPromptSubmit", "single-07-Stop"} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.unheard(recorded(t, "single-04-PermissionRequest"))
			w.run(answered, recorded(t, event))
			if got := w.awaitMessage("[Cancelled]"); !strings.Contains(got, "did not reach Claude") {
				t.Errorf("the thread says %q, want that the reply did not reach Claude", got)
			}
			if q := w.question(); q.Status != state.Cancelled {
				t.Errorf("the question is %s, want cancelled", q.Status)
			}
			w.endFlusher()
			if n := len(w.messages("[Answered]")); n != 0 {
				t.Errorf("confirmed %d times, want never", n)
			}
		})
	}
}

// webhook_url_command can hang (a password manager that asks on a screen nobody sees). Esc ends the hook all the same,
// and the command with all it started.
func TestHungWebhookCommandEndsWithTheHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.dir, "pid")
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	writeFile(t, filepath.Join(w.env["HOME"], ".config", "gchat-hooks", "config.json"), fmt.Sprintf(`{"webhook_url_command":"sleep 300 & echo $! > %s.new; mv %[1]s.new %[1]s; wait"}`, file))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	var child string
	w.until("the command to run", func() bool {
		b, _ := os.ReadFile(file)
		child = strings.TrimSpace(string(b))
		return child != ""
	})
	terminate(p)
	if out := p.end(); out != "" {
		t.Errorf("printed %q, want nothing", out)
	}
	if q := w.question(); q.Status != state.Cancelled {
		t.Errorf("the question is %s, want cancelled", q.Status)
	}
	w.until("the command's child to end", func() bool {
		b, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline")) // empty also for a dead one that nobody waited for
		return !bytes.HasPrefix(b, []byte("sleep\x00"))
	})
}

// Nobody answers for a day, nobody waits any more: the thread is told.
func TestThreadOfAnExpiredQuestionIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.until("the question to be known as sent", func() bool { return w.question().MessageSent })
	_ = p.Process.Kill()
	<-p.done
	if _, err := state.UpdateQuestion(w.question().Path, func(q *state.Question) error {
		q.AskedAt = q.AskedAt.Add(-25 * time.Hour)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.flush()
	if got := w.awaitMessage("[Cancelled]"); !strings.Contains(got, "Nobody answered") {
		t.Errorf("the thread says %q, want that nobody answered", got)
	}
	if m := w.messages("[Cancelled]")[0]; m.Thread.Name != thread {
		t.Errorf("told in %s, want %s", m.Thread.Name, thread)
	}
	if q := w.question(); q.Status != state.Expired || q.ResolvedBy != "age" {
		t.Errorf("the question is %s by %q, want expired by age", q.Status, q.ResolvedBy)
	}
}

// Claude Code and its hook are killed together (a closed terminal, a machine out of memory), so neither says a word. The
// next of the machine's processes closes the question.
func TestClaudeAndItsHookAreKilled(t *testing.T) {
	for name, next := range map[string]func(w *world){
		"another hook waits": func(w *world) {
			w.start(forward, recorded(w.TB, "two-calls-05-PermissionRequest"))
		},
		"a flusher runs": func(w *world) { w.flush() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := claude(t)
			p := w.with("CLAUDE_PID", fmt.Sprint(c.Process.Pid)).start(forward, recorded(t, "single-04-PermissionRequest"))
			thread := w.threadOf(single)
			w.until("the question to be known as sent", func() bool { return w.question().MessageSent })
			_ = p.Process.Kill()
			_ = c.Process.Kill()
			_ = c.Wait()
			<-p.done
			next(w)
			w.until("the question to be closed", func() bool { return w.questionOf(single).Closed() })
			if q := w.questionOf(single); q.Status != state.Cancelled || q.ResolvedBy != "claude_gone" {
				t.Errorf("the question is %s by %q, want cancelled by claude_gone", q.Status, q.ResolvedBy)
			}
			w.flush() // as any hook that leaves has it done
			if got := w.awaitMessage("[Cancelled]"); !strings.Contains(got, "session is gone") {
				t.Errorf("the thread says %q, want that the session is gone", got)
			}
			if m := w.messages("[Cancelled]")[0]; m.Thread.Name != thread {
				t.Errorf("told in %s, want %s", m.Thread.Name, thread)
			}
		})
	}
}
