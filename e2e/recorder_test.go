package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// recordHook as the first argument turns the test binary into a hook that writes its
// stdin to DIR/NNN-EVENT.json.
const recordHook = "record-hook"

func runRecordHook(args []string) int {
	payload, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = record(args[0], payload)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// record gives a payload the next free number. It is written elsewhere and
// linked into place: two hooks run at once, and a reader sees whole files.
func record(dir string, payload []byte) error {
	var head struct {
		Event string `json:"hook_event_name"`
	}
	json.Unmarshal(payload, &head)
	tmp, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(payload); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	for n := 1; n < 1000; n++ {
		// The number alone is claimed first, for the names of two events differ.
		claim := filepath.Join(dir, fmt.Sprintf(".%03d", n))
		if err := os.Link(tmp.Name(), claim); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		name := filepath.Join(dir, fmt.Sprintf("%03d-%s", n, head.Event))
		return os.Rename(tmp.Name(), name+".json")
	}
	return errors.New("too many events")
}

// A recorder is the test's side of it: a folder, commands that write there,
// and what was written.
type recorder struct{ dir string }

// An event is one hook call.
type event struct {
	Name    string
	Payload json.RawMessage
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	dir, err := os.MkdirTemp("", "hooks-") // t.TempDir fails a test whose last hook still writes
	kit.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &recorder{dir}
}

// Command is the hook command that records.
func (r *recorder) Command() string { return shellLine(testBinary(), recordHook, r.dir) }

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
		_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".json"), "-")
		all = append(all, event{name, raw})
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
