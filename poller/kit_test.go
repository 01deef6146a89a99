package poller

import (
	"context"
	"encoding/json"
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
	"gchat-hooks/e2e/underlock"
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
	hasEndlessList atomic.Bool // the last page of a list leads to the first
	clockLead      testClock   // the space's clock
	questionCount  int
}

func newTestMachine(t testing.TB) *testMachine {
	t.Helper()
	return newMachineWith(t, space.Options{IsDirect: true}, nil)
}

// newMachineWith returns a machine whose space answers through a handler, if there is
// one.
func newMachineWith(
	t testing.TB, options space.Options, handler http.Handler, rules ...strict.Rule,
) *testMachine {
	t.Helper()
	d := &testMachine{t: t, dir: t.TempDir()}
	options.Now = d.clockLead.now
	var err error
	d.space, err = space.Open(options)
	kit.NoError(t, err)
	if handler == nil {
		handler = d.space.Handler()
	}
	inner := strict.CheckRequests(t, handler, append(rules, strict.Embedded)...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", d.clockLead.now().UTC().Format(http.TimeFormat))
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/messages") {
			inner.ServeHTTP(w, r)
			return
		}
		d.listCount.Add(1)
		if code := d.listStatus.Load(); code != 0 {
			http.Error(w, `{"error":{"code":503}}`, int(code))
			return
		}
		d.servePage(w, r, inner)
	}))
	t.Cleanup(func() { server.Close(); d.space.Close() })
	d.vars = map[string]string{
		"HOME": d.dir, "PATH": os.Getenv("PATH"), "TMUX_TMPDIR": d.dir,
		"GCHAT_ALLOWED_USERS":     space.PersonName + ",users/1",
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

// addPosted is addQuestion for a question whose message is posted.
func (d *testMachine) addPosted(change func(*state.Question)) *state.Question {
	d.t.Helper()
	return d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		if change != nil {
			change(q)
		}
	})
}

// writeQuestion is addQuestion without an index entry.
func (d *testMachine) writeQuestion(change func(*state.Question)) *state.Question {
	d.t.Helper()
	d.questionCount++
	// the times of files are no finer, and questions are ordered by them
	time.Sleep(time.Millisecond)
	q := &state.Question{
		QuestionID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", d.questionCount),
		SessionID:  fmt.Sprintf("s-%d", d.questionCount), SessionName: fmt.Sprintf("shop %d",
			d.questionCount),
		AskedAt: time.Now().UTC(), Status: state.Pending, Mode: state.ModeInject,
		ProjectDir: filepath.Join(d.dir, "shop"),
		SubQuestions: []state.SubQuestion{
			{
				Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}},
				OptionCount: 2,
			},
		},
	}
	q.ThreadKey = state.QuestionThreadKey(q.QuestionID)
	if change != nil {
		change(q)
	}
	dir := filepath.Join(d.dir, "shop", ".claude", "state")
	if q.Kind != state.KindQuestion { // what lets Claude act
		dir = filepath.Join(state.UserStateDir(d.env), "projects", "shop")
	}
	q, err := state.QuestionsIn(dir).Record(q.SessionID, func([]*state.Question) *state.Question {
		return q
	})
	kit.NoError(d.t, err)
	return q
}

// markPosted marks a question's message as posted.
func (d *testMachine) markPosted(q *state.Question) {
	name := space.Name + "/threads/" + q.QuestionID[:8]
	at := q.AskedAt
	q.IsMessageSent, q.ThreadName, q.MessageName =
		true, name, space.Name+"/messages/"+q.QuestionID[:8]
	q.Space, q.PostedAt = space.Name, &at
	q.Chat = strings.TrimPrefix(d.vars["GOOGLE_CHAT_WEBHOOK_URL"], "http://")
	q.Chat, _, _ = strings.Cut(q.Chat, "/")
	q.Chat += "/" + space.Name
}

// waitInThread adds the record of a process that began to wait in a thread some time ago.
func (d *testMachine) waitInThread(thread string, ago time.Duration) *state.Question {
	d.t.Helper()
	q := d.writeQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.ThreadName, q.MessageName = state.ModeThread, thread, ""
		q.SubQuestions, q.PostedAt, q.AskedAt = nil, nil, q.AskedAt.Add(-ago)
	})
	entry := state.IndexEntry{RecordType: state.IndexedQuestion, Path: q.Path}
	kit.NoError(d.t, state.AddToIndex(d.env, entry))
	return q
}

func (d *testMachine) loadQuestion(q *state.Question) *state.Question {
	d.t.Helper()
	q, err := state.LoadQuestion(q.Path)
	kit.NoError(d.t, err)
	return q
}

func (d *testMachine) changeQuestion(q *state.Question,
	change func(*state.Question)) *state.Question {
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
func (d *testMachine) awaitQuestion(q *state.Question, what string,
	done func(*state.Question) bool) *state.Question {
	d.t.Helper()
	var stored *state.Question
	found := bound.WaitFor(bound.Patience, func() bool {
		var err error
		stored, err = state.LoadQuestion(q.Path)
		return err == nil && done(stored)
	})
	kit.Must(d.t, found, "%s: not in time: %+v", what, stored)
	return stored
}

func isSent(q *state.Question) bool     { return q.IsMessageSent }
func hasCard(q *state.Question) bool    { return q.CardMessage != "" }
func isDecided(q *state.Question) bool  { return q.Status != state.Pending }
func isAnswered(q *state.Question) bool { return q.Status == state.Answered }

// isAnsweredWith returns a condition: the question "Which?" has this answer.
func isAnsweredWith(label string) func(*state.Question) bool {
	return func(q *state.Question) bool { return q.Answers["Which?"] == label }
}

// testClock is a clock that a test sets ahead while a poller runs.
type testClock struct{ atomic.Int64 }

func (c *testClock) now() time.Time { return time.Now().Add(time.Duration(c.Load())) }

// run runs a poller that ends by itself.
func (d *testMachine) run(o Options) error {
	o.Env, o.Log = d.env, state.NewLog(d.env, "test")
	return Run(d.t.Context(), o)
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

// postAsApp posts a message of the app into a thread, or begins one.
func (d *testMachine) postAsApp(thread, text string) *chatapi.Message {
	d.t.Helper()
	m, err := d.space.PostAs(&chatapi.User{Name: "users/app", Type: "BOT"}, thread, text)
	kit.NoError(d.t, err)
	return m
}

// startWaiter has a hook wait for a question, until the test ends or unlocks it.
func (d *testMachine) startWaiter(q *state.Question) *state.Lock {
	d.t.Helper()
	waiter, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(d.t, err)
	d.t.Cleanup(waiter.Unlock)
	return waiter
}

func (d *testMachine) closeQuestion(q *state.Question, status state.Status, resolvedBy string) {
	d.t.Helper()
	_, err := state.CloseQuestion(q.Path, status, resolvedBy, nil)
	kit.NoError(d.t, err)
}

// readFirst returns a poller that has read the index, and its oldest question.
func (d *testMachine) readFirst() (*Poller, *trackedRecord) {
	p := d.newReadyPoller()
	return p, p.ownOldestFirst()[0]
}

// newReadyPoller returns a poller that has read its index, and is not running.
func (d *testMachine) newReadyPoller() *Poller {
	p := d.newPoller()
	p.readIndex()
	return p
}

// runSteps has a poller take steps, and waits for what it began in the background.
func (d *testMachine) runSteps(p *Poller, n int) {
	for range n {
		p.readAndAttend(d.t.Context())
		p.goroutines.Wait()
	}
}

// noteKinds returns the kinds of the notes about a question in the outbox.
func (d *testMachine) noteKinds(q *state.Question) (about []string) {
	all, _ := d.outbox().All()
	for _, message := range all {
		if message.Note != nil && message.Question == q.Path {
			about = append(about, message.Note.About)
		}
	}
	return about
}

// logLines returns the lines of the log that contain a text.
func (d *testMachine) logLines(text string) (lines []string) {
	raw, _ := os.ReadFile(state.LogPath(d.env))
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// startThread gives a question a thread in the space, with a reply of the person on the
// page. It returns that reply.
func (d *testMachine) startThread(q *state.Question) *chatapi.Message {
	d.t.Helper()
	return d.reply(d.openThread(q), "", "2")
}

// openThread posts a question's message, which opens its thread. A poller that runs learns
// of that only when it reads the record again.
func (d *testMachine) openThread(q *state.Question) (thread string) {
	d.t.Helper()
	m := d.postAsApp("", "a question")
	at, err := time.Parse(time.RFC3339Nano, m.CreateTime)
	kit.NoError(d.t, err)
	d.changeQuestion(q, func(q *state.Question) {
		q.ThreadName, q.MessageName, q.PostedAt = m.Thread.Name, m.Name, &at
	})
	return m.Thread.Name
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// readTest is a poller that lists the space of a testMachine when the test says so.
type readTest struct {
	*testMachine
	poller *Poller
	reader *reader
}

func newReadTest(d *testMachine, q *state.Question) *readTest {
	x := &readTest{testMachine: d, poller: d.newPoller()}
	x.reader = x.poller.readerFor(q.Chat)
	return x
}

// newPostedQuestion returns a machine with a question that is posted, and a poller that
// lists its space.
func newPostedQuestion(t *testing.T) (*testMachine, *state.Question, *readTest) {
	t.Helper()
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	return d, q, newReadTest(d, q)
}

// list lists the space, and then releases it for other readers.
func (x *readTest) list() error {
	return x.reader.listAndRelease(x.t.Context(), x.poller.spaceViews()[x.reader.chat])
}

// listAndRelease lists the space, and then releases it for other readers.
func (r *reader) listAndRelease(ctx context.Context, v *spaceView) error {
	defer release(&r.lock)
	return r.listSpace(ctx, v)
}

// readOnce lists the space once, and judges the replies.
func (x *readTest) readOnce() error {
	x.t.Helper()
	x.poller.readAndAttend(x.t.Context())
	err := x.list()
	x.poller.readAndAttend(x.t.Context())
	return err
}

func (x *readTest) mustRead() {
	x.t.Helper()
	kit.NoError(x.t, x.readOnce())
}

// shifted returns a clock that is ahead of this machine's.
func shifted(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

func (d *testMachine) changeSession(id string, as func(*state.Session)) {
	d.t.Helper()
	state.Environment(d.env) // creates the salt, which has a lock of its own
	_, err := d.sessions().Change(id, func(s *state.Session) { as(s) })
	kit.NoError(d.t, err)
}

func (d *testMachine) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(d.env)) }

func (d *testMachine) outbox() state.Outbox { return state.OutboxIn(state.UserStateDir(d.env)) }

func (d *testMachine) sessions() state.Sessions {
	return state.SessionsIn(state.UserStateDir(d.env))
}

func (d *testMachine) spaces() state.Spaces { return state.SpacesIn(state.UserStateDir(d.env)) }

// writeConfig writes the person's configuration.
func (d *testMachine) writeConfig(file string) {
	d.t.Helper()
	kit.WriteFile(d.t, state.ConfigFile(d.env), file, 0o600)
}

func intOf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// childDir is the variable that names, to a copy of this test program, the folder whose
// outbox it has to send.
const childDir = "GCHAT_TEST_SENDER"

func TestMain(m *testing.M) {
	if os.Getenv("GCHAT_TEST_POLLER") != "" { // see TestPullEvents_SurviveKills
		fmt.Println(Run(context.Background(), Options{
			Env: os.Getenv, Log: state.NewLog(os.Getenv, "poller"), Daemon: true,
		}))
		os.Exit(1)
	}
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(underlock.Run(m))
	}
	env := map[string]string{
		"HOME": dir, "GOOGLE_CHAT_WEBHOOK_URL": os.Getenv("GCHAT_TEST_WEBHOOK"),
		"GCHAT_WRITES_PER_MINUTE": "60000",
	}
	getenv := func(name string) string { return env[name] }
	p := newPoller(Options{Env: getenv, Log: state.NewLog(getenv, "test")})
	s := p.newSender()
	for waiting := true; waiting; {
		next := s.sendUntilIdle(context.Background())
		all, _ := s.outbox.Waiting()
		if waiting = len(all) > 0; waiting && !next.IsZero() {
			time.Sleep(time.Until(next))
		}
	}
	os.Exit(0)
}

// runTmux runs a command of a tmux server, and returns its output.
func runTmux(t testing.TB, socket string, args ...string) string {
	t.Helper()
	command := append([]string{"-u", "-S", socket}, args...)
	out, err := bound.Command(t, "tmux", command...).CombinedOutput()
	kit.Must(t, err == nil, "tmux %q: %v: %s", args, err, out)
	return strings.TrimSpace(string(out))
}

// startTmux starts a tmux server for the test, with a session. It returns its socket and
// the pane.
func (d *testMachine) startTmux(session string) (socket, pane string) {
	d.t.Helper()
	kit.NeedProgram(d.t, "tmux")
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(d.t, err)
	socket = filepath.Join(dir, "s")
	d.t.Cleanup(func() {
		_ = bound.Command(d.t, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	pane = runTmux(d.t, socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F", "#{pane_id}",
		"-s", session, "sleep", "1000")
	return socket, pane
}

// judgeByPersonalConfig judges a question's replies by what the person alone set, as it
// is now.
func (p *Poller) judgeByPersonalConfig() func(*state.Question) error {
	judging := judgingConfig{cfg: p.loadPersonalConfig()}
	return func(q *state.Question) error {
		p.judgeReplies(&trackedRecord{IndexEntry: &state.IndexEntry{}}, q, judging)
		return nil
	}
}
