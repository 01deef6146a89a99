package state

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Quota is how much this machine may write to one space, shared by all its processes, and whether Chat asked to be left
// alone. It is kept in the outbox and is no promise: where the disk fails it lets everything through.
type Quota struct{ path string }

// quotaRecord is its file. Next is the time at which the allowance for one write after another would be used up (a token
// bucket in one number).
type quotaRecord struct {
	Next      time.Time        `json:"next,omitzero"`
	NotBefore time.Time        `json:"not_before,omitzero"` // Chat said "too many": for all
	Down      time.Time        `json:"down,omitzero"`       // Chat is out of reach: for what is no question
	Why       string           `json:"why,omitempty"`       // it is left alone
	Failures  int              `json:"failures,omitempty"`  // one after another
	Paused    map[string]Pause `json:"paused,omitempty"`    // by webhook: a space can have several, and one of them be wrong
}

// Pause is why nothing goes through a webhook until a person mends something. Every now and then one message tries.
type Pause struct {
	Chat      string    `json:"chat"`
	Project   string    `json:"project"` // whose messages it stops
	Since     time.Time `json:"since"`
	NotBefore time.Time `json:"not_before"`
	Why       string    `json:"why"`
	Told      bool      `json:"told,omitempty"` // a session's person was told
}

const (
	// maxLeftAlone bounds how long a space is left alone; what says more comes from a clock that was set back.
	maxLeftAlone = time.Hour
	// quotaWait bounds how long a sender waits for the file. Only a stopped process holds it that long.
	quotaWait = 100 * time.Millisecond
	// staleAfter is when a pause that is not tried any more is another webhook's past.
	staleAfter = 10 * time.Minute
)

// Quota is the allowance for a chat, host/spaces/S.
func (o Outbox) Quota(chat string) Quota {
	return Quota{filepath.Join(o.Dir, ".quota", hashName(chat)+".json")}
}

// Take takes one write, when every is the time per write on average and burst how many may come at once. An awaited write,
// a question's for one, also goes while Chat was out of reach just now. Take returns how long to wait when there is none.
func (q Quota) Take(now time.Time, every time.Duration, burst int, awaited bool) (wait time.Duration) {
	q.update(func(r *quotaRecord) bool {
		until := r.NotBefore
		if !awaited && r.Down.After(until) {
			until = r.Down
		}
		if wait = until.Sub(now); wait > 0 && wait <= maxLeftAlone {
			return false
		}
		most := time.Duration(burst) * every
		ahead := r.Next.Sub(now)
		if ahead < 0 || ahead > 2*most {
			ahead = 0
		}
		if wait = ahead + every - most; wait > 0 {
			return false
		}
		wait, r.Next = 0, now.Add(ahead+every)
		return true
	})
	return max(wait, 0)
}

// TooMany leaves the space alone until then.
func (q Quota) TooMany(until time.Time, why string) {
	q.update(func(r *quotaRecord) bool { r.NotBefore, r.Why = until, why; return true })
}

// OutOfReach leaves the space to questions until then.
func (q Quota) OutOfReach(until time.Time, why string) {
	q.update(func(r *quotaRecord) bool { r.Down, r.Why = until, why; return true })
}

// Why is why the space is left alone; "" when it is not.
func (q Quota) Why(now time.Time) string {
	if r := q.read(); now.Before(r.NotBefore) || now.Before(r.Down) {
		return r.Why
	}
	return ""
}

// Failed counts a failure, and returns how many came one after another.
func (q Quota) Failed() (n int) {
	n = 1
	q.update(func(r *quotaRecord) bool { r.Failures++; n = r.Failures; return true })
	return n
}

// Worked ends what failures began: the webhook that a project has works.
func (q Quota) Worked(webhook, project string, now time.Time) {
	change := func(r *quotaRecord) bool {
		was := r.Failures > 0 || !r.NotBefore.IsZero() || !r.Down.IsZero()
		r.Failures, r.NotBefore, r.Down = 0, time.Time{}, time.Time{}
		n := len(r.Paused)
		maps.DeleteFunc(r.Paused, func(id string, p Pause) bool {
			return id == webhook || p.Project == project || now.Sub(p.NotBefore) > staleAfter
		})
		return was || len(r.Paused) != n
	}
	if r := q.read(); change(&r) { // mostly there is nothing to end
		q.update(change)
	}
}

// Pause notes that a person has to mend a webhook. It reports whether that is news, and whether p.Told, that a person will
// be told now, is.
func (q Quota) Pause(webhook string, p Pause) (news, tell bool) {
	q.update(func(r *quotaRecord) bool {
		was, known := r.Paused[webhook]
		news, tell = !known, p.Told && !was.Told
		if known {
			p.Since, p.Told = was.Since, p.Told || was.Told
		}
		if r.Paused == nil {
			r.Paused = map[string]Pause{}
		}
		r.Paused[webhook] = p
		return true
	})
	return news, tell
}

// PausedUntil is when a webhook may be tried again, by webhook.
func (q Quota) PausedUntil(now time.Time) map[string]time.Time {
	until := map[string]time.Time{}
	for id, p := range q.read().Paused {
		if wait := p.NotBefore.Sub(now); wait > 0 && wait <= maxLeftAlone {
			until[id] = p.NotBefore
		}
	}
	return until
}

// Pauses are the webhooks that wait for a person.
func (o Outbox) Pauses() (ps []Pause) {
	for _, f := range jsonFiles(filepath.Join(o.Dir, ".quota")) {
		for _, p := range (Quota{f}).read().Paused {
			ps = append(ps, p)
		}
	}
	return ps
}

func (q Quota) read() (r quotaRecord) {
	b, err := os.ReadFile(q.path)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return quotaRecord{}
	}
	return r
}

// update changes the record under its lock. While another process keeps the lock the record decides as it is, and stays so.
func (q Quota) update(change func(*quotaRecord) bool) {
	l, err := lockWithin(q.path+".lock", quotaWait)
	if err == nil {
		defer l.Unlock()
	}
	r := q.read()
	if !change(&r) || errors.Is(err, ErrLocked) {
		return
	}
	if b, err := json.Marshal(r); err == nil {
		_ = replaceFile(q.path, b)
	}
}
