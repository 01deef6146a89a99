package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// spaceHome is a home with the embedded space in it.
type spaceHome struct {
	*testing.T
	home, program, address string
}

// newSpaceHome is a project whose setup is done, with a space on this machine that does
// not run yet.
func newSpaceHome(t *testing.T) *spaceHome {
	t.Helper()
	dir, err := builtProgram()
	kit.NoError(t, err)
	p := &spaceHome{t, t.TempDir(), filepath.Join(dir, "gchat-hooks"), freeAddress(t)}
	t.Cleanup(func() { endPollersIn(p.home); endSpace(getenvOf(p.env())) })
	kit.NoError(t, os.Mkdir(filepath.Join(p.home, "project"), 0o700))
	if out, code := p.run("setup", "--space", "--address", p.address); code != 0 {
		t.Fatalf("setup: %s", out)
	}
	endSpace(getenvOf(p.env()))
	return p
}

func (p *spaceHome) env() []string {
	return []string{"HOME=" + p.home, "XDG_STATE_HOME=" + p.home + "/state", "PATH=/usr/bin:/bin", "CLAUDE_PROJECT_DIR=" + p.home + "/project"}
}

func (p *spaceHome) run(args ...string) (output string, code int) {
	p.Helper()
	cmd := bound.Command(p, p.program, args...)
	cmd.Env = p.env()
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// runSpace runs the space, and returns its first page and how to end it.
func (p *spaceHome) runSpace(flags ...string) (page string, end func()) {
	p.Helper()
	out := filepath.Join(p.home, "out")
	file, err := os.Create(out)
	kit.NoError(p, err)
	cmd := exec.CommandContext(p.Context(), p.program, append([]string{"space", "--listen", p.address}, flags...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env(), file, file
	kit.NoError(p, cmd.Start())
	output := p.awaitText("the space runs", func() string {
		b, _ := os.ReadFile(out)
		if !regexp.MustCompile(`page: +\S+\n`).Match(b) {
			return ""
		}
		return string(b)
	})
	_, port, _ := net.SplitHostPort(p.address)
	portNumber, _ := strconv.Atoi(port)
	socket, err := state.ReadSpaceSocket(getenvOf(p.env()), portNumber)
	kit.NoError(p, err)
	endChecks := strict.CheckSocket(p, socket)
	return regexp.MustCompile(`page: +(\S+)`).FindStringSubmatch(output)[1], func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = bound.Wait(p, cmd)
		endChecks()
	}
}

// awaitText waits for what f finds.
func (p *spaceHome) awaitText(what string, f func() string) (found string) {
	p.Helper()
	bound.Until(p, what, func() bool {
		found = f()
		return found != ""
	})
	return found
}

// preToolUse has a session ask, and returns the thread of its question and the hook that
// waits for the answer.
func (p *spaceHome) ask(session string) (thread string, answer func() string) {
	p.Helper()
	event := func(name string) *exec.Cmd {
		cmd := exec.CommandContext(p.Context(), p.program, "hook", "gchat-ask-user-forward")
		cmd.Env = p.env()
		cmd.Stdin = strings.NewReader(p.hookEvent(session, name))
		return cmd
	}
	preToolUse := event("PreToolUse")
	kit.NoError(p, preToolUse.Start())
	kit.NoError(p, bound.Wait(p, preToolUse))
	var stdout bytes.Buffer
	permissionRequest := event("PermissionRequest")
	permissionRequest.Stdout = &stdout
	kit.NoError(p, permissionRequest.Start())
	return p.awaitThread(session), func() string { _ = bound.Wait(p, permissionRequest); return stdout.String() }
}

// hookEvent is what Claude Code tells a hook of a question.
func (p *spaceHome) hookEvent(session, name string) string {
	input := `{"questions":[{"question":"Which DB in ` + session + `?","header":"DB","multiSelect":false,"options":[{"label":"SQLite"},{"label":"Postgres"}]}]}`
	return fmt.Sprintf(`{"session_id":%q,"cwd":%q,"permission_mode":"default","hook_event_name":%q,`+
		`"tool_name":"AskUserQuestion","tool_use_id":%q,"tool_input":%s}`, session, p.home+"/project", name, session, input)
}

// awaitThread waits for a session's question in the space.
func (p *spaceHome) awaitThread(session string) string {
	p.Helper()
	return p.awaitText("the question is in the space", func() string {
		b, _ := os.ReadFile(filepath.Join(p.home, "state/gchat-hooks/space/messages.jsonl"))
		for _, line := range strings.Split(string(b), "\n") {
			if strings.Contains(line, "Which DB in "+session+"?") {
				return regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(line)
			}
		}
		return ""
	})
}

// reply is a person at the page.
func (p *spaceHome) reply(page, thread, text string) {
	p.Helper()
	p.postToPage(page, map[string]string{"thread": thread, "text": text, "clientId": "c" + filepath.Base(thread) + text})
}

// tap taps a button of a message's card on the page.
func (p *spaceHome) tap(page, message, choice string) {
	p.Helper()
	p.postToPage(page, map[string]string{"message": message, "choice": choice, "clientId": "tap" + choice})
}

func (p *spaceHome) postToPage(page string, fields map[string]string) {
	p.Helper()
	baseURL, key, found := strings.Cut(page, "#key=")
	if !found {
		p.Fatalf("the page's link is %s", page)
	}
	browser := &http.Client{Timeout: 20 * time.Second}
	body, _ := json.Marshal(fields)
	post, err := http.NewRequest("POST", baseURL+"page/messages", bytes.NewReader(body))
	kit.NoError(p, err)
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Gchat-Page-Key", key)
	resp, err := browser.Do(post)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.Fatalf("reply: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// TestMain removes the program that the tests built.
func TestMain(m *testing.M) {
	code := underlock.Run(m)
	if dir, err := builtProgram(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// changeToRoot goes to the folder with main.go for the rest of a test.
func changeToRoot(t *testing.T) {
	t.Helper()
	t.Chdir("..")
}

// endPollersIn ends the pollers that commands started with a state somewhere in a folder,
// and waits until they have: also those that hold their lock and have written no
// heartbeat yet, and what one starts in its place as it ends.
func endPollersIn(dir string) {
	quiet := 0
	bound.WaitFor(bound.Patience, func() bool {
		lives := false
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if filepath.Base(filepath.Dir(path)) == "pollers" && filepath.Ext(path) == ".lock" && state.IsLocked(path) {
				lives = true
			}
			if filepath.Base(path) != "pollers" {
				return nil
			}
			for _, p := range state.ReadHeartbeats(getenvOf([]string{"XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(path))})) {
				if p.IsAlive && p.PIDScope == state.PIDScope() {
					lives = true
					_ = syscall.Kill(p.PID, syscall.SIGKILL)
				}
			}
			return nil
		})
		if quiet++; lives {
			quiet = 0
		}
		return quiet == 2
	})
}

// A fault is how Chat answers a post.
type fault int

const (
	noFault fault = iota
	tooMany
	storedThenTooMany
	serverError
	storedThenServerError
	storedThenConnectionCut
	badRequest
	forbidden
	notFound
)

// machine is one person's machine, and the Chat that it sends to.
type machine struct {
	testing.TB
	dir, program string
	env          []string
	space        *space.Space
	nextFault    func(*rand.Rand) fault
	hold         chan struct{} // nil, or what posts wait for: Chat hangs
	perMinute    int

	mu        sync.Mutex
	random    *rand.Rand
	running   map[*exec.Cmd]bool
	postTimes []time.Time // of requests

	// workers whose message must get through now
	pausedKills                                            atomic.Int64
	posts, faults, storedFaults, kills, killed, serverTime atomic.Int64
}

// builtProgram builds gchat-hooks once for all tests. It returns the folder that it is
// in.
var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gchat-send-test-")
	if err != nil {
		return "", err
	}
	return dir, underlock.Build(filepath.Join(dir, "gchat-hooks"))
})

func newMachine(t testing.TB, perMinute int) *machine {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &machine{TB: t, dir: t.TempDir(), perMinute: perMinute, random: rand.New(rand.NewPCG(seed, 1)), running: map[*exec.Cmd]bool{}}
	m.program = filepath.Join(m.dir, "gchat-send")
	dir, err := builtProgram()
	if err == nil {
		// a path of its own: by it kill knows its processes
		err = os.Link(filepath.Join(dir, "gchat-hooks"), m.program)
	}
	kit.NoError(t, err)
	if m.space, err = space.Open(space.Options{}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(m.serveTimed), strict.Embedded))
	t.Cleanup(func() {
		m.killAll()
		endPollersIn(m.dir) // one may have begun at that moment
		server.CloseClientConnections()
		server.Close()
		m.space.Close()
	})
	m.env = []string{
		"HOME=" + m.dir, "XDG_STATE_HOME=" + filepath.Join(m.dir, "state"), "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + m.dir,
		"GOOGLE_CHAT_WEBHOOK_URL=" + m.space.WebhookURL(server.URL), "GCHAT_WRITES_PER_MINUTE=" + strconv.Itoa(perMinute),
	}
	return m
}

func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		m.space.Handler().ServeHTTP(w, r)
		return
	}
	m.posts.Add(1)
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	m.postTimes = append(m.postTimes, time.Now())
	f := m.nextFault(m.random)
	m.mu.Unlock()
	code := map[fault]int{tooMany: 429, storedThenTooMany: 429, serverError: 500, storedThenServerError: 503, badRequest: 400, forbidden: 403, notFound: 404}[f]
	if f == noFault {
		m.space.Handler().ServeHTTP(w, r)
		return
	}
	m.faults.Add(1)
	if f == storedThenTooMany || f == storedThenServerError || f == storedThenConnectionCut {
		rec := httptest.NewRecorder()
		m.space.Handler().ServeHTTP(rec, r)
		if rec.Code == http.StatusOK {
			m.storedFaults.Add(1)
		}
	}
	if f == storedThenConnectionCut {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":"not now","status":"UNAVAILABLE"}}`, code)
}

// sendUntilKept runs gchat-send until it keeps the message: a worker whose process was
// killed, or that is told that the message was not kept, since the outbox is crowded,
// does what a script does, it sends again under the same id. What came under one id
// counts as one message for ten minutes. On a slow machine a worker may be killed for
// long, so after half a minute the killing pauses.
func (m *machine) sendUntilKept(session, text string) {
	start, isSpared := time.Now(), false
	defer func() {
		if isSpared {
			m.pausedKills.Add(-1)
		}
	}()
	for {
		if !isSpared && time.Since(start) > 30*time.Second {
			isSpared = true
			m.pausedKills.Add(1)
		}
		cmd := bound.Command(m, m.program, "--session", session, "--thread-key", session,
			"--id", strings.ReplaceAll(text, " ", "-"), text)
		var stderr bytes.Buffer
		cmd.Env, cmd.Stderr = m.env, &stderr
		err := m.run(cmd)
		var exit *exec.ExitError
		switch {
		case err == nil:
			return
		case errors.As(err, &exit) && exit.ExitCode() == exitNotDelivered:
			if !strings.Contains(stderr.String(), "save message: ") {
				return // it stays in the outbox
			}
		case errors.As(err, &exit) && exit.ExitCode() == -1: // killed
		default:
			m.Errorf("gchat-send: %v: %s", err, &stderr)
			return
		}
	}
}

func (m *machine) run(cmd *exec.Cmd) error {
	m.mu.Lock()
	err := cmd.Start()
	if err == nil {
		m.running[cmd] = true
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		delete(m.running, cmd)
		m.mu.Unlock()
	}()
	return cmd.Wait()
}

// killAll ends every process of this machine, those in their own sessions too, as a power
// cut would.
func (m *machine) killAll() {
	m.kills.Add(1)
	m.mu.Lock()
	for cmd := range m.running {
		if cmd.Process.Kill() == nil {
			m.killed.Add(1)
		}
	}
	m.mu.Unlock()
	procs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range procs {
		if exe, _ := os.Readlink(link); exe == m.program {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				m.killed.Add(1)
			}
		}
	}
}

// flush sends what is left, with nobody killing it.
func (m *machine) flush(flags ...string) {
	m.Helper()
	cmd := bound.Within(m, 3*time.Minute, m.program)
	cmd.Args, cmd.Env = append([]string{"gchat-hooks", "flush", "--timeout", "150s"}, flags...), m.env
	if out, err := cmd.CombinedOutput(); err != nil {
		box := m.outbox()
		waiting, _ := box.Waiting()
		m.Errorf("flush: %v %s; %d waiting, %d dead", err, out, len(waiting), len(box.SetAside()))
	}
}

// runSend runs gchat-send and returns its exit code and what it wrote to stderr.
func (m *machine) runSend(args ...string) (code int, stderr string) {
	m.Helper()
	cmd := bound.Command(m, m.program, args...)
	cmd.Env = m.env
	_, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(exit.Stderr)
	}
	kit.NoError(m, err)
	return 0, ""
}

func (m *machine) outbox() state.Outbox {
	return state.OutboxIn(filepath.Join(m.dir, "state", "gchat-hooks"))
}

func (m *machine) messageTexts() (texts []string) {
	for _, got := range m.space.Messages() {
		texts = append(texts, got.Text)
	}
	return texts
}

// serveTimed measures what the server does for itself.
func (m *machine) serveTimed(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	m.serve(w, r)
	m.serverTime.Add(int64(time.Since(start)))
}

// newMachineWithQuestions is a person's machine with so many open questions, and the
// environment of its programs.
func newMachineWithQuestions(t *testing.T, questions int) (program string, env []string, folder state.Questions) {
	t.Helper()
	binDir, err := builtProgram()
	kit.NoError(t, err)
	dir := t.TempDir()
	t.Cleanup(func() { endPollersIn(dir) })
	env = []string{"HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + dir, "TERM=xterm-256color", "LANG=C.UTF-8"}
	folder = state.QuestionsIn(filepath.Join(dir, ".claude", "state"))
	for i := range questions {
		recordQuestion(t, env, folder, i)
	}
	return filepath.Join(binDir, "gchat-hooks"), env, folder
}

// getenvOf reads an environment as a process has it.
func getenvOf(environ []string) state.Getenv {
	return func(name string) string {
		for _, pair := range environ {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// recordQuestion writes a question as a hook does.
func recordQuestion(t *testing.T, env []string, folder state.Questions, i int) {
	t.Helper()
	id := fmt.Sprintf("%08x-0000", i)
	q, err := folder.Record(fmt.Sprint("s-", i), func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: id, ThreadKey: state.QuestionThreadKey(id), SessionID: fmt.Sprint("s-", i), SessionName: "orch-" + fmt.Sprint(i), Mode: state.ModeNative, AskedAt: time.Now().UTC().Add(time.Duration(i) * time.Millisecond),
			Status: state.Pending, IsMessageSent: true, ThreadName: "spaces/A/threads/T", Chat: "chat.googleapis.com/spaces/A", SubQuestions: []state.SubQuestion{{Question: "Which \x1b[31mDB\u202e\u009b\U000e0041?\nreally"}},
		}
	})
	if err == nil {
		err = state.AddQuestionToIndex(getenvOf(env), q)
	}
	kit.NoError(t, err)
}

func mustRun(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	cmd := bound.Command(t, program, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// recordDeadSession is a question whose Claude Code, hook and poller went with the
// machine's last run, and no word of a poller is left. other is the environment that
// asked it; nil for that of env. It is in the thread HOST/spaces/S/threads/T.
func recordDeadSession(t *testing.T, env, otherEnv []string, folder state.Questions, at string) *state.Question {
	t.Helper()
	host, name, _ := strings.Cut(at, "/")
	space, thread, _ := strings.Cut(name, "/threads/")
	endedProcess := exec.Command("true")
	kit.NoError(t, endedProcess.Run())
	q, err := folder.Record("s-dead", func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "0a1b2c3d-0000", ThreadKey: "ask-user-0a1b2c3d", SessionID: "s-dead", ClaudeSessionID: "s-dead",
			SessionName: "shop", Mode: state.ModeNative, AskedAt: time.Now().UTC().Add(-time.Hour), Status: state.Pending,
			IsMessageSent: true, ThreadName: space + "/threads/" + thread, Chat: host + "/" + space,
			ClaudePID: endedProcess.Process.Pid, SubQuestions: []state.SubQuestion{{Question: "Which DB?"}},
		}
	})
	if err == nil {
		err = state.AddQuestionToIndex(getenvOf(slices.Concat(otherEnv, env)), q)
	}
	kit.NoError(t, err)
	return q
}

// bareHome is a person with a home folder of their own, and nothing of ours in it.
type bareHome struct {
	t          *testing.T
	home       string
	env        []string
	credential *syscall.Credential // nil: whoever runs the tests
	timeout    time.Duration       // of one command
}

func newBareHome(t *testing.T, path string) *bareHome {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	home, tmp := t.TempDir(), t.TempDir()
	return &bareHome{t: t, home: home, timeout: bound.Patience, env: []string{"HOME=" + home, "PATH=" + path, "TMPDIR=" + tmp}}
}

// writeFile puts a file into the home folder; a folder when its name ends in a slash.
func (n *bareHome) writeFile(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.home, name)
	kit.NoError(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	if strings.HasSuffix(name, "/") {
		kit.NoError(n.t, os.MkdirAll(path, 0o755))
		return
	}
	kit.NoError(n.t, os.WriteFile(path, []byte(text), 0o644))
}

func (n *bareHome) run(name string, args ...string) (string, error) {
	cmd := bound.Within(n.t, n.timeout, name, args...)
	cmd.Env, cmd.Dir = n.env, n.home
	if n.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.credential}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *bareHome) mustRun(name string, args ...string) string {
	n.t.Helper()
	out, err := n.run(name, args...)
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// listTree is every file, folder and link of a home folder, with modes and bytes.
func (n *bareHome) listTree() string {
	n.t.Helper()
	var all []string
	err := filepath.WalkDir(n.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", strings.TrimPrefix(path, n.home), info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += " -> " + target
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		all = append(all, line)
		return nil
	})
	kit.NoError(n.t, err)
	sort.Strings(all)
	return strings.Join(all, "\n")
}

// freeAddress is one that nothing listens on.
func freeAddress(t *testing.T) string {
	server := httptest.NewUnstartedServer(nil)
	defer server.Close()
	return server.Listener.Addr().String()
}

func programPath(t *testing.T) string {
	t.Helper()
	dir, err := builtProgram()
	kit.NoError(t, err)
	if err := os.Chmod(dir, 0o755); err != nil { // another user may have to read it
		t.Fatal(err)
	}
	return filepath.Join(dir, "gchat-hooks")
}
