package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

const notifyHook, sessionHook, gateHook = "gchat-notification-dispatch", "gchat-session-event", "gchat-stop-gate"

// machine is one person's machine for hooks that report. These hooks start no poller.
type machine struct {
	testing.TB
	dir string
	env map[string]string
}

// newMachine returns a machine whose session is called orch-epic4.
func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{TB: t, dir: t.TempDir()}
	m.env = map[string]string{
		"HOME": filepath.Join(m.dir, "home"), "PATH": os.Getenv("PATH"), "XDG_STATE_HOME": filepath.Join(m.dir, "user"),
		"CLAUDE_PROJECT_DIR": filepath.Join(m.dir, "shop"), "CLAUDE_SESSION_ID": "orch-epic4",
		"GOOGLE_CHAT_WEBHOOK_URL": "https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token=t",
	}
	for _, dir := range []string{m.env["HOME"], m.env["CLAUDE_PROJECT_DIR"]} {
		kit.NoError(t, os.MkdirAll(dir, 0o755))
	}
	return m
}

func (m *machine) getenv(name string) string { return m.env[name] }

func (m *machine) writeFile(path, content string) string {
	m.Helper()
	kit.NoError(m, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.NoError(m, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// writeConfig writes the project's configuration; "" writes none.
func (m *machine) writeConfig(json string) {
	if json != "" {
		m.writeFile(filepath.Join(m.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), json)
	}
}

// run gives a hook an event, and returns what it prints.
func (m *machine) run(name string, event []byte) string {
	m.Helper()
	var out, errs bytes.Buffer
	h := &Hook{Name: name, Stdin: bytes.NewReader(event), Stdout: &out, Stderr: &errs, Env: m.getenv}
	if code := h.Run(); code != 0 || errs.Len() > 0 {
		m.Errorf("%s ended with %d, stderr %q", name, code, &errs)
	}
	return out.String()
}

// payload is an event that Claude Code 2.1.329 sent, with some members set; nil removes
// one.
func payload(t testing.TB, name string, kv ...any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "2.1.329", name+".json"))
	kit.NoError(t, err)
	return setMembers(t, b, kv...)
}

func setMembers(t testing.TB, b []byte, kv ...any) []byte {
	t.Helper()
	var members map[string]any
	kit.NoError(t, json.Unmarshal(b, &members))
	for i := 0; i < len(kv); i += 2 {
		name := kv[i].(string)
		if members[name] = kv[i+1]; kv[i+1] == nil {
			delete(members, name)
		}
	}
	b, err := json.Marshal(members)
	kit.NoError(t, err)
	return b
}

// event is an event of the session sess-1 in the machine's project.
func (m *machine) event(name string, kv ...any) []byte {
	m.Helper()
	return payload(m.TB, name, append([]any{
		"session_id", "sess-1", "cwd", m.env["CLAUDE_PROJECT_DIR"], "transcript_path", filepath.Join(m.dir, "sess-1.jsonl"),
	}, kv...)...)
}

// reports are the reports in the outbox, the oldest first.
func (m *machine) reports() []*state.Message {
	m.Helper()
	all, loadErrs := state.OutboxIn(state.UserStateDir(m.getenv)).Waiting()
	if len(loadErrs) > 0 {
		m.Fatal(loadErrs)
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

// session returns the record of sess-1; nil if there is none.
func (m *machine) session() *state.Session {
	m.Helper()
	s, err := state.SessionsIn(state.UserStateDir(m.getenv)).Get("sess-1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	kit.NoError(m, err)
	return s
}

// changeSession changes the record of sess-1, as the poller does.
func (m *machine) changeSession(f func(*state.Session)) {
	m.Helper()
	_, err := state.SessionsIn(state.UserStateDir(m.getenv)).Change("sess-1", func(s *state.Session) { f(s) })
	kit.NoError(m, err)
}

func (m *machine) log() string {
	b, err := os.ReadFile(filepath.Join(m.env["HOME"], ".claude", "logs", "gchat-hooks.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Fatal(err)
	}
	return string(b)
}

// wantNoOutput checks that a hook did nothing at all.
func (m *machine) wantNoOutput() {
	m.Helper()
	if entries, err := os.ReadDir(m.env["XDG_STATE_HOME"]); err == nil {
		m.Errorf("state was written: %v", entries)
	}
	kit.Equalf(m, m.log(), "", "the log was written")
}
