package poller

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/state"
)

func TestServiceLogsAreReadable(t *testing.T) {
	p := newPerson(t, "darwin", nil)
	log := state.LogPath(p.Env)
	if err := p.Logs(t.Context(), LogOptions{}); err != nil || !strings.Contains(p.hear(), "the log is empty") {
		t.Errorf("no log: %v", err)
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	mustWrite(t, log, `{"level":"info","time":"2026-11-21T12:00:00.123Z","job":"gchat-response-poller","pid":7,"message":"daemon started","dry_run":false,"dir":"/a b"}`+"\n"+
		`{"level":"error","job":"flush","message":"of a hook"}`+"\n"+
		"panic: \x1b]0;evil\x07 \u202etext\n"+
		`{"level":"error","time":"yesterday","job":"gchat-response-poller","pid":7,"message":"two\nlines \u001b[31mred"}`+"\n"+
		`{"level":"info","message":"half of a li`, 0o600)
	mustWrite(t, strings.Replace(log, "gchat-hooks.log", "gchat-response-poller.err", 1), "goroutine 1 https://chat.example/?key=KEY&token=SECRET\n", 0o600)
	if err := p.Logs(t.Context(), LogOptions{Job: "gchat-response-poller"}); err != nil {
		t.Fatal(err)
	}
	said := p.hear()
	for _, want := range []string{
		at.Local().Format(time.DateTime) + " INFO  gchat-response-poller[7] daemon started dir=\"/a b\" dry_run=false\n",
		"yesterday ERROR gchat-response-poller[7] two",
		"panic: \uFFFD]0;evil\uFFFD \uFFFDtext\n",
		"gchat-response-poller.err\ngoroutine 1 https://chat.example/?key=[secret]&token=[secret]\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	for _, not := range []string{"of a hook", "half of", "\x1b", "SECRET"} {
		if strings.Contains(said, not) {
			t.Errorf("%q in\n%s", not, said)
		}
	}
	p.Logs(t.Context(), LogOptions{})
	if said := p.hear(); !strings.Contains(said, "flush[] of a hook\n") {
		t.Errorf("of all jobs: %s", said)
	}

	var many strings.Builder
	for i := range 40000 {
		fmt.Fprintf(&many, "line %d of a log that is longer than what is read of it\n", i)
	}
	mustWrite(t, log, many.String(), 0o600)
	os.Remove(strings.Replace(log, "gchat-hooks.log", "gchat-response-poller.err", 1))
	p.Logs(t.Context(), LogOptions{Lines: 2})
	if said := p.hear(); said != "line 39998 of a log that is longer than what is read of it\nline 39999 of a log that is longer than what is read of it\n" {
		t.Errorf("the last two: %s", said)
	}
	p.GOOS = "linux"
	p.Logs(t.Context(), LogOptions{Lines: 1})
	if said := p.hear(); !strings.Contains(said, "journalctl --user -u gchat-response-poller -n 1\n") {
		t.Errorf("on Linux: %s", said)
	}
}

func TestServiceLogsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPerson(t, "darwin", nil)
		log := state.LogPath(p.Env)
		mustWrite(t, log, "old\nha", 0o600)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Logs(ctx, LogOptions{Follow: true}) }()
		expect := func(want string) {
			t.Helper()
			time.Sleep(time.Second) // of the bubble's clock: some looks later
			synctest.Wait()
			if said := p.hear(); said != want {
				t.Errorf("said %q, want %q", said, want)
			}
		}
		add := func(text string) {
			f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString(text)
			f.Close()
		}
		expect("old\n")
		add("lf\nnext\n")
		expect("half\nnext\n")
		os.Rename(log, log+".1")
		expect("")
		mustWrite(t, log, "a new file that is longer than the old one was\n", 0o600)
		expect("a new file that is longer than the old one was\n")
		os.Truncate(log, 0)
		add("short\n")
		expect("short\n")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
