package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
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

// Nothing is lost when the log is begun anew between two looks.
func TestLogsFollow(t *testing.T) {
	env, path := logOf(t, "old\nha")
	add := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text)
		f.Close()
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- logs{env: env, out: &out, lines: 1, follow: true}.run(ctx) }()
		expect := func(want string) {
			t.Helper()
			time.Sleep(time.Second) // of the bubble's clock: some looks later
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("printed %q, want %q", got, want)
			}
			out.Reset()
		}
		expect("old\n")
		add("lf\nnext\n")
		expect("half\nnext\n")
		add("the last of the old one\n")
		os.Rename(path, path+".1")
		add("the first of the new one\n")
		expect("the last of the old one\nthe first of the new one\n")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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
	errs := lastErrors(env, 3, at)
	last := logError{at.Add(8999 * time.Minute), "flush", "m8999", "e", "h"}
	if len(errs) != 3 || errs[0].Message != "m8997" || errs[2] != last {
		t.Errorf("the last three: %+v", errs)
	}
	if errs := lastErrors(env, 3, at.Add(8999*time.Minute)); len(errs) != 1 {
		t.Errorf("since then: %+v", errs)
	}
}
