package wake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

const patience = 30 * time.Second // how long anything is waited for

// built is the program, made once for all tests.
var built struct {
	sync.Once
	dir  string
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

func program(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "gchat-hooks-wake-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "gchat-hooks")
		cmd := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", built.path, "gchat-hooks")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// world is a machine: a home, a registry, a real tmux server with a session, and a stand-in for openclaw that writes down
// how it was called.
type world struct {
	*testing.T
	dir  string
	pane string // of the session
	env  map[string]string
}

// standIn is openclaw: a folder for each call, with its arguments and environment as they came. The files fail, hang and
// reply beside it tell it what to do.
const standIn = `#!/bin/sh
n=$(mktemp -d "$WAKE_TEST/calls/$(date +%s%N)-XXXXXX")
for a in "$@"; do printf '%s\0' "$a"; done > "$n/argv.new"
env -0 > "$n/env"; cat > "$n/stdin"
case "$4" in --message-file) cat "$5" > "$n/file"; ls -l "$5" | cut -c1-10 > "$n/mode";; esac
mv "$n/argv.new" "$n/argv"
[ ! -e "$WAKE_TEST/hang" ] || { : > "$n/hangs"; exec sleep 600; }
[ ! -e "$WAKE_TEST/fail" ] || { echo "gateway is down" >&2; exit 1; }
[ ! -e "$WAKE_TEST/reply" ] || cat "$WAKE_TEST/reply"
`

func newWorld(t *testing.T, session, command string) *world {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("tmux is missing")
		}
		t.Skip("needs tmux")
	}
	dir, err := os.MkdirTemp("", "w-") // short: a socket's path ends at 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", w.path("s"), "kill-server").Run()
		_ = os.Remove(w.path("hang"))
		_ = os.RemoveAll(dir)
	})
	for _, sub := range []string{"home", "bin", "calls", "project"} {
		w.must(os.MkdirAll(w.path(sub), 0o700))
	}
	w.write("bin/openclaw", standIn)
	w.must(os.Chmod(w.path("bin/openclaw"), 0o700))
	w.pane = w.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "-x", "110", "-y", "40", "sh", "-c", command)
	w.env = map[string]string{
		"PATH": w.path("bin") + ":" + os.Getenv("PATH"), "HOME": w.path("home"), "CLAUDE_PROJECT_DIR": w.path("project"), "WAKE_TEST": dir,
		"TMUX": w.path("s") + ",1,0", "TMUX_PANE": w.pane, "GCHAT_WAKE_REGISTRY": w.path("registry.json"), "LANG": "C.UTF-8",
	}
	w.registry(`{"agents":[` + entry("warden", session, "") + `]}`)
	return w
}

// entry is an agent in a registry, with settings in JSON.
func entry(id, session, settings string) string {
	b, _ := json.Marshal(session)
	if settings == "" {
		settings = "{}"
	}
	return fmt.Sprintf(`{"agent_id":%q,"enabled":true,"tmux_session_name":%s,"openclaw_session_id":"11111111-2222","hook_settings":%s}`, id, b, settings)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	w.must(os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *world) registry(text string) { w.Helper(); w.write("registry.json", text) }

// settle gives the one agent settings.
func (w *world) settings(session, settings string) {
	w.registry(`{"agents":[` + entry("warden", session, settings) + `]}`)
}

func (w *world) tmux(args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", w.path("s"), "-f", os.DevNull}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMUX") }), "LANG=C.UTF-8", "PS1=$ ")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// shows waits until the pane shows a text.
func (w *world) shows(text string) {
	w.Helper()
	w.until("the pane shows "+text, func() bool { return strings.Contains(w.tmux("capture-pane", "-p", "-t", w.pane), text) })
}

func (w *world) until(what string, so func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain: %s\nlog: %s", what, w.log())
		}
	}
}

func (w *world) log() string {
	b, _ := os.ReadFile(w.path("home/.claude/logs/gchat-hooks.log"))
	return string(b)
}

// recorded is an event of a real Claude Code, with members in place of its own.
func recorded(t testing.TB, name string, members ...any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "2.1.329", name+".json"))
	var e map[string]any
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(e, "transcript_path")
	for i := 0; i+1 < len(members); i += 2 {
		e[members[i].(string)] = members[i+1]
	}
	if b, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	return b
}

// start starts a hook as a process.
func (w *world) start(name string, event []byte, wrap ...string) (*exec.Cmd, *bytes.Buffer) {
	w.Helper()
	args := append(slices.Clone(wrap), program(w), name)
	cmd := exec.Command(args[0], args[1:]...)
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out := &bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(event), out, out
	w.must(cmd.Start())
	return cmd, out
}

// run runs a hook; it must end with 0. It gives what it printed.
func (w *world) run(name string, event []byte) string {
	w.Helper()
	cmd, out := w.start(name, event)
	if err := cmd.Wait(); err != nil {
		w.Fatalf("%s: %v: %s", name, err, out)
	}
	return out.String()
}

// fire runs a hook in this process, without a courier: its messages stay in the outbox.
func (w *world) fire(name string, event []byte) {
	h := &hooks.Hook{Name: name, Stdin: bytes.NewReader(event), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Env: w.getenv}
	if !Hook(h) {
		w.Errorf("no hook %s", name)
		return
	}
	if code := h.Run(); code != 0 {
		w.Errorf("%s: exit code %d", name, code)
	}
}

func (w *world) getenv(name string) string { return w.env[name] }

func (w *world) waiting() []*state.WakeMessage {
	w.Helper()
	all, bad := state.WakeOutboxIn(w.user()).Waiting()
	if len(bad) > 0 {
		w.Fatal(bad)
	}
	return all
}

func (w *world) user() string { return state.UserState(w.getenv) }

// call is one call of openclaw.
type call struct {
	args  []string
	stdin string
	env   []string
	file  string // what --message-file held
	mode  string
}

func (c call) message() string {
	if c.file != "" {
		return c.file
	}
	if len(c.args) < 5 {
		return ""
	}
	return c.args[4]
}

// content is what stands under a headline.
func section(message, name string) string {
	_, rest, _ := strings.Cut(message, "["+name+"]\n")
	if i := strings.Index(rest, "\n\n["); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

func (w *world) calls() (all []call) {
	w.Helper()
	dirs, err := os.ReadDir(w.path("calls"))
	w.must(err)
	for _, d := range dirs {
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(w.path("calls"), d.Name(), name))
			return string(b)
		}
		argv, err := os.ReadFile(filepath.Join(w.path("calls"), d.Name(), "argv"))
		if err != nil {
			continue // just being made
		}
		all = append(all, call{
			args: strings.Split(strings.TrimSuffix(string(argv), "\x00"), "\x00"), stdin: read("stdin"), file: read("file"), mode: strings.TrimSpace(read("mode")),
			env: strings.Split(strings.TrimSuffix(read("env"), "\x00"), "\x00"),
		})
	}
	return all
}

// heard waits for so many calls of openclaw.
func (w *world) heard(n int) []call {
	w.Helper()
	w.until(fmt.Sprintf("%d calls of openclaw", n), func() bool { return len(w.calls()) >= n })
	return w.calls()
}

// hung waits until so many calls of openclaw hang.
func (w *world) hung(n int) {
	w.Helper()
	w.until(fmt.Sprintf("%d calls hang", n), func() bool {
		all, _ := filepath.Glob(w.path("calls/*/hangs"))
		return len(all) >= n
	})
}

// idle waits until nothing is in the outbox and no courier runs.
func (w *world) idle() {
	w.Helper()
	w.until("the outbox is empty", func() bool { box := state.WakeOutboxIn(w.user()); return box.Empty() && !box.Retried("11111111-2222") })
}

// shell is what a script prints.
func (w *world) shell(script string) string {
	w.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = w.path("project")
	out, err := cmd.Output()
	w.must(err)
	return string(out)
}

// inside checks that all that was written is under these folders, only for this user.
func (w *world) inside(dirs ...string) {
	w.Helper()
	w.must(filepath.WalkDir(w.user(), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			w.Errorf("%s is %s", path, info.Mode())
		}
		return err
	}))
	w.must(filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		known := []string{"calls", "bin", "project", "registry.json", "s"}
		rel, _ := filepath.Rel(w.dir, path)
		first, _, _ := strings.Cut(rel, "/")
		if err == nil && rel != "." && !slices.Contains(known, first) && !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path, dir) }) {
			w.Errorf("%s was written", path)
		}
		return err
	}))
}
