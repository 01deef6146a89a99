package poller

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// notesIn are the texts that wait in the outbox for a thread.
func (x *talk) notesIn(thread string) (texts []string) {
	x.t.Helper()
	all, bad := state.OutboxIn(state.UserState(x.env)).All()
	if len(bad) > 0 {
		x.t.Fatal(bad)
	}
	for _, m := range all {
		if m.ThreadName == thread {
			texts = append(texts, m.Parts...)
		}
	}
	return texts
}

// lists has the poller read the space, and go on reading it for all environments.
func (x *talk) lists() {
	x.t.Helper()
	x.p.round(x.t.Context())
	if err := x.r.list(x.t.Context(), x.p.views()[x.r.chat]); err != nil {
		x.t.Fatal(err)
	}
	x.p.round(x.t.Context())
}

// A reply to the question of an environment whose poller does not come is told of once, by the
// poller that reads its space. The question stays for its session's first hook.
func TestAReplyThatNoEnvironmentClaimsIsToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		lives, reads bool
		after        time.Duration
		told         int
	}{
		"after a minute":                         {reads: true, after: undecidedFor, told: 1},
		"before that":                            {reads: true, after: undecidedFor - 10*time.Second},
		"while its poller runs":                  {lives: true, reads: true, after: undecidedFor},
		"by a poller that does not read there":   {after: undecidedFor},
		"long after, by the next one that reads": {reads: true, after: 20 * time.Hour, told: 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTalk(t, nil)
			theirs := x.ask(x.posted)
			thread := x.beginThread(theirs)
			x.ofAnother(theirs)
			lock := filepath.Join(state.UserState(x.env), "pollers", "another.lock")
			if c.lives {
				its, err := state.TryLock(lock)
				if err != nil {
					t.Fatal(err)
				}
				defer its.Unlock()
			}
			x.reply(thread, "", "2")
			x.reply(thread, "", "I mean 1")
			x.lists()
			if !c.reads {
				release(&x.r.lock)
			}
			later := time.Now().Add(c.after + time.Second)
			x.p.Now = func() time.Time { return later }
			for range 2 {
				x.p.round(t.Context())
			}
			told, left := x.notesIn(thread), 2
			if c.told > 0 {
				left = 0
			}
			if len(told) != c.told || x.left() != left {
				t.Errorf("told %q, %d are undecided", told, x.left())
			}
			if len(told) > 0 && !strings.HasPrefix(told[0], "[Not read] ") {
				t.Errorf("told %q", told)
			}
			if is := x.load(theirs); is.Status != state.Pending || len(is.Replies) > 0 {
				t.Errorf("the question is %s, with %+v", is.Status, is.Replies)
			}
			if state.Held(lock) != c.lives {
				t.Error("its poller's lock is not left as it was")
			}
		})
	}
}
