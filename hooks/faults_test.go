package hooks

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Many sessions ask for permissions at once, while pollers die and Chat fails. Each
// permission gets the decision from its own thread.
//
// With GCHAT_LOAD=1, ten sessions ask for six permissions each, at 60 messages a minute.
func TestFaults_EveryPermissionIsDecided(t *testing.T) {
	t.Parallel()
	sessions, each, pace := 3, 2, "60000"
	if os.Getenv("GCHAT_LOAD") != "" {
		sessions, each, pace = 10, 6, "60"
	}
	x := &faultyWorld{world: newChatWorld(t), waiting: map[int]*hookProcess{},
		stop: make(chan struct{})}
	x.env["GCHAT_WRITES_PER_MINUTE"] = pace
	x.trace.setIntercept(x.interceptBadly)
	var background, asking sync.WaitGroup
	background.Go(x.runKiller) // kills pollers only
	background.Go(func() {
		x.replyToEach("[Permission]", func(text string) string {
			command := strings.Split(text, "\n```\n")[1]
			if choiceFor(command) == 0 {
				return "yes"
			}
			return "no, not " + command
		})
	})
	for s := range sessions {
		asking.Go(func() {
			w := x.withVariables("CLAUDE_SESSION_ID", fmt.Sprintf("session-%d", s))
			for n := range each {
				command := fmt.Sprintf("make target-%d-%d", s, n)
				p := w.startHook(forwardHook, permissionEvent(w, fmt.Sprintf("s-%d", s), command))
				select {
				case <-p.done:
				case <-time.After(300 * time.Second):
					x.Errorf("%s: its hook does not end", command)
					return
				}
				behavior, message := readDecision(p.out.String())
				if want := choiceFor(command) == 0; want != (behavior == "allow") || !want &&
					message != "not "+command {
					x.Errorf("%s: %s %q", command, behavior, message)
				}
				w.runHook(answeredHook, batchEvent(w, fmt.Sprintf("s-%d", s), command, message))
			}
		})
	}
	began := time.Now()
	asking.Wait()
	elapsed := time.Since(began)
	close(x.stop)
	background.Wait()
	x.trace.setIntercept(nil)
	for end := time.Now().Add(4 * time.Minute); len(x.messages("[Answered]")) < sessions*each &&
		time.Now().Before(end); {
		// like any hook, it starts a poller if none is left
		x.runHook(answeredHook, namedEvent(x, "Stop", "another"))
		time.Sleep(100 * time.Millisecond)
	}
	kit.Equalf(t, len(x.messages("[Answered]")), sessions*each, "notes")
	var at []time.Time
	for _, m := range x.messages("[") {
		posted, _ := time.Parse(time.RFC3339Nano, m.CreateTime)
		at = append(at, posted)
	}
	slices.SortFunc(at, time.Time.Compare)
	most := 0
	for i, from := range at {
		n := 0
		for _, t := range at[i:] {
			if t.Sub(from) < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	t.Logf("%d decided in %s, %d pollers killed or stopped, %d requests failed, at most %d messages in a minute",
		sessions*each, elapsed.Round(time.Second), x.kills.Load(), x.faults.Load(), most)
	kit.Equalf(t, len(x.messages("[Permission]")), sessions*each, "asked")
	kit.True(t, pace != "60" || most <= 60+13, "%d messages within a minute", most)
}

// faultyWorld is a run of many native questions while processes die and Chat fails.
type faultyWorld struct {
	*world
	mu      sync.Mutex
	waiting map[int]*hookProcess // hooks that wait, by pid
	kills   atomic.Int64
	faults  atomic.Int64
	stop    chan struct{}
}

// Several sessions ask native questions, each one after another. Meanwhile pollers and
// waiting hooks are killed and stopped, Chat refuses, fails, cuts connections and is
// slow, and events come twice. Each question is asked once. Its answer reaches the
// session that asked, and its thread ends with what Claude got.
//
// With GCHAT_TROUBLE=3000 it asks so many questions, in 20 sessions.
func TestFaults_EveryQuestionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	total, sessions := 40, 4
	if testing.Short() {
		total = 12
	}
	if n, err := strconv.Atoi(os.Getenv("GCHAT_TROUBLE")); err == nil {
		total, sessions = n, 20
	}
	x := &faultyWorld{world: newChatWorld(t), waiting: map[int]*hookProcess{},
		stop: make(chan struct{})}
	x.env["GCHAT_WRITES_PER_MINUTE"] = "60000"
	x.trace.setIntercept(x.interceptBadly)
	var background, asking sync.WaitGroup
	background.Go(func() {
		x.replyToEach("[AskUserQuestion]", func(text string) string {
			question := regexp.MustCompile(`Question \d.*\?`).FindString(text)
			return strconv.Itoa(choiceFor(question) + 1)
		})
	})
	background.Go(x.runKiller)
	type outcome struct{ question, got string }
	outcomes := make(chan outcome, total)
	for s := range sessions {
		asking.Go(func() {
			w := x.withVariables("CLAUDE_SESSION_ID", fmt.Sprintf("session-%d", s))
			for n := range total / sessions {
				question := fmt.Sprintf("Question %d of session %d?", n, s)
				outcomes <- outcome{question,
					x.ask(w, fmt.Sprintf("s-%d", s), fmt.Sprintf("call-%d-%d", s, n), question)}
			}
		})
	}
	asking.Wait()
	close(x.stop)
	background.Wait()
	x.trace.setIntercept(nil)
	close(outcomes)
	fromPhone := 0
	for o := range outcomes {
		if o.got != "by hand" {
			fromPhone++
		}
		x.wantSettled(o.question, o.got)
	}
	t.Logf("%d questions, %d answered from the phone, %d processes killed or stopped, %d requests failed",
		total, fromPhone, x.kills.Load(), x.faults.Load())
	kit.True(t, fromPhone != 0 && x.kills.Load() != 0 && x.faults.Load() != 0,
		"there was no trouble, or nothing went through")
}

// labels are the choices of a person; the question decides which.
var labels = []string{"alpha", "beta", "gamma"}

func choiceFor(question string) int { return int(crc32.ChecksumIEEE([]byte(question))) % len(labels) }

// ask has a session ask one question, as Claude Code does. It returns what Claude got:
// the answer that the hook printed, or "by hand" if the hook died and the person answered
// in the dialog.
func (x *faultyWorld) ask(w *world, session, call, question string) string {
	pre := questionEvent(w, session, call, question, labels...)
	var event map[string]any
	kit.NoError(x, json.Unmarshal(pre, &event))
	marshal := func(name string) []byte {
		event["hook_event_name"] = name
		return kit.JSON(x, event)
	}
	for range 1 + rand.N(2) { // two installs
		w.runHook(forwardHook, pre)
	}
	delete(event, "tool_use_id")
	permission := marshal("PermissionRequest")
	p := w.startHook(forwardHook, permission)
	x.mu.Lock()
	x.waiting[p.Process.Pid] = p
	x.mu.Unlock()
	select {
	case <-p.done:
	case <-time.After(6 * testTimeout):
		x.Errorf("%q: its hook does not end", question)
		for _, q := range w.questions() {
			if len(q.SubQuestions) > 0 && q.SubQuestions[0].Question == question {
				record, err := os.ReadFile(q.Path)
				open, openErr := state.ReadIndexEntry(state.IndexFile(w.getenv, q.Path))
				x.Logf("waited for by %d: %s, %v; in the index: %+v, %v; pollers %+v",
					p.Process.Pid, record, err, open, openErr, state.ReadHeartbeats(w.getenv))
			}
		}
	}
	x.mu.Lock()
	delete(x.waiting, p.Process.Pid)
	x.mu.Unlock()
	got := "by hand"
	if p.out.Len() > 0 {
		got = w.readAnswers(p.out.String())[question]
	}
	event["tool_use_id"] = call
	event["tool_response"] = map[string]any{"answers": map[string]string{question: got}}
	for range 1 + rand.N(2) {
		w.runHook(answeredHook, marshal("PostToolUse"))
	}
	return got
}

// replyToEach replies to every message that begins with a prefix, once, a moment after it
// appears.
func (x *faultyWorld) replyToEach(prefix string, reply func(text string) string) {
	replied := map[string]bool{}
	for {
		select {
		case <-x.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		for _, m := range x.messages(prefix) {
			if !replied[m.Name] {
				replied[m.Name] = true
				x.sendAsUser(ann, m.Thread.Name, reply(m.Text))
			}
		}
	}
}

// runKiller kills a process now and then, or stops it for a moment: mostly a poller,
// otherwise a waiting hook.
func (x *faultyWorld) runKiller() {
	for {
		select {
		case <-x.stop:
			return
		case <-time.After(time.Duration(100+rand.N(700)) * time.Millisecond):
		}
		var pids []int
		for _, h := range state.ReadHeartbeats(x.getenv) {
			if h.IsAlive {
				pids = append(pids, h.PID, h.PID, h.PID)
			}
		}
		x.mu.Lock()
		for pid := range x.waiting {
			pids = append(pids, pid)
		}
		if len(pids) > 0 {
			pid := pids[rand.N(len(pids))]
			if rand.N(3) == 0 {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				time.AfterFunc(300*time.Millisecond,
					func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			} else {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			x.kills.Add(1)
		}
		x.mu.Unlock()
	}
}

// interceptBadly makes some requests fail, some of them after Chat has done what was
// asked.
func (x *faultyWorld) interceptBadly(rw http.ResponseWriter, r *http.Request) bool {
	fault := rand.N(12)
	if fault > 4 {
		return false
	}
	x.faults.Add(1)
	switch fault {
	case 0:
		// without this header, our own back-off waits 30 seconds, then 60
		rw.Header().Set("Retry-After", "1")
		http.Error(rw, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`,
			http.StatusTooManyRequests)
		return true
	case 1:
		http.Error(rw, "upstream", http.StatusBadGateway)
		return true
	case 2:
		panic(http.ErrAbortHandler) // the connection is cut
	}
	done := make(chan struct{})
	go func() { // Chat does what was asked, but the answer says otherwise
		defer close(done)
		x.chat.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-done
	if fault == 3 {
		panic(http.ErrAbortHandler)
	}
	http.Error(rw, "upstream", http.StatusServiceUnavailable)
	return true
}

// wantSettled checks what the space has of a question in the end.
func (x *faultyWorld) wantSettled(question, got string) {
	x.Helper()
	want := labels[choiceFor(question)]
	kit.True(x, got == "by hand" || got == want, "%q: Claude got %q, not %q", question, got, want)
	thread, asked := "", 0
	for _, m := range x.messages("[AskUserQuestion]") {
		if strings.Contains(m.Text, question) {
			thread, asked = m.Thread.Name, asked+1
		}
	}
	kit.True(x, asked <= 1, "%q was asked %d times", question, asked)
	if thread == "" {
		return // answered in the dialog before it was sent
	}
	var last string
	x.waitUntil("the note that closes "+question, func() bool {
		// like any hook, it starts a poller if none is left
		x.runHook(answeredHook, namedEvent(x, "Stop", "another"))
		closings := 0
		for _, m := range x.chat.Messages() {
			if m.Thread.Name == thread && (strings.HasPrefix(m.Text, "[Answered]") ||
				strings.HasPrefix(m.Text, "[Cancelled]")) {
				last, closings = m.Text, closings+1
			}
		}
		return closings > 0 && strings.Contains(last, got)
	})
}
