package hooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
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

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// program is the real gchat-hooks: what is claimed of hooks is shown on processes.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gchat-hooks-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "gchat-hooks")
	build := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", program, "gchat-hooks") // as the README says
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build gchat-hooks:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// patience bounds every wait of a test; it is reached only when something is wrong.
const patience = 30 * time.Second

// Ann is allowed to answer, Bob is not.
var (
	ann = &chat.User{Name: "users/ann", DisplayName: "Ann", Type: "HUMAN"}
	bob = &chat.User{Name: "users/bob", DisplayName: "Bob", Type: "HUMAN"}
	bot = &chat.User{Name: "users/robot", DisplayName: "Robot", Type: "BOT"}
)

// world is one person's machine with an embedded space as its Chat.
type world struct {
	testing.TB
	dir   string
	env   map[string]string
	chat  *space.Space
	url   string
	trace trace
}

// trace sees every request to Chat and may answer in its place.
type trace struct {
	mu     sync.Mutex
	posts  int
	lists  []time.Time
	faulty func(w http.ResponseWriter, r *http.Request) (handled bool)
}

func (tr *trace) set(f func(http.ResponseWriter, *http.Request) bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.faulty = f
}

func (tr *trace) counts() (posts, lists int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.posts, len(tr.lists)
}

func newWorld(t testing.TB, o ...space.Options) *world {
	t.Helper()
	s, err := space.Open(append(o, space.Options{})[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, chat: s}
	if w.dir, err = os.MkdirTemp("", "gchat-hooks-world-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A flusher that was just started may still write here once.
		w.until("the folder to go", func() bool { return os.RemoveAll(w.dir) == nil })
	})
	handler := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.trace.mu.Lock()
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
			w.trace.posts++
		case strings.HasSuffix(r.URL.Path, "/messages"):
			w.trace.lists = append(w.trace.lists, time.Now())
		}
		faulty := w.trace.faulty
		w.trace.mu.Unlock()
		if faulty == nil || !faulty(rw, r) {
			handler.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		s.Close()
	})
	w.url = srv.URL
	w.env = map[string]string{
		"HOME": filepath.Join(w.dir, "home"), "PATH": os.Getenv("PATH"), "CLAUDE_PROJECT_DIR": filepath.Join(w.dir, "shop"),
		"XDG_STATE_HOME": filepath.Join(w.dir, "user"), "GOOGLE_CHAT_WEBHOOK_URL": s.WebhookURL(srv.URL),
		"GCHAT_API_ENDPOINT": s.APIEndpoint(srv.URL), "GCHAT_ALLOWED_USERS": ann.Name, "GCHAT_POLLER_INTERVAL": "0.1",
	}
	for _, dir := range []string{w.env["HOME"], w.env["CLAUDE_PROJECT_DIR"]} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		w.endFlusher()
		if t.Failed() {
			b, _ := os.ReadFile(w.logPath())
			t.Logf("log:\n%s", b)
			for _, m := range s.Messages() {
				t.Logf("space: %s %s: %q", m.Thread.Name, m.Sender.Name, m.Text)
			}
		}
	})
	return w
}

// endFlusher waits for the detached flusher to end: it works in the test's folders.
func (w *world) endFlusher() {
	w.until("the flushers to end", func() bool {
		locks, _ := filepath.Glob(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks", "flusher-*.lock"))
		return !slices.ContainsFunc(locks, state.Held)
	})
}

func (w *world) logPath() string {
	return filepath.Join(w.env["HOME"], ".claude", "logs", "gchat-hooks.log")
}

func (w *world) log() string {
	b, _ := os.ReadFile(w.logPath())
	return string(b)
}

// with is the same machine for another session: other variables, the same disk and the same Chat.
func (w *world) with(kv ...string) *world {
	other := &world{TB: w.TB, dir: w.dir, chat: w.chat, url: w.url, env: map[string]string{}}
	for k, v := range w.env {
		other.env[k] = v
	}
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

// process is a hook on its way.
type process struct {
	*exec.Cmd
	w        *world
	out, err bytes.Buffer
	done     chan struct{}
}

// start runs a hook with an event, as Claude Code does.
func (w *world) start(name string, event []byte, wrap ...string) *process {
	w.Helper()
	argv := append(append([]string{}, wrap...), program, "hook", name)
	p := &process{Cmd: exec.Command(argv[0], argv[1:]...), w: w, done: make(chan struct{})}
	p.Env, p.Dir, p.Stdin, p.Stdout, p.Stderr = w.environ(), w.env["CLAUDE_PROJECT_DIR"], bytes.NewReader(event), &p.out, &p.err
	// A detached flusher must not hold the test; it has none of our descriptors, and this shows it.
	p.WaitDelay = patience
	if err := p.Start(); err != nil {
		w.Fatal(err)
	}
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

// end waits for the hook's end and returns what it printed; its exit code must be 0 and its stderr empty.
func (p *process) end() string {
	p.w.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.w.Fatalf("%v does not end", p.Args)
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		p.w.Errorf("%v ended with %d", p.Args, code)
	}
	if p.err.Len() > 0 {
		p.w.Errorf("%v wrote to stderr: %s", p.Args, &p.err)
	}
	return p.out.String()
}

func (w *world) run(name string, event []byte) string {
	w.Helper()
	return w.start(name, event).end()
}

const forward, answered = "gchat-ask-user-forward", "gchat-ask-user-answered"

// recorded is a payload that Claude Code 2.1.329 sent, with some members set.
func recorded(t testing.TB, name string, kv ...any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "2.1.329", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return b
}

func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// thread waits for the n-th question's message and returns its thread.
func (w *world) thread(n int) string {
	w.Helper()
	name := ""
	w.until(fmt.Sprintf("question %d in the space", n), func() bool {
		if ms := w.messages("[AskUserQuestion]"); len(ms) >= n {
			name = ms[n-1].Thread.Name
		}
		return name != ""
	})
	return name
}

func (w *world) messages(beginning string) (ms []*chat.Message) {
	for _, m := range w.chat.Messages() {
		if strings.HasPrefix(m.Text, beginning) {
			ms = append(ms, m)
		}
	}
	return ms
}

func (w *world) say(who *chat.User, thread, text string) *chat.Message {
	w.Helper()
	m, err := w.chat.Say(who, thread, text)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

func (w *world) awaitMessage(beginning string) string {
	w.Helper()
	w.until(beginning, func() bool { return len(w.messages(beginning)) > 0 })
	return w.messages(beginning)[0].Text
}

func (w *world) questions() []*state.Question {
	w.Helper()
	var scan state.Scan
	qs, bad := scan.Questions([]string{filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")})
	if len(bad) > 0 {
		w.Fatal(bad)
	}
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

// decision is what a PermissionRequest hook printed.
type decision struct {
	Output struct {
		Event    string `json:"hookEventName"`
		Decision struct {
			Behavior string          `json:"behavior"`
			Input    json.RawMessage `json:"updatedInput"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// answers reads the decision that a hook printed.
func (w *world) answers(out string) map[string]string {
	w.Helper()
	var d decision
	var in struct {
		Answers map[string]string `json:"answers"`
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		w.Fatalf("no decision in %q: %v", out, err)
	}
	if d.Output.Event != "PermissionRequest" || d.Output.Decision.Behavior != "allow" {
		w.Fatalf("not an allow: %s", out)
	}
	if err := json.Unmarshal(d.Output.Decision.Input, &in); err != nil {
		w.Fatal(err)
	}
	return in.Answers
}

func terminate(p *process) { _ = p.Process.Signal(syscall.SIGTERM) }

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
