package hooks

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
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
		h := &Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Env: os.Getenv}
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
		"HOME": filepath.Join(w.dir, "home"), "PATH": os.Getenv("PATH"),
		"CLAUDE_PROJECT_DIR": filepath.Join(w.dir, "shop"),
		"XDG_STATE_HOME":     filepath.Join(w.dir, "user"),
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

// newPermissionWorld returns a world whose permissions are asked in Chat.
func newPermissionWorld(t *testing.T) *world {
	w := newWorld(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = webhookURL
	w.env["GCHAT_ALLOWED_USERS"] = ann.Name
	return w
}

func (w *world) getenv(name string) string { return w.env[name] }

// withVariables is the same world for another session: with other variables, but the
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

func (w *world) projectState() string {
	return filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
}

// webhookURL is a webhook that no test reaches.
const webhookURL = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"

// writeConfig writes the project's configuration; "" writes none.
func (w *world) writeConfig(json string) {
	if json != "" {
		writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude",
			"gchat-hooks.json"), json)
	}
}

// writePolicy puts a policy into force on this machine; "" names a file that does not
// exist.
func (w *world) writePolicy(text string) {
	w.env["GCHAT_POLICY_FILE"] = filepath.Join(w.dir, "policy.json")
	if text != "" {
		writeFile(w, w.env["GCHAT_POLICY_FILE"], text)
	}
}

// writeFile writes a file, and returns its path.
func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	kit.WriteFile(t, path, content, 0o600)
	return path
}

func wantNoFile(t testing.TB, path string) {
	t.Helper()
	_, err := os.Stat(path)
	kit.True(t, os.IsNotExist(err), "%s exists", path)
}

// smallDisk mounts a file system of a few blocks at the project's state, and returns its
// folder.
func (w *world) smallDisk() string {
	w.Helper()
	dir := w.projectState()
	kit.NoError(w, os.MkdirAll(dir, 0o700))
	if out, err := bound.Command(w, "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs",
		dir).CombinedOutput(); err != nil {
		kit.Must(w, os.Getenv("GCHAT_E2E_REQUIRED") != "1" || os.Geteuid() != 0,
			"a small disk cannot be mounted, and GCHAT_E2E_REQUIRED=1: %v: %s", err, out)
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

// inTmux makes the session's Claude Code run in a pane of a tmux server of its own.
func (w *world) inTmux() (socket, pane string) {
	w.Helper()
	kit.NeedProgram(w, "tmux")
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(w, err)
	socket = filepath.Join(dir, "s")
	w.Cleanup(func() {
		_ = bound.Command(w, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	begin := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F",
		"#{pane_id} #{pane_pid}", "exec sleep 1000"}
	out, err := bound.Command(w, "tmux", begin...).CombinedOutput()
	kit.Must(w, err == nil, "tmux: %v: %s", err, out)
	pane, pid, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	w.env["TMUX"], w.env["TMUX_PANE"], w.env["CLAUDE_PID"] = socket+",1,0", pane, pid
	return socket, pane
}

// livingPID is a process that stands for Claude Code and lives as long as the test.
func livingPID(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	kit.StartProcess(t, cmd)
	return fmt.Sprint(cmd.Process.Pid)
}

func (w *world) waitUntil(what string, ok func() bool) {
	w.Helper()
	deadline := time.Now().Add(testTimeout)
	for !ok() {
		kit.Must(w, !time.Now().After(deadline), "waited in vain for %s", what)
		time.Sleep(5 * time.Millisecond)
	}
}

func (w *world) log() string {
	b, _ := os.ReadFile(state.LogPath(w.getenv))
	return string(b)
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

func (w *world) sessions() state.Sessions {
	return state.SessionsIn(state.UserStateDir(w.getenv))
}

// session returns the record of sess-1.
func (w *world) session() *state.Session {
	w.Helper()
	return w.loadSession("sess-1")
}

// loadSession returns the record of a session.
func (w *world) loadSession(id string) *state.Session {
	w.Helper()
	session, err := w.sessions().Get(id)
	kit.NoError(w, err)
	return session
}

// changeSession changes the record of a session, as the poller does.
func (w *world) changeSession(id string, change func(*state.Session)) {
	w.Helper()
	_, err := w.sessions().Change(id, change)
	kit.NoError(w, err)
}

// permissionReport is how the report of a permission's dialog begins.
const permissionReport = "[Permission] orch-epic4\nClaude waits for a permission in the terminal"

// reports are the reports in the outbox, the oldest first.
func (w *world) reports() []*state.Message {
	w.Helper()
	all, loadErrs := state.OutboxIn(state.UserStateDir(w.getenv)).Waiting()
	kit.Must(w, len(loadErrs) == 0, "%v", loadErrs)
	return all
}

// reportText returns a report as one text: its prefix or type, the session, what it is
// about, and its text.
func reportText(r *state.Report) string {
	first := r.Prefix
	if first == "" {
		first = "(" + string(r.Type) + ")"
	}
	return strings.TrimRight(first+" "+r.SessionName+"\n"+strings.TrimPrefix(r.About+"\n",
		"\n")+r.Text, "\n")
}

// wantReports checks that the outbox has exactly these reports.
func (w *world) wantReports(want ...string) {
	w.Helper()
	var got []string
	for _, one := range w.reports() {
		got = append(got, reportText(one.Report))
	}
	kit.True(w, slices.Equal(got, want), "got %q\nwant %q", got, want)
}

// makeOlder changes when a file was written.
func makeOlder(t testing.TB, path string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	kit.NoError(t, os.Chtimes(path, at, at))
}
