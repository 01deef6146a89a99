package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// program is the real gchat-hooks, once buildProgram has built it.
var program string

var buildProgram = sync.OnceValue(func() error {
	program = filepath.Join(programDir, "gchat-hooks")
	return underlock.Build(program)
})

var programDir string

// hookNameVariable makes this test's program act as a hook, like the real program but
// without a poller.
const hookNameVariable = "GCHAT_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if name := os.Getenv(hookNameVariable); name != "" {
		underlock.Watch()
		h := &Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv}
		os.Exit(h.Run())
	}
	dir, err := os.MkdirTemp("", "gchat-hooks-test-")
	if err != nil {
		panic(err)
	}
	programDir = dir
	code := underlock.Run(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// testTimeout bounds every wait of a test. It is reached only when something is wrong.
const testTimeout = 30 * time.Second

// ann is allowed to answer; bob is where a test says so.
var (
	ann = &chat.User{Name: "users/ann", DisplayName: "Ann", Type: "HUMAN"}
	bob = &chat.User{Name: "users/bob", DisplayName: "Bob", Type: "HUMAN"}
)

// world is one person's machine. Its hooks are processes. With a chat, they run the real
// program and start pollers, which use an embedded space. Without one they start none,
// and the test changes the records as a poller would.
type world struct {
	testing.TB
	dir   string
	env   map[string]string
	chat  *space.Space
	trace requestTrace
}

// newWorld returns a world without a poller.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, dir: t.TempDir()}
	w.env = map[string]string{
		"HOME": filepath.Join(w.dir, "home"), "PATH": os.Getenv("PATH"), "CLAUDE_PROJECT_DIR": filepath.Join(w.dir, "shop"),
		"XDG_STATE_HOME": filepath.Join(w.dir, "user"),
	}
	for _, dir := range []string{w.env["HOME"], w.env["CLAUDE_PROJECT_DIR"]} {
		kit.NoError(t, os.MkdirAll(dir, 0o755))
	}
	return w
}

// newReportWorld returns a world without a poller, whose session is called orch-epic4.
func newReportWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"], w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "orch-epic4", webhookURL
	return w
}

func (w *world) sessions() state.Sessions {
	return state.SessionsIn(state.UserStateDir(w.getenv))
}

// reload returns a question as it is on disk.
func (w *world) reload(q *state.Question) *state.Question {
	w.Helper()
	current, err := state.LoadQuestion(q.Path)
	kit.NoError(w, err)
	return current
}

// wantEnd checks a question's status and what resolved it.
func (w *world) wantEnd(q *state.Question, status state.Status, resolvedBy string) {
	w.Helper()
	q = w.reload(q)
	got := fmt.Sprintf("%s by %q", q.Status, q.ResolvedBy)
	kit.Equalf(w, got, fmt.Sprintf("%s by %q", status, resolvedBy), "question")
}

// recordQuestion has the recorded question asked, with some members of its event set, and
// returns its record.
func (w *world) recordQuestion(kv ...any) *state.Question {
	w.Helper()
	w.runHook(forwardHook, recorded(w, "single-03-PreToolUse", kv...))
	return w.question()
}

// wantAnswered checks which answer to the recorded question is recorded in the end.
func (w *world) wantAnswered(q *state.Question, resolvedBy, answer string) {
	w.Helper()
	w.wantEnd(q, state.Resolved, resolvedBy)
	kit.Equalf(w, w.reload(q).Answers[singleQuestion], answer, "answer")
}

// closingNote is the note about a question's end.
func closingNote(q *state.Question) string {
	return strings.Join(wording.NoteTexts(q, closedNote), "")
}

// awaitQuestion waits until one question is on disk, and returns it.
func (w *world) awaitQuestion() *state.Question {
	w.Helper()
	w.waitUntil("the question", func() bool { return len(w.questions()) == 1 })
	return w.question()
}

// indexEntry is what the index says about a question.
func (w *world) indexEntry(q *state.Question) *state.IndexEntry {
	w.Helper()
	entry, err := state.ReadIndexEntry(state.IndexFile(w.getenv, q.Path))
	kit.NoError(w, err)
	return entry
}

// startDialog asks the recorded question in its dialog. It returns the dialog's hook,
// which waits, and the question.
func (w *world) startDialog(wrap ...string) (*hookProcess, *state.Question) {
	w.Helper()
	q := w.recordQuestion()
	p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"), wrap...)
	w.awaitWaiter(q)
	return p, q
}

// wantAnswer checks which answer to the recorded question a hook prints.
func (p *hookProcess) wantAnswer(want string) {
	p.w.Helper()
	kit.Equalf(p.w, p.w.readAnswers(p.awaitOutput())[singleQuestion], want, "answered")
}

// newHook returns a hook of this process, which is to be given events directly.
func (w *world) newHook() *Hook {
	return &Hook{Env: w.getenv, log: state.NewLog(w.getenv, "test")}
}

// wantDecision checks what a hook decides about a permission. It ignores the reason if
// message is "".
func (p *hookProcess) wantDecision(behavior, message string) {
	p.w.Helper()
	gotBehavior, gotMessage := readDecision(p.awaitOutput())
	kit.Equalf(p.w, gotBehavior, behavior, "behavior")
	if message != "" {
		kit.Equalf(p.w, gotMessage, message, "reason")
	}
}

func (w *world) getenv(name string) string { return w.env[name] }

// requestTrace sees every request to Chat and may answer in its place.
type requestTrace struct {
	mu        sync.Mutex
	intercept func(w http.ResponseWriter, r *http.Request) (handled bool)
}

func (tr *requestTrace) setIntercept(f func(http.ResponseWriter, *http.Request) bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.intercept = f
}

func newChatWorld(t testing.TB) *world {
	t.Helper()
	kit.NoError(t, buildProgram())
	s, err := space.Open(space.Options{})
	kit.NoError(t, err)
	w := newWorld(t)
	w.chat = s
	handler := s.Handler()
	srv := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.trace.mu.Lock()
		faulty := w.trace.intercept
		w.trace.mu.Unlock()
		if faulty == nil || !faulty(rw, r) {
			handler.ServeHTTP(rw, r)
		}
	}), strict.Embedded))
	t.Cleanup(func() {
		w.endPollers()
		srv.CloseClientConnections()
		srv.Close()
		s.Close()
		if t.Failed() {
			t.Logf("log:\n%s", w.log())
			for _, m := range s.Messages() {
				t.Logf("space: %s %s: %q", m.Thread.Name, m.Sender.Name, m.Text)
			}
		}
	})
	w.env["GOOGLE_CHAT_WEBHOOK_URL"], w.env["GCHAT_API_ENDPOINT"] = s.WebhookURL(srv.URL), s.APIEndpoint(srv.URL)
	w.env["GCHAT_ALLOWED_USERS"], w.env["GCHAT_POLLER_INTERVAL"] = ann.Name, "0.1"
	return w
}

// endPollers kills the detached pollers of this machine, which would stay for a while.
func (w *world) endPollers() {
	w.Helper()
	w.waitUntil("the pollers to end", func() bool {
		for _, p := range state.ReadHeartbeats(w.getenv) {
			if p.IsAlive && p.PID > 1 {
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		locks, _ := filepath.Glob(filepath.Join(state.UserStateDir(w.getenv), "pollers", "*.lock"))
		return !slices.ContainsFunc(locks, state.IsLocked)
	})
}

func (w *world) log() string {
	b, _ := os.ReadFile(state.LogPath(w.getenv))
	return string(b)
}

// withVariables is the same machine for another session: with other variables, but the
// same disk and the same Chat.
func (w *world) withVariables(kv ...string) *world {
	other := &world{TB: w.TB, dir: w.dir, chat: w.chat, env: maps.Clone(w.env)}
	for i := 0; i < len(kv); i += 2 {
		other.env[kv[i]] = kv[i+1]
	}
	return other
}

func (w *world) environ() (env []string) {
	for k, v := range w.env {
		env = append(env, k+"="+v)
	}
	return env
}

// hookProcess is a hook that runs.
type hookProcess struct {
	*exec.Cmd
	w        *world
	out, err bytes.Buffer
	done     chan struct{}
}

// startHook runs a hook with an event, as Claude Code does.
func (w *world) startHook(name string, event []byte, wrap ...string) *hookProcess {
	w.Helper()
	argv, env := append(slices.Clone(wrap), program, "hook", name), w.environ()
	if w.chat == nil {
		argv, env = append(slices.Clone(wrap), os.Args[0]), append(env, hookNameVariable+"="+name)
	}
	p := &hookProcess{Cmd: exec.Command(argv[0], argv[1:]...), w: w, done: make(chan struct{})}
	p.Env, p.Dir, p.Stdin, p.Stdout, p.Stderr = env, w.env["CLAUDE_PROJECT_DIR"], bytes.NewReader(event), &p.out, &p.err
	// A detached poller must not keep the test waiting. It has none of our descriptors,
	// and this proves it.
	p.WaitDelay = testTimeout
	kit.NoError(w, p.Start())
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	w.Cleanup(p.kill)
	return p
}

// awaitEnd waits for the hook's end.
func (p *hookProcess) awaitEnd() {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(testTimeout):
		p.w.Fatalf("%v does not end:\n%s", p.Args, bound.Kill(p.Process.Pid))
	}
}

// awaitOutput waits for the hook's end and returns what it printed; its exit code must be
// 0 and its stderr empty.
func (p *hookProcess) awaitOutput() string {
	p.w.Helper()
	p.awaitEnd()
	kit.Equalf(p.w, p.ProcessState.ExitCode(), 0, "%v ended with", p.Args)
	kit.Equalf(p.w, p.err.String(), "", "stderr of %v", p.Args)
	return p.out.String()
}

// kill ends the hook with -9.
func (p *hookProcess) kill() {
	_ = p.Process.Kill()
	<-p.done
}

// hasEnded reports whether the hook has ended.
func (p *hookProcess) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (w *world) runHook(name string, event []byte) string {
	w.Helper()
	return w.startHook(name, event).awaitOutput()
}

// These are the names of our hooks.
const (
	forwardHook  = "gchat-ask-user-forward"
	answeredHook = "gchat-ask-user-answered"
	rewakeHook   = "gchat-ask-user-rewake"
	notifyHook   = "gchat-notification-dispatch"
	sessionHook  = "gchat-session-event"
	gateHook     = "gchat-stop-gate"
)

// permissionReport is how the report of a permission's dialog begins.
const permissionReport = "[Permission] orch-epic4\nClaude waits for a permission in the terminal"

// webhookURL is a webhook that no test reaches.
const webhookURL = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"

// recorded is an event that Claude Code 2.1.329 sent, with some members set; nil removes
// one.
func recorded(t testing.TB, name string, kv ...any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "2.1.329", name+".json"))
	kit.NoError(t, err)
	return setMembers(t, b, kv...)
}

// setMembers returns an event with some members set; nil removes one.
func setMembers(t testing.TB, event []byte, kv ...any) []byte {
	t.Helper()
	var members map[string]any
	kit.NoError(t, json.Unmarshal(event, &members))
	for i := 0; i < len(kv); i += 2 {
		name := kv[i].(string)
		members[name] = kv[i+1]
		if kv[i+1] == nil {
			delete(members, name)
		}
	}
	b, err := json.Marshal(members)
	kit.NoError(t, err)
	return b
}

func (w *world) waitUntil(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(testTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitThread waits for the n-th question's message and returns its thread.
func (w *world) awaitThread(n int) string {
	w.Helper()
	return w.awaitNthMessage("[AskUserQuestion]", n).Thread.Name
}

// awaitNthMessage waits for the n-th message in the space that begins with a prefix.
func (w *world) awaitNthMessage(prefix string, n int) *chat.Message {
	w.Helper()
	w.waitUntil(prefix, func() bool { return len(w.messages(prefix)) >= n })
	return w.messages(prefix)[n-1]
}

func (w *world) messages(prefix string) (found []*chat.Message) {
	for _, m := range w.chat.Messages() {
		if strings.HasPrefix(m.Text, prefix) {
			found = append(found, m)
		}
	}
	return found
}

func (w *world) sendAsUser(who *chat.User, thread, text string) *chat.Message {
	w.Helper()
	m, err := w.chat.PostAs(who, thread, text)
	kit.NoError(w, err)
	return m
}

func (w *world) awaitMessage(prefix string) *chat.Message {
	w.Helper()
	return w.awaitNthMessage(prefix, 1)
}

func (w *world) projectState() string {
	return filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
}

// questions are all questions on disk, in every mode, newest first.
func (w *world) questions() (qs []*state.Question) {
	w.Helper()
	for _, in := range []state.Questions{state.QuestionsIn(w.projectState()), state.MarkersIn(w.projectState())} {
		all, loadErrs := in.All()
		if len(loadErrs) > 0 {
			w.Fatal(loadErrs)
		}
		qs = append(qs, all...)
	}
	state.SortNewestFirst(qs)
	return qs
}

func (w *world) question() *state.Question {
	w.Helper()
	qs := w.questions()
	if len(qs) != 1 {
		w.Fatalf("%d questions on disk, want 1", len(qs))
	}
	return qs[0]
}

// questionOfCall is the question of a call.
func (w *world) questionOfCall(toolUse string) *state.Question {
	w.Helper()
	for _, q := range w.questions() {
		if q.ToolUseID == toolUse {
			return q
		}
	}
	w.Fatalf("no question of %s on disk", toolUse)
	return nil
}

// changeQuestion changes a question, as the poller does.
func (w *world) changeQuestion(q *state.Question, change func(*state.Question)) {
	w.Helper()
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { change(q); return nil })
	kit.NoError(w, err)
}

// closeQuestion closes a question, as the poller does.
func (w *world) closeQuestion(
	q *state.Question, status state.Status, resolvedBy string, change func(*state.Question),
) {
	w.Helper()
	ended, err := state.CloseQuestion(q.Path, status, resolvedBy, change)
	kit.NoError(w, err)
	kit.Equalf(w, ended, true, "closed")
}

// markPosted does what the poller does when it has posted a question.
func (w *world) markPosted(q *state.Question) {
	w.Helper()
	w.changeQuestion(q, func(q *state.Question) {
		q.IsMessageSent, q.ThreadName, q.MessageName = true, "spaces/x/threads/"+q.ThreadKey, "spaces/x/messages/"+q.ThreadKey
	})
}

// markReplied does what the poller does when a person's reply answers the first of a
// question's prompts.
func (w *world) markReplied(q *state.Question, answer string) {
	w.Helper()
	w.changeQuestion(q, func(q *state.Question) {
		kit.NoError(w, q.MoveTo(state.Answered, time.Now()))
		q.Answers = map[string]string{q.SubQuestions[0].Question: answer}
		q.Response, q.AnsweredMessage, q.AnsweredBy = &answer, "spaces/x/messages/reply", ann.Name
	})
}

// awaitWaiter waits until a process waits for a question.
func (w *world) awaitWaiter(q *state.Question) {
	w.Helper()
	w.waitUntil("the waiter", func() bool { return state.HasWaiter(w.getenv, q.Path) })
}

// wantOwedNotes checks which notes a question's thread is still owed.
func (w *world) wantOwedNotes(q *state.Question, want ...state.OwedNote) {
	w.Helper()
	kit.Equalf(w, w.reload(q).OwedNotes, want, "owed notes")
}

// closedNote is the owed note about a question's end.
var closedNote = state.OwedNote{About: state.NoteClosed}

// printedDecision is the output of a PermissionRequest hook.
type printedDecision struct {
	HookOutput struct {
		Event    string `json:"hookEventName"`
		Decision struct {
			Behavior string          `json:"behavior"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// readAnswers reads the decision that a hook printed.
func (w *world) readAnswers(out string) map[string]string {
	w.Helper()
	var d printedDecision
	var in struct {
		Answers map[string]string `json:"answers"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		w.Fatalf("no decision in %q: %v", out, err)
	}
	if d.HookOutput.Event != "PermissionRequest" || d.HookOutput.Decision.Behavior != "allow" {
		w.Fatalf("not an allow: %s", out)
	}
	kit.NoError(w, json.Unmarshal(d.HookOutput.Decision.Input, &in))
	return in.Answers
}

func terminate(p *hookProcess) { _ = p.Process.Signal(syscall.SIGTERM) }

func readFile(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	kit.NoError(t, err)
	return string(content)
}

func wantNoFile(t testing.TB, path string) {
	t.Helper()
	_, err := os.Stat(path)
	kit.Equalf(t, os.IsNotExist(err), true, "%s does not exist", path)
}

// writeFile writes a file, and returns its path.
func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// writeConfig writes the project's configuration; "" writes none.
func (w *world) writeConfig(json string) {
	if json != "" {
		writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), json)
	}
}

// callHook runs a hook in this process, and returns what it prints. It starts no poller.
func (w *world) callHook(name string, event []byte) string {
	w.Helper()
	var out, errs bytes.Buffer
	h := &Hook{Name: name, Stdin: bytes.NewReader(event), Stdout: &out, Stderr: &errs, Env: w.getenv}
	if code := h.Run(); code != 0 || errs.Len() > 0 {
		w.Errorf("%s ended with %d, stderr %q", name, code, &errs)
	}
	return out.String()
}

// event is an event of the session sess-1 in the machine's project.
func (w *world) event(name string, kv ...any) []byte {
	w.Helper()
	return recorded(w, name, append([]any{
		"session_id", "sess-1", "cwd", w.env["CLAUDE_PROJECT_DIR"], "transcript_path", filepath.Join(w.dir, "sess-1.jsonl"),
	}, kv...)...)
}

// reports are the reports in the outbox, the oldest first.
func (w *world) reports() []*state.Message {
	w.Helper()
	all, loadErrs := state.OutboxIn(state.UserStateDir(w.getenv)).Waiting()
	if len(loadErrs) > 0 {
		w.Fatal(loadErrs)
	}
	return all
}

// reportText returns a report as one text: its prefix or type, the session, what it is
// about, and its text.
func reportText(r *state.Report) string {
	first := r.Prefix
	if first == "" {
		first = "(" + string(r.Type) + ")"
	}
	return strings.TrimRight(first+" "+r.SessionName+"\n"+strings.TrimPrefix(r.About+"\n", "\n")+r.Text, "\n")
}

// session returns the record of sess-1.
func (w *world) session() *state.Session {
	w.Helper()
	return w.loadSession("sess-1")
}

// changeSession changes the record of a session, as the poller does.
func (w *world) changeSession(id string, change func(*state.Session)) {
	w.Helper()
	_, err := w.sessions().Change(id, change)
	kit.NoError(w, err)
}

// loadSession returns the record of a session.
func (w *world) loadSession(id string) *state.Session {
	w.Helper()
	session, err := w.sessions().Get(id)
	kit.NoError(w, err)
	return session
}

// lockPath is the path of a record's lock.
func lockPath(q *state.Question) string {
	dir, file := filepath.Split(q.Path)
	return filepath.Join(dir, ".locks", state.RecordName(file))
}

// wantLogged checks how often the log has a text.
func (w *world) wantLogged(text string, want int) {
	w.Helper()
	kit.Equalf(w, strings.Count(w.log(), text), want, "%q in the log:\n%s\nis there", text, w.log())
}

// wantNoOutput checks that a hook did nothing at all.
func (w *world) wantNoOutput() {
	w.Helper()
	if entries, err := os.ReadDir(w.env["XDG_STATE_HOME"]); err == nil {
		w.Errorf("state was written: %v", entries)
	}
	kit.Equalf(w, w.log(), "", "the log was written")
}

// newPermissionWorld returns a world whose permissions are asked in Chat.
func newPermissionWorld(t *testing.T) *world {
	w := newWorld(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = webhookURL
	w.env["GCHAT_ALLOWED_USERS"] = ann.Name
	return w
}

// indexed are the questions that the index names.
func (w *world) indexed() []*state.Question {
	questions, _ := state.ReadIndexedQuestions(w.getenv)
	return questions
}

// onlyIndexed returns the one question that the index names.
func (w *world) onlyIndexed() *state.Question {
	w.Helper()
	questions := w.indexed()
	if len(questions) != 1 {
		w.Fatalf("the index names %d questions, want 1", len(questions))
	}
	return questions[0]
}

// awaitIndexed waits until the index names one question, and returns it.
func (w *world) awaitIndexed() *state.Question {
	w.Helper()
	w.waitUntil("the question", func() bool { return len(w.indexed()) == 1 })
	return w.onlyIndexed()
}

// startWaiting starts the hook of a PermissionRequest or a form. It returns the hook, once
// it waits, and the question.
func (w *world) startWaiting(event []byte) (*hookProcess, *state.Question) {
	w.Helper()
	p := w.startHook(forwardHook, event)
	q := w.awaitIndexed()
	w.awaitWaiter(q)
	return p, q
}

const singleQuestion = "Which deployment approach should we use?"

// answeredEvent is a PostToolUse of the recorded call with this answer.
func answeredEvent(t testing.TB, answer string, kv ...any) []byte {
	response := map[string]any{"answers": map[string]string{singleQuestion: answer}}
	return recorded(t, "single-05-PostToolUse", append([]any{"tool_response", response}, kv...)...)
}

// livingPID is a process that stands for Claude Code and lives as long as the test.
func livingPID(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	kit.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return fmt.Sprint(cmd.Process.Pid)
}

// askPermission starts the hook of a PermissionRequest and waits for its message in the
// space.
func (w *world) askPermission(event []byte) (p *hookProcess, thread string) {
	w.Helper()
	before := len(w.messages("[P"))
	p = w.startHook(forwardHook, event)
	return p, w.awaitNthMessage("[P", before+1).Thread.Name
}

// wantUndecided denies the permission in the thread. That has to be the decision: the
// attempts before it must not have decided anything.
func (p *hookProcess) wantUndecided(thread string) {
	p.w.Helper()
	time.Sleep(300 * time.Millisecond) // a wrong decision would be made at once
	p.w.sendAsUser(ann, thread, "no, never")
	p.wantDecision("deny", "never")
}

// programCommand is a command of a person in the project.
func (w *world) programCommand(args ...string) *exec.Cmd {
	cmd := bound.Command(w, program, args...)
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	return cmd
}

// wantAnswerRefused checks that a question cannot be answered at a shell.
func (w *world) wantAnswerRefused(question, text string) {
	w.Helper()
	out, err := w.programCommand("answer", question, text).CombinedOutput()
	kit.Equalf(w, err == nil, false, "answered %s: %s", question, out)
}

// openPermission returns the newest open record of a permission or a plan.
func (w *world) openPermission() *state.Question {
	w.Helper()
	qs := w.indexed()
	for _, q := range qs {
		if q.Kind.Traits().Decides && q.Status.IsOpen() {
			return q
		}
	}
	w.Fatal("no permission is open")
	return nil
}

// planEvent is a PermissionRequest for a plan.
func planEvent(w *world, session, plan string) []byte {
	return namedEvent(w, "PermissionRequest", session, "tool_name", "ExitPlanMode", "tool_input",
		map[string]any{"plan": plan})
}

// questionEvent is a PreToolUse event of a session that asks a question.
func questionEvent(t testing.TB, session, call, question string, labels ...string) []byte {
	var options []map[string]string
	for _, l := range labels {
		options = append(options, map[string]string{"label": l, "description": "about " + l})
	}
	return recorded(t, "single-03-PreToolUse", "session_id", session, "tool_use_id", call, "tool_input", map[string]any{
		"questions": []any{map[string]any{"question": question, "header": "Pick", "options": options, "multiSelect": false}},
	})
}

// namedEvent is an event of a session that is about no tool.
func namedEvent(t testing.TB, name, session string, kv ...any) []byte {
	members := []any{"hook_event_name", name, "session_id", session, "tool_name", ""}
	return recorded(t, "single-05-PostToolUse", append(members, kv...)...)
}

// awaitWakeText waits for the end of a rewake hook. It returns the text that wakes the
// session, or "" if the hook ended quietly.
func (p *hookProcess) awaitWakeText() string {
	p.w.Helper()
	p.awaitEnd()
	switch code := p.ProcessState.ExitCode(); {
	case p.out.Len() > 0, code == 0 && p.err.Len() > 0, code == 2 && p.err.Len() == 0, code != 0 && code != 2:
		p.w.Errorf("%v: exit %d, stdout %q, stderr %q", p.Args, code, &p.out, &p.err)
	}
	return p.err.String()
}

// wantReports checks that the outbox has exactly these reports.
func (w *world) wantReports(want ...string) {
	w.Helper()
	var got []string
	for _, one := range w.reports() {
		got = append(got, reportText(one.Report))
	}
	if !slices.Equal(got, want) {
		w.Errorf("got %q\nwant %q", got, want)
	}
}

// needProgram skips the test where a program is missing. Where all are required, the test
// fails.
func needProgram(t testing.TB, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	if err != nil && os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// inTmux makes the session's Claude Code run in a pane of a tmux server of its own.
func (w *world) inTmux() (socket, pane string) {
	w.Helper()
	needProgram(w, "tmux")
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(w, err)
	socket = filepath.Join(dir, "s")
	w.Cleanup(func() {
		_ = bound.Command(w, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	begin := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F", "#{pane_id} #{pane_pid}", "exec sleep 1000"}
	out, err := bound.Command(w, "tmux", begin...).CombinedOutput()
	if err != nil {
		w.Fatalf("tmux: %v: %s", err, out)
	}
	pane, pid, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	w.env["TMUX"], w.env["TMUX_PANE"], w.env["CLAUDE_PID"] = socket+",1,0", pane, pid
	return socket, pane
}

// permissionEvent is a PermissionRequest for a shell command.
func permissionEvent(w *world, session, command string) []byte {
	return namedEvent(w, "PermissionRequest", session, "tool_name", "Bash", "tool_input",
		shellInput(command))
}

func shellInput(command string) map[string]any {
	return map[string]any{"command": command, "description": "Run it"}
}

// batchEvent is the PostToolBatch with the result of a shell command.
func batchEvent(w *world, session, command, response string) []byte {
	call := map[string]any{
		"tool_name": "Bash", "tool_use_id": "x", "tool_response": response,
		"tool_input": shellInput(command),
	}
	return namedEvent(w, "PostToolBatch", session, "tool_calls", []any{call})
}

// readDecision reads what a hook printed for a permission.
func readDecision(out string) (behavior, message string) {
	var d struct {
		Out struct {
			Decision struct{ Behavior, Message string }
		} `json:"hookSpecificOutput"`
	}
	_ = json.Unmarshal([]byte(out), &d)
	return d.Out.Decision.Behavior, d.Out.Decision.Message
}

// writePolicy puts a policy into force on this machine; "" names a file that does not
// exist.
func (w *world) writePolicy(text string) {
	w.env["GCHAT_POLICY_FILE"] = filepath.Join(w.dir, "policy.json")
	if text != "" {
		writeFile(w, w.env["GCHAT_POLICY_FILE"], text)
	}
}

// smallDisk mounts a file system of a few blocks at the project's state, and returns its
// folder.
func (w *world) smallDisk() string {
	w.Helper()
	dir := w.projectState()
	kit.NoError(w, os.MkdirAll(dir, 0o700))
	if out, err := bound.Command(w, "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" && os.Geteuid() == 0 {
			w.Fatalf("a small disk cannot be mounted, and GCHAT_E2E_REQUIRED=1: %v: %s", err, out)
		}
		w.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	w.Cleanup(func() {
		if out, err := bound.Command(w, "umount", "-l", dir).CombinedOutput(); err != nil {
			w.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fillDisk writes until the disk is full.
func fillDisk(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	kit.NoError(t, err)
	defer f.Close()
	for b := make([]byte, 4096); err == nil; _, err = f.Write(b) {
	}
}
