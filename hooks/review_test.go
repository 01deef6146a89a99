package hooks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

func within(t *testing.T, d time.Duration, ok func() bool) bool {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		if ok() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// T1: mended config: the flusher posts, a person replies, nobody reads.
func TestR1FlusherPostedReplyLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json")
	good := w.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	writeFile(t, cfg, `{"webhook_url_command":"false"}`) // say: the password manager is locked at this moment
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	select {
	case <-p.done:
		t.Logf("the waiting hook ended while the dialog is open: %q", &p.out)
	case <-time.After(3 * time.Second):
	}
	writeFile(t, cfg, fmt.Sprintf(`{"webhook_url":%q}`, good))
	th := w.thread(1)
	w.say(ann, th, "2")
	if !within(t, 8*time.Second, func() bool {
		return w.question().Status != state.Pending || len(w.chat.Messages()) > 2
	}) {
		_, lists := w.trace.counts()
		t.Errorf("8 s after Ann's reply: status %s, replies %v, %d list requests, thread has %d messages", w.question().Status, w.question().Replies, lists, len(w.chat.Messages()))
	}
}

// T2: post in flight, terminal answers: message stands in Chat, never closed.
func TestR2ClosedWhilePosting(t *testing.T) {
	for _, how := range []string{"terminal", "esc"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			handler := w.chat.Handler()
			var once sync.Once
			w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				slow := false
				once.Do(func() { slow = true })
				if !slow {
					return false
				}
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, r)
				time.Sleep(1500 * time.Millisecond)
				rw.WriteHeader(rec.Code)
				_, _ = rw.Write(rec.Body.Bytes())
				return true
			})
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			th := w.thread(1)
			if how == "esc" {
				terminate(p)
			} else {
				w.run(answered, recorded(t, "single-05-PostToolUse"))
			}
			p.end()
			w.say(ann, th, "2")
			w.flush() // whoever is next
			w.run(answered, recorded(t, "single-07-Stop"))
			if !within(t, 8*time.Second, func() bool { return len(w.messages("[Answered]"))+len(w.messages("[Cancelled]")) > 0 }) {
				q := w.question()
				t.Errorf("thread is never told: status %s sent %v; %d messages in the space", q.Status, q.MessageSent, len(w.chat.Messages()))
			}
		})
	}
}

// T3: the leader's write is slow (fsync of the folder, SIGSTOP) after its rename: the waiter's Judge meets the lock for 2 s, and never looks again.
func TestR3LockedWhenLooking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	w.until("sent", func() bool { return w.question().MessageSent })
	time.Sleep(300 * time.Millisecond)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool { rw.WriteHeader(500); return true }) // this process is not the leader that delivers
	q := w.question()
	l := flock.New(filepath.Join(filepath.Dir(q.Path), ".locks", filepath.Base(q.Path)))
	if err := l.Lock(); err != nil {
		t.Fatal(err)
	}
	q.Replies = append(q.Replies, state.Reply{MessageName: "spaces/x/messages/y", Sender: ann.Name, Text: "2", CreateTime: time.Now()})
	b, _ := json.Marshal(q)
	os.WriteFile(q.Path+".tmp", b, 0o600)
	os.Rename(q.Path+".tmp", q.Path)
	time.Sleep(2500 * time.Millisecond)
	l.Unlock()
	_ = th
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		t.Errorf("10 s after the lock is free: status %s, verdict %q", w.question().Status, w.question().Replies[0].Verdict)
	}
}

// T4: 200 messages of people who may not answer, then the answer.
func TestR4ManyReplies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	for i := range 200 {
		w.say(bob, th, fmt.Sprint("chatter ", i))
	}
	w.until("read", func() bool { return len(w.question().Replies) >= 200 })
	w.say(ann, th, "2")
	select {
	case <-p.done:
	case <-time.After(8 * time.Second):
		i1, _ := os.Stat(w.question().Path)
		time.Sleep(time.Second)
		i2, _ := os.Stat(w.question().Path)
		t.Errorf("Ann's reply is dropped: %d replies, status %s; file rewritten each cycle: %v", len(w.question().Replies), w.question().Status, !os.SameFile(i1, i2))
	}
}

// T5: a server with small pages.
func TestR5SmallPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.chat.Handler()
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
			q := r.URL.Query()
			q.Set("pageSize", "2")
			r.URL.RawQuery = q.Encode()
			handler.ServeHTTP(rw, r)
			return true
		}
		return false
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	for i := range 110 {
		w.say(bob, "", fmt.Sprint("elsewhere ", i))
	}
	w.say(ann, th, "2")
	start := time.Now()
	select {
	case <-p.done:
		t.Log("took", time.Since(start))
	case <-time.After(20 * time.Second):
		_, lists := w.trace.counts()
		t.Errorf("20 s: reply never read, %d list requests", lists)
	}
}

// T6: one reply by hand, two questions of one session.
func TestR6ByHandTwice(t *testing.T) {
	t.Parallel()
	twice := 0
	for range 6 {
		w := newWorld(t)
		w.run(forward, recorded(t, "two-calls-03-PreToolUse"))
		w.run(forward, recorded(t, "two-calls-04-PreToolUse"))
		a, b := w.start(forward, recorded(t, "two-calls-05-PermissionRequest")), w.start(forward, recorded(t, "two-calls-06-PermissionRequest"))
		w.thread(2)
		writeFile(t, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "user-input-queue", w.questions()[0].SessionID+".txt"), "2\n")
		within(t, 4*time.Second, func() bool { return a.out.Len() > 0 && b.out.Len() > 0 })
		n := 0
		for _, q := range w.questions() {
			if q.Status == state.Answered {
				n++
			}
		}
		if n == 2 {
			twice++
		}
		terminate(a)
		terminate(b)
		<-a.done
		<-b.done
	}
	if twice > 0 {
		t.Errorf("one reply answered both questions in %d of 6 runs", twice)
	}
}

// T7: two projects, each with its own webhook in its environment (settings.json "env").
func TestR7OtherProjectsSpace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w2 := newWorld(t)
	// B: same person (HOME, state), another space, configured in the project's file
	b := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, "b"))
	delete(b.env, "GOOGLE_CHAT_WEBHOOK_URL")
	delete(b.env, "GCHAT_API_ENDPOINT")
	os.MkdirAll(b.env["CLAUDE_PROJECT_DIR"], 0o755)
	writeFile(t, filepath.Join(b.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url":%q}`, w2.env["GOOGLE_CHAT_WEBHOOK_URL"]))
	// A's flusher runs (Chat is slow or A's hook is not there), then B asks
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	b.run(forward, recorded(t, "two-calls-03-PreToolUse", "session_id", "sess-b"))
	w.thread(1)
	within(t, 5*time.Second, func() bool {
		return len(w.messages("[AskUserQuestion]"))+len(w2.messages("[AskUserQuestion]")) >= 2
	})
	if n, m := len(w.messages("[AskUserQuestion]")), len(w2.messages("[AskUserQuestion]")); n != 1 || m != 1 {
		t.Errorf("A's space has %d questions, B's space %d", n, m)
	}
}

// T7b: notes of a project whose webhook is only in its environment, while another project's flusher runs.
func TestR7bNotesStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w2 := newWorld(t)
	b := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, "b"), "GOOGLE_CHAT_WEBHOOK_URL", w2.env["GOOGLE_CHAT_WEBHOOK_URL"], "GCHAT_API_ENDPOINT", w2.env["GCHAT_API_ENDPOINT"])
	os.MkdirAll(b.env["CLAUDE_PROJECT_DIR"], 0o755)
	b.chat = w2.chat
	// A question of A is waited for all the time, in A's own space
	a := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool { // A's Chat is down for posts
		if r.Method == http.MethodPost {
			rw.WriteHeader(503)
			return true
		}
		return false
	})
	w.say(bob, w.thread(1), "3") // A owes a note, so A's flusher comes to life
	terminate(a)
	a.end()
	w.until("A's flusher", func() bool { return len(flushers(w.env["XDG_STATE_HOME"])) > 0 })
	p := b.start(forward, recorded(t, "two-calls-05-PermissionRequest", "session_id", "sess-b"))
	b.thread(1)
	b.say(ann, b.thread(1), "1")
	out := p.end()
	ans := b.answers(out)
	var ev struct {
		In map[string]any `json:"tool_input"`
	}
	json.Unmarshal(recorded(t, "two-calls-05-PermissionRequest"), &ev)
	ev.In["answers"] = ans
	b.run(answered, recorded(t, "two-calls-08-PostToolUse", "session_id", "sess-b", "tool_input", ev.In, "tool_response", map[string]any{"answers": ans}))
	if !within(t, 15*time.Second, func() bool { return len(b.messages("[Answered]")) > 0 }) {
		box, _ := state.OutboxIn(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks")).Waiting()
		for _, m := range box {
			t.Logf("outbox: %s tries %d %s", m.Chat, m.Tries, m.LastError)
		}
		t.Errorf("15 s after PostToolUse B's thread has no confirmation, B's Chat is fine")
	}
	w.trace.set(nil)
	w.stopFlushers()
}

// T8: user state cannot be written.
func TestR8UserStateUnwritable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blocked := filepath.Join(w.dir, "blocked")
	writeFile(t, blocked, "")
	good := w.env["XDG_STATE_HOME"]
	w.env["XDG_STATE_HOME"] = filepath.Join(blocked, "b")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	w.say(ann, th, "2")
	select {
	case <-p.done:
		t.Logf("%q", &p.out)
	case <-time.After(8 * time.Second):
		t.Errorf("posted but the reply is never read; %d 'leader lock' lines in the log in 8 s", strings.Count(w.log(), "leader lock"))
	}
	_ = p.Process.Kill()
	w.env["XDG_STATE_HOME"] = good
}

// T9: the waiter is killed before it could post; Claude Code lives on.
func TestR9WaiterKilledBeforePosting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool { rw.WriteHeader(503); return true })
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.until("a failed try", func() bool { return w.question().PostError != "" })
	// the flusher stays
	_ = p.Process.Kill()
	<-p.done
	w.trace.set(nil)
	if !within(t, 8*time.Second, func() bool { return len(w.messages("[AskUserQuestion]")) > 0 }) {
		t.Errorf("Chat is back, nobody posts")
	}
}

// T10: two equal questions at once; answer only in one, PostToolUse follows.
func TestR10EqualQuestionsCross(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
	w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
	a := w.start(forward, recorded(t, "single-04-PermissionRequest")) // Claude Code's for toolu_a
	w.thread(1)
	b := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(2)
	w.say(ann, w.thread(1), "1")
	first := w.answers(a.end())[single]
	w.run(answered, recorded(t, "single-05-PostToolUse", "tool_use_id", "toolu_a", "tool_response", map[string]any{"answers": map[string]string{single: first}}))
	time.Sleep(1500 * time.Millisecond)
	select {
	case <-b.done:
		t.Errorf("b's waiter ended when a was confirmed: %q", &b.out)
	default:
	}
	for _, q := range w.questions() {
		t.Logf("%s %s by %s", q.ToolUseID, q.Status, q.ResolvedBy)
	}
}

// T11/T12: server clock skew, old messages in the space.
func TestR12Skew(t *testing.T) {
	for _, skew := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, space.Options{Now: func() time.Time { return time.Now().Add(skew) }})
			for i := range 3 {
				w.say(bob, "", fmt.Sprint("old ", i))
			}
			var mu sync.Mutex
			var filters []string
			w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet {
					mu.Lock()
					filters = append(filters, r.URL.Query().Get("filter"))
					mu.Unlock()
				}
				return false
			})
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			th := w.thread(1)
			start := time.Now()
			w.say(ann, th, "2")
			select {
			case <-p.done:
				t.Log("answered in", time.Since(start))
			case <-time.After(8 * time.Second):
				t.Errorf("reply is never used: %+v", w.question().Replies)
			}
			mu.Lock()
			t.Log(filters)
			mu.Unlock()
		})
	}
}

var _ = chat.User{}
