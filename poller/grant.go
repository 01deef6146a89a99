package poller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// useGrant answers what a session asks, where a hook waits, by the yes for a while that was given to this permission.
func (p *Poller) useGrant(s *served) (next time.Time) {
	given := s.q
	heard := p.heard(given) // what was heard before this stands in the records
	records := p.ofSession(given)
	if s.q == nil { // its file is gone
		return next
	}
	over := p.grantOver(s, records)
	heard = heard && !slices.ContainsFunc(records, func(o *served) bool { return o.q.HasUnreadReply() })
	for _, o := range records {
		asks := !over && o.q.Kind == state.KindPermission && o.q.Status == state.Pending
		o.unsure = asks && !heard
		if asks && heard && state.HasWaiter(p.Env, o.Path) {
			cfg := p.personal()
			q, err := state.UpdateQuestion(o.Path, func(q *state.Question) error {
				return judge.ByGrant(cfg, q, given, p.Now())
			})
			if err == nil {
				o.q = q
			} else if !errors.Is(err, judge.ErrNotCovered) {
				p.Log.ErrorOnce(err, "yes for a while not used")
			}
		}
	}
	return p.tellGrant(s, allowedBy(given, records), over)
}

// heard says whether all is read and done that people said in a question's space and to its session.
func (p *Poller) heard(q *state.Question) bool {
	r := p.readers[q.Chat]
	if !p.readSince(q.Chat, p.awake) || r.bad.Load() {
		return false
	}
	one, err := state.SessionsIn(p.user).Get(q.ClaudeSession())
	isUndone := func(in *state.Incoming) bool { return !in.IsWaitingPrompt() && in.ResolvedBy == "" }
	if err != nil || slices.ContainsFunc(p.routed[one.ID], isUndone) || len(one.OldCommands) > 0 {
		return false
	}
	// A no or /ask in its threads counts also where another environment decides what it is.
	return !slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isInThread := in.ThreadName == one.ThreadName || in.ThreadName == q.ThreadName
		return in.Status == state.IncomingNew && in.Chat == q.Chat && isInThread
	})
}

// ofSession are the records of a question's session, the oldest first, as they stand now.
func (p *Poller) ofSession(q *state.Question) []*served {
	return slices.DeleteFunc(p.inOrder(), func(s *served) bool {
		if s.q == nil || s.q.ClaudeSession() != q.ClaudeSession() {
			return true
		}
		p.load(s)
		return s.q == nil
	})
}

// grantOver says whether a yes for a while has ended for good, also by this process's own clock, which no one sets back.
func (p *Poller) grantOver(s *served, records []*served) bool {
	now, given := p.Now(), s.q
	one, err := state.SessionsIn(p.user).Get(given.ClaudeSession())
	if err != nil {
		return true
	}
	if s.lasts.IsZero() {
		s.lasts = now.Add(given.Grant.EndsAt.Sub(now))
	}
	cleared := slices.ContainsFunc(p.sessions, func(other *state.Session) bool { return other.Supersedes(one) })
	no := slices.ContainsFunc(records, func(o *served) bool { return !o.q.LastDenialAt.Before(given.Grant.GrantedAt) })
	return cleared || no || !now.Before(s.lasts) || judge.GrantOver(p.personal(), given, one, now)
}

// allowedBy are the permissions that the yes for a while allowed that was given to this one, where the terminal was not faster.
func allowedBy(given *state.Question, records []*served) (allowed []*state.Question) {
	for _, o := range records {
		used := o.q.Grant != nil && o.q.Grant.QuestionID == given.QuestionID && o.q.QuestionID != given.QuestionID
		if used && (o.q.Status == state.Answered || o.q.ResolvedBy == "chat") {
			allowed = append(allowed, o.q)
		}
	}
	return allowed
}

// tellGrant has the thread told what a yes for a while allowed. Where the yes was said to a card,
// the message that says until when is changed, too. Another one cannot be: all is listed when the
// yes is over.
func (p *Poller) tellGrant(s *served, allowed []*state.Question, over bool) (next time.Time) {
	q, cfg := s.q, p.personal()
	if !cfg.AccessToQuestion(q).CanShow {
		allowed = nil
	}
	changes := q.CardMessage != ""
	if !over && (!changes || len(allowed) == s.told) {
		return q.Grant.EndsAt
	}
	m := p.aboutQuestion(q, s.IndexEntry)
	m.ID, m.Type = state.MessageID("granted", q.QuestionID, fmt.Sprint(len(allowed), over)), state.MessageNote
	m.Parts = []string{wording.GrantText(q, allowed, over)}
	if changes {
		first := state.MessageID("note", q.QuestionID, state.NoteGranted, q.AnsweredMessage, "") // see putNote
		m.PatchedMessage = gchat.MessageName(q.Space, first)
	}
	if err := p.put(m); err != nil {
		p.Log.ErrorOnce(err, "note not put into the outbox")
		return p.Now().Add(time.Second)
	}
	s.told = len(allowed)
	if over {
		p.change(s, "end of a yes for a while not written down", func(q *state.Question) { q.Grant.IsEnded = true })
	}
	return p.Now().Add(time.Second)
}
