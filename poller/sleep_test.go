package poller

import (
	"net/http"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// After the machine slept, a space whose next list had to wait is listed at once.
func TestSleep_SpacesAreListedAtOnce(t *testing.T) {
	d := newTestMachine(t)
	d.addQuestion(d.markPosted)
	d.listStatus.Store(http.StatusForbidden) // a minute's pause
	var asleep testClock
	d.runPoller(Options{Now: asleep.now})
	lists := func(n int64) bool {
		return bound.WaitFor(5*time.Second, func() bool {
			d.addQuestion(nil) // the loop's next steps
			return d.listCount.Load() >= n
		})
	}
	kit.Must(t, lists(1), "it is not listed")
	asleep.Store(int64(2 * clockJump))
	kit.True(t, lists(2), "it is not listed again")
}

// A question in deny mode is asked at minute 0 and times out at minute 30. The machine
// sleeps from minute 11 on, and a person replies at minute 12. The pauses that this
// process began before, in a moment without a network, end when it wakes.
func TestSleep_ReplyInTimeCounts(t *testing.T) {
	for _, until := range []time.Duration{25 * time.Minute, 500 * time.Minute} {
		t.Run(until.String(), func(t *testing.T) {
			d := newTestMachine(t)
			end := time.Now().Add(30 * time.Minute)
			replied := d.addPosted(func(q *state.Question) {
				q.Mode, q.TimesOutAt = state.ModeDeny, &end
			})
			silent := d.addPosted(func(q *state.Question) {
				q.Mode, q.TimesOutAt, q.RemindAfter = state.ModeDeny, &end, []time.Duration{
					15 * time.Minute, time.Hour, 2 * time.Hour,
				}
			})
			var clock testClock
			pass := func(to time.Duration) { clock.Store(int64(to)); d.clockLead.Store(int64(to)) }
			d.listStatus.Store(http.StatusServiceUnavailable)
			thread := d.openThread(replied)
			pass(11 * time.Minute)
			d.runPoller(Options{Now: clock.now})
			bound.Until(t, "the space is listed", func() bool { return d.listCount.Load() > 0 })
			d.clockLead.Store(int64(12 * time.Minute))
			m := d.reply(thread, "", "2")
			d.listStatus.Store(0)
			pass(until)
			d.addQuestion(nil) // as the timer does that went on while the machine slept
			stored := d.awaitQuestion(replied, "judged", isDecided)
			kit.True(t, stored.Status == state.Answered && stored.AnsweredMessage == m.Name,
				"%s by %s", stored.Status, stored.ResolvedBy)
			if until > 30*time.Minute {
				stored := d.awaitQuestion(silent, "over", isDecided)
				kit.True(t, stored.Status == state.TimedOut, "without a reply: %s", stored.Status)
				return
			}
			d.awaitQuestion(silent, "reminded", func(q *state.Question) bool {
				return q.RemindersSent == 1
			})
			got := d.loadQuestion(replied).RemindersSent
			kit.True(t, got == 0, "reminded of what is answered")
		})
	}
}

// A question turned a day old while the machine slept. The poller reads a reply that came
// in time before the question expires.
func TestSleep_ExpiryReadsSpaceFirst(t *testing.T) {
	d := newTestMachine(t)
	old := func(q *state.Question) {
		q.AskedAt = time.Now().Add(-25 * time.Hour).UTC()
		d.markPosted(q)
	}
	replied, silent := d.addQuestion(old), d.addQuestion(old)
	d.clockLead.Store(int64(-2 * time.Hour))
	d.startThread(replied)
	d.clockLead.Store(0)
	p := d.newPoller()
	p.awakeSince = time.Now().Add(-time.Second)
	p.readIndex()
	for _, record := range p.ownOldestFirst() {
		p.closeExpired(record, true)
		kit.True(t, record.question.Status.IsOpen(),
			"%s before its space was read", record.question.Status)
	}
	p.awakeSince = time.Now().Add(-6 * time.Minute) // it cannot be read
	for _, record := range p.ownOldestFirst() {
		p.closeExpired(record, true)
	}
	stored := d.loadQuestion(silent)
	kit.True(t, stored.Status == state.Expired,
		"a space that cannot be read leaves it %s", stored.Status)
}

// A poller that starts long after the time for a reply is up, as after a night, reads the
// space first. Only then does the timeout policy choose.
func TestSleep_LatePollerReadsFirst(t *testing.T) {
	d := newTestMachine(t)
	asked, end := time.Now().Add(-500*time.Minute).UTC(), time.Now().Add(-470*time.Minute)
	late := func(q *state.Question) {
		q.AskedAt = asked
		d.markPosted(q)
		q.Mode, q.TimesOutAt, q.TimeoutPolicy = state.ModeDeny, &end, state.TimeoutRecommended
		q.RemindAfter = []time.Duration{time.Minute}
	}
	replied, silent := d.addQuestion(late), d.addQuestion(late)
	d.clockLead.Store(int64(-488 * time.Minute))
	m := d.startThread(replied)
	d.clockLead.Store(0)
	d.runPoller(Options{})
	stored := d.awaitQuestion(replied, "judged", isDecided)
	kit.True(t, stored.Status == state.Answered &&
		stored.AnsweredMessage == m.Name && stored.RemindersSent == 0, "%s by %s, reminded %d",
		stored.Status, stored.ResolvedBy, stored.RemindersSent)
	stored = d.awaitQuestion(silent, "over", isDecided)
	kit.True(t, stored.ResolvedBy == "policy" && stored.Answers["Which?"] == "One",
		"without a reply: %s by %s", stored.Status, stored.ResolvedBy)
}

// After the machine slept, nothing waits because of an earlier failure. Only a pause that
// Chat itself asked for stays.
func TestSleep_EndsPauses(t *testing.T) {
	for _, asked := range []bool{false, true} {
		d := newTestMachine(t)
		p := d.newPoller()
		chat, later := "example.com/spaces/A", time.Now().Add(5*time.Minute)
		_, err := p.sender.spaces.Change(chat, func(s *state.Space) {
			s.NotBefore, s.Failures, s.IsAskedByChat = later, 9, asked
		})
		kit.NoError(t, err)
		p.puller.nextPullAt, p.puller.failedPulls, p.puller.isPauseAsked = later, 9, asked
		p.sender.waitingGateways["a project"], p.sender.waitingMessages["a message"] =
			sendResult{retryAt: later}, sendResult{retryAt: later}
		p.resumeAfterSleep()
		is := p.sender.spaces.Get(chat)
		kit.True(t, is.NotBefore.IsZero() != asked && p.puller.nextPullAt.IsZero() != asked &&
			len(p.sender.waitingGateways)+len(p.sender.waitingMessages) == 0,
			"asked for by Chat %v: the space waits until %v, a pull until %v", asked, is.NotBefore,
			p.puller.nextPullAt)
	}
}
