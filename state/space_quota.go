package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// Quota is how much this machine may write to one space, shared by all its processes, and whether Chat asked to be left
// alone. It is kept in the outbox and is no promise: where the disk fails it lets everything through.
type Quota struct{ path string }

// quotaRecord is its file. next is the time at which the allowance for one write after another would be used up (a token
// bucket in one number).
type quotaRecord struct {
	Chat      string    `json:"chat"`
	Next      time.Time `json:"next,omitzero"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Failures  int       `json:"failures,omitempty"` // one after another
	Paused    *Pause    `json:"paused,omitempty"`
}

// Pause is why nothing is sent to a space until a person mends something. Every now and then one message tries.
type Pause struct {
	Chat    string    `json:"chat"`
	Since   time.Time `json:"since"`
	Why     string    `json:"why"`
	Webhook string    `json:"webhook"` // a hash of the URL: another one ends the pause
}

// maxLeftAlone bounds how long a space is left alone; what says more comes from a clock that was set back.
const maxLeftAlone = time.Hour

// Quota is the allowance for a chat, host/spaces/S.
func (o Outbox) Quota(chat string) Quota {
	return Quota{filepath.Join(o.Dir, ".quota", hashName(chat)+".json")}
}

// Take takes one write, when every is the time per write on average and burst how many may come at once. It returns how
// long to wait instead, when there is none.
func (q Quota) Take(now time.Time, every time.Duration, burst int) (wait time.Duration) {
	q.update(func(r *quotaRecord) bool {
		if wait = r.NotBefore.Sub(now); wait > 0 && wait <= maxLeftAlone {
			return false
		}
		most := time.Duration(burst) * every
		ahead := r.Next.Sub(now)
		if ahead < 0 || ahead > 2*most+maxLeftAlone {
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

// Block leaves the space alone until then.
func (q Quota) Block(until time.Time) {
	q.update(func(r *quotaRecord) bool { r.NotBefore = until; return true })
}

// Failed counts a failure, and returns how many came one after another.
func (q Quota) Failed() (n int) {
	q.update(func(r *quotaRecord) bool { r.Failures++; n = r.Failures; return true })
	return n
}

// Worked ends what failures began.
func (q Quota) Worked() {
	if r := q.read(); r.Failures > 0 || r.Paused != nil || !r.NotBefore.IsZero() { // mostly there is nothing to end
		q.update(func(r *quotaRecord) bool {
			r.Failures, r.Paused, r.NotBefore = 0, nil, time.Time{}
			return true
		})
	}
}

// Pause notes that a person has to mend something. It reports whether that is news.
func (q Quota) Pause(p Pause) (news bool) {
	q.update(func(r *quotaRecord) bool {
		news = r.Paused == nil || r.Paused.Webhook != p.Webhook
		if !news {
			p.Since = r.Paused.Since
		}
		r.Chat, r.Paused = p.Chat, &p
		return true
	})
	return news
}

// Mended ends a pause that was another webhook's: a person changed something.
func (q Quota) Mended(webhook string) {
	if r := q.read(); r.Paused != nil && r.Paused.Webhook != webhook {
		q.Worked()
	}
}

// Pauses are the spaces that wait for a person.
func (o Outbox) Pauses() (ps []Pause) {
	files, _ := filepath.Glob(filepath.Join(o.Dir, ".quota", "*.json"))
	for _, f := range files {
		if r := (Quota{f}).read(); r.Paused != nil {
			ps = append(ps, *r.Paused)
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

func (q Quota) update(change func(*quotaRecord) bool) {
	r := quotaRecord{}
	if l, err := lockSoon(q.path + ".lock"); err == nil {
		defer l.Unlock()
		r = q.read()
	}
	if !change(&r) {
		return
	}
	if b, err := json.Marshal(r); err == nil {
		_ = replaceFile(q.path, b)
	}
}
