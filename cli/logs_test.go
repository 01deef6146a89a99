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
	go func() { ended <- logs{env: env, out: in, lines: 1, follow: true}.run(ctx) }()
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

func TestLastErrors(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var text strings.Builder
	for i := range 9000 { // more than a megabyte
		when := at.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		fmt.Fprintf(&text, `{"level":"error","time":%q,"job":"flush","message":"m%d","error":"e","hint":"h"}`+"\n", when, i)
		text.WriteString("panic: nothing of ours\n" + `{"level":"warn","time":"2026-11-21T12:00:00Z","message":"a warning"}` + "\n")
	}
	env, _ := logOf(t, text.String())
	errs := lastErrors(env, at)
	last := logError{at.Add(8999 * time.Minute), "flush", "m8999", "e", "h"}
	if len(errs) != mostErrors || errs[0].Message != "m8995" || errs[mostErrors-1] != last {
		t.Errorf("the last: %+v", errs)
	}
	if errs := lastErrors(env, at.Add(8999*time.Minute)); len(errs) != 1 {
		t.Errorf("since then: %+v", errs)
	}
}
