package poller

import (
	"cmp"
	"context"
	"errors"
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
	newest time.Time // of the messages that came
	// begun are the messages of the threads that a process began to wait in. Which of them
	// count is known at the end of the list.
	begun  map[*state.Question][]gchat.Message
	failed error // something could not be written down
}

// readOn lists the space once, and then notes how far it came: the next list goes on there, also after one that broke off.
func (r *reader) readOn(ctx context.Context, v *view, way *gateway) (err error) {
	if way.err == nil {
		r.pulls, err = way.transport.HearsAll(ctx)
		texts := v.texts()
		if r.pulls && way.cfg.UsesEmbeddedApp() && len(texts) > 0 {
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
	n := &pass{view: v, begun: map[*state.Question][]gchat.Message{}}
	goesOn, err := r.listFurther(ctx, n)
	if err != nil && n.newest.IsZero() {
		return err
	}
	covered, kept := r.beginWaits(n, goesOn, err != nil)
	if n.failed != nil {
		r.Log.ErrorOnce(n.failed, "not all that was read is written down")
		return n.failed // it is read again
	}
	r.covered, r.kept = covered, kept
	r.moveWatermark(n.newest)
	return err
}

// listFurther lists the space from where the last list ended. A long backlog is read in pieces:
// goesOn reports that the next list is to go on there.
func (r *reader) listFurther(ctx context.Context, n *pass) (goesOn bool, err error) {
	_, space, _ := strings.Cut(r.chat, "/")
	start := since(r.mark.Watermark, r.covered, n.view, r.Now().Add(r.api.Ahead))
	for q := range n.served {
		n.begun[q] = r.kept[q.QuestionID]
	}
	err = r.api.Since(ctx, space, start, func(page []gchat.Message) { r.readPage(n, page) })
	endless := errors.Is(err, gchat.ErrEndless)
	// Where the next list would begin as this one did, or none ended since that was so, the
	// server is broken.
	goesOn = endless && !r.endless && n.newest.Add(-overlap).Sub(start) > time.Second
	r.endless = endless && !goesOn
	if goesOn {
		return true, nil
	}
	return false, err
}

// beginWaits begins the waits in threads that were read to their ends. It returns which
// questions' threads are read from their beginnings, and the messages of those that the next list
// goes on with. The thread of a wait that a broken list had is read from its beginning again.
func (r *reader) beginWaits(n *pass, goesOn, isBroken bool) (
	covered map[string]bool, kept map[string][]gchat.Message,
) {
	covered, kept = map[string]bool{}, map[string][]gchat.Message{}
	for _, qs := range n.records {
		for _, q := range qs {
			isWait := n.begins(q)
			covered[q.QuestionID] = !isBroken || !isWait
			switch {
			case !isWait, isBroken:
			case goesOn:
				kept[q.QuestionID] = n.begun[q]
			default:
				r.beginWait(n, q)
			}
		}
	}
	return covered, kept
}

// moveWatermark notes up to where the space was read; the zero time is for nothing.
func (r *reader) moveWatermark(to time.Time) {
	if to.IsZero() || to.Equal(r.mark.Watermark) {
		return
	}
	r.mark.Watermark = to
	_, err := r.spaces.Change(r.chat, func(s *state.Space) { s.Watermark = to })
	r.Log.ErrorOnce(err, "watermark not written down")
}

// readWaits reads the threads that processes of this environment began to wait in, while another
// environment's poller reads the space. What is said there from now on is in the inbox.
func (r *reader) readWaits(ctx context.Context, v *view) (err error) {
	only := &view{records: map[string][]*state.Question{}, served: v.served, ours: v.ours, sessions: v.sessions}
	for thread, qs := range v.records {
		if slices.ContainsFunc(qs, v.begins) {
			only.records[thread] = qs
		}
	}
	if len(only.records) == 0 {
		return nil
	}
	way := r.gateway(ctx, v.own[r.from%len(v.own)])
	if way.err == nil {
		hearsAll, err := way.transport.HearsAll(ctx)
		if hearsAll || err != nil {
			return err
		}
	}
	r.api, err = way.openReader(ctx)
	if err != nil {
		return err
	}
	r.mark = r.spaces.Get(r.chat)
	n := &pass{view: only, begun: map[*state.Question][]gchat.Message{}}
	_, space, _ := strings.Cut(r.chat, "/")
	for start := since(time.Time{}, nil, only, r.Now()); ; start = n.newest.Add(-overlap) {
		err = r.api.Since(ctx, space, start, func(page []gchat.Message) { r.readPage(n, page) })
		goesOn := errors.Is(err, gchat.ErrEndless) && n.newest.Add(-overlap).After(start)
		if !goesOn {
			break
		}
	}
	if err != nil {
		return err
	}
	r.beginWaits(n, false, false)
	return n.failed
}

// texts are the open questions that stand in the space as a text, and not as a card.
func (v *view) texts() (texts []*state.Question) {
	for _, q := range v.asked {
		isText := q.CardMessage == "" && q.MessageName != "" && q.Mode.Traits().Asks
		if isText && q.Status == state.Pending && q.HandedOverAt == nil {
			texts = append(texts, q)
		}
	}
	return texts
}

// changeToCards reads what was replied to questions whose text a webhook posted into the embedded
// space, where no event told of it, and has them posted as cards.
func (r *reader) changeToCards(ctx context.Context, v *view, way *gateway, texts []*state.Question) error {
	only := &view{records: map[string][]*state.Question{}, served: v.served, ours: v.ours}
	for _, q := range texts {
		only.records[q.ThreadName] = []*state.Question{q}
	}
	n := &pass{view: only}
	var err error
	r.api, err = way.openReader(ctx)
	if err != nil {
		return err
	}
	start := texts[0].AskedAt.Add(-clockSlack)
	err = r.api.Since(ctx, way.space, start, func(page []gchat.Message) { r.readPage(n, page) })
	err = cmp.Or(err, n.failed)
	undecided, _ := state.InboxIn(r.user).All()
	for _, q := range texts {
		isOfApp := r.gateway(ctx, configuredFor(q, v.served[q].IndexEntry)).cfg.UsesEmbeddedApp()
		isReplied := slices.ContainsFunc(undecided, func(in *state.Incoming) bool {
			return in.ThreadName == q.ThreadName
		})
		if err == nil && !isReplied && isOfApp {
			err = r.putQuestion(q, v.served[q].IndexEntry, laterCard)
		}
	}
	return err
}

func begins(q *state.Question) time.Time {
	switch {
	case !q.Mode.Traits().Asks && q.PostedAt == nil: // since the last message of ours, which may be hours old
		return q.AskedAt.Add(-state.MaxQuestionAge)
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
			isElsewhere := beginsIn(q) && !v.ours[q] // see readWaits
			if isElsewhere || covered[q.QuestionID] || !q.IsAnswerable() {
				continue
			}
			if t := begins(q); from.IsZero() || t.Before(from) {
				from = t
			}
		}
	}
	if oldest := now.Add(-state.MaxQuestionAge - clockSlack); from.Before(oldest) {
		return oldest
	}
	return from
}

// readPage writes down what people wrote where we wait for it, and what a page tells of our
// own messages.
func (r *reader) readPage(n *pass, page []gchat.Message) {
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
		if err := r.readMessage(n, m); err != nil {
			n.failed = err
		}
	}
}

func (r *reader) readMessage(n *pass, m gchat.Message) error {
	if q := n.quoted(m); q != nil {
		m.ThreadName = q.ThreadName
	}
	records := n.records[m.ThreadName]
	i := slices.IndexFunc(records, n.begins)
	isNew := gchat.Local(r.chat) && wording.IsNew(m.Text)
	switch {
	case m.ThreadName == "":
	case m.Deleted: // whose sender may not be told
		return r.takeListed(n, m)
	case !m.Human:
		return r.readOwn(n, m)
	case i >= 0: // whether it counts is not known yet
		n.begun[records[i]] = append(n.begun[records[i]], m)
	case len(records) > 0, n.sessions[m.ThreadName] != nil, isNew:
		return r.takeListed(n, m)
	}
	return nil
}

// takeListed takes a message of a person that a list brought. One that its sender deleted
// before it was used counts no more.
func (r *reader) takeListed(n *pass, m gchat.Message) error {
	in := incomingOf(r.chat, m, r.api.Ahead)
	isRevised := slices.ContainsFunc(n.records[m.ThreadName], func(q *state.Question) bool { return judge.Revises(q, in) })
	switch {
	case isRevised: // its reply is not judged yet: it goes there once more
		err := r.forgetDone(in.ID, state.OutcomeReply)
		if err != nil {
			return err
		}
	case in.IsRevoked:
		return r.takeBack(in.ID)
	}
	return r.take(in)
}

// readOwn notes what a message of an app tells: when a question's own message came, and
// behind which message a process waits for a reply.
func (r *reader) readOwn(n *pass, m gchat.Message) error {
	var failed error
	for _, q := range n.records[m.ThreadName] {
		if n.begins(q) && !strings.HasPrefix(m.Text, "[Not read]") {
			n.begun[q] = append(n.begun[q], m)
		}
		if !n.ours[q] || m.Name != q.MessageName || judge.Dated(q, m) {
			continue
		}
		_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
			if m.Name == q.MessageName {
				q.PostedAt = new(m.CreateTime.Truncate(time.Millisecond))
			}
		})
		failed = cmp.Or(failed, err)
	}
	return failed
}

// beginsIn says whether a process began to wait in the thread, which was not read since: its reply comes after our last message
// there, but for a note that the reply was not read: that came before the wait.
func beginsIn(q *state.Question) bool {
	return !q.Mode.Traits().Asks && q.PostedAt == nil && q.Status == state.Pending
}

// begins is beginsIn of a question of this environment.
func (v *view) begins(q *state.Question) bool { return v.ours[q] && beginsIn(q) }

// beginWait notes from when on a reply counts in a thread that a process began to wait in:
// after the last message of ours. It takes what people wrote there since, and what may be
// for something else in that thread.
func (r *reader) beginWait(n *pass, q *state.Question) {
	after := q.AskedAt.Add(r.api.Ahead - judge.DateSlack)
	for _, m := range n.begun[q] {
		if !m.Human {
			after = m.CreateTime
		}
	}
	for _, m := range n.begun[q] {
		isShared := len(n.records[m.ThreadName]) > 1 || n.sessions[m.ThreadName] != nil
		isForWait := m.CreateTime.After(after)
		if !m.Human || !isShared && !isForWait {
			continue
		}
		if isForWait { // nothing took it before
			n.failed = cmp.Or(r.forgetDone(state.IncomingID(r.chat, m.Name), state.OutcomeNobody), n.failed)
		}
		n.failed = cmp.Or(r.takeListed(n, m), n.failed)
	}
	_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
		if beginsIn(q) {
			q.PostedAt = &after
		}
	})
	n.failed = cmp.Or(err, n.failed)
}

// quoted is the question whose message a person quotes, nil for none.
func (v *view) quoted(m gchat.Message) *state.Question {
	if !m.Human || m.Quotes == "" {
		return nil
	}
	for _, qs := range v.records {
		for _, q := range qs {
			if m.Quotes == q.MessageName {
				return q
			}
		}
	}
	return nil
}
