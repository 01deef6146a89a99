package poller

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

func TestListSpaces_QuickForTwoMinutes(t *testing.T) {
	for _, c := range []struct{ since, interval, want time.Duration }{
		{0, 3 * time.Second, time.Second},
		{119 * time.Second, 3 * time.Second, time.Second},
		{2 * time.Minute, 3 * time.Second, 3 * time.Second},
		{20 * time.Hour, 10 * time.Second, 10 * time.Second},
		{0, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		d := newTestMachine(t)
		d.vars["GCHAT_POLLER_INTERVAL"] = c.interval.String()
		v := &spaceView{
			sources: []configSource{{"", false}}, youngestAskedAt: time.Now().Add(-c.since),
		}
		kit.Equalf(t, d.newPoller().readerFor("chat").listInterval(v), c.want,
			"%v after, interval %v", c.since, c.interval)
	}
}

func TestListSpaces_FailuresBackOff(t *testing.T) {
	for code, wants := range map[int][]time.Duration{
		429: {
			30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute,
			5 * time.Minute,
		},
		500: {time.Second, 2 * time.Second, 4 * time.Second},
		503: {
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
			32 * time.Second,
		},
	} {
		var tr listFailures
		for i, want := range wants {
			kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: code}), want, "%d, failure %d", code,
				i+1)
		}
	}
	var tr listFailures
	kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: 429, RetryAfter: 7 * time.Second}),
		7*time.Second, "with Retry-After")
	got := tr.pauseAfter(errors.New("connection refused"))
	kit.True(t, got == 0, "the network is down: %v; the usual cycle is enough", got)
	for i := 1; i <= maxAuthFailures; i++ {
		kit.True(t, !tr.isDegraded(), "degraded after %d failures", i-1)
		kit.Equalf(t, tr.pauseAfter(&gchat.APIError{HTTP: 403}), time.Minute, "auth failure %d", i)
	}
	kit.True(t, tr.isDegraded(), "not degraded after five")
}

// An outage is logged when it begins, changes and ends, not in every cycle. `status`
// shows it meanwhile.
func TestListSpaces_OutageIsLoggedOnce(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	spaces := d.spaces()
	d.listStatus.Store(http.StatusServiceUnavailable)
	for range 10 {
		err := x.readOnce()
		kit.Must(t, err != nil, "no error")
	}
	is := spaces.Get(q.Chat).ReadTrouble
	kit.True(t, is != nil && !is.IsDegraded, "status shows %+v", is)
	kit.True(t, len(d.noteKinds(q)) == 0,
		"notes about what passes by itself: %q", d.noteKinds(q))
	d.listStatus.Store(0)
	for range 3 {
		x.mustRead()
	}
	kit.True(t, spaces.Get(q.Chat).ReadTrouble == nil, "status still shows trouble")
	got := d.logLines("replies ")
	kit.True(t, len(got) == 2 && strings.Contains(got[0], "cannot be read") &&
		strings.Contains(got[1], "are read again"),
		"the log says %q", got)
}

// After five refusals in a row, the log and `status` say so, and each open thread gets
// one note.
func TestListSpaces_FiveRefusalsDegrade(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	x.poller.readAndAttend(t.Context())
	v := x.poller.spaceViews()[q.Chat]
	x.reader.spaceRecord = d.spaces().Get(q.Chat)
	refused := &gchat.APIError{HTTP: http.StatusForbidden, Message: "no scope"}
	for n := 1; n <= 8; n++ {
		x.reader.failures.pauseAfter(refused)
		x.reader.reportTrouble(refused, v)
		x.poller.readAndAttend(t.Context())
		is := x.reader.spaceRecord.ReadTrouble
		kit.True(t, is != nil && is.IsDegraded == (n >= 5) &&
			(len(d.noteKinds(q)) == 1) == (n >= 5),
			"after %d refusals: %+v, prompts %q", n, is, d.noteKinds(q))
	}
	kit.True(t, d.loadQuestion(q).HasUnreadNote && d.noteKinds(q)[0] == state.NoteUnread,
		"prompts %q", d.noteKinds(q))
}

func TestListSpaces_OneReaderPerSpace(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	lock, err := d.spaces().LockReader(q.Chat)
	kit.NoError(t, err)
	d.runPoller(Options{})
	d.awaitQuestion(d.addQuestion(nil), "the loop goes on", isSent)
	kit.Equalf(t, d.listCount.Load(), 0, "lists beside another process's")
	m := d.startThread(q)
	lock.Unlock()
	d.awaitQuestion(q, "read after it", func(q *state.Question) bool {
		return q.FindReply(m.Name) != nil
	})
}

// A reader that fails releases the space for another environment's reader, which may have
// a better connection to Chat.
func TestListSpaces_FailedReaderReleases(t *testing.T) {
	for _, code := range []int{
		http.StatusServiceUnavailable, http.StatusNotFound, http.StatusForbidden,
	} {
		d, q, x := newPostedQuestion(t)
		x.poller.readIndex()
		d.listStatus.Store(int64(code))
		err := x.reader.listSpace(t.Context(), x.poller.spaceViews()[q.Chat])
		kit.Must(t, err != nil, "no error")
		lock, err := d.spaces().LockReader(q.Chat)
		kit.Must(t, err == nil, "after %d: %v", code, err)
		lock.Unlock()
	}
}

// A suspended process holds the lock of the space's reader and lists nothing. The poller
// must not conclude that nobody replied.
func TestListSpaces_StoppedReaderIsNoSilence(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	lock, err := d.spaces().LockReader(q.Chat)
	kit.NoError(t, err)
	defer lock.Unlock()
	p := d.newReadyPoller()
	r := p.readerFor(q.Chat)
	_ = r.listSpace(t.Context(), p.spaceViews()[q.Chat])
	kit.True(t, r.lastGoodList.IsZero(),
		"read until %s by a process that shows no life", r.lastGoodList)
	other := func(name string) string {
		if name == "GCHAT_FORMAT" {
			return "another environment"
		}
		return d.env(name)
	}
	kit.NoError(t, state.WriteHeartbeat(other, state.Heartbeat{
		PID: os.Getppid(), BeatAt: time.Now(), AwakeTime: state.AwakeTime(),
	}))
	_ = r.listSpace(t.Context(), p.spaceViews()[q.Chat])
	kit.True(t, !r.lastGoodList.IsZero(), "a process that goes on reads nothing")
}

// Without an open question the poller makes no request. Otherwise it lists the space once
// a cycle, for all open questions together.
func TestListSpaces_OneListForAll(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GCHAT_POLLER_INTERVAL"] = "100ms"
	var questions []*state.Question
	for range 5 {
		questions = append(questions, d.addQuestion(d.markPosted))
	}
	m := d.startThread(questions[4])
	p := d.newPoller()
	now := time.Now()
	p.Now = func() time.Time { return now }
	lists := func() int64 {
		before := d.listCount.Load()
		for range 3 { // steps of the loop
			p.readIndex()
			p.startLists(t.Context())
			p.goroutines.Wait()
		}
		return d.listCount.Load() - before
	}
	n := lists()
	p.readAndAttend(t.Context())
	kit.True(t, n == 1 && d.loadQuestion(questions[4]).FindReply(m.Name) != nil,
		"%d lists, replies %+v", n, d.loadQuestion(questions[4]).Replies)
	now = now.Add(100 * time.Millisecond)
	kit.Equalf(t, lists(), 1, "lists in the next cycle")
	for _, q := range questions {
		d.closeQuestion(q, state.Cancelled, "stop")
	}
	now = now.Add(readAfterEnd + time.Second)
	d.addQuestion(nil) // it is not posted
	kit.Equalf(t, lists(), 0, "lists with nothing open")
}

// A reply that was on its way when its question ended gets a note that it is too late.
// For that the space is listed for five minutes, less and less often.
func TestListSpaces_ReadsAfterTheEnd(t *testing.T) {
	d := newTestMachine(t)
	now := time.Now().UTC()
	q := d.addPosted(func(q *state.Question) {
		q.Status, q.ResolvedAt, q.ResolvedBy = state.Resolved, &now, "terminal"
	})
	p := d.newReadyPoller()
	v := p.spaceViews()[q.Chat]
	kit.Must(t, v != nil && len(v.sources) == 1 && len(v.ownOpen) == 0,
		"its space is not read: %+v", v)
	r := p.readerFor(q.Chat)
	var cycles []time.Duration
	for _, after := range []time.Duration{0, time.Minute, 4 * time.Minute} {
		p.Now = shifted(after)
		cycles = append(cycles, r.listInterval(v).Truncate(time.Second))
	}
	kit.True(t, cycles[0] <= time.Second && cycles[1] == 15*time.Second && cycles[2] == time.Minute,
		"read every %v", cycles)
	p.Now = shifted(readAfterEnd + time.Second)
	v = p.spaceViews()[q.Chat]
	kit.True(t, v == nil || len(v.sources) == 0, "it is read for longer than five minutes")
}

// A broken server always names a next page. What came is used, the pauses grow, and the
// log has one line about it.
func TestListSpaces_EndlessListBacksOff(t *testing.T) {
	d, q, x := newPostedQuestion(t)
	m := d.startThread(q)
	d.hasEndlessList.Store(true)
	for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		before := d.listCount.Load()
		err := x.readOnce()
		kit.True(t, err != nil && x.reader.minPause == pause,
			"list %d: %v, and then a pause of %v", n+1, err, x.reader.minPause)
		pages := d.listCount.Load() - before
		kit.True(t, pages <= 3, "list %d read %d pages", n+1, pages)
	}
	stored := d.loadQuestion(q)
	kit.True(t, stored.FindReply(m.Name) != nil && stored.Status == state.Answered,
		"%s, %+v", stored.Status, stored.Replies)
	trouble := d.spaces().Get(q.Chat).ReadTrouble
	got := d.logLines("replies cannot be read")
	kit.True(t, len(got) == 1 && trouble != nil, "%+v, logged: %q", trouble, got)
	d.hasEndlessList.Store(false)
	x.mustRead()
	got = d.logLines(`"message":"` + logReadAgain)
	kit.True(t, len(got) == 1, "logged: %q", got)
}

// The thread of a session is read, and keeps a poller running, while the session
// accepts messages and its Claude Code runs, and for a while after that.
func TestListSpaces_WhileSessionListens(t *testing.T) {
	for name, c := range map[string]struct {
		as   func(*state.Session)
		read bool
	}{
		"listens":         {func(*state.Session) {}, true},
		"does not listen": {func(s *state.Session) { s.AcceptsCommands = false }, false},
		"ended":           {func(s *state.Session) { s.EndedAt = time.Now() }, true},
		"killed":          {func(s *state.Session) { s.ClaudeStart = "another process" }, true},
		"no report yet":   {func(s *state.Session) { s.ThreadName = "" }, false},
		"another's":       {func(s *state.Session) { s.Environment = "another" }, false},
		"of an old record": {
			func(s *state.Session) { s.ClaudePID, s.LastSeen = 0, time.Now().Add(-25*time.Hour) },
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, c.as)
			x.poller.readState()
			_, isBusy := x.poller.attendAll(t.Context(), x.poller.loadOwnConfig())
			got := x.poller.spaceViews()
			kit.True(t, (len(got) == 1) == c.read && isBusy == c.read,
				"%d views, busy %t", len(got), isBusy)
			if !c.read {
				return
			}
			x.poller.readSessions()
			view := x.poller.spaceViews()[x.reader.chat]
			kit.Equalf(t, x.reader.listInterval(view), time.Second, "the interval of its cycle")
		})
	}
}
