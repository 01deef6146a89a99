package hooks_test

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
	"gchat-hooks/hooks"
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
		h := &hooks.Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv}
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

// ann is allowed to answer.
var ann = &chat.User{Name: "users/ann", DisplayName: "Ann", Type: "HUMAN"}

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

// newWorldWithoutPoller returns a world without a poller.
func newWorldWithoutPoller(t testing.TB) *world {
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

func newWorld(t testing.TB) *world {
	t.Helper()
	kit.NoError(t, buildProgram())
	s, err := space.Open(space.Options{})
	kit.NoError(t, err)
	w := newWorldWithoutPoller(t)
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

func (w *world) logPath() string {
	return filepath.Join(w.env["HOME"], ".claude", "logs", "gchat-hooks.log")
}

func (w *world) log() string {
	b, _ := os.ReadFile(w.logPath())
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
	w.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
	})
	return p
}

// awaitOutput waits for the hook's end and returns what it printed; its exit code must be
// 0 and its stderr empty.
func (p *hookProcess) awaitOutput() string {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(testTimeout):
		p.w.Fatalf("%v does not end:\n%s", p.Args, bound.Kill(p.Process.Pid))
	}
	kit.Equalf(p.w, p.ProcessState.ExitCode(), 0, "%v ended with", p.Args)
	if p.err.Len() > 0 {
		p.w.Errorf("%v wrote to stderr: %s", p.Args, &p.err)
	}
	return p.out.String()
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

const forwardHook, answeredHook = "gchat-ask-user-forward", "gchat-ask-user-answered"

// recorded is a payload that Claude Code 2.1.329 sent, with some members set.
func recorded(t testing.TB, name string, kv ...any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "2.1.329", name+".json"))
	kit.NoError(t, err)
	var m map[string]any
	kit.NoError(t, json.Unmarshal(b, &m))
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
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
	name := ""
	w.waitUntil(fmt.Sprintf("question %d in the space", n), func() bool {
		if ms := w.messages("[AskUserQuestion]"); len(ms) >= n {
			name = ms[n-1].Thread.Name
		}
		return name != ""
	})
	return name
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

func (w *world) awaitMessage(prefix string) string {
	w.Helper()
	w.waitUntil(prefix, func() bool { return len(w.messages(prefix)) > 0 })
	return w.messages(prefix)[0].Text
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
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { change(q); return nil }); err != nil {
		w.Fatal(err)
	}
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
		if err := q.MoveTo(state.Answered, time.Now()); err != nil {
			w.Error(err)
		}
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
	q, err := state.LoadQuestion(q.Path)
	kit.NoError(w, err)
	if !slices.Equal(q.OwedNotes, want) {
		w.Errorf("owed are %+v, want %+v", q.OwedNotes, want)
	}
}

// closedNote is the owed note about a question's end.
var closedNote = state.OwedNote{About: state.NoteClosed}

// hookDecision is the output of a PermissionRequest hook.
type hookDecision struct {
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
	var d hookDecision
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

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}
