package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// testMachine is a machine with its own folders, and a space that its pollers talk to
// over HTTP.
type testMachine struct {
	t          testing.TB
	dir        string
	vars       map[string]string
	space      *space.Space
	listCount  atomic.Int64 // list requests that came
	listStatus atomic.Int64 // the status that every list is answered with; 0 for none
	// the number of messages on a page of a list; 0 for as many as the request asks for
	pageSize       atomic.Int64
	hasEndlessList atomic.Bool  // the last page of a list leads to the first
	clockLead      atomic.Int64 // added to the space's clock, nanoseconds
	questionCount  int
}

func newTestMachine(t testing.TB) *testMachine {
	t.Helper()
	d := &testMachine{t: t, dir: t.TempDir()}
	var err error
	if d.space, err = space.Open(space.Options{IsDirect: true, Now: func() time.Time { return time.Now().Add(time.Duration(d.clockLead.Load())) }}); err != nil {
		t.Fatal(err)
	}
	inner := strict.CheckRequests(t, d.space.Handler(), strict.Embedded)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(d.clockLead.Load())).UTC().Format(http.TimeFormat))
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
			d.listCount.Add(1)
			if code := d.listStatus.Load(); code != 0 {
				http.Error(w, `{"error":{"code":503}}`, int(code))
				return
			}
			d.servePage(w, r, inner)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); d.space.Close() })
	d.vars = map[string]string{
		"HOME": d.dir, "PATH": os.Getenv("PATH"), "TMUX_TMPDIR": d.dir, "GCHAT_ALLOWED_USERS": space.PersonName + ",users/1",
		"GOOGLE_CHAT_WEBHOOK_URL": d.space.WebhookURL(server.URL), "GCHAT_POLLER_INTERVAL": "1s",
	}
	return d
}

// servePage answers a list in the pages that the test has set.
func (d *testMachine) servePage(w http.ResponseWriter, r *http.Request, inner http.Handler) {
	query := r.URL.Query()
	if n := d.pageSize.Load(); n > 0 {
		query.Set("pageSize", fmt.Sprint(n))
	}
	if query.Get("pageToken") == "loop" {
		query.Del("pageToken")
	}
	r.URL.RawQuery = query.Encode()
	answer := httptest.NewRecorder()
	inner.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	var list chatapi.ListMessagesResponse
	if json.Unmarshal(body, &list) == nil && list.NextPageToken == "" && d.hasEndlessList.Load() {
		list.NextPageToken = "loop"
		body, _ = json.Marshal(&list)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

func (d *testMachine) env(name string) string { return d.vars[name] }

// newPoller returns a poller whose steps the test takes.
func (d *testMachine) newPoller(dirs ...string) *Poller {
	p := newPoller(Options{Env: d.env, Log: state.NewLog(d.env, "test"), QuestionDirs: dirs})
	_, end := p.startServing(context.Background())
	d.t.Cleanup(end)
	return p
}

// addQuestion writes a question as a hook does. change changes it first.
func (d *testMachine) addQuestion(change func(*state.Question)) *state.Question {
	d.t.Helper()
	q := d.writeQuestion(change)
	kit.NoError(d.t, state.AddQuestionToIndex(d.env, q))
	state.CallPoller(d.env, state.Environment(d.env))
	return q
}

// writeQuestion is addQuestion without an index entry.
func (d *testMachine) writeQuestion(change func(*state.Question)) *state.Question {
	d.t.Helper()
	d.questionCount++
	// the times of files are no finer, and questions are ordered by them
	time.Sleep(time.Millisecond)
	q := &state.Question{
		QuestionID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", d.questionCount), SessionID: fmt.Sprintf("s-%d", d.questionCount), SessionName: fmt.Sprintf("shop %d", d.questionCount),
		AskedAt: time.Now().UTC(), Status: state.Pending, Mode: state.ModeInject, ProjectDir: filepath.Join(d.dir, "shop"),
		SubQuestions: []state.SubQuestion{{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}, OptionCount: 2}},
	}
	q.ThreadKey = state.QuestionThreadKey(q.QuestionID)
	if change != nil {
		change(q)
	}
	dir := filepath.Join(d.dir, "shop", ".claude", "state")
	if q.Kind != state.KindQuestion { // what lets Claude act
		dir = filepath.Join(state.UserStateDir(d.env), "projects", "shop")
	}
	q, err := state.QuestionsIn(dir).Record(q.SessionID, func([]*state.Question) *state.Question { return q })
	kit.NoError(d.t, err)
	return q
}

// markPosted marks a question's message as posted.
func (d *testMachine) markPosted(q *state.Question) {
	name := space.Name + "/threads/" + q.QuestionID[:8]
	at := q.AskedAt
	q.IsMessageSent, q.ThreadName, q.MessageName = true, name, space.Name+"/messages/"+q.QuestionID[:8]
	q.Space, q.PostedAt = space.Name, &at
	q.Chat = strings.TrimPrefix(d.vars["GOOGLE_CHAT_WEBHOOK_URL"], "http://")
	q.Chat, _, _ = strings.Cut(q.Chat, "/")
	q.Chat += "/" + space.Name
}

func (d *testMachine) loadQuestion(q *state.Question) *state.Question {
	d.t.Helper()
	q, err := state.LoadQuestion(q.Path)
	kit.NoError(d.t, err)
	return q
}

func (d *testMachine) changeQuestion(q *state.Question, change func(*state.Question)) *state.Question {
	d.t.Helper()
	q, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { change(q); return nil })
	kit.NoError(d.t, err)
	state.CallPoller(d.env, state.Environment(d.env))
	return q
}

// reply writes a person's message into a question's thread. The sender "" is the person
// on the page.
func (d *testMachine) reply(thread, sender, text string) *chatapi.Message {
	d.t.Helper()
	var from *chatapi.User
	if sender != "" {
		from = &chatapi.User{Name: sender, Type: "HUMAN"}
	}
	m, err := d.space.PostAs(from, thread, text)
	kit.NoError(d.t, err)
	return m
}

// awaitQuestion waits until a question meets a condition.
func (d *testMachine) awaitQuestion(q *state.Question, what string, done func(*state.Question) bool) *state.Question {
	d.t.Helper()
	var stored *state.Question
	found := bound.WaitFor(bound.Patience, func() bool {
		var err error
		stored, err = state.LoadQuestion(q.Path)
		return err == nil && done(stored)
	})
	if !found {
		d.t.Fatalf("%s: not in time: %+v", what, stored)
	}
	return stored
}

// runPoller runs a poller until the test ends. It returns a function that ends the poller
// earlier, and waits for that.
func (d *testMachine) runPoller(o Options) (end func() error) {
	o.Env, o.Log = d.env, state.NewLog(d.env, "test")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	isOver := false
	end = func() error {
		cancel()
		if isOver {
			return nil
		}
		isOver = true
		return <-ended
	}
	d.t.Cleanup(func() { _ = end() })
	return end
}

// noteKinds returns the kinds of the notes about a question in the outbox.
func (d *testMachine) noteKinds(q *state.Question) (about []string) {
	all, _ := state.OutboxIn(state.UserStateDir(d.env)).All()
	for _, message := range all {
		if message.Note != nil && message.Question == q.Path {
			about = append(about, message.Note.About)
		}
	}
	return about
}

// logLines returns the lines of the log that contain a text.
func (d *testMachine) logLines(words string) (lines []string) {
	raw, _ := os.ReadFile(state.LogPath(d.env))
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAQuestionIsPostedReadAndAnsweredToItsHook(t *testing.T) {
	t.Parallel()
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { q.Mode = state.ModeNative })
	waiter, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(t, err)
	defer waiter.Unlock()
	d.runPoller(Options{})
	stored := d.awaitQuestion(q, "posted", func(q *state.Question) bool { return q.IsMessageSent })
	answered := make(chan *state.Question, 1)
	go func() {
		q, _ := state.Await(t.Context(), d.env, "", q.Path, func(q *state.Question) bool { return q.Status != state.Pending })
		answered <- q
	}()
	d.reply(stored.ThreadName, "users/2", "1")
	d.reply(stored.ThreadName, "", "2 - soon")
	stored = <-answered
	if stored.Answers["Which?"] != "Two" || stored.Notes["Which?"] != "soon" || stored.AnsweredBy != space.PersonName {
		t.Errorf("answered %v, %v by %s", stored.Answers, stored.Notes, stored.AnsweredBy)
	}
	stored = d.awaitQuestion(q, "refused", func(q *state.Question) bool { return len(q.OwedNotes) == 0 })
	if stored.Replies[0].Verdict != state.VerdictRefused || strings.Join(d.noteKinds(q), " ") != state.NoteRefused {
		t.Errorf("%+v, notes %q", stored.Replies, d.noteKinds(q))
	}
	if _, err := state.CloseQuestion(q.Path, state.Resolved, "chat", nil); err != nil {
		// as the PostToolUse hook does
		t.Fatal(err)
	}
	d.awaitQuestion(q, "told", func(q *state.Question) bool { return len(q.OwedNotes) == 0 })
	if got := d.noteKinds(q); len(got) != 2 || got[1] != state.NoteClosed {
		t.Errorf("notes %q", got)
	}
}

// A checkout can bring a question. The poller ignores it: no hook of ours wrote an index
// entry for it.
func TestARecordThatTheIndexDoesNotNameIsNothing(t *testing.T) {
	d := newTestMachine(t)
	planted := d.writeQuestion(func(q *state.Question) { q.TmuxPane, q.TmuxSocket = "%0", "/tmp/x" })
	d.addQuestion(nil)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	for _, record := range p.ownRecords {
		if record.Path == planted.Path {
			t.Error("it is served")
		}
	}
	if d.loadQuestion(planted).IsMessageSent {
		t.Error("it was posted")
	}
	named := d.newPoller(filepath.Dir(planted.Path))
	named.readAndAttend(t.Context())
	if len(named.ownRecords) != 2 {
		t.Errorf("of a folder that a person named, %d questions are served", len(named.ownRecords))
	}
}

// A person may name a folder by another path than the hook does. It is the same folder:
// the record is served once, with its hook.
func TestAFolderOfTwoNames(t *testing.T) {
	d := newTestMachine(t)
	link := filepath.Join(d.dir, "a-link") // "a-link" is before "shop"
	kit.NoError(t, os.Symlink(filepath.Join(d.dir, "shop"), link))
	q := d.addQuestion(func(q *state.Question) {
		q.Mode, q.AskedAt = state.ModeNative, time.Now().Add(-time.Minute)
		d.markPosted(q)
	})
	waiter, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(t, err)
	defer waiter.Unlock()
	p := d.newPoller(filepath.Join(link, ".claude", "state", "pending-questions"), filepath.Dir(q.Path))
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{{MessageName: "m", Sender: space.PersonName, Text: "1", CreatedAt: time.Now().UTC()}}
	})
	p.readAndAttend(t.Context())
	if stored := d.loadQuestion(q); stored.Replies[0].Verdict != state.VerdictUsed || len(p.ownRecords) != 1 {
		t.Errorf("a hook waits, and the reply is %q; %d are served", stored.Replies[0].Verdict, len(p.ownRecords))
	}
}

// The poller neither posts nor judges a question of another environment. It leaves the
// replies to that environment's poller.
func TestAnotherEnvironmentsQuestionIsReadOnly(t *testing.T) {
	d := newTestMachine(t)
	mine := d.addQuestion(d.markPosted)
	d.vars["GCHAT_ALLOWED_USERS"] += ",users/3"
	theirs := d.addQuestion(d.markPosted)
	unposted := d.addQuestion(nil)
	d.vars["GCHAT_ALLOWED_USERS"] = space.PersonName
	mine = d.changeQuestion(mine, func(q *state.Question) {})
	kit.NoError(t, state.RemoveFromIndex(d.env, mine.Path))
	kit.NoError(t, state.AddQuestionToIndex(d.env, mine))
	m := d.startThread(theirs)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	for chat, v := range p.spaceViews() {
		kit.NoError(t, p.readerFor(chat).listAndRelease(t.Context(), v))
	}
	p.readAndAttend(t.Context())
	if stored := d.loadQuestion(theirs); len(stored.Replies) > 0 {
		t.Errorf("replies %+v", stored.Replies)
	}
	left, _ := state.InboxIn(state.UserStateDir(d.env)).All()
	if len(left) != 1 || left[0].MessageName != m.Name || left[0].Status != state.IncomingNew {
		t.Errorf("left for its own poller: %+v", left)
	}
	if d.loadQuestion(unposted).IsMessageSent {
		t.Error("another environment's question was posted")
	}
}

// startThread gives a question a thread in the space, with a reply of the person on the
// page. It returns that reply.
func (d *testMachine) startThread(q *state.Question) *chatapi.Message {
	d.t.Helper()
	m, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, "", "a question")
	kit.NoError(d.t, err)
	at, err := time.Parse(time.RFC3339Nano, m.CreateTime)
	kit.NoError(d.t, err)
	d.changeQuestion(q, func(q *state.Question) { q.ThreadName, q.MessageName, q.PostedAt = m.Thread.Name, m.Name, &at })
	return d.reply(m.Thread.Name, "", "2")
}

func TestOnePollerAnEnvironment(t *testing.T) {
	d := newTestMachine(t)
	end := d.runPoller(Options{})
	d.awaitQuestion(d.addQuestion(nil), "posted", func(q *state.Question) bool { return q.IsMessageSent })
	if err := Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test")}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	stop := d.runPoller(Options{Daemon: true}) // the detached one yields
	bound.Until(t, "the daemon runs", func() bool { return state.ReadDaemonPID(state.UserStateDir(d.env)) != 0 })
	d.awaitQuestion(d.addQuestion(nil), "posted by the daemon", func(q *state.Question) bool { return q.IsMessageSent })
	if err := end(); err != nil {
		t.Errorf("the one that yielded: %v", err)
	}
	err := Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true})
	if !errors.Is(err, ErrDaemonRuns) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
	if state.ReadDaemonPID(state.UserStateDir(d.env)) != os.Getpid() {
		t.Error("no pid file")
	}
	if err := stop(); err != nil || isPollerRunning(d.env) {
		t.Errorf("after its end: %v", err)
	}
	if state.ReadDaemonPID(state.UserStateDir(d.env)) != 0 {
		t.Error("the pid file stays")
	}
}

// Without an open question the poller makes no request. Otherwise it lists the space once
// a cycle, for all open questions together.
func TestOneListForAllQuestions(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GCHAT_POLLER_INTERVAL"] = "100ms"
	var questions []*state.Question
	for range 5 {
		questions = append(questions, d.addQuestion(d.markPosted))
	}
	m := d.startThread(questions[4])
	p := d.newPoller()
	now := time.Now()
	p.Now = func() time.Time { return now }
	lists := func() int64 {
		before := d.listCount.Load()
		for range 3 { // steps of the loop
			p.readIndex()
			p.startLists(t.Context())
			p.goroutines.Wait()
		}
		return d.listCount.Load() - before
	}
	n := lists()
	p.readAndAttend(t.Context())
	if n != 1 || d.loadQuestion(questions[4]).FindReply(m.Name) == nil {
		t.Errorf("%d lists, replies %+v", n, d.loadQuestion(questions[4]).Replies)
	}
	now = now.Add(100 * time.Millisecond)
	kit.Equalf(t, lists(), 1, "lists in the next cycle")
	for _, q := range questions {
		if _, err := state.CloseQuestion(q.Path, state.Cancelled, "stop", nil); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(readAfterEnd + time.Second)
	d.addQuestion(nil) // it is not posted
	kit.Equalf(t, lists(), 0, "lists with nothing open")
}

func TestOnceDoesOneRound(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	m := d.startThread(q)
	kit.NoError(t, Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), Once: true}))
	if stored := d.loadQuestion(q); stored.FindReply(m.Name) == nil || stored.Status != state.Answered {
		t.Errorf("%s, %+v", stored.Status, stored.Replies)
	}
	d.listStatus.Store(http.StatusForbidden)
	d.addQuestion(d.markPosted)
	if err := Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), Once: true}); err == nil {
		t.Error("what keeps it from reading is not returned")
	}
}

// A single round takes over from a detached poller. A new detached poller starts
// afterwards where a question is open.
func TestAfterOneRoundADetachedPollerGoesOn(t *testing.T) {
	d := newTestMachine(t)
	mark, self := filepath.Join(d.dir, "started"), filepath.Join(d.dir, "gchat-hooks")
	kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\necho >"+mark+"\n"), 0o700))
	d.addQuestion(d.markPosted)
	for _, dry := range []bool{true, false} {
		kit.NoError(t, Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), ProgramPath: self, Once: true, DryRun: dry}))
		there := bound.WaitFor(time.Duration(1-intOf(dry))*10*time.Second, func() bool {
			_, err := os.Stat(mark)
			return err == nil
		})
		if there == dry {
			t.Errorf("dry run %v: started %v", dry, there)
		}
	}
}

func TestAPanicEndsAStepAndNotTheProcess(t *testing.T) {
	d := newTestMachine(t)
	p := d.newPoller()
	p.runSafely("test", func() { panic("a bug") })
	p.runInBackground("test", func() { panic("another") })
	p.goroutines.Wait()
	if len(d.logLines("a bug in gchat-hooks")) != 2 {
		t.Error("the log does not say so")
	}
}

// isPollerRunning reports whether a poller has the environment's lock.
func isPollerRunning(env state.Getenv) bool {
	lock, err := state.LockPoller(env)
	if err == nil {
		lock.Unlock()
	}
	return errors.Is(err, state.ErrLocked)
}
