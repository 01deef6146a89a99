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
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

const testTimeout = 30 * time.Second // how long anything is waited for

// hookNameVariable makes this test's program act as the hook of that name, for tests that
// kill it.
const hookNameVariable = "WAKE_TEST_HOOK"

func TestMain(m *testing.M) {
	if name := os.Getenv(hookNameVariable); name != "" {
		underlock.Watch()
		h := &hooks.Hook{Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Env: os.Getenv}
		if !SetJob(h) {
			os.Exit(1)
		}
		os.Exit(h.Run())
	}
	os.Exit(underlock.Run(m))
}

// world is a machine: a home, a registry, and a real tmux server with a session.
type world struct {
	*testing.T
	dir  string
	pane string // of the session
	env  map[string]string
}

func newWorld(t *testing.T, session, command string) *world {
	t.Helper()
	kit.NeedProgram(t, "tmux")
	dir, err := os.MkdirTemp("", "w-") // short: a socket's path ends at 107 bytes
	kit.NoError(t, err)
	w := &world{T: t, dir: dir}
	t.Cleanup(func() {
		_ = bound.Command(t, "tmux", "-S", w.path("s"), "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	for _, sub := range []string{"home", "bin", "project"} {
		kit.NoError(w, os.MkdirAll(w.path(sub), 0o700))
	}
	kit.NoError(w, os.WriteFile(w.path("bin/openclaw"), []byte("#!/bin/sh\n"), 0o700))
	w.pane = w.runTmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "-x", "110",
		"-y", "40", "sh", "-c", command)
	w.env = map[string]string{
		"PATH": w.path("bin") + ":" + os.Getenv("PATH"), "HOME": w.path("home"),
		"CLAUDE_PROJECT_DIR": w.path("project"),
		"TMUX":               w.path("s") + ",1,0", "TMUX_PANE": w.pane,
		"GCHAT_WAKE_REGISTRY": w.path("registry.json"), "LANG": "C.UTF-8",
	}
	w.writeRegistry(`{"agents":[` + agentJSON("warden", session, "") + `]}`)
	return w
}

// newQuietWorld returns a world whose session shows "ready" and does nothing.
func newQuietWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	return w
}

// agentJSON is an agent in a registry, with settings in JSON.
func agentJSON(id, session, settings string) string {
	b, _ := json.Marshal(session)
	if settings == "" {
		settings = "{}"
	}
	return fmt.Sprintf(`{"agent_id":%q,"enabled":true,"tmux_session_name":%s,"openclaw_session_id":"11111111-2222","hook_settings":%s}`, id, b, settings)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) writeRegistry(text string) {
	w.Helper()
	kit.NoError(w, os.WriteFile(w.path("registry.json"), []byte(text), 0o600))
}

// writeSettings gives the one agent settings.
func (w *world) writeSettings(session, settings string) {
	w.writeRegistry(`{"agents":[` + agentJSON("warden", session, settings) + `]}`)
}

func (w *world) runTmux(args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", w.path("s"), "-f",
		os.DevNull}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "TMUX") }), "LANG=C.UTF-8", "PS1=$ ")
	out, err := cmd.CombinedOutput()
	kit.Must(w, err == nil, "tmux %q: %v: %s", args, err, out)
	return strings.TrimRight(string(out), "\n")
}

// awaitOnPane waits until the pane shows a text.
func (w *world) awaitOnPane(text string) {
	w.Helper()
	w.waitUntil("the pane shows "+text, func() bool { return strings.Contains(w.runTmux("capture-pane", "-p", "-t", w.pane), text) })
}

func (w *world) waitUntil(what string, isDone func() bool) {
	w.Helper()
	for deadline := time.Now().Add(testTimeout); !isDone(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain: %s\nlog: %s", what, w.errorLines())
		}
	}
}

// errorLines are the log's lines about failures; infoLines are its lines about events
// that were handled.
func (w *world) errorLines() string { return w.logLines(false) }

func (w *world) infoLines() string { return w.logLines(true) }

func (w *world) logLines(info bool) (lines string) {
	b, _ := os.ReadFile(w.path("home/.claude/logs/gchat-hooks.log"))
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, `"level":"info"`) == info {
			lines += line
		}
	}
	return lines
}

// recorded is an event of a real Claude Code, with some members set.
func recorded(t testing.TB, name string, members ...any) []byte {
	t.Helper()
	b := kit.ReadFile(t, filepath.Join("testdata", "2.1.329", name+".json"))
	var e map[string]any
	kit.NoError(t, json.Unmarshal([]byte(b), &e))
	delete(e, "transcript_path")
	// the recordings are of several sessions
	e["session_id"] = "b1e91434-d410-4fbe-b382-0fbc1f1c23d3"
	for i := 0; i+1 < len(members); i += 2 {
		e[members[i].(string)] = members[i+1]
	}
	return kit.JSON(t, e)
}

// runHook runs a hook in this process, without a program to start a poller from: its
// messages stay in the outbox. It returns what the hook printed.
func (w *world) runHook(name string, event []byte) string { return w.runHookWith("", name, event) }

// runHookWith is runHook of a hook that starts a poller from the program self.
func (w *world) runHookWith(self, name string, event []byte) string {
	out := &bytes.Buffer{}
	h := &hooks.Hook{Name: name, Stdin: bytes.NewReader(event), Stdout: out, Stderr: out,
		Env: w.getenv, Self: self}
	if !SetJob(h) {
		w.Errorf("no hook %s", name)
	} else if code := h.Run(); code != 0 {
		w.Errorf("%s: exit code %d", name, code)
	}
	return out.String()
}

// runStopWith runs a stop hook with this text of Claude's.
func (w *world) runStopWith(text string) string {
	w.Helper()
	return w.runHook("stop-hook", recorded(w, "single-07-Stop", "last_assistant_message", text))
}

func (w *world) getenv(name string) string { return w.env[name] }

// wakeMessages are the wake messages in the outbox.
func (w *world) wakeMessages() []*state.Message {
	w.Helper()
	all, bad := state.OutboxIn(w.userState()).Waiting()
	kit.Must(w, len(bad) == 0, "%v", bad)
	return slices.DeleteFunc(all, func(message *state.Message) bool { return message.Type != state.MessageWake })
}

// wantNew runs a hook and checks how many messages it adds. The hook must print nothing.
func (w *world) wantNew(what, hook string, event []byte, want int) {
	w.Helper()
	before := len(w.wakeMessages())
	kit.Equalf(w, w.runHook(hook, event), "", "%s: printed", what)
	kit.Equalf(w, len(w.wakeMessages())-before, want, "%s: messages (log: %s)", what,
		w.errorLines())
}

// lastContent is the section CONTENT of the last message.
func (w *world) lastContent() string { return section(w.lastMessageText(), "CONTENT") }

// messageText is the text of a wake message.
func messageText(message *state.Message) string { return message.Wake.Args[4] }

// lastMessageText is the text of the last message.
func (w *world) lastMessageText() string {
	w.Helper()
	all := w.wakeMessages()
	kit.Must(w, len(all) != 0, "no message")
	return messageText(all[len(all)-1])
}

func (w *world) userState() string { return state.UserStateDir(w.getenv) }

// section returns the text under a headline.
func section(message, name string) string {
	_, rest, _ := strings.Cut(message, "["+name+"]\n")
	if i := strings.Index(rest, "\n\n["); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// readScreenFile makes a pane show a recorded screen of 110x40, unchanged.
func readScreenFile(name string) string {
	path, _ := filepath.Abs(filepath.Join("testdata", "2.1.329", name+".ansi"))
	return "head -c -1 '" + path + "'; exec sleep 600"
}

const quiet = "echo ready; exec sleep 600"
