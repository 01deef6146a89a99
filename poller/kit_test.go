package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
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
	p := d.newPoller()
	p.readIndex()
	return p, p.ownOldestFirst()[0]
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
func (d *testMachine) logLines(words string) (lines []string) {
	raw, _ := os.ReadFile(state.LogPath(d.env))
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	return lines
}

// startThread gives a question a thread in the space, with a reply of the person on the
// page. It returns that reply.
func (d *testMachine) startThread(q *state.Question) *chatapi.Message {
	d.t.Helper()
	m := d.postAsApp("", "a question")
	at, err := time.Parse(time.RFC3339Nano, m.CreateTime)
	kit.NoError(d.t, err)
	d.changeQuestion(q, func(q *state.Question) {
		q.ThreadName, q.MessageName, q.PostedAt = m.Thread.Name, m.Name, &at
	})
	return d.reply(m.Thread.Name, "", "2")
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

// listAndRelease lists the space, and then releases it for other readers.
func (r *reader) listAndRelease(ctx context.Context, v *spaceView) error {
	defer release(&r.lock)
	return r.listSpace(ctx, v)
}

// readOnce lists the space once, and judges the replies.
func (x *readTest) readOnce() error {
	x.t.Helper()
	x.poller.readAndAttend(x.t.Context())
	v := x.poller.spaceViews()[x.reader.chat]
	err := x.reader.listAndRelease(x.t.Context(), v)
	x.poller.readAndAttend(x.t.Context())
	return err
}

func (x *readTest) mustRead() {
	x.t.Helper()
	kit.NoError(x.t, x.readOnce())
}

// testSession is a session that accepts messages in a thread of the desk's space.
type testSession struct {
	*readTest
	threadName string
	sessionID  string
}

func newTestSession(t *testing.T, as func(*state.Session)) *testSession {
	t.Helper()
	d := newTestMachine(t)
	m := d.postAsApp("", "a report")
	at := &state.Question{QuestionID: "00000000"}
	d.markPosted(at)
	x := &testSession{threadName: m.Thread.Name, sessionID: "s"}
	d.changeSession(x.sessionID, func(s *state.Session) {
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir =
			"shop", x.threadName, at.Chat, state.Environment(d.env), d.dir
		s.AcceptsCommands, s.StartedAt, s.LastSeen = true, time.Now().Add(-time.Hour), time.Now()
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
		if as != nil {
			as(s)
		}
	})
	x.readTest = newReadTest(d, at)
	return x
}

// nextPoller returns the session with the poller that follows the first one.
func (x *testSession) nextPoller() *testSession {
	next := newReadTest(x.testMachine, &state.Question{Chat: x.reader.chat})
	return &testSession{next, x.threadName, x.sessionID}
}

// oldCommand returns a message as versions without an inbox kept it in a session's
// record.
func oldCommand(sender, text string) []state.OldCommand {
	return []state.OldCommand{{
		MessageName: "spaces/local/messages/m", Sender: sender, Text: text,
		LocalCreatedAt: time.Now(),
	}}
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

func (x *testSession) loadSession() *state.Session {
	x.t.Helper()
	s, err := x.sessions().Get(x.sessionID)
	kit.NoError(x.t, err)
	return s
}

// countUnfinished returns how many messages to the session are not finished, without
// kept prompts.
func (x *testSession) countUnfinished() int {
	x.t.Helper()
	all, bad := x.inbox().All()
	kit.Must(x.t, len(bad) == 0, "%v", bad)
	all = slices.DeleteFunc(all, (*state.Incoming).IsWaitingPrompt)
	return len(all) + len(x.loadSession().OldCommands)
}

// readNotes lists the space, handles the messages there, and returns the notes in the
// session's thread.
func (x *testSession) readNotes() (notes []string) {
	x.t.Helper()
	if x.poller.readSessions(); x.poller.spaceViews()[x.reader.chat] != nil {
		x.mustRead()
	}
	for range 2 { // a message becomes a record, which is then judged
		x.poller.readAndAttend(x.t.Context())
		x.poller.goroutines.Wait()
	}
	box := x.outbox()
	all, _ := box.All()
	for _, message := range all {
		if message.Type == state.MessageNote && message.ThreadName == x.threadName &&
			message.IsUrgent {
			notes = append(notes, message.Parts...)
			kit.NoError(x.t, box.RemoveMessage(x.env, message))
		}
	}
	return notes
}

// say has the page's person write into the session's thread, and returns the notes there.
func (x *testSession) say(text string) (notes []string) {
	x.t.Helper()
	x.reply(x.threadName, "", text)
	return x.readNotes()
}

// checkPrompts checks which prompts wait for sessions.
func (x *testSession) checkPrompts(want ...string) {
	x.t.Helper()
	kit.Equalf(x.t, strings.Join(x.waitingPrompts(), "\n"), strings.Join(want, "\n"), "the prompts")
}

// route has the poller read its state and decide what each message is for.
func (x *testSession) route() {
	x.poller.readState()
	x.poller.routeAll(x.t.Context())
}

// checkAnswer has the page's person write into the session's thread, and expects one
// note that contains these texts.
func (x *testSession) checkAnswer(text string, want ...string) {
	x.t.Helper()
	notes := x.say(text)
	kit.Must(x.t, len(notes) == 1, "%s: told %q, want one of %q", text, notes, want)
	for _, w := range want {
		kit.Containsf(x.t, notes[0], w, "%s: told", text)
	}
}

// runInPane runs a program called claude in a tmux pane. It shows a screen, and after a
// key another one.
func (x *testSession) runInPane(screen, then string) (got func() string) {
	x.t.Helper()
	socket, pane := x.startTmux("shop")
	dir := x.t.TempDir()
	cat, err := exec.LookPath("cat")
	kit.NoError(x.t, err)
	b, err := os.ReadFile(cat)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "claude"), b, 0o700)
	}
	for name, text := range map[string]string{"screen": screen, "then": then} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	kit.NoError(x.t, err)
	run := func(args ...string) string {
		out, err := bound.Command(x.t, "tmux", append([]string{"-S", socket},
			args...)...).CombinedOutput()
		kit.Must(x.t, err == nil, "tmux: %v: %s", err, out)
		return strings.TrimSpace(string(out))
	}
	run("resize-window", "-t", pane, "-x", "100", "-y", "30")
	run("respawn-pane", "-k", "-t", pane, "-c", dir, "sh", "-c", `stty raw -echo; : >got; cat screen
(until test -s got; do sleep 0.02; done; printf '\033[2J\033[H'; cat then) & exec ./claude >got`)
	server, pid := inject.Server{Socket: socket}, 0
	bound.Until(x.t, "the pane runs Claude Code", func() bool {
		p, err := server.Pane(x.t.Context(), pane)
		if err == nil {
			pid, _ = p.FindClaude(0, "")
		}
		return pid != 0
	})
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TmuxSocket, s.TmuxPane, s.ClaudePID, s.ClaudeStart =
			socket, pane, pid, inject.ProcessStart(pid)
	})
	return func() string {
		keys, _ := os.ReadFile(filepath.Join(dir, "got"))
		return string(keys)
	}
}

// withInputBox returns a screen with these lines and an input box below, as raw mode
// draws it.
func withInputBox(lines ...string) string {
	rule := strings.Repeat("─", 100)
	return strings.Join(slices.Concat(lines, []string{"", rule, "❯ ", rule, "  ? for shortcuts"}),
		"\r\n")
}

// waitingPrompts returns the prompts that wait for sessions, in the order in which
// Claude gets them.
func (x *testSession) waitingPrompts() (words []string) {
	x.t.Helper()
	for _, in := range x.inbox().WaitingPrompts() {
		words = append(words, in.Text)
	}
	return words
}

// addEventMessage adds a message from an event to the inbox, and reports whether the
// event is acknowledged.
func (x *testSession) addEventMessage(name, text string, at time.Time) (acked bool) {
	_, space, _ := strings.Cut(x.reader.chat, "/")
	in := newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: x.threadName, Text: text, CreateTime: at,
		Sender: "users/1", IsHuman: true,
	}, 0)
	in.EventID = name
	return x.poller.addIncoming(in) == nil
}

func (x *testSession) addEventEdit(full, text string) bool {
	return x.addEventMessage(full[strings.LastIndex(full, "/")+1:], text,
		time.Now().Add(-500*time.Millisecond))
}

func (x *testSession) moveToAnother(q *state.Question) { x.moveToEnvironment(q, "another") }

// moveToEnvironment makes another environment serve a question.
func (x *testSession) moveToEnvironment(q *state.Question, environment string) {
	x.t.Helper()
	x.poller.readIndex()
	for file, record := range x.poller.ownRecords {
		if record.Path != q.Path {
			continue
		}
		b, err := os.ReadFile(file)
		kit.NoError(x.t, err)
		text := strings.ReplaceAll(string(b), x.poller.environment, environment)
		kit.NoError(x.t, os.WriteFile(file+".new", []byte(text), 0o600))
		kit.NoError(x.t, os.Rename(file+".new", file))
	}
	x.poller.readIndex()
	kit.Must(x.t, len(x.poller.otherRecords) != 0, "no other environment serves it")
}

// addListedMessage adds a message of a person as a list brings it.
func (x *testSession) addListedMessage(name, thread, text string) {
	x.t.Helper()
	_, space, _ := strings.Cut(x.reader.chat, "/")
	err := x.poller.addIncoming(newIncoming(x.reader.chat, gchat.Message{
		Name: space + "/messages/" + name, ThreadName: thread, Text: text,
		Sender: "users/1", IsHuman: true, CreateTime: time.Now(),
	}, 0))
	kit.NoError(x.t, err)
}

// notesIn returns the texts that wait in the outbox for a thread.
func (x *testSession) notesIn(thread string) (texts []string) {
	x.t.Helper()
	all, bad := x.outbox().All()
	kit.Must(x.t, len(bad) == 0, "%v", bad)
	for _, message := range all {
		if message.ThreadName == thread {
			texts = append(texts, message.Parts...)
		}
	}
	return texts
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	kit.NoError(t, err)
	return string(b)
}

// beginThread begins a question's thread in the space and returns the thread's name.
func (x *testSession) beginThread(q *state.Question) string {
	x.t.Helper()
	m := x.postAsApp("", "Which?")
	x.changeQuestion(q, func(q *state.Question) {
		q.ThreadName, q.MessageName = m.Thread.Name, m.Name
	})
	return m.Thread.Name
}

// newPermission returns a permission that a process of a session asks for.
func newPermission(command string, asked time.Time) *state.Question {
	return &state.Question{
		QuestionID: "q-" + command, Kind: state.KindPermission, ToolName: "Bash",
		ShownText: command, CallTexts: []string{command}, Mode: state.ModeNative,
		Status: state.Pending, AskedAt: asked, PostedAt: &asked, Approvers: &[]string{"users/1",
			"users/2"}, ClaudePID: 7, ClaudeStart: "a",
		SubQuestions: []state.SubQuestion{
			{
				Question: "Bash",
				Options:  []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}},
			},
		},
	}
}

func (d *testMachine) writeConfig(file string) {
	d.t.Helper()
	path := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json")
	kit.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(d.t, os.WriteFile(path, []byte(file), 0o600))
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(t, os.WriteFile(path, []byte(text), mode))
}

// sendTest is a machine whose poller's clock the test sets, with a space that answers
// posts as the test says.
type sendTest struct {
	*testMachine
	poller       *Poller
	findStatus   int  // the status that reading a message is answered with; 0 for none
	isUnfindable bool // a message is not found by the id that it was posted with

	mu        sync.Mutex
	clock     time.Time
	posts     []string // texts that were asked to be posted
	findCount int      // messages that were asked for by id
	fault     func(text string, w http.ResponseWriter, store func()) (handled bool)
}

func newSendTest(t *testing.T, rules ...strict.Rule) *sendTest {
	t.Helper()
	o := &sendTest{clock: time.Now()}
	o.testMachine = newMachineWith(t, space.Options{}, o, rules...)
	o.vars["GCHAT_ALLOWED_USERS"] = "users/1"
	o.poller = newPoller(Options{Env: o.env, Now: o.now, Log: state.NewLog(o.env, "test")})
	return o
}

func (o *sendTest) now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.clock
}

func (o *sendTest) advance(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clock = o.clock.Add(d)
}

func (o *sendTest) setFault(fault func(text string, w http.ResponseWriter, store func()) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fault = fault
}

func (o *sendTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		o.mu.Lock()
		o.findCount++
		o.mu.Unlock()
		if o.findStatus != 0 {
			w.WriteHeader(o.findStatus)
			return
		}
		if o.isUnfindable && strings.Contains(r.URL.Path, "/messages/client-") {
			answerWithError(404, "NOT_FOUND", "no such message")("", w, nil)
			return
		}
		o.space.Handler().ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct{ Text string }
	_ = json.Unmarshal(body, &m)
	o.mu.Lock()
	o.posts = append(o.posts, m.Text)
	fault := o.fault
	o.mu.Unlock()
	real := func(w http.ResponseWriter) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		o.space.Handler().ServeHTTP(w, r)
	}
	if fault == nil || !fault(m.Text, w, func() { real(httptest.NewRecorder()) }) {
		real(w)
	}
}

// answerWithError answers each post with an error.
func answerWithError(code int, status, message string, header ...string) func(string,
	http.ResponseWriter, func()) bool {
	return func(_ string, w http.ResponseWriter, _ func()) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"code":%d,"status":%q,"message":%q}}`, code, status, message)
		return true
	}
}

// breakAfterStore breaks the connection after it stored the message.
func breakAfterStore(_ string, _ http.ResponseWriter, store func()) bool {
	store()
	panic(http.ErrAbortHandler)
}

// enqueueReport enqueues a plain report.
func (o *sendTest) enqueueReport(session, text string,
	also ...func(*state.Message)) *state.Message {
	o.t.Helper()
	message := &state.Message{
		ID: state.MessageID("report", session, text), Type: state.MessageReport, SessionID: session,
		Report: &state.Report{Type: state.ReportPlain, Text: text}, CreatedAt: o.now(),
	}
	if session != "" {
		message.ThreadKey = "session-" + session
	}
	for _, f := range also {
		f(message)
	}
	message, _, err := o.outbox().Enqueue(o.env, message, 0)
	kit.NoError(o.t, err)
	return message
}

// addTestQuestion adds a question in native mode, and enqueues its message.
func (o *sendTest) addTestQuestion(also ...func(*state.Question)) *state.Question {
	o.t.Helper()
	q := o.writeQuestion(func(q *state.Question) {
		q.Mode, q.AskedAt = state.ModeNative, o.now()
		for _, f := range also {
			f(q)
		}
	})
	kit.NoError(o.t, o.poller.enqueueQuestion(q, &state.IndexEntry{}, firstMessageKey))
	return q
}

func (o *sendTest) reloadMessage(message *state.Message) *state.Message {
	o.t.Helper()
	now, err := o.outbox().FindByKey(message.Key)
	kit.Must(o.t, err == nil && now != nil, "message %s: %v, %v", message.Key, now, err)
	return now
}

func (o *sendTest) texts() (texts []string) {
	for _, m := range o.space.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

func (o *sendTest) checkTexts(texts ...string) {
	o.t.Helper()
	kit.Equalf(o.t, o.texts(), texts, "in the space")
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

// startTmux starts a tmux server for the test, with a session. It returns its socket and
// the pane.
func (d *testMachine) startTmux(session string) (socket, pane string) {
	d.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		kit.Must(d.t, os.Getenv("GCHAT_E2E_REQUIRED") != "1", "tmux is missing")
		d.t.Skip("needs tmux")
	}
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(d.t, err)
	socket = filepath.Join(dir, "s")
	d.t.Cleanup(func() {
		_ = bound.Command(d.t, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	begin := []string{
		"-S", socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F", "#{pane_id}", "-s",
		session, "sleep", "1000",
	}
	out, err := bound.Command(d.t, "tmux", begin...).CombinedOutput()
	kit.Must(d.t, err == nil, "tmux: %v: %s", err, out)
	return socket, strings.TrimSpace(string(out))
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
