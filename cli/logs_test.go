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

// writeLog has a home hold this log.
func writeLog(t *testing.T, text string) (env state.Getenv, path string) {
	t.Helper()
	home := t.TempDir()
	env = func(name string) string { return map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": home}[name] }
	path = state.LogPath(env)
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return env, path
}

// An error is listed until it is over: its job did something since, or, for a hook, a
// session was seen since.
func TestLogs_ErrorsUntilTheyAreOver(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	minute := func(i int) time.Time { return at.Add(time.Duration(i) * time.Minute) }
	var text strings.Builder
	line := func(i int, level, job string) {
		fmt.Fprintf(&text, `{"level":%q,"time":%q,"job":%q,"message":"m%d","error":"e","hint":"h"}`+"\n", level, minute(i).Format(time.RFC3339), job, i)
	}
	for i := range 9000 { // more than a megabyte
		line(i, "error", "flush")
		text.WriteString("panic: nothing of ours\n")
		line(i, "warn", "send")
	}
	errs := func(since time.Time) (found []string) {
		env, _ := writeLog(t, text.String())
		for _, e := range lastErrors(env, since) {
			found = append(found, e.Message+" "+e.Cause+" "+e.Hint)
		}
		return found
	}
	if got := fmt.Sprint(errs(at)); got != "[m8995 e h m8996 e h m8997 e h m8998 e h m8999 e h]" {
		t.Error("the last:", got)
	}
	if got := fmt.Sprint(errs(minute(8999))); got != "[m8999 e h]" {
		t.Error("since then:", got)
	}
	since := minute(9001)
	text.WriteString(`{"level":"error","time":"` + since.Format(time.RFC3339) + `","job":"poller","message":"unread","until":"read again"}` + "\n")
	line(9002, "error", "poller")
	line(9003, "info", "poller")
	if got := fmt.Sprint(errs(since)); got != "[unread   m9002 e h]" {
		t.Error("nothing is over:", got)
	}
	text.WriteString(`{"level":"info","time":"` + minute(9004).Format(time.RFC3339) + `","job":"flush","message":"read again"}` + "\n")
	if got := fmt.Sprint(errs(since)); got != "[m9002 e h]" {
		t.Error("one is over:", got)
	}
}

// The lines of the log of decisions have no level.
func TestLogs_AuditHasNoLevel(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "CLAUDE_PROJECT_DIR=" + home}
	path := state.AuditPath(getenvOf(env))
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(t, os.WriteFile(path, []byte(`{"time":"2026-11-21T12:00:00Z","message":"allowed","tool":"Bash"}`+"\n"), 0o600))
	built, err := builtProgram()
	kit.NoError(t, err)
	said := mustRun(t, env, filepath.Join(built, "gchat-hooks"), "logs", "--audit")
	if !strings.Contains(said, "allowed tool=Bash") || strings.Contains(said, "???") {
		t.Error(said)
	}
}
