package poller

import (
	"time"

	"gchat-hooks/gchat"
)

const (
	quickCycle  = time.Second // just after asking
	easeOver    = 30          // a question's age divided by this is the cycle, up to the poll interval
	firstBackup = 30 * time.Second
	mostBackup  = 5 * time.Minute
	authPause   = time.Minute
	authTries   = 5 // then degraded, and said so
)

// cycle is the time from one list to the next: quick just after asking, easing to interval when no answer comes.
func cycle(sinceAsked, interval time.Duration) time.Duration {
	return min(max(quickCycle, sinceAsked/easeOver), interval)
}

// trouble counts the failures of listing and says how long to leave Chat alone.
type trouble struct {
	overloaded int
	auth       int
}

// after is the pause after err; 0 means the usual cycle.
func (t *trouble) after(err error) time.Duration {
	switch {
	case err == nil:
		*t = trouble{}
	case gchat.AuthFailure(err):
		t.auth++
		return authPause
	case gchat.Permanent(err): // 400, 404: a person has to look, or the space is being made
		if t.auth++; !t.degraded() {
			return 0
		}
		return authPause
	case gchat.Overloaded(err):
		d := mostBackup
		if t.overloaded < 4 {
			d = min(firstBackup<<t.overloaded, mostBackup)
		}
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows when the quota is back.
		if asked := gchat.RetryAfter(err); asked > 0 {
			return asked
		}
		return d
	}
	return 0
}

func (t *trouble) degraded() bool { return t.auth >= authTries }
