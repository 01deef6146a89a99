package poller

import (
	"slices"
	"time"

	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// judgeUnread judges the replies in a question's file, as long as something can deliver an answer to it. It returns when to
// come again.
func (p *Poller) judgeUnread(s *served) (again time.Time) {
	waited, again := p.waited(s)
	switch {
	case !again.IsZero():
		return again
	case waited || !s.q.Answerable():
		p.change(s, "replies not judged", func(q *state.Question) error { return p.judgeIn(q, configuredFor(q, s.Open)) })
		return time.Time{}
	}
	p.change(s, "replies not judged", func(q *state.Question) error {
		for i := range q.Replies {
			if r := &q.Replies[i]; r.Verdict == state.Unread && q.Answerable() {
				r.Verdict = state.Unwaited
				q.Owe(state.NoteUnwaited, r.MessageName)
			}
		}
		return nil
	})
	return time.Time{}
}

// judgeIn judges the unread replies within a write of the question, oldest first: the first good one of an allowed person becomes
// the answer. It is state.ErrUnchanged where no reply could be judged.
func (p *Poller) judgeIn(q *state.Question, by configured) error {
	if q.Kind.Row().Personal {
		by = configured{} // the person's own
	}
	cfg := p.config(by.projectDir, by.trusted)
	switch {
	case cfg.Unread && q.Kind.Row().Personal, len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0:
		return state.ErrUnchanged // the file that says who may answer does not parse: they are judged when it does
	}
	before := q.AnsweredMessage
	if q.Kind.Row().Decides {
		judge.Tighten(cfg, q)
	}
	var order []*state.Reply
	for i := range q.Replies {
		// While the allowlist cannot be read, judge only senders who are surely on it.
		if r := &q.Replies[i]; r.Verdict == state.Unread && (!cfg.AllowedUnknown || judge.MayAnswer(cfg, q, r)) {
			order = append(order, r)
		}
	}
	if len(order) == 0 {
		return state.ErrUnchanged
	}
	slices.SortStableFunc(order, func(a, b *state.Reply) int { return a.CreateTime.Compare(b.CreateTime) })
	for _, r := range order {
		judge.Reply(cfg, q, r, p.Now())
		p.Log.Info().Str("question", q.QuestionID).Str("message", r.MessageName).Str("sender", r.Sender).
			Str("verdict", string(r.Verdict)).Msg("reply")
	}
	answer := q.Reply(q.AnsweredMessage)
	fresh := answer != nil && q.AnsweredMessage != before
	if q.Kind.Row().Said && q.Status == state.Pending && !q.Unread() && q.Move(state.Cancelled, p.Now()) == nil {
		q.ResolvedBy = state.Instead // it was asked back, and nothing waits for it
	}
	if !fresh || state.HasWaiter(p.Env, q.Path) {
		return nil
	}
	if q.Mode.Row().Marker && !judge.FromShell(answer) || q.Kind.Row().Said && q.TmuxPane == "" {
		q.Owe(state.NoteLater, q.AnsweredMessage)
	}
	return nil
}

// waited says whether something delivers an answer to the question: a process that waits, the poller by typing it, or, in deny
// mode, a later hook. Again is when to ask once more: a hook may just be starting.
func (p *Poller) waited(s *served) (yes bool, again time.Time) {
	q := s.q
	if !q.Mode.Row().Hook || state.HasWaiter(p.Env, s.Path) {
		return true, again
	}
	if q.Kind.Row().Said || q.Kind.Row().Prompt && p.typable(s) {
		return true, again
	}
	grace := graceForReply
	if p.typable(s) {
		grace = graceForHook
	}
	if age := p.Now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.Now().Add(min(grace-age, time.Second))
	}
	return p.typable(s), again
}

// undelivered tells the thread of an answer that was claimed and can not be delivered: the waiting hook was killed before it
// printed the answer, and there is no pane to type it into.
func (p *Poller) undelivered(s *served) {
	lost := func(q *state.Question) bool {
		r := q.Reply(q.AnsweredMessage)
		return q.Status == state.Answered && !q.Printed && r != nil && r.Verdict == state.Used
	}
	if s.q.Mode.Row().Later || s.q.Kind.Row().Said || !lost(s.q) || p.typable(s) {
		return
	}
	if p.change(s, "thread not told", func(q *state.Question) error {
		if !lost(q) {
			return state.ErrUnchanged // the hook printed it just before it ended
		}
		q.Reply(q.AnsweredMessage).Verdict = state.Unwaited
		q.Owe(state.NoteUnwaited, q.AnsweredMessage)
		return nil
	}) {
		p.Log.Warn().Str("question", s.q.QuestionID).Msg("no process delivers the answer")
	}
}
