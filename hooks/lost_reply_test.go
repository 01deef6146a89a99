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
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// The tests of this file each put something between a reply and its question. A reply that is lost is a person who
// believes to have answered.

// wantSingle is the end of a hook that was answered with "2".
func (p *process) wantSingle() {
	p.w.Helper()
	if got := p.w.answers(p.end())[single]; got != "Rolling deployment" {
		p.w.Errorf("answered %q, want %q", got, "Rolling deployment")
	}
}

// questionOf is the question with that text.
func (w *world) questionOf(text string) *state.Question {
	w.Helper()
	for _, q := range w.questions() {
		if q.Questions[0].Question == text {
			return q
		}
	}
	w.Fatalf("no question %q on disk", text)
	return nil
}

// threadOf waits for the message that asks text and returns its thread.
func (w *world) threadOf(text string) (name string) {
	w.Helper()
	w.until(fmt.Sprintf("%q in the space", text), func() bool {
		for _, m := range w.messages("[AskUserQuestion]") {
			if strings.Contains(m.Text, text) {
				name = m.Thread.Name
			}
		}
		return name != ""
	})
	return name
}

// A password manager may be locked just when the question is asked. Were it left to the flusher, the question would get
// into the space and nobody would read what is replied.
func TestReplyCountsThoughTheWebhookCommandFailedAtFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vault := filepath.Join(w.dir, "vault")
	url := w.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	writeFile(t, filepath.Join(w.env["HOME"], ".config", "gchat-hooks", "config.json"), fmt.Sprintf(`{"webhook_url_command":"cat %s"}`, vault))
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.until("the command to fail", func() bool { return w.question().PostError != "" })
	writeFile(t, vault, url)
	w.say(ann, w.thread(1), "2")
	p.wantSingle()
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times, want 1", n)
	}
}

// A stopped process can hold a question's lock longer than a hook waits for it, just when the reply is written there.
// The change is told once, so the look has to come again by itself.
func TestReplyCountsThoughTheLookFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	w.until("the question to be known as sent", func() bool { return w.question().MessageSent })
	// Only the file can bring the reply: a list would write it once more.
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.WriteHeader(http.StatusInternalServerError)
		return true
	})
	w.until("the hook to stand back", func() bool { return strings.Contains(w.log(), "replies cannot be read") })
	path := w.question().Path
	lock := flock.New(filepath.Join(filepath.Dir(path), ".locks", filepath.Base(path)))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	q := w.question()
	q.Replies = append(q.Replies, state.Reply{MessageName: "spaces/x/messages/y", Sender: ann.Name, Text: "2", CreateTime: time.Now().Add(time.Second)})
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, q.Path+".tmp", string(b))
	if err := os.Rename(q.Path+".tmp", q.Path); err != nil {
		t.Fatal(err)
	}
	w.until("the look to fail", func() bool { return strings.Contains(w.log(), "look at question") })
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	p.wantSingle()
}

// Many people talk in a thread. What the file keeps of it is bounded, and the bound must not shut the answer out.
func TestAnswerAfterTwoHundredMessagesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	chatter := func(n, want int) {
		for i := range n {
			w.say(bob, thread, fmt.Sprint("chatter ", i))
		}
		w.until("the chatter judged", func() bool { q := w.question(); return len(q.Replies) == want && !q.Unread() })
	}
	chatter(200, 200)
	chatter(10, 210)
	// What was forgotten is in the lists for a while yet; it must not be taken for new again and again.
	before, err := os.Stat(w.question().Path)
	if err != nil {
		t.Fatal(err)
	}
	_, lists := w.trace.counts()
	w.until("three more lists", func() bool { _, n := w.trace.counts(); return n >= lists+3 })
	if after, err := os.Stat(w.question().Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is rewritten though nothing is new: %v", err)
	}
	w.say(ann, thread, "2")
	p.wantSingle()
	kept := 0
	for _, r := range w.question().Replies {
		if r.Text != "" {
			kept++
		}
	}
	if kept > 201 {
		t.Errorf("the words of %d replies are kept, want 200 and the answer at most", kept)
	}
	if n := len(w.messages("[Not used]")); n != 1 {
		t.Errorf("Bob was told %d times, want once", n)
	}
}

// Chat may return fewer messages than asked for, and the answer may stand on a late page.
func TestAnswerOnALatePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.chat.Handler()
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/messages") {
			return false
		}
		q := r.URL.Query()
		q.Set("pageSize", "2")
		r.URL.RawQuery = q.Encode()
		handler.ServeHTTP(rw, r)
		return true
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	for i := range 110 {
		w.say(bob, "", fmt.Sprint("elsewhere ", i))
	}
	w.say(ann, thread, "2")
	p.wantSingle()
}

// A laptop's clock may be wrong by minutes: replies must be found all the same, without reading a space's whole past.
func TestClocksMayDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, space.Options{Now: func() time.Time { return time.Now().Add(skew) }})
			for i := range 3 {
				w.say(ann, "", fmt.Sprint(i))
			}
			var mu sync.Mutex
			var filters []string
			w.trace.set(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
					mu.Lock()
					defer mu.Unlock()
					filters = append(filters, r.URL.Query().Get("filter"))
				}
				return false
			})
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.say(ann, w.thread(1), "2")
			p.wantSingle()
			if n := len(w.question().Replies); n != 1 {
				t.Errorf("%d replies on disk, want 1", n)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(filters) == 0 {
				t.Error("no list was seen")
			}
			for _, filter := range filters {
				_, quoted, _ := strings.Cut(filter, `"`)
				after, _, _ := strings.Cut(quoted, `"`)
				from, err := time.Parse(time.RFC3339Nano, after)
				if back := time.Since(from); err != nil || from.IsZero() || back > 20*time.Minute {
					t.Errorf("filter %s (%v) reaches %v back, want 20m at most", filter, err, back)
				}
			}
		})
	}
}

// A person edits the file that says who may answer, and it does not parse for a moment: nobody is refused for that.
func TestHalfWrittenAllowlistRefusesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.env["HOME"], ".config", "gchat-hooks", "config.json")
	good := fmt.Sprintf(`{"webhook_url":%q,"allowed_users":["users/ann"]}`, w.env["GOOGLE_CHAT_WEBHOOK_URL"])
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	delete(w.env, "GCHAT_ALLOWED_USERS")
	writeFile(t, file, good)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.until("the question to be known as sent", func() bool { return w.question().MessageSent })
	writeFile(t, file, good[:30])
	w.say(ann, thread, "2")
	w.until("the reply on disk", func() bool { return len(w.question().Replies) > 0 })
	time.Sleep(300 * time.Millisecond) // for a hook that would refuse it
	if got := w.question().Replies[0].Verdict; got != state.Unread {
		t.Errorf("judged %q, want not at all", got)
	}
	writeFile(t, file, good)
	p.wantSingle()
	if n := len(w.messages("[Not used]")); n != 0 {
		t.Errorf("Ann was refused %d times, want never", n)
	}
}

// Where the person's own state cannot be written there is no lock for who reads: then every hook reads.
func TestReplyIsReadWithoutAPlaceForLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blocked := filepath.Join(w.dir, "blocked")
	writeFile(t, blocked, "")
	w.env["XDG_STATE_HOME"] = filepath.Join(blocked, "state")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.until("some lists", func() bool { _, n := w.trace.counts(); return n >= 5 })
	w.say(ann, thread, "2")
	p.wantSingle()
	if n := strings.Count(w.log(), "leader lock"); n != 1 {
		t.Errorf("the log says %d times that there is no lock, want once", n)
	}
}

// The hook that a reply is for may be dead, and another one of the machine reads it: when the question is closed later,
// the person is told that the reply was not used.
func TestReplyToADeadHookIsJudgedWhenItsQuestionCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.threadOf(single)
	w.start(forward, recorded(t, "two-calls-05-PermissionRequest")) // keeps the inbox alive
	w.thread(2)
	_ = p.Process.Kill()
	<-p.done
	w.say(ann, thread, "2")
	w.until("the reply on disk", func() bool { return len(w.questionOf(single).Replies) > 0 })
	if q := w.questionOf(single); q.Status != state.Pending || q.Replies[0].Verdict != state.Unread {
		t.Errorf("nobody waits, and the question is %s, its reply %q; want pending and unread", q.Status, q.Replies[0].Verdict)
	}
	w.run(answered, recorded(t, "single-05-PostToolUse"))
	if got := w.awaitMessage("[Not used]"); !strings.Contains(got, "in the terminal") {
		t.Errorf("the thread says %q, want that the terminal answered", got)
	}
	w.until("the reply to be judged", func() bool { return w.questionOf(single).Replies[0].Verdict == state.Late })
	if q := w.questionOf(single); q.Status != state.Resolved || q.ResolvedBy != "terminal" {
		t.Errorf("the question is %s by %q, want resolved by terminal", q.Status, q.ResolvedBy)
	}
}

// The answer to a send is lost, the next try is told that the message exists, and Chat shows neither its id nor its
// thread's key: its text is still the question's.
func TestThreadIsFoundByItsTextAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler := w.chat.Handler()
	var posts atomic.Int64
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			switch posts.Add(1) {
			case 1:
				handler.ServeHTTP(&nowhere{}, r)
				panic(http.ErrAbortHandler)
			case 2:
				rw.WriteHeader(http.StatusConflict)
				fmt.Fprint(rw, `{"error":{"code":409,"status":"ALREADY_EXISTS","message":"exists"}}`)
				return true
			}
			return false
		}
		if !strings.HasSuffix(r.URL.Path, "/messages") {
			rw.WriteHeader(http.StatusNotFound)
			return true
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		body := strings.NewReplacer("clientAssignedMessageId", "notShown1", "threadKey", "notShown2").Replace(rec.Body.String())
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write([]byte(body))
		return true
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(ann, thread, "2")
	p.wantSingle()
	if q := w.question(); q.ThreadName != thread {
		t.Errorf("the question is in %q on disk, in %q in the space", q.ThreadName, thread)
	}
}

// Where replies cannot be read the thread says so, once, and Chat is left alone.
func TestThreadIsToldOnceThatNobodyReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header()["Date"] = nil // nor is there a clock to go by
		if r.Method != http.MethodGet {
			return false
		}
		rw.WriteHeader(http.StatusNotFound)
		fmt.Fprint(rw, `{"error":{"code":404,"status":"NOT_FOUND","message":"Space not found"}}`)
		return true
	})
	w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(ann, thread, "2")
	if got := w.awaitMessage("[Not read]"); !strings.Contains(got, "Space not found") {
		t.Errorf("the thread says %q, want the cause", got)
	}
	_, before := w.trace.counts()
	time.Sleep(time.Second) // ten cycles
	if _, after := w.trace.counts(); after > before {
		t.Errorf("%d lists in the second after it was given up, want none", after-before)
	}
	if ms := w.messages("[Not read]"); len(ms) != 1 || ms[0].Thread.Name != thread {
		t.Errorf("told %d times, want once, in the thread", len(ms))
	}
}

// A reply by hand is for when Chat is out of reach, so it must not need it.
func TestReplyByHandThatLiesThereNeedsNoChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	file := w.byHand("orch-epic4", "2\n")
	began := time.Now()
	w.start(forward, recorded(t, "single-04-PermissionRequest")).wantSingle()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v, want no wait for Chat", took)
	}
	if _, lists := w.trace.counts(); lists != 0 {
		t.Errorf("%d lists, want none", lists)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left for the next question: %v", err)
	}
}

// byHand puts a reply where a person without Chat puts it, and returns the file.
func (w *world) byHand(name, text string) string {
	w.Helper()
	file := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "user-input-queue", name+".txt")
	writeFile(w.TB, file, text)
	return file
}

// A session can have two questions open. A reply by hand says not which it is for: one of them takes it, and the other
// stays open for a reply of its own.
func TestReplyByHandAnswersOneOfTwoQuestions(t *testing.T) {
	for _, when := range []string{"lies there before", "comes while both wait"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
			early := when == "lies there before"
			if early {
				w.byHand("orch-epic4", "2\n")
			}
			hooks := map[string]*process{
				"First call?":  w.start(forward, recorded(t, "two-calls-06-PermissionRequest")),
				"Second call?": w.start(forward, recorded(t, "two-calls-05-PermissionRequest")),
			}
			if !early {
				w.thread(2)
				w.byHand("orch-epic4", "2\n")
			}
			w.until("one to be answered", func() bool {
				for _, q := range w.questions() {
					if q.Status == state.Answered {
						return true
					}
				}
				return false
			})
			time.Sleep(200 * time.Millisecond) // for the other to take it too
			byHand := 0
			for text, p := range hooks {
				want := map[string]string{"First call?": "a1", "Second call?": "b1"}[text]
				if q := w.questionOf(text); q.Status == state.Answered {
					byHand++
					want = strings.Replace(want, "1", "2", 1)
				} else {
					w.say(ann, w.threadOf(text), "1")
				}
				if got := w.answers(p.end())[text]; got != want {
					t.Errorf("%s answered %q, want %q", text, got, want)
				}
			}
			if byHand != 1 {
				t.Errorf("one reply by hand answered %d questions, want 1", byHand)
			}
		})
	}
}
