package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// TestMain removes the program that the tests built.
func TestMain(m *testing.M) {
	code := underlock.Run(m)
	if dir, err := builtProgram(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// builtProgram builds gchat-hooks once for all tests. It returns the folder that it is
// in. Another user may have to read it.
var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gchat-send-test-")
	if err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chmod(dir, 0o755),
		underlock.Build(filepath.Join(dir, "gchat-hooks")))
})

func programPath(t testing.TB) string {
	t.Helper()
	dir, err := builtProgram()
	kit.NoError(t, err)
	return filepath.Join(dir, "gchat-hooks")
}

// changeToRoot goes to the folder with main.go for the rest of a test.
func changeToRoot(t *testing.T) {
	t.Helper()
	t.Chdir("..")
}

// sourceFiles are the Go files of the program, below the folder with main.go, to which
// the test goes. Tests, and e2e, which only tests import, are not among them.
func sourceFiles(t *testing.T) (paths []string) {
	t.Helper()
	if _, err := os.Stat("main.go"); err != nil {
		changeToRoot(t)
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		isHidden := strings.HasPrefix(name, ".") && path != "."
		if d.IsDir() && (name == "testdata" || name == "e2e" || isHidden) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			paths = append(paths, path)
		}
		return err
	})
	kit.NoError(t, err)
	return paths
}

// parseFile is a Go file's syntax.
func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	kit.NoError(t, err)
	return f
}

// getenvOf reads an environment as a process has it: of two values the later one counts.
func getenvOf(environ []string) state.Getenv {
	return func(name string) string {
		for _, pair := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// freeAddress is one that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", kit.FreePort(t))
}

// serveSpace serves a space until the test ends. wrap may answer in its place.
func serveSpace(
	t testing.TB, options space.Options, wrap func(http.Handler) http.Handler,
) (*space.Space, *httptest.Server) {
	t.Helper()
	s, err := space.Open(options)
	kit.NoError(t, err)
	handler, rules := s.Handler(), []strict.Rule{strict.Embedded}
	if wrap != nil {
		handler = wrap(handler)
	}
	if options.IsDirect {
		rules = append(rules, strict.DirectMessage)
	}
	server := httptest.NewServer(strict.CheckRequests(t, handler, rules...))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); s.Close() })
	return s, server
}

// endPollersIn ends the pollers that commands started with a state somewhere in a folder,
// and waits until they have: also those that hold their lock and have written no
// heartbeat yet, and what one starts in its place as it ends.
func endPollersIn(dir string) {
	quiet := 0
	bound.WaitFor(bound.Patience, func() bool {
		lives := false
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			folder := filepath.Dir(path)
			if filepath.Base(folder) == "pollers" && filepath.Ext(path) == ".lock" &&
				state.IsLocked(path) {
				lives = true
			}
			if filepath.Base(path) != "pollers" {
				return nil
			}
			env := getenvOf([]string{"XDG_STATE_HOME=" + filepath.Dir(folder)})
			for _, p := range state.ReadHeartbeats(env) {
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

const (
	configFile   = ".config/gchat-hooks/config.json"
	settingsFile = ".claude/settings.json"
	messagesFile = ".local/state/gchat-hooks/space/messages.jsonl"

	// noChat is a webhook of a Chat that is not there.
	noChat = "GOOGLE_CHAT_WEBHOOK_URL=http://127.0.0.1:1/v1/spaces/A/messages?key=k&token=t"
)

// home is a person's home folder, and the environment of the programs that run there.
type home struct {
	testing.TB
	dir, program string // program is gchat-hooks
	project      string // the folder of the session; "" without one
	env          []string
	timeout      time.Duration       // of one command
	credential   *syscall.Credential // nil: whoever runs the tests
	phone        *http.Client        // what opens the page; nil: a program on this machine
}

// newHome is a home folder with nothing in it.
func newHome(t testing.TB, env ...string) *home {
	t.Helper()
	h := &home{TB: t, dir: t.TempDir(), program: programPath(t), timeout: bound.Patience}
	h.env = append([]string{"HOME=" + h.dir, "PATH=/usr/bin:/bin"}, env...)
	t.Cleanup(func() {
		// before the folder goes: a space that setup started lives on, and starts pollers
		endSpace(h.getenv)
		endPollersIn(h.dir)
	})
	return h
}

// newProjectHome is a home folder with a project in it.
func newProjectHome(t testing.TB, env ...string) *home {
	t.Helper()
	h := newHome(t, env...)
	h.project = h.path("project")
	h.env = append(h.env, "CLAUDE_PROJECT_DIR="+h.project)
	kit.NoError(t, os.Mkdir(h.project, 0o700))
	return h
}

func (h *home) getenv(name string) string { return getenvOf(h.env)(name) }

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// readFile is "" where there is no such file.
func (h *home) readFile(name string) string {
	b, _ := os.ReadFile(h.path(name))
	return string(b)
}

// writeFile puts a file into the home folder; a folder when its name ends in a slash.
func (h *home) writeFile(name, text string) {
	h.Helper()
	if strings.HasSuffix(name, "/") {
		kit.NoError(h, os.MkdirAll(h.path(name), 0o755))
		return
	}
	kit.WriteFile(h, h.path(name), text, 0o600)
}

// listTree is every file, folder and link of the home folder, with modes and bytes.
func (h *home) listTree() string {
	h.Helper()
	var all []string
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", strings.TrimPrefix(path, h.dir), info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			line += " -> " + target
		case info.Mode().IsRegular():
			b, _ := os.ReadFile(path)
			line += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		all = append(all, line)
		return nil
	})
	kit.NoError(h, err)
	return strings.Join(all, "\n") // WalkDir sorts
}

// command is a program that is to run in this home.
func (h *home) command(name string, args ...string) *exec.Cmd {
	h.Helper()
	cmd := bound.Within(h, h.timeout, name, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	if h.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.credential}
	}
	return cmd
}

// execute runs a program, and returns what it printed and its exit code.
func (h *home) execute(name string, args ...string) (output string, code int) {
	h.Helper()
	return h.executeWithInput("", name, args...)
}

func (h *home) executeWithInput(input, name string, args ...string) (output string, code int) {
	h.Helper()
	cmd := h.command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		h.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (h *home) mustExecute(name string, args ...string) (output string) {
	h.Helper()
	output, code := h.execute(name, args...)
	if code != 0 {
		h.Fatalf("%s %q: exit code %d\n%s", name, args, code, output)
	}
	return output
}

// run runs gchat-hooks.
func (h *home) run(args ...string) (output string, code int) {
	h.Helper()
	return h.execute(h.program, args...)
}

func (h *home) mustRun(args ...string) (output string) {
	h.Helper()
	return h.mustExecute(h.program, args...)
}

// wantRun fails the test if gchat-hooks does not end with a code, or does not print a
// text. It returns what was printed.
func (h *home) wantRun(code int, text string, args ...string) (output string) {
	h.Helper()
	output, got := h.run(args...)
	if got != code || !strings.Contains(output, text) {
		h.Errorf("%q: exit code %d, want %d and %q:\n%s", args, got, code, text, output)
	}
	return output
}

// runHook runs a hook that does not wait, with an event.
func (h *home) runHook(name, event string) {
	h.Helper()
	if out, code := h.executeWithInput(event, h.program, "hook", name); code != 0 {
		h.Fatalf("%s: exit code %d: %s", name, code, out)
	}
}

// record writes a question as a hook does whose environment has more than the home's.
func (h *home) record(q *state.Question, more ...string) *state.Question {
	h.Helper()
	add := func([]*state.Question) *state.Question { return q }
	q, err := state.QuestionsIn(filepath.Join(h.project, ".claude", "state")).Record(q.SessionID,
		add)
	if err == nil {
		err = state.AddQuestionToIndex(getenvOf(slices.Concat(h.env, more)), q)
	}
	kit.NoError(h, err)
	return q
}

// recordQuestion records a question that waits in the terminal.
func (h *home) recordQuestion(i int) {
	h.Helper()
	id := fmt.Sprintf("%08x-0000", i)
	h.record(&state.Question{
		QuestionID: id, ThreadKey: state.QuestionThreadKey(id), SessionID: fmt.Sprint("s-", i),
		SessionName: "orch-" + fmt.Sprint(i), Mode: state.ModeNative, Status: state.Pending,
		AskedAt:       time.Now().UTC().Add(time.Duration(i) * time.Millisecond),
		IsMessageSent: true, ThreadName: "spaces/A/threads/T", Chat: "chat.googleapis.com/spaces/A",
		SubQuestions: []state.SubQuestion{
			{Question: "Which \x1b[31mDB\u202e\u009b\U000e0041?\nreally"},
		},
	})
}

// recordDeadSession records a question whose Claude Code, hook and poller went with the
// machine's last run, and no trace of a poller is left. It was asked in an environment
// that has more than the home's, and is in the thread HOST/spaces/S/threads/T.
func (h *home) recordDeadSession(at string, more ...string) *state.Question {
	h.Helper()
	host, name, _ := strings.Cut(at, "/")
	space, thread, _ := strings.Cut(name, "/threads/")
	return h.record(&state.Question{
		QuestionID: "0a1b2c3d-0000", ThreadKey: "ask-user-0a1b2c3d", SessionID: "s-dead",
		ClaudeSessionID: "s-dead", SessionName: "shop", Mode: state.ModeNative,
		AskedAt: time.Now().UTC().Add(-time.Hour), Status: state.Pending, ClaudePID: endedPID(h),
		IsMessageSent: true, ThreadName: space + "/threads/" + thread, Chat: host + "/" + space,
		SubQuestions: []state.SubQuestion{{Question: "Which DB?"}},
	}, more...)
}

// awaitClosed waits until a poller closed the question of a dead session.
func (h *home) awaitClosed(q *state.Question, after string) {
	h.Helper()
	bound.Until(h, "the question is closed after "+after, func() bool {
		is, err := state.LoadQuestion(q.Path)
		return err == nil && is.ResolvedBy == "claude_gone"
	})
}

// isPollerAlive says whether a poller of this home's environment runs.
func (h *home) isPollerAlive() bool {
	return state.ReadHeartbeat(h.getenv, state.Environment(h.getenv)).IsAlive
}

// endedPID is the pid of a process that has ended.
func endedPID(t testing.TB) int {
	t.Helper()
	ended := exec.Command("true")
	kit.NoError(t, ended.Run())
	return ended.Process.Pid
}

// spaceHome is a home with the embedded space in it.
type spaceHome struct {
	*home
	address string
}

// newSpaceHome is a project whose setup is done, with a space on this machine that does
// not run yet.
func newSpaceHome(t *testing.T) *spaceHome {
	t.Helper()
	p := &spaceHome{newProjectHome(t), freeAddress(t)}
	p.mustRun("setup", "--space", "--address", p.address)
	endSpace(p.getenv)
	return p
}

func (p *spaceHome) port() int {
	_, port, _ := net.SplitHostPort(p.address)
	number, _ := strconv.Atoi(port)
	return number
}

// runSpace runs the space, and returns its first page and how to end it.
func (p *spaceHome) runSpace(flags ...string) (page string, end func()) {
	p.Helper()
	out, err := os.Create(p.path("out"))
	kit.NoError(p, err)
	defer out.Close()
	args := append([]string{"space", "--listen", p.address}, flags...)
	cmd := exec.CommandContext(p.Context(), p.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, out, out
	kit.NoError(p, cmd.Start())
	printed := regexp.MustCompile(`page: +(\S+)\n`)
	isUp := func() bool { return printed.MatchString(p.readFile("out")) }
	kit.Must(p, bound.WaitFor(bound.Patience, isUp), "the space does not run: %s", p.readFile("out"))
	socket, err := state.ReadSpaceSocket(p.getenv, p.port())
	kit.NoError(p, err)
	endChecks := strict.CheckSocket(p, socket)
	return printed.FindStringSubmatch(p.readFile("out"))[1], func() {
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

// ask has a session ask, and returns the thread of its question and the hook that waits
// for the answer.
func (p *spaceHome) ask(session string) (thread string, answer func() string) {
	p.Helper()
	p.runHook("gchat-ask-user-forward", p.hookEvent(session, "PreToolUse"))
	var stdout bytes.Buffer
	waiting := exec.CommandContext(p.Context(), p.program, "hook", "gchat-ask-user-forward")
	waiting.Env, waiting.Stdout = p.env, &stdout
	waiting.Stdin = strings.NewReader(p.hookEvent(session, "PermissionRequest"))
	kit.NoError(p, waiting.Start())
	answer = func() string {
		_ = bound.Wait(p, waiting)
		return stdout.String()
	}
	return p.awaitThread(session), answer
}

// hookEvent is what Claude Code tells a hook of a question.
func (p *spaceHome) hookEvent(session, name string) string {
	return fmt.Sprintf(`{"session_id":%q,"cwd":%q,"permission_mode":"default",`+
		`"hook_event_name":%q,`+
		`"tool_name":"AskUserQuestion","tool_use_id":%[1]q,"tool_input":{"questions":[`+
		`{"question":"Which DB in %[1]s?","header":"DB","multiSelect":false,`+
		`"options":[{"label":"SQLite"},{"label":"Postgres"}]}]}}`, session, p.project, name)
}

// awaitThread waits for a session's question in the space.
func (p *spaceHome) awaitThread(session string) string {
	p.Helper()
	return p.awaitText("the question is in the space", func() string {
		for line := range strings.Lines(p.readFile(messagesFile)) {
			if strings.Contains(line, "Which DB in "+session+"?") {
				return threadIn(line)
			}
		}
		return ""
	})
}

// threadIn is the first name of a thread of the embedded space in a text.
func threadIn(text string) string {
	return regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(text)
}

// replyOnPage is a person at the page.
func (h *home) replyOnPage(page, thread, text string) {
	h.Helper()
	id := "c" + filepath.Base(thread) + text
	h.postToPage(page, map[string]string{"thread": thread, "text": text, "clientId": id})
}

// tapOnPage taps a button of a message's card on the page.
func (h *home) tapOnPage(page, message, choice string) {
	h.Helper()
	id := "tap" + filepath.Base(message) + choice
	h.postToPage(page, map[string]string{"message": message, "choice": choice, "clientId": id})
}

func (h *home) postToPage(page string, fields map[string]string) {
	h.Helper()
	baseURL, key, found := strings.Cut(page, "#key=")
	if !found {
		h.Fatalf("the page's link is %s", page)
	}
	post, err := http.NewRequest("POST", baseURL+"page/messages",
		bytes.NewReader(kit.JSON(h, fields)))
	kit.NoError(h, err)
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Gchat-Page-Key", key)
	client := cmp.Or(h.phone, &http.Client{Timeout: 20 * time.Second})
	resp, err := client.Do(post)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.Fatalf("reply: %v, %v", resp, err)
	}
	resp.Body.Close()
}
