package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// recordHook as the first argument turns the test binary into a hook:
//
//	record-hook DIR                 writes its stdin to DIR/NNN-EVENT.json
//	record-hook DIR print FILE      … and prints FILE
//	record-hook DIR answer FILE     … and answers the question with FILE,
//	                                a JSON object of question → answer
//
// FILE is waited for, so a test decides when a hook speaks, if ever. A hook
// that is told to stop leaves DIR/NNN-EVENT.sigterm.
const recordHook = "record-hook"

func runRecordHook(args []string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if len(args) != 1 && len(args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: record-hook DIR [print|answer FILE]")
		return 1
	}
	payload, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	name, err := record(args[0], payload)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(args) == 1 {
		return 0
	}
	for {
		out, err := os.ReadFile(args[2])
		if err == nil {
			if args[1] == "answer" {
				out = allowWithAnswers(payload, out)
			}
			os.Stdout.Write(out)
			return 0
		}
		select {
		case <-stop:
			os.WriteFile(name+".sigterm", nil, 0o600)
			return 0
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// record gives a payload the next free number. It is written elsewhere and
// linked into place: two hooks run at once, and a reader sees whole files.
func record(dir string, payload []byte) (string, error) {
	var head struct {
		Event string `json:"hook_event_name"`
	}
	json.Unmarshal(payload, &head)
	tmp, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(payload); err != nil {
		return "", err
	}
	if err := tmp.Close(); err != nil {
		return "", err
	}
	for n := 1; n < 1000; n++ {
		// The number alone is claimed first, for the names of two events differ.
		claim := filepath.Join(dir, fmt.Sprintf(".%03d", n))
		if err := os.Link(tmp.Name(), claim); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return "", err
		}
		name := filepath.Join(dir, fmt.Sprintf("%03d-%s", n, head.Event))
		return name, os.Rename(tmp.Name(), name+".json")
	}
	return "", errors.New("too many events")
}

// allowWithAnswers is the decision that closes a question's dialog: the whole
// tool input again, and the answers.
func allowWithAnswers(payload, answers []byte) []byte {
	var in struct {
		Event string                     `json:"hook_event_name"`
		Input map[string]json.RawMessage `json:"tool_input"`
	}
	if err := json.Unmarshal(payload, &in); err != nil || in.Input == nil {
		return nil
	}
	in.Input["answers"] = answers
	out, _ := json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": in.Event,
		"decision":      map[string]any{"behavior": "allow", "updatedInput": in.Input},
	}})
	return out
}

// A recorder is the test's side of it: a folder, commands that write there,
// and what was written.
type recorder struct{ dir string }

// An event is one hook call.
type event struct {
	Name    string
	Payload json.RawMessage
	Stopped bool // the hook got SIGTERM while it waited
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	dir, err := os.MkdirTemp("", "hooks-") // t.TempDir fails a test whose last hook still writes
	kit.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &recorder{dir}
}

// Command is the hook command that records and says nothing.
func (r *recorder) Command() string { return shellLine(testBinary(), recordHook, r.dir) }

// Print is the hook command that then prints file, once it is there.
func (r *recorder) Print(file string) string {
	return shellLine(testBinary(), recordHook, r.dir, "print", file)
}

// Answer is the hook command that then answers a question from file, once it
// is there.
func (r *recorder) Answer(file string) string {
	return shellLine(testBinary(), recordHook, r.dir, "answer", file)
}

// Hooks is a recording hook for each of the named events.
func (r *recorder) Hooks(events ...string) hooks {
	h := hooks{}
	for _, e := range events {
		h[e] = []hook{{Command: r.Command()}}
	}
	return h
}

// Events returns what was recorded so far, in order of arrival.
func (r *recorder) Events() []event {
	files, _ := filepath.Glob(filepath.Join(r.dir, "[0-9]*.json"))
	var all []event
	for _, f := range files { // Glob sorts
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		base := strings.TrimSuffix(f, ".json")
		_, err = os.Stat(base + ".sigterm")
		_, name, _ := strings.Cut(filepath.Base(base), "-")
		all = append(all, event{name, raw, err == nil})
	}
	return all
}

// Names are those of the events so far.
func (r *recorder) Names() (names []string) {
	for _, e := range r.Events() {
		names = append(names, e.Name)
	}
	return names
}

// Wait returns the first event of that name, as soon as there is one.
func (r *recorder) Wait(t *testing.T, name string) event {
	t.Helper()
	return r.WaitFor(t, name, func(e event) bool { return e.Name == name })
}

// WaitFor returns the first event that satisfies ok.
func (r *recorder) WaitFor(t *testing.T, what string, ok func(event) bool) event {
	t.Helper()
	var all []event
	at := -1
	found := bound.WaitFor(bound.Patience, func() bool {
		all = r.Events()
		at = slices.IndexFunc(all, ok)
		return at >= 0
	})
	if !found {
		t.Fatalf("no hook event %s in %v; there were: %q", what, bound.Patience, r.Names())
	}
	return all[at]
}

// testBinary is the test binary, which is also the hook.
func testBinary() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// shellLine quotes a command line: Claude Code hands a hook's command to a shell.
func shellLine(argv ...string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
