package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// pass is one list of a space, from its first page to its last.
type pass struct {
	*view
	newest time.Time                           // of the messages that came
	given  map[*state.Question][]gchat.Message // those of its thread, the oldest first
	typed  []string                            // ids of sessions that one of Claude Code's own commands was said to
	failed error                               // what was said to a session could not be written down
}

// readOn lists the space once, and then notes how far it came: the next list goes on there, also after one that broke off.
func (r *reader) readOn(ctx context.Context, v *view, way *gateway) (err error) {
	if way.err == nil {
		r.pulls, err = way.transport.HearsAll(ctx)
		texts := v.texts()
		if r.pulls && way.cfg.InEmbeddedApp() && len(texts) > 0 {
			return r.changeToCards(ctx, v, way, texts)
		}
		if r.pulls || gchat.Overloaded(err) {
			return err
		}
	}
	if r.api == nil {
		r.api, err = way.openReader(ctx)
		if err != nil {
			return err
		}
	}
	n := &pass{view: v, given: map[*state.Question][]gchat.Message{}}
	_, space, _ := strings.Cut(r.chat, "/")
	start := since(r.mark.Watermark, r.covered, v, r.Now().Add(r.api.Ahead))
	for q := range v.served {
		n.given[q] = r.kept[q.QuestionID]
	}
	err = r.api.Since(ctx, space, start, func(page []gchat.Message) { r.take(n, page) })
	endless := errors.Is(err, gchat.ErrEndless)
	// A long backlog is read in pieces. Where the next list would begin as this one did, or
	// none ended since that was so, the server is broken.
	goesOn := endless && !r.endless && n.newest.Add(-overlap).Sub(start) > time.Second
	r.endless = endless && !goesOn
	if goesOn {
		err = nil
	}
	if err != nil && n.newest.IsZero() {
		return err
	}
	failed := n.failed
	covered, kept := map[string]bool{}, map[string][]gchat.Message{}
	for _, qs := range v.records {
		for _, q := range qs {
			covered[q.QuestionID] = err == nil || !beginsIn(q)
			if !covered[q.QuestionID] {
				continue // its thread is read from its beginning with the next list
			}
			if goesOn && beginsIn(q) {
				kept[q.QuestionID] = n.given[q]
				continue
			}
			if err := r.writeReplies(v, q, n.given[q]); err != nil {
				r.Log.Once(err, "replies not written down")
				failed = err
			}
		}
	}
	if failed != nil {
		return failed // what could not be written down is read again
	}
	r.covered, r.kept = covered, kept
	if n.newest.IsZero() || n.newest.Equal(r.mark.Watermark) {
		return err
	}
	r.mark.Watermark = n.newest
	_, serr := r.spaces.Change(r.chat, func(s *state.Space) { s.Watermark = n.newest })
	r.Log.Once(serr, "watermark not written down")
	return err
}

// texts are the open questions that stand in the space as a text, and not as a card.
func (v *view) texts() (texts []*state.Question) {
	for _, q := range v.asked {
		isText := q.Card == "" && q.MessageName != "" && q.Mode.Row().Asks && !q.Kind.Row().Said
		if isText && q.Status == state.Pending && q.HandedOver == nil {
			texts = append(texts, q)
		}
	}
	return texts
}

// changeToCards reads what was replied to questions whose text a webhook posted into the embedded
// space, where no event told of it, and has them posted as cards.
func (r *reader) changeToCards(ctx context.Context, v *view, way *gateway, texts []*state.Question) error {
	only := &view{records: map[string][]*state.Question{}, served: v.served}
	for _, q := range texts {
		only.records[q.ThreadName] = []*state.Question{q}
	}
	n := &pass{view: only, given: map[*state.Question][]gchat.Message{}}
	var err error
	r.api, err = way.openReader(ctx)
	if err != nil {
		return err
	}
	err = r.api.Since(ctx, way.space, texts[0].AskedAt.Add(-clockSlack), func(page []gchat.Message) { r.take(n, page) })
	for _, q := range texts {
		if err == nil {
			err = r.writeReplies(v, q, n.given[q])
		}
		isOfApp := r.gateway(ctx, configuredFor(q, v.served[q].Open)).cfg.InEmbeddedApp()
		if err == nil && len(n.given[q]) == 0 && isOfApp {
			err = r.putCard(q, v.served[q].Open)
		}
	}
	return err
}

func begins(q *state.Question) time.Time {
	switch {
	case !q.Mode.Row().Asks && q.PostedAt == nil: // since the last message of ours, which may be hours old
		return q.AskedAt.Add(-state.MaxAge)
	case q.PostedAt != nil:
		return q.PostedAt.Add(-overlap)
	}
	return q.AskedAt.Add(-clockSlack)
}

// since is where a list begins: at the watermark, or further back for a question whose thread was never read.
func since(from time.Time, covered map[string]bool, v *view, now time.Time) time.Time {
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	for _, qs := range v.records {
		for _, q := range qs {
			if t := begins(q); q.Answerable() && !covered[q.QuestionID] && (from.IsZero() || t.Before(from)) {
				from = t
			}
		}
	}
	if oldest := now.Add(-state.MaxAge - clockSlack); from.Before(oldest) {
		return oldest
	}
	return from
}

func (r *reader) take(n *pass, page []gchat.Message) {
	limit := r.Now().Add(r.api.Ahead + 2*time.Second) // the header counts whole seconds
	for _, m := range page {
		if !m.CreateTime.After(limit) { // one from the future must not end reading: it moves no watermark
			if m.Human && m.CreateTime.After(r.mark.Watermark) {
				r.heard = r.Now()
			}
			if m.CreateTime.After(n.newest) {
				n.newest = m.CreateTime
			}
		}
		if q := n.quoted(m); q != nil {
			m.ThreadName = q.ThreadName
		}
		q := n.target(m)
		m.Unsure = q != nil && judge.Unsure(q, n.records[m.ThreadName], m, m.CreateTime.Add(-r.api.Ahead))
		switch {
		case m.ThreadName == "":
		case m.Deleted: // whose sender may not be told: it is of use only where it takes back what stands in a record
			if q != nil && q.Reply(m.Name) != nil && !judge.Known(q, m) {
				n.given[q] = append(n.given[q], m)
			}
		case !m.Human:
			for _, q := range n.records[m.ThreadName] {
				if m.Name == q.MessageName && !judge.Dated(q, m) || beginsIn(q) && !strings.HasPrefix(m.Text, "[Not read]") {
					n.given[q] = append(n.given[q], m)
				}
			}
		case r.beginsSession(n, m):
			if err := r.begin(m); err != nil {
				n.failed = fmt.Errorf("a session to begin: %w", err)
			}
		case n.sessionOf(m, q) != nil && r.takeSaid(n, n.sessionOf(m, q), m, q):
		case q == nil:
			r.answerNobody(n, m)
		case !judge.Known(q, m):
			n.given[q] = append(n.given[q], m)
		}
	}
}

// sessionOf is the session that a person writes to: the one whose thread it is, or, with a command
// of ours, the one that asked the question of the thread.
func (n *pass) sessionOf(m gchat.Message, asked *state.Question) *state.Session {
	if n.sessions[m.ThreadName] != nil || asked == nil || !wording.OurCommand(m.Text) {
		return n.sessions[m.ThreadName]
	}
	i := slices.IndexFunc(n.known, func(one *state.Session) bool { return one.ID == asked.ClaudeSession() })
	if i < 0 {
		return nil
	}
	return n.known[i]
}

// beginsIn says whether a process began to wait in the thread, which was not read since: its reply comes after our last message
// there, but for a note that the reply was not read: that came before the wait.
func beginsIn(q *state.Question) bool {
	return !q.Mode.Row().Asks && q.PostedAt == nil && q.Status == state.Pending
}

// target is the record that a person's message belongs to, nil for none. Ours have a thread each; other programs may put several
// questions into one, and processes may wait in it: a reply is for the oldest that it can answer, and for a process that began to
// wait when it can answer none. A process that ended keeps only the reply that it took.
func (n *pass) target(m gchat.Message) *state.Question {
	all := slices.DeleteFunc(slices.Clone(n.records[m.ThreadName]), func(q *state.Question) bool {
		switch {
		case q.Kind.Row().Prompt && q.Reply(m.Name) == nil: // one reply; what is said besides is said to Claude
			has := q.Unread() || slices.ContainsFunc(n.given[q], func(m gchat.Message) bool { return m.Human })
			one := n.sessions[m.ThreadName]
			elsewhere := one != nil && one.Dialog != nil && wording.IsDecision(m.Text) // meant for the terminal's dialog
			waits := q.Status == state.Pending && !has && !elsewhere && !q.Kind.Row().Said
			return !waits || q.PostedAt == nil || m.CreateTime.Before(*q.PostedAt)
		case !q.Mode.Row().Asks && !q.Status.Open():
			return q.Status != state.Resolved || q.AnsweredMessage != m.Name
		}
		return false
	})
	if i := slices.IndexFunc(all, func(q *state.Question) bool { return q.Reply(m.Name) != nil || judge.Quotes(m, q) }); i >= 0 {
		return all[i]
	}
	var begun, over *state.Question
	for _, q := range all {
		switch {
		case beginsIn(q):
			begun = cmp.Or(begun, q)
		case !q.Mode.Row().Asks:
			if q.Status == state.Pending && m.CreateTime.Truncate(time.Millisecond).After(*q.PostedAt) {
				return q
			}
		case q.Answerable():
			return q
		default:
			over = cmp.Or(over, q)
		}
	}
	return cmp.Or(begun, over)
}

// quoted is the question whose message a person quotes, nil for none.
func (v *view) quoted(m gchat.Message) *state.Question {
	for _, qs := range v.records {
		for _, q := range qs {
			if judge.Quotes(m, q) {
				return q
			}
		}
	}
	return nil
}

// answerNobody tells a person, once, that no process waits for a reply in the thread of a session's reports.
func (r *reader) answerNobody(n *pass, m gchat.Message) {
	one := n.sessions[m.ThreadName]
	foreign := one == nil || one.Env != r.environment && !r.deserted(one) || cmp.Or(one.Chat, r.chat) != r.chat
	if foreign || m.Sender == "" {
		return
	}
	at := m.CreateTime.Truncate(time.Millisecond) // as the session's file has it
	done := strings.HasPrefix(strings.TrimSpace(m.Text), "/") && one.HasRead(m.Name, at)
	if done || !at.After(one.ToldNobody) || !r.config(configured{one.ProjectDir, one.Trusted}).Allows(m.Sender, m.SenderEmail) {
		return
	}
	err := r.room().Tell(one, state.MessageID("nobody", m.Name), r.room().NobodyText(one))
	if err == nil {
		_, err = state.SessionsIn(r.user).Change(one.ID, func(one *state.Session) error {
			if at.After(one.ToldNobody) {
				one.ToldNobody = at
			}
			return nil
		})
	}
	r.Log.Once(err, "note not put into the outbox")
}

// writeReplies writes people's messages into the question that they belong to. Of a process that began to wait, those count that
// came after the last message of ours.
func (r *reader) writeReplies(v *view, q *state.Question, ms []gchat.Message) error {
	begins := beginsIn(q)
	if len(ms) == 0 && !begins {
		return nil
	}
	of := v.served[q]
	law := r.lawOf(of, q)
	_, _, err := r.writeHeard(of, law, func(q *state.Question) (changed bool) {
		if begins {
			after := q.AskedAt.Add(r.api.Ahead - judge.DateSlack)
			if r.pulled { // no message of ours comes: what was said before the wait began was kept for it
				after = q.AskedAt.Add(-foreignAge)
			}
			for _, m := range ms {
				if !m.Human {
					after = m.CreateTime
				}
			}
			q.PostedAt = &after
			ms = slices.DeleteFunc(ms, func(m gchat.Message) bool { return !m.Human || !m.CreateTime.After(after) })
		}
		changed = begins
		for _, m := range ms {
			changed = judge.Store(q, m, m.Human && of.mine && law.forbids(q, m.Sender, m.SenderEmail)) || changed
		}
		return changed
	})
	return err
}

// writeHeard writes what people said or tapped into a question. Where a process waits for it, it is judged in the same write;
// otherwise the loop judges, which knows of panes, or the poller of another environment.
func (p *Poller) writeHeard(s *served, law law,
	store func(*state.Question) bool) (q *state.Question, changed bool, err error) {
	q, err = state.UpdateQuestion(s.Path, func(q *state.Question) error {
		changed = store(q)
		if !changed {
			return state.ErrUnchanged
		}
		if s.mine && (state.HasWaiter(p.Env, q.Path) || !q.Answerable()) {
			_ = p.judgeIn(s, q, law) // with nothing to judge what was stored is written all the same
		}
		return nil
	})
	if changed && !s.mine {
		state.CallPoller(p.Env, s.Env)
	}
	return q, changed, err
}
