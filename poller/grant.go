package poller

import (
	"fmt"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// tellEvery is how far apart a webhook's messages are that list what a yes for a while allowed. A Chat app changes its only one.
const tellEvery = 5 * time.Minute

// ofGrant has a session keep a yes for a while that its thread is owed the word of, or has a no end it, and returns what is to be
// told. Killed before that, the poller does it when it comes again: the end of the yes stays what it was.
func (p *Poller) ofGrant(q *state.Question, owed state.Owed) (state.Owed, error) {
	folder, stands, err := state.SessionsIn(p.user), true, error(nil)
	switch owed.About {
	case state.NoteGranted:
		p.lasts(q.Grant)
		_, err = folder.Change(q.ClaudeSession(), func(one *state.Session) error {
			stands = q.Grant.At.After(one.Grant.At) || q.Grant.Reply == one.Grant.Reply // else it was ended, or follows another
			if stands {
				one.Grant = *q.Grant
			}
			return nil
		})
	case state.NoteAsks:
		stands, err = folder.AskAgain(q.ClaudeSession(), p.Now())
		if r := q.Reply(owed.Reply); !stands && r != nil && r.Verdict == state.Late {
			owed.About, stands = state.NoteLate, true
		}
	}
	if !stands {
		owed.About = ""
	}
	return owed, err
}

// lasts says whether a yes for a while lasts by this process's own clock, which nobody sets back.
func (p *Poller) lasts(g *state.Grant) bool {
	now := p.Now()
	if _, known := p.grants[g.Reply]; !known {
		p.grants[g.Reply] = now.Add(g.Until.Sub(now))
	}
	return now.Before(p.grants[g.Reply])
}

// granting says whether a question was answered with a yes for a while that may last: a no to it has to be read.
func (p *Poller) granting(q *state.Question) bool { return q.Grants() && q.Grant.Until.After(p.Now()) }

// useGrant answers a permission by a yes for a while that covers it, where a hook waits. It returns when to come again where the
// space is still to be read: a no may stand there.
func (p *Poller) useGrant(s *served) (again time.Time) {
	id, now := s.q.ClaudeSession(), p.Now()
	one, err := state.SessionsIn(p.user).Of(id)
	resumed := err == nil && (one.Grant.At.Before(one.StartedAt) || p.superseded(one)) // its process may be the same
	if err != nil || resumed || !one.Grant.Runs(now) || !p.lasts(&one.Grant) || !state.HasWaiter(p.Env, s.Path) {
		return again
	}
	var given *state.Question
	for _, other := range p.index {
		asks := func(owed state.Owed) bool { return owed.About == state.NoteAsks }
		if q := other.q; q == nil || q.ClaudeSession() != id {
			continue
		} else if slices.ContainsFunc(q.Owes, asks) {
			return again
		} else if q.Grants() && q.Grant.Reply == one.Grant.Reply && other.mine {
			given = q
		}
	}
	cfg, read := p.personal(), now.Add(-unreadGrace)
	if p.awake.After(read) {
		read = p.awake
	}
	switch {
	case given == nil:
		return again
	case !p.readSince(given.Chat, read) && now.Sub(s.q.AskedAt).Abs() < graceForHook:
		return now.Add(250 * time.Millisecond)
	case p.readSince(given.Chat, read):
		p.change(s, "yes for a while not used", func(q *state.Question) error {
			if !judge.ByGrant(cfg, q, *given.Grant, now) {
				return state.ErrUnchanged
			}
			return nil
		})
	}
	return again
}

// tellGrant has the thread of the permission that a yes for a while was given to told what that allowed. It returns when to come
// again.
func (p *Poller) tellGrant(s *served) (next time.Time) {
	q, now := s.q, p.Now()
	var allowed []*state.Question
	for _, other := range p.inOrder() {
		o := other.q
		if o != nil && o.Grant != nil && !o.Grants() && o.Grant.Reply == q.Grant.Reply && o.ResolvedBy != "terminal" {
			allowed = append(allowed, o)
		}
	}
	if s.toldAt.IsZero() {
		s.toldAt = q.Grant.At
	}
	app, due := p.personal().Subscription != "", s.toldAt.Add(tellEvery)
	s.untold = len(allowed) > s.told && now.Before(q.Grant.Until.Add(2*tellEvery))
	switch {
	case !s.untold:
		return time.Time{}
	case !app && now.Before(due) && due.Sub(now) <= tellEvery:
		return due
	}
	m := p.aboutQuestion(q, s.Open)
	m.ID, m.Type = state.MessageID("granted", q.Grant.Reply, fmt.Sprint(len(allowed))), state.MessageNote
	if app {
		first := state.MessageID("note", q.QuestionID, state.NoteGranted, q.Grant.Reply, "") // see putNote
		m.Patch, s.told = q.Space+"/messages/"+first, 0                                      // it has them all
	}
	m.Parts = []string{gchat.GrantText(q, allowed[s.told:])}
	if err := p.put(m); err != nil {
		p.Log.Once(err, "note not put into the outbox")
		return now.Add(time.Second)
	}
	s.told, s.toldAt, s.untold = len(allowed), now, false
	return time.Time{}
}
