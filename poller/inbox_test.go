package poller

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// An outage is logged when it begins, when it changes and when it ends, not with every cycle; status shows it meanwhile.
func TestAnOutageIsSaidOnce(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{})
	in := d.newInbox(q)
	var err error
	if in.mark, err = state.OpenInbox(d.user(), q.Chat); err != nil {
		t.Fatal(err)
	}
	fail := func(err error, times int) {
		for range times {
			in.trouble.after(err)
			in.tell(t.Context(), err, []*state.Question{q})
		}
	}
	fail(errors.New("connection refused"), 360)
	if bad := state.TroubledInboxes(d.user()); len(bad) != 1 || bad[0].Chat != q.Chat || bad[0].Trouble.Why != "connection refused" || bad[0].Trouble.Degraded {
		t.Errorf("status shows %+v", bad)
	}
	if notes := d.notes(); len(notes) != 0 {
		t.Errorf("of what passes by itself the thread is told %q", notes)
	}
	fail(nil, 3)
	if bad := state.TroubledInboxes(d.user()); len(bad) != 0 {
		t.Errorf("status shows %+v", bad)
	}
	if got := d.lines("replies"); len(got) != 2 || !strings.Contains(got[0], "cannot be read") || !strings.Contains(got[1], "are read again") {
		t.Errorf("the log says %q", got)
	}
}

// Five refusals are no accident: it is said in the log, in status and, once, in the threads that wait.
func TestFiveRefusalsAreDegraded(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{})
	in := d.newInbox(q)
	var err error
	if in.mark, err = state.OpenInbox(d.user(), q.Chat); err != nil {
		t.Fatal(err)
	}
	refused := &gchat.APIError{HTTP: http.StatusForbidden, Message: "no scope"}
	for n := 1; n <= 8; n++ {
		in.trouble.after(refused)
		in.tell(t.Context(), refused, []*state.Question{q})
		bad := state.TroubledInboxes(d.user())
		if notes := d.notes(); len(bad) != 1 || bad[0].Trouble.Degraded != (n >= 5) || (len(notes) == 1) != (n >= 5) {
			t.Errorf("after %d refusals: %+v, said %q", n, bad[0].Trouble, notes)
		}
	}
	if notes := d.notes(); !strings.HasPrefix(notes[0], "[Not read] ") || !strings.Contains(notes[0], "Hint: ") {
		t.Errorf("said: %q", notes)
	}
	if got := d.lines("replies cannot be read"); len(got) != 2 || !strings.Contains(got[1], `"degraded":true`) {
		t.Errorf("the log says %q", got)
	}
}

// lines are those of the log that hold the words.
func (d *desk) lines(words string) (lines []string) {
	raw, _ := os.ReadFile(state.LogPath(d.Env))
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, words) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A process that is stopped keeps its lock. Replies are read all the same, by one that waits.
func TestRepliesAreReadBesideAStoppedLeader(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{})
	stopped, err := state.LockLeader(d.user(), q.Chat)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Unlock()
	seats, _ := filepath.Glob(filepath.Join(d.user(), "inbox", "*.leader"))
	if len(seats) != 1 {
		t.Fatalf("seats: %q", seats)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(seats[0], hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}

	listed := make(chan string, 100)
	d.Listed = func(chat string, _ error) { listed <- chat }
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); d.Lead(ctx, q) }()
	select {
	case chat := <-listed:
		if chat != q.Chat {
			t.Errorf("listed %s", chat)
		}
	case <-ctx.Done():
		t.Error("nobody lists the space")
	}
	stop()
	<-ended
	if got := d.lines("another reads beside it"); len(got) != 1 {
		t.Errorf("the log says %q", got)
	}
}
