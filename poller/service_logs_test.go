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

// What the log holds beside the lines asked for is left out; what its last lines are is also in the file that it was before.
func TestShowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		env := func(name string) string {
			return map[string]string{"HOME": dir, "GOOGLE_CHAT_WEBHOOK_URL": "https://chat.googleapis.com/v1/spaces/A/messages?key=KEYKEY&token=TOKENTOKEN"}[name]
		}
		log := state.LogPath(env)
		line := func(level, message, more string) string {
			return fmt.Sprintf(`{"level":%q,"time":"2026-11-21T12:00:00.000Z","job":"flush","pid":7,"message":%q%s}`+"\n", level, message, more)
		}
		mustWrite(t, log+".1", line("error", "older", "")+line("info", "old", ""), 0o600)
		mustWrite(t, log, line("error", "not sent", `,"error":"refused","hint":"do x","session":"s-1","n":3`)+line("info", "sent", `,"question":"q-1"`)+line("warn", "of TOKENTOKEN", `,"session":"s-2"`), 0o600)
		show := func(o LogOptions) string {
			var out strings.Builder
			if err := ShowLog(t.Context(), env, &out, o); err != nil {
				t.Error(err)
			}
			return strings.ReplaceAll(out.String(), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Local().Format(time.DateTime), "NOON")
		}
		for _, c := range []struct {
			name string
			o    LogOptions
			want string
		}{
			{"all", LogOptions{}, "NOON ERROR flush[7] older\nNOON INFO  flush[7] old\nNOON ERROR flush[7] not sent: refused n=3 session=s-1 (hint: do x)\nNOON INFO  flush[7] sent question=q-1\nNOON WARN  flush[7] of [secret] session=s-2\n"},
			{"three", LogOptions{Lines: 4, Level: "warn"}, "NOON ERROR flush[7] older\nNOON ERROR flush[7] not sent: refused n=3 session=s-1 (hint: do x)\nNOON WARN  flush[7] of [secret] session=s-2\n"},
			{"one of them", LogOptions{Lines: 1, Level: "error"}, "NOON ERROR flush[7] not sent: refused n=3 session=s-1 (hint: do x)\n"},
			{"a session and its question", LogOptions{About: func() map[string]bool { return map[string]bool{"s-1": true, "q-1": true} }}, "NOON ERROR flush[7] not sent: refused n=3 session=s-1 (hint: do x)\nNOON INFO  flush[7] sent question=q-1\n"},
			{"as they stand", LogOptions{Lines: 1, JSON: true}, `{"level":"warn","time":"2026-11-21T12:00:00.000Z","job":"flush","pid":7,"message":"of [secret]","session":"s-2"}` + "\n"},
			{"in colour", LogOptions{Lines: 1, Colour: true, Level: "error"}, "\x1b[31mNOON ERROR flush[7] not sent: refused n=3 session=s-1 (hint: do x)\x1b[0m\n"},
			{"nothing", LogOptions{Level: "panic"}, "the log holds nothing of that: " + log + "\n"},
		} {
			if got := show(c.o); got != c.want {
				t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
			}
		}

		// It is begun anew between two looks: nothing is lost on the way.
		var out strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- ShowLog(ctx, env, &out, LogOptions{Lines: 1, Follow: true}) }()
		time.Sleep(time.Second)
		synctest.Wait()
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(line("info", "the last of the old one", "")); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Rename(log, log+".1"); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, log, line("info", "the first of the new one", ""), 0o600)
		time.Sleep(time.Second)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if said := out.String(); strings.Count(said, "\n") != 3 || !strings.Contains(said, "the last of the old one\n") || !strings.HasSuffix(said, "the first of the new one\n") {
			t.Errorf("followed:\n%s", said)
		}
	})
}

func TestLastErrors(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": dir}[name] }
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var log strings.Builder
	for i := range 10 {
		fmt.Fprintf(&log, `{"level":"error","time":%q,"job":"flush","message":"m%d","error":"e","hint":"h"}`+"\n", at.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), i)
		log.WriteString("panic: nothing of ours\n" + `{"level":"warn","time":"2026-11-21T12:00:00Z","message":"a warning"}` + "\n")
	}
	mustWrite(t, state.LogPath(env), log.String(), 0o600)
	if errs := LastErrors(env, 3, at); len(errs) != 3 || errs[0].Message != "m7" || errs[2] != (LogError{at.Add(9 * time.Minute), "flush", "m9", "e", "h"}) {
		t.Errorf("the last three: %+v", errs)
	}
	if errs := LastErrors(env, 3, at.Add(9*time.Minute)); len(errs) != 1 {
		t.Errorf("since then: %+v", errs)
	}
}
