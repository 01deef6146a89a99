package hooks_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/state"
)

// killed between claim and print, then Esc and a new prompt
func TestU1FalseConfirmation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	r, wr, _ := os.Pipe()
	cmd := exec.Command(program, "hook", forward)
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	cmd.Stdin = strings.NewReader(string(recorded(t, "single-04-PermissionRequest")))
	cmd.Stdout = wr
	cmd.Start()
	wr.Close()
	r.Close()
	w.say(ann, w.thread(1), "2")
	_ = cmd.Wait() // dead before Claude Code had the answer
	w.run(answered, recorded(t, "single-02-UserPromptSubmit"))
	within(t, 5*time.Second, func() bool { return len(w.chat.Messages()) > 2 })
	for _, m := range w.chat.Messages()[2:] {
		if strings.HasPrefix(m.Text, "[Answered]") {
			t.Errorf("Claude never got it; the thread says %q; status %s", m.Text, w.question().Status)
		}
	}
}

// only PermissionRequest and PostToolUse registered; the same question again in one prompt
func TestU2AskedAgainWithoutPreToolUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	ans := w.answers(p.end())
	w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": ans}))
	p = w.start(forward, recorded(t, "single-04-PermissionRequest"))
	if !within(t, 4*time.Second, func() bool { return len(w.messages("[AskUserQuestion]")) == 2 }) {
		t.Errorf("asked again in the same prompt: not posted, hook printed %q", &p.out)
	}
}

// a Chat that ignores messageId and requestId, one lost answer
func TestU3IgnoresIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.chat.Handler()
	var n atomic.Int64
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		q := r.URL.Query()
		q.Del("messageId")
		q.Del("requestId")
		r.URL.RawQuery = q.Encode()
		if n.Add(1) == 1 {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(rw, r)
		return true
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	time.Sleep(3 * time.Second)
	ms := w.messages("[AskUserQuestion]")
	t.Logf("posted %d times, same thread %v", len(ms), len(ms) > 1 && ms[0].Thread.Name == ms[1].Thread.Name)
	_ = p
}

// 409 without a readable get, list without clientAssignedMessageId/threadKey
func TestU4ConflictNoLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.chat.Handler()
	var n atomic.Int64
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			if n.Add(1) == 1 {
				handler.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			if n.Load() == 2 {
				rw.WriteHeader(409)
				fmt.Fprint(rw, `{"error":{"code":409,"status":"ALREADY_EXISTS","message":"exists"}}`)
				return true
			}
			return false
		}
		if !strings.HasSuffix(r.URL.Path, "/messages") { // get
			rw.WriteHeader(404)
			return true
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		b := rec.Body.String()
		b = strings.ReplaceAll(strings.ReplaceAll(b, "clientAssignedMessageId", "x_y"), "threadKey", "z_z")
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write([]byte(b))
		return true
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	select {
	case <-p.done:
	case <-time.After(8 * time.Second):
		t.Logf("reply never found: thread %q sent %v", w.question().ThreadName, w.question().MessageSent)
	}
}

func TestU5List404AndDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			rw.WriteHeader(404)
			fmt.Fprint(rw, `{"error":{"code":404,"status":"NOT_FOUND","message":"Space not found"}}`)
			return true
		}
		rw.Header()["Date"] = nil
		return false
	})
	_ = w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	time.Sleep(6 * time.Second)
	_, lists := w.trace.counts()
	t.Logf("404 on list: %d lists in 6 s, notes %d, notices %v, postedAt %v", lists, len(w.messages("[Not read]")), func() []string {
		m, _ := filepath.Glob(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks", "notices", "*"))
		return m
	}(), w.question().PostedAt)
	w.trace.set(nil)
}

// Sweep at 24 h: the thread
func TestU6ExpiredTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	w.thread(1)
	w.endFlusher()
	_, err := state.UpdateQuestion(w.question().Path, func(q *state.Question) error { q.AskedAt = q.AskedAt.Add(-25 * time.Hour); return nil })
	if err != nil {
		t.Fatal(err)
	}
	w.flush()
	if q := w.question(); q.Status == state.Expired && len(w.chat.Messages()) == 1 {
		t.Errorf("expired, the thread is not told")
	}
}

// killed with Claude: nobody closes
func TestU7BothKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claude := exec.Command("sleep", "100")
	claude.Start()
	one := w.with("CLAUDE_PID", fmt.Sprint(claude.Process.Pid))
	p := one.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	w.until("sent", func() bool { return w.question().MessageSent })
	_ = p.Process.Kill()
	claude.Process.Kill()
	claude.Wait()
	<-p.done
	other := w.start(forward, recorded(t, "two-calls-05-PermissionRequest", "session_id", "other"))
	w.thread(2)
	time.Sleep(5 * time.Second)
	w.flush()
	for _, q := range w.questions() {
		if q.SessionID != "other" && q.Status == state.Pending {
			t.Errorf("Claude and its hook are gone, another hook and a flusher ran: still pending, thread not told (%d)", len(w.messages("[Cancelled]")))
		}
	}
	_ = other
}
