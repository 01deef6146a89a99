package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// logOf has a home hold this log.
func logOf(t *testing.T, text string) (env state.Getenv, path string) {
	t.Helper()
	home := t.TempDir()
	env = func(name string) string { return map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": home}[name] }
	path = state.LogPath(env)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return env, path
}

// Nothing is lost of a log that goes on, nor when it is begun anew.
func TestLogsFollow(t *testing.T) {
	env, path := logOf(t, "old\nlast\n")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- logs{Program: Program{env: env, out: in}, path: path, lines: 1, follow: true}.run(ctx)
	}()
	printed := bufio.NewReader(out)
	expect := func(want string) {
		t.Helper()
		if got, err := printed.ReadString('\n'); err != nil || got != want+"\n" {
			t.Errorf("printed %q (%v), want %q", got, err, want)
		}
	}
	expect("last")
	add("ha")
	add("lf\nnext\n")
	expect("half")
	expect("next")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add("the first of the new one\n")
	expect("the first of the new one")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// An error is listed until it is over: its job did something since, or, for a hook, a session was seen since.
func TestLastErrors(t *testing.T) {
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
		env, _ := logOf(t, text.String())
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
