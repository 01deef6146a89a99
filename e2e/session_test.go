package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

const (
	patience     = 30 * time.Second       // how long anything is waited for
	pollInterval = 100 * time.Millisecond // between two looks at the screen

	// retryAfter is how long a key may go without effect before it is taken for lost.
	// On a busy machine a starting session lets its input wait for seconds.
	retryAfter = 8 * time.Second

	// sessionVariable marks the processes of one session; see runVariable.
	sessionVariable = "GCHAT_E2E_SESSION"
)

// paneScript is the script in the pane: Claude Code as the foreground job of a shell,
// as in life, with its pid in a file and the shell still there when it has ended.
const paneScript = `set -m
sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec "$@"' "$@"
echo "claude exited: $?"
exec sh -i`

// config is what a test may choose about a session. The zero value is a session
// without hooks whose model says "All done."
type config struct {
	Script []turn // what the model says
	Hooks  hooks  // settings.json
	// NAME=value, for Claude Code and so for its hooks
	Env []string
	// for Claude Code, e.g. "--permission-mode", "auto"
	Args []string
	// in the project, or in HOME where a name begins with ~
	Files map[string]string
	// called before the start, for what else it needs
	Prepare func(t *testing.T, home, project string)
	// the project's name in HOME; "" for a folder beside HOME
	Folder string
	App    bool // it asks with a Chat app's cards (bridged)
}

// A session is a real Claude Code in a pane of a tmux server of its own.
type session struct {
	t      *testing.T
	Claude claude
	API    *fakeModel
	Home   string
	Dir    string // the project

	tmux        tmux
	processMark string
	process     *process
}

// startSession opens a session and waits for its prompt. The end of the test ends it,
// and every process it left. As root, bypassPermissions needs Env IS_SANDBOX=1.
func startSession(t *testing.T, c claude, cfg config) *session {
	t.Helper()
	s := newSession(t, c, cfg)
	pidFile := filepath.Join(s.tmux.dir, "pid")
	args := []string{
		"new-session", "-d", "-s", "claude", "-x", "110", "-y", "40", "-c", s.Dir, "sh", "-c",
		paneScript, pidFile, pidFile,
	}
	s.runTmux(append(append(args, c.Argv...), cfg.Args...)...)
	s.process = s.findProcess(pidFile)
	s.WaitIdle()
	return s
}

// newSession is a session's model and folders, where Claude Code is not started yet.
func newSession(t *testing.T, c claude, cfg config) *session {
	t.Helper()
	requireIsolation(t)
	takeSessionSlot(t)
	root, err := os.MkdirTemp("", "s-") // short: a socket's path ends at 107 bytes
	kit.NoError(t, err)
	s := &session{
		t:           t,
		Claude:      c,
		API:         newFakeModel(t, cfg.Script...),
		Home:        filepath.Join(root, "home"),
		Dir:         filepath.Join(root, "project"),
		processMark: rand.Text(),
	}
	s.tmux = tmux{socket: "gchat-e2e-" + strings.ToLower(s.processMark[:8]), dir: root}
	s.tmux.env = s.sessionEnv(cfg.Env)
	t.Cleanup(func() { s.cleanUp(root) })

	if cfg.Folder != "" {
		s.Dir = filepath.Join(s.Home, cfg.Folder)
	}
	s.API.Project = s.Dir
	kit.NoError(t, os.MkdirAll(s.Dir, 0o700))
	writeSettings(t, s.Home, s.Dir, cfg.Hooks)
	for name, text := range cfg.Files {
		path := filepath.Join(s.Dir, name)
		if rest, isInHome := strings.CutPrefix(name, "~"); isInHome {
			path = filepath.Join(s.Home, rest)
		}
		kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		kit.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	}
	if cfg.Prepare != nil {
		cfg.Prepare(t, s.Home, s.Dir)
	}
	return s
}

// Restart starts Claude Code once more in the pane, after it has ended.
func (s *session) Restart(args ...string) {
	s.t.Helper()
	pidFile := filepath.Join(s.tmux.dir, "pid")
	kit.NoError(s.t, os.Remove(pidFile))
	begin := []string{"sh", "-c", `echo $$ >"$0.new"; mv "$0.new" "$0"; exec "$@"`, pidFile}
	// The last session's input box is wiped away first: it would pass for the new one's.
	s.TypeLine(`printf '\033[2J\033[H'; ` + shellLine(append(append(begin, s.Claude.Argv...),
		args...)...))
	s.process.Close()
	s.process = s.findProcess(pidFile)
	s.WaitIdle()
}

// sessionEnv is all that the session's processes get: nothing of the caller's own
// configuration may reach them.
func (s *session) sessionEnv(extra []string) []string {
	env := append(fakemodel.Environment(s.API.URL),
		"HOME="+s.Home, "TMPDIR="+s.tmux.dir, "PATH="+os.Getenv("PATH"), "SHELL=/bin/sh",
		"LANG=C.UTF-8", "TERM=screen-256color",
		// a recording hook built with -race would linger for a second
		"GORACE=atexit_sleep_ms=0",
		runVariable+"="+os.Getenv(runVariable), sessionVariable+"="+s.processMark,
	)
	return append(env, extra...)
}

func (s *session) findProcess(pidFile string) *process {
	s.t.Helper()
	var raw []byte
	bound.Until(s.t, "the pane starts Claude Code", func() bool {
		var err error
		raw, err = os.ReadFile(pidFile)
		return err == nil
	})
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		s.t.Fatalf("pid file: %v", err)
	}
	p, err := openProcess(pid)
	if err != nil {
		s.t.Fatalf("Claude Code is gone already: %v", err)
	}
	return p
}

// Pane is the pane's %N.
func (s *session) Pane() string {
	s.t.Helper()
	return s.runTmux("display-message", "-p", "-t", "=claude:", "#{pane_id}")
}

// TMUX is what $TMUX is inside the pane: with it a program outside finds the
// server.
func (s *session) TMUX() string {
	s.t.Helper()
	return s.runTmux("display-message", "-p", "-t", "=claude:", "#{socket_path},#{pid},0")
}

// ClaudePID is the pid of Claude Code itself, not of the shell around it.
func (s *session) ClaudePID() int { return s.process.pid }

// Kill sends Claude Code a signal.
func (s *session) Kill(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.Signal(sig); err != nil {
		s.t.Fatalf("signal Claude Code: %v", err)
	}
}

// WaitExit waits until Claude Code has ended. The pane then holds a shell.
func (s *session) WaitExit() {
	s.t.Helper()
	if !s.process.Exited(patience) {
		s.t.Fatalf("Claude Code is still there after %v", patience)
	}
	s.WaitScreen("claude exited:")
}

// Quit leaves as a person does, with /exit, and stops what still works in the background.
func (s *session) Quit() {
	s.t.Helper()
	s.WaitIdle()
	s.submit("/exit", func(screen string) bool {
		if strings.Contains(screen, "Background work is running") {
			s.Keys("Enter")
		}
		return s.process.Exited(0)
	})
	s.WaitExit()
}

// cleanUp ends the session whatever state it is in: the server by its own socket,
// then who still carries the mark. After a failed test it first says what was seen.
func (s *session) cleanUp(root string) {
	if s.t.Failed() {
		screen, err := s.capture()
		if err != nil {
			screen = err.Error()
		}
		s.t.Logf("log of the hooks:\n%s", s.readLog("gchat-hooks.log"))
		s.t.Logf("Claude Code %s, screen:\n%s\n%s\n%s", s.Claude.Version, screen,
			s.API.lastRequests(5), lastLines(s.readTranscripts(), 8))
	}
	s.tmux.run("kill-server")
	if killed := killMarked(sessionVariable+"="+s.processMark, 2*time.Second); len(killed) > 0 {
		s.t.Logf("did not end by themselves: %s", strings.Join(killed, "; "))
	}
	if s.process != nil {
		s.process.Close()
	}
	// A test's space runs a little longer, and a poller that it started may just be
	// writing its last line.
	var err error
	if !bound.WaitFor(bound.Patience, func() bool { err = os.RemoveAll(root); return err == nil }) {
		s.t.Errorf("remove session folder: %v", err)
	}
}

// A Claude Code starting up takes a core for a second or two. Tests take a slot
// each, not sessions: two tests that want two sessions cannot block each other.
var (
	sessionSlots = make(chan struct{}, 6)
	slotsMu      sync.Mutex
	slotHolders  = map[testing.TB]bool{}
)

func takeSessionSlot(t *testing.T) {
	slotsMu.Lock()
	has := slotHolders[t]
	slotHolders[t] = true
	slotsMu.Unlock()
	if has {
		return
	}
	sessionSlots <- struct{}{}
	t.Cleanup(func() {
		<-sessionSlots
		slotsMu.Lock()
		delete(slotHolders, t)
		slotsMu.Unlock()
	})
}

func (s *session) runTmux(args ...string) string {
	s.t.Helper()
	out, err := s.tmux.run(args...)
	kit.NoError(s.t, err)
	return out
}

// tmux is a server of our own: its socket lies in dir, so a person's server is
// out of reach even by mistake.
type tmux struct {
	socket string // name, for -L
	dir    string // TMUX_TMPDIR
	env    []string
}

// run gives one command to the server. A tmux that does not answer is killed
// after ten seconds.
func (x tmux) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux",
		append([]string{"-L", x.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(x.env, "TMUX_TMPDIR="+x.dir)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// sitDown attaches a terminal to the session: the pane of a second server plays it.
func (s *session) sitDown(t *testing.T) (command func(...string)) {
	desk := tmux{socket: s.tmux.socket + "-desk", dir: s.tmux.dir, env: s.tmux.env}
	command = func(args ...string) {
		t.Helper()
		_, err := desk.run(args...)
		kit.NoError(t, err)
	}
	socket, _, _ := strings.Cut(s.TMUX(), ",")
	command("new-session", "-d", "-x", "120", "-y", "45",
		"unset TMUX; exec tmux -u -S "+filepath.Clean(socket)+" attach -t =claude")
	t.Cleanup(func() { _, _ = desk.run("kill-server") })
	s.WaitScreenFunc("a terminal", func(string) bool { return s.runTmux("list-clients") != "" })
	return command
}

// mark is in the environment of all of the session's processes.
func (s *session) mark() string { return sessionVariable + "=" + s.processMark }

// processes are the command lines of the session's processes that hold a text.
func (s *session) processes(text string) (lines []string) {
	for _, p := range markedProcesses(s.mark()) {
		if strings.Contains(p.String(), text) {
			lines = append(lines, p.String())
		}
		p.Close()
	}
	return lines
}

// killProcesses kills -9 the session's processes whose command line holds a text, waits
// for their end, and says how many there were.
func (s *session) killProcesses(text string) (n int) {
	var killed []*process
	for _, p := range markedProcesses(s.mark()) {
		if strings.Contains(p.String(), text) && p.Signal(syscall.SIGKILL) == nil {
			killed = append(killed, p)
		} else {
			p.Close()
		}
	}
	// All of them are killed at once: none sees that another one has ended.
	for _, p := range killed {
		p.Exited(bound.Patience)
		p.Close()
	}
	return len(killed)
}

// readTranscripts is all that the session's transcripts say.
func (s *session) readTranscripts() (all string) {
	files, _ := filepath.Glob(filepath.Join(s.Home, ".claude", "projects", "*", "*.jsonl"))
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		all += string(raw)
	}
	return all
}

// lastLines are the last lines of a text, each cut.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = fmt.Sprintf("   %.600s", line)
	}
	return strings.Join(lines, "\n")
}

// readLog is what a log of the session's hooks says.
func (s *session) readLog(name string) string {
	log, _ := os.ReadFile(filepath.Join(s.Home, ".claude", "logs", name))
	return string(log)
}

// putTmux makes a folder with a tmux that runs a script before the real one, which the
// script knows as $tmux.
func putTmux(t *testing.T, script string) (dir string) {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	kit.NoError(t, err)
	dir = t.TempDir()
	writeScript(t, filepath.Join(dir, "tmux"), "tmux="+tmux+"\n"+script+"\nexec $tmux \"$@\"")
	return dir
}

// writeScript writes a program for the shell.
func writeScript(t *testing.T, path, script string) {
	t.Helper()
	kit.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}
