package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// An error is listed until it is over: until its job succeeds or, for a hook, until a
// session is seen.
func TestLogs_ErrorsUntilTheyAreOver(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	minute := func(i int) time.Time { return at.Add(time.Duration(i) * time.Minute) }
	var text strings.Builder
	line := func(i int, level, job string) {
		fmt.Fprintf(&text,
			`{"level":%q,"time":%q,"job":%q,"message":"m%d","error":"e","hint":"h"}`+"\n",
			level, minute(i).Format(time.RFC3339), job, i)
	}
	for i := range 9000 { // more than a megabyte
		line(i, "error", "flush")
		text.WriteString("panic: nothing of ours\n")
		line(i, "warn", "send")
	}
	h := newProjectHome(t)
	wantErrors := func(since time.Time, want string) {
		t.Helper()
		h.writeFile(".claude/logs/gchat-hooks.log", text.String())
		var found []string
		for _, e := range lastErrors(h.getenv, since) {
			found = append(found, e.Message+" "+e.Cause+" "+e.Hint)
		}
		kit.Equalf(t, fmt.Sprint(found), want, "errors")
	}
	wantErrors(at, "[m8995 e h m8996 e h m8997 e h m8998 e h m8999 e h]")
	wantErrors(minute(8999), "[m8999 e h]")
	since := minute(9001)
	text.WriteString(`{"level":"error","time":"` + since.Format(time.RFC3339) +
		`","job":"poller","message":"unread","until":"read again"}` + "\n")
	line(9002, "error", "poller")
	line(9003, "info", "poller")
	wantErrors(since, "[unread   m9002 e h]")
	text.WriteString(`{"level":"info","time":"` + minute(9004).Format(time.RFC3339) +
		`","job":"flush","message":"read again"}` + "\n")
	wantErrors(since, "[m9002 e h]")
}

// Lines of the audit log have no level.
func TestLogs_AuditHasNoLevel(t *testing.T) {
	h := newProjectHome(t)
	path := state.AuditPath(h.getenv)
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	const line = `{"time":"2026-11-21T12:00:00Z","message":"allowed","tool":"Bash"}` + "\n"
	kit.NoError(t, os.WriteFile(path, []byte(line), 0o600))
	if output := h.wantRun(0, "allowed tool=Bash", "logs", "--audit"); strings.Contains(output, "???") {
		t.Error(output)
	}
}
