package poller

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// A checkout can bring a question. The poller ignores it: no hook of ours wrote an index
// entry for it.
func TestReadIndex_IgnoresUnnamedRecord(t *testing.T) {
	d := newTestMachine(t)
	planted := d.writeQuestion(func(q *state.Question) {
		q.TmuxPane, q.TmuxSocket = "%0", "/tmp/x"
	})
	d.addQuestion(nil)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	for _, record := range p.ownRecords {
		kit.True(t, record.Path != planted.Path, "it is served")
	}
	kit.True(t, !d.loadQuestion(planted).IsMessageSent, "it was posted")
	named := d.newPoller(filepath.Dir(planted.Path))
	named.readAndAttend(t.Context())
	kit.True(t, len(named.ownRecords) == 2,
		"of a folder that a person named, %d questions are served", len(named.ownRecords))
}

// A person may name a folder by another path than the hook does. It is the same folder:
// the record is served once, with its hook.
func TestReadIndex_FolderOfTwoNames(t *testing.T) {
	d := newTestMachine(t)
	link := filepath.Join(d.dir, "a-link") // "a-link" is before "shop"
	kit.NoError(t, os.Symlink(filepath.Join(d.dir, "shop"), link))
	q := d.addQuestion(func(q *state.Question) {
		q.Mode, q.AskedAt = state.ModeNative, time.Now().Add(-time.Minute)
		d.markPosted(q)
	})
	d.startWaiter(q)
	p := d.newPoller(filepath.Join(link, ".claude", "state", "pending-questions"),
		filepath.Dir(q.Path))
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: space.PersonName, Text: "1", CreatedAt: time.Now().UTC()},
		}
	})
	p.readAndAttend(t.Context())
	stored := d.loadQuestion(q)
	kit.True(t, stored.Replies[0].Verdict == state.VerdictUsed && len(p.ownRecords) == 1,
		"a hook waits, and the reply is %q; %d are served", stored.Replies[0].Verdict,
		len(p.ownRecords))
}

// The poller makes no lock file where a hook has just taken its record back.
func TestReadIndex_MakesNoLockFile(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	p := d.newReadyPoller()
	file := state.IndexFile(d.env, q.Path)
	kit.NoError(t, os.Remove(file))
	for _, record := range p.ownRecords {
		p.holdEntryLock(record)
		p.removeFromIndex(record)
	}
	_, err := os.Lstat(file)
	kit.True(t, err != nil, "an empty one stands there")
}

// What lets Claude act counts in the person's own state alone: Claude may write into the
// project, and have it announced.
func TestReadIndex_IgnoresDecisionInProject(t *testing.T) {
	d := newTestMachine(t)
	q := d.writeQuestion(func(q *state.Question) { q.SessionID = "forged" })
	q = d.changeQuestion(q, func(q *state.Question) {
		q.Kind, q.Status = state.KindNext, state.Answered
	})
	kit.NoError(t, state.AddQuestionToIndex(d.env, q))
	p := d.newReadyPoller()
	for _, record := range p.ownRecords {
		kit.True(t, record.question == nil, "it is served: %+v", record.question)
	}
}

// Releasing the lock of an index entry wakes the processes that wait for the record. The
// poller does that with every step that they may wait for. It takes the lock once more
// while there may be another step.
func TestReadIndex_LockWakesWaiters(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) { q.Mode = state.ModeDeny })
	p := d.newPoller()
	held := func(want bool, what string) {
		t.Helper()
		p.readAndAttend(t.Context())
		kit.Equalf(t, state.IsLocked(state.IndexFile(d.env, q.Path)), want, "%s: held", what)
	}
	held(true, "pending")
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = append(q.Replies, state.Reply{
			MessageName: "m", Sender: "users/9", Text: "1", CreatedAt: time.Now(),
		})
	})
	held(false, "a reply was judged")
	for _, record := range p.ownRecords {
		record.relockAt = time.Time{}
	}
	held(true, "and it waits again")
	d.closeQuestion(q, state.Cancelled, "stop")
	held(false, "closed")
	held(false, "closed for good")
}

// A suspended process may hold the lock for long. The loop tries once more after a tenth
// of a second, and then at growing intervals.
func TestReadIndex_HeldLockBacksOff(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	lock, err := state.TryLock(state.IndexFile(d.env, q.Path))
	kit.NoError(t, err)
	p, now := d.newPoller(), time.Now()
	p.Now = func() time.Time { return now }
	p.readIndex()
	record := p.ownOldestFirst()[0]
	var pauses []time.Duration
	for range 7 {
		retryAt := p.holdEntryLock(record)
		pauses = append(pauses, retryAt.Sub(now)/time.Millisecond)
		now = retryAt
	}
	want := []time.Duration{100, 200, 400, 800, 1600, 2000, 2000}
	kit.True(t, slices.Equal(pauses, want), "pauses %d, want %d", pauses, want)
	lock.Unlock()
	retryAt := p.holdEntryLock(record)
	kit.True(t, retryAt.IsZero() && record.entryLock != nil, "it is not taken when it is free")
}

// A record whose file is gone is removed from the index, and the processes that wait for
// it continue.
func TestReadIndex_ForgetsGoneRecord(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	kit.NoError(t, os.Remove(q.Path))
	p.readAndAttend(t.Context())
	all, _ := state.IndexEntries(d.env)
	kit.True(t, len(all) == 0 && len(p.ownRecords) == 0,
		"%d in the index, %d served", len(all), len(p.ownRecords))
}

// A record of another environment whose file is missing may belong to another machine
// with this HOME and other projects. It is removed from the index only once its question
// is too old in any case.
func TestReadIndex_KeepsRecordOfOtherMachine(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GCHAT_FORMAT"] = "another environment"
	q := d.addPosted(func(q *state.Question) { q.Status = state.Answered })
	delete(d.vars, "GCHAT_FORMAT")
	kit.NoError(t, os.Remove(q.Path))
	p := d.newPoller()
	for _, later := range []struct {
		by   time.Duration
		want int
	}{{0, 1}, {state.MaxQuestionAge, 1}, {state.MaxQuestionAge + otherEnvironmentGrace +
		time.Minute, 0}} {
		p.Now = shifted(later.by)
		p.readAndAttend(t.Context())
		p.sweep()
		all, _ := state.IndexEntries(d.env)
		kit.True(t, len(all) == later.want,
			"%d in the index after %s, want %d", len(all), later.by, later.want)
	}
}

// A session's name picks that session's question, even a closed one. It never picks a
// question of another session whose id begins in the same way.
func TestReadIndex_PicksQuestionByName(t *testing.T) {
	d := newTestMachine(t)
	for _, q := range []state.Question{
		{
			QuestionID: "77770000-0000-4000-8000-000000000000", SessionID: "one", SessionName: "1",
			Status: state.Resolved, ThreadKey: "ask-user-77770000",
		},
		{
			QuestionID: "1abc0000-0000-4000-8000-000000000000", SessionID: "bill",
			SessionName: "billing", Status: state.Pending, ThreadKey: "ask-user-1abc0000",
		},
		{
			QuestionID: "1fff0000-0000-4000-8000-000000000000", SessionID: "2222",
			SessionName: "shop", Status: state.Pending, ThreadKey: "ask-2222-1fff0000",
		},
		{
			QuestionID: "1abc5555-0000-4000-8000-000000000000", SessionID: "gone",
			SessionName: "1fff", Status: state.Cancelled, ThreadKey: "ask-user-1abc5555",
		},
	} {
		d.addQuestion(func(to *state.Question) { q.AskedAt = noon; *to = q })
	}
	for by, want := range map[string]string{
		"1": "one", "1fff": "gone", // a session's name, and the beginning of another's id
		"billing": "bill", "2222": "2222", "ask-user-1abc0000": "bill", "ask-user-1abc5555": "gone",
		"ask-2222-1fff0000": "2222",
		"1abc":              "", "ask-user-1abc": "", "ask-user": "", "ask-2222": "", "a": "",
		"": "",
	} {
		q, err := state.PickQuestion(d.env, by)
		if want == "" {
			kit.True(t, err != nil && strings.Contains(err.Error(), "no open question \""+by+"\""),
				"%q is %v, %v", by, q, err)
		} else if err != nil || q.SessionID != want {
			t.Errorf("%q is %v, %v; want the one of session %s", by, q, err, want)
		}
	}
}
