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

// listPass is one list of a space, from its first page to its last.
type listPass struct {
	*spaceView
	newestAt time.Time // of the messages that came
	// begun are the messages of the threads that a process began to wait in. Which of
	// them count is known at the end of the list.
	waitMessages map[*state.Question][]gchat.Message
	writeErr     error // something could not be written down
}

// readSpace lists the space once, and then notes how far it came: the next list goes on
// there, also after one that broke off.
func (r *reader) readSpace(
	ctx context.Context,
	view *spaceView,
	gateway *projectGateway,
) (err error) {
	if gateway.err == nil {
		r.isPulled, err = gateway.transport.HearsAll(ctx)
		texts := view.questionsWithoutCard()
		if r.isPulled && gateway.cfg.UsesEmbeddedApp() && len(texts) > 0 {
			return r.enqueueMissingCards(ctx, view, gateway, texts)
		}
		if r.isPulled || gchat.Overloaded(err) {
			return err
		}
	}
	if r.api == nil {
		r.api, err = gateway.openReader(ctx)
		if err != nil {
			return err
		}
	}
	pass := &listPass{spaceView: view, waitMessages: map[*state.Question][]gchat.Message{}}
	hasMore, err := r.listNewMessages(ctx, pass)
	if err != nil && pass.newestAt.IsZero() {
		return err
	}
	isThreadRead, kept := r.startWaits(pass, hasMore, err != nil)
	if pass.writeErr != nil {
		r.Log.ErrorOnce(pass.writeErr, "not all that was read is written down")
		return pass.writeErr // it is read again
	}
	r.isThreadRead, r.keptMessages = isThreadRead, kept
	r.saveWatermark(pass.newestAt)
	return err
}

// listNewMessages lists the space from where the last list ended. A long backlog is read
// in pieces: goesOn reports that the next list is to go on there.
func (r *reader) listNewMessages(ctx context.Context, pass *listPass) (hasMore bool, err error) {
	_, space, _ := strings.Cut(r.chat, "/")
	start := listStart(
		r.spaceRecord.Watermark,
		r.isThreadRead,
		pass.spaceView,
		r.Now().Add(r.api.Ahead),
	)
	for q := range pass.recordOf {
		pass.waitMessages[q] = r.keptMessages[q.QuestionID]
	}
	err = r.api.Since(ctx, space, start, func(page []gchat.Message) { r.readPage(pass, page) })
	isEndless := errors.Is(err, gchat.ErrEndless)
	// Where the next list would begin as this one did, or none ended since that was so,
	// the server is broken.
	hasMore = isEndless && !r.isEndless && pass.newestAt.Add(-listOverlap).Sub(start) > time.Second
	r.isEndless = isEndless && !hasMore
	if hasMore {
		return true, nil
	}
	return false, err
}

// startWaits begins the waits in threads that were read to their ends. It returns which
// questions' threads are read from their beginnings, and the messages of those that the
// next list goes on with. The thread of a wait that a broken list had is read from its
// beginning again.
func (r *reader) startWaits(pass *listPass, hasMore, isBroken bool) (
	isThreadRead map[string]bool, kept map[string][]gchat.Message,
) {
	isThreadRead, kept = map[string]bool{}, map[string][]gchat.Message{}
	for _, questions := range pass.questionsByThread {
		for _, q := range questions {
			isWait := pass.needsStart(q)
			isThreadRead[q.QuestionID] = !isBroken || !isWait
			switch {
			case !isWait, isBroken:
			case hasMore:
				kept[q.QuestionID] = pass.waitMessages[q]
			default:
				r.startWait(pass, q)
			}
		}
	}
	return isThreadRead, kept
}

// saveWatermark notes up to where the space was read; the zero time is for nothing.
func (r *reader) saveWatermark(to time.Time) {
	if to.IsZero() || to.Equal(r.spaceRecord.Watermark) {
		return
	}
	r.spaceRecord.Watermark = to
	_, err := r.spaces.Change(r.chat, func(space *state.Space) { space.Watermark = to })
	r.Log.ErrorOnce(err, "watermark not written down")
}

// readWaitThreads reads the threads that processes of this environment began to wait in,
// while another environment's poller reads the space. What is said there from now on is
// in the inbox.
func (r *reader) readWaitThreads(ctx context.Context, view *spaceView) (err error) {
	waitView := &spaceView{
		questionsByThread: map[string][]*state.Question{},
		recordOf:          view.recordOf,
		isOwn:             view.isOwn,
		sessionsByThread:  view.sessionsByThread,
	}
	for thread, questions := range view.questionsByThread {
		if slices.ContainsFunc(questions, view.needsStart) {
			waitView.questionsByThread[thread] = questions
		}
	}
	if len(waitView.questionsByThread) == 0 {
		return nil
	}
	gateway := r.gatewayFor(ctx, view.sources[r.sourceIndex%len(view.sources)])
	if gateway.err == nil {
		hearsAll, err := gateway.transport.HearsAll(ctx)
		if hearsAll || err != nil {
			return err
		}
	}
	r.api, err = gateway.openReader(ctx)
	if err != nil {
		return err
	}
	r.spaceRecord = r.spaces.Get(r.chat)
	pass := &listPass{spaceView: waitView, waitMessages: map[*state.Question][]gchat.Message{}}
	_, space, _ := strings.Cut(r.chat, "/")
	for start := listStart(time.Time{}, nil, waitView, r.Now()); ; start = pass.newestAt.Add(-listOverlap) {
		err = r.api.Since(ctx, space, start, func(page []gchat.Message) { r.readPage(pass, page) })
		hasMore := errors.Is(err, gchat.ErrEndless) && pass.newestAt.Add(-listOverlap).After(start)
		if !hasMore {
			break
		}
	}
	if err != nil {
		return err
	}
	r.startWaits(pass, false, false)
	return pass.writeErr
}

// questionsWithoutCard are the open questions that stand in the space as a text, and not
// as a card.
func (v *spaceView) questionsWithoutCard() (texts []*state.Question) {
	for _, q := range v.ownOpen {
		isText := q.CardMessage == "" && q.MessageName != "" && q.Mode.Traits().Asks
		if isText && q.Status == state.Pending && q.HandedOverAt == nil {
			texts = append(texts, q)
		}
	}
	return texts
}

// enqueueMissingCards reads what was replied to questions whose text a webhook posted
// into the embedded space, where no event told of it, and has them posted as cards.
func (r *reader) enqueueMissingCards(
	ctx context.Context,
	view *spaceView,
	gateway *projectGateway,
	texts []*state.Question,
) error {
	textView := &spaceView{
		questionsByThread: map[string][]*state.Question{},
		recordOf:          view.recordOf,
		isOwn:             view.isOwn,
	}
	for _, q := range texts {
		textView.questionsByThread[q.ThreadName] = []*state.Question{q}
	}
	pass := &listPass{spaceView: textView}
	var err error
	r.api, err = gateway.openReader(ctx)
	if err != nil {
		return err
	}
	start := texts[0].AskedAt.Add(-clockSlack)
	err = r.api.Since(
		ctx,
		gateway.spaceName,
		start,
		func(page []gchat.Message) { r.readPage(pass, page) },
	)
	err = cmp.Or(err, pass.writeErr)
	undecided, _ := state.InboxIn(r.userStateDir).All()
	for _, q := range texts {
		isOfApp := r.gatewayFor(
			ctx,
			configSourceOf(q, view.recordOf[q].IndexEntry),
		).cfg.UsesEmbeddedApp()
		isReplied := slices.ContainsFunc(undecided, func(in *state.Incoming) bool {
			return in.ThreadName == q.ThreadName
		})
		if err == nil && !isReplied && isOfApp {
			err = r.enqueueQuestion(q, view.recordOf[q].IndexEntry, laterCardKey)
		}
	}
	return err
}

func threadStart(q *state.Question) time.Time {
	switch {
	case !q.Mode.Traits().Asks && q.PostedAt == nil:
		// since the last message of ours, which may be hours old
		return q.AskedAt.Add(-state.MaxQuestionAge)
	case q.PostedAt != nil:
		return q.PostedAt.Add(-listOverlap)
	}
	return q.AskedAt.Add(-clockSlack)
}

// listStart is where a list begins: at the watermark, or further back for a question
// whose thread was never read.
func listStart(
	from time.Time,
	isThreadRead map[string]bool,
	view *spaceView,
	now time.Time,
) time.Time {
	if !from.IsZero() {
		from = from.Add(-listOverlap)
	}
	for _, questions := range view.questionsByThread {
		for _, q := range questions {
			isElsewhere := needsStart(q) && !view.isOwn[q] // see readWaitThreads
			if isElsewhere || isThreadRead[q.QuestionID] || !q.IsAnswerable() {
				continue
			}
			if threadFrom := threadStart(q); from.IsZero() || threadFrom.Before(from) {
				from = threadFrom
			}
		}
	}
	if oldest := now.Add(-state.MaxQuestionAge - clockSlack); from.Before(oldest) {
		return oldest
	}
	return from
}

// readPage writes down what people wrote where we wait for it, and what a page tells of
// our own messages.
func (r *reader) readPage(pass *listPass, page []gchat.Message) {
	limit := r.Now().Add(r.api.Ahead + 2*time.Second) // the header counts whole seconds
	for _, m := range page {
		if !m.CreateTime.After(limit) {
			// one from the future must not end reading: it moves no watermark
			if m.Human && m.CreateTime.After(r.spaceRecord.Watermark) {
				r.lastHumanMessageAt = r.Now()
			}
			if m.CreateTime.After(pass.newestAt) {
				pass.newestAt = m.CreateTime
			}
		}
		if err := r.readMessage(pass, m); err != nil {
			pass.writeErr = err
		}
	}
}

func (r *reader) readMessage(pass *listPass, m gchat.Message) error {
	if q := pass.quotedQuestion(m); q != nil {
		m.ThreadName = q.ThreadName
	}
	records := pass.questionsByThread[m.ThreadName]
	i := slices.IndexFunc(records, pass.needsStart)
	isNew := gchat.Local(r.chat) && wording.IsNew(m.Text)
	switch {
	case m.ThreadName == "":
	case m.Deleted: // whose sender may not be told
		return r.addListed(pass, m)
	case !m.Human:
		return r.readAppMessage(pass, m)
	case i >= 0: // whether it counts is not known yet
		pass.waitMessages[records[i]] = append(pass.waitMessages[records[i]], m)
	case len(records) > 0, pass.sessionsByThread[m.ThreadName] != nil, isNew:
		return r.addListed(pass, m)
	}
	return nil
}

// addListed takes a message of a person that a list brought. One that its sender deleted
// before it was used counts no more.
func (r *reader) addListed(pass *listPass, m gchat.Message) error {
	in := newIncoming(r.chat, m, r.api.Ahead)
	isRevised := slices.ContainsFunc(
		pass.questionsByThread[m.ThreadName],
		func(q *state.Question) bool { return judge.ChangesReply(q, in) },
	)
	switch {
	case isRevised: // its reply is not judged yet: it goes there once more
		err := r.reopenIncoming(in.ID, state.OutcomeReply)
		if err != nil {
			return err
		}
	case in.IsRevoked:
		return r.revokeIncoming(in.ID)
	}
	return r.addIncoming(in)
}

// readAppMessage notes what a message of an app tells: when a question's own message
// came, and behind which message a process waits for a reply.
func (r *reader) readAppMessage(pass *listPass, m gchat.Message) error {
	var lastErr error
	for _, q := range pass.questionsByThread[m.ThreadName] {
		if pass.needsStart(q) && !strings.HasPrefix(m.Text, "[Not read]") {
			pass.waitMessages[q] = append(pass.waitMessages[q], m)
		}
		if !pass.isOwn[q] || m.Name != q.MessageName || judge.HasPostTime(q, m) {
			continue
		}
		_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
			if m.Name == q.MessageName {
				q.PostedAt = new(m.CreateTime.Truncate(time.Millisecond))
			}
		})
		lastErr = cmp.Or(lastErr, err)
	}
	return lastErr
}

// needsStart says whether a process began to wait in the thread, which was not read
// since: its reply comes after our last message there, but for a note that the reply was
// not read: that came before the wait.
func needsStart(q *state.Question) bool {
	return !q.Mode.Traits().Asks && q.PostedAt == nil && q.Status == state.Pending
}

// needsStart is needsStart of a question of this environment.
func (v *spaceView) needsStart(q *state.Question) bool { return v.isOwn[q] && needsStart(q) }

// startWait notes from when on a reply counts in a thread that a process began to wait
// in: after the last message of ours. It takes what people wrote there since, and what
// may be for something else in that thread.
func (r *reader) startWait(pass *listPass, q *state.Question) {
	after := q.AskedAt.Add(r.api.Ahead - judge.PostTimeSlack)
	for _, m := range pass.waitMessages[q] {
		if !m.Human {
			after = m.CreateTime
		}
	}
	for _, m := range pass.waitMessages[q] {
		isShared := len(pass.questionsByThread[m.ThreadName]) > 1 ||
			pass.sessionsByThread[m.ThreadName] != nil
		isForWait := m.CreateTime.After(after)
		if !m.Human || !isShared && !isForWait {
			continue
		}
		if isForWait { // nothing took it before
			pass.writeErr = cmp.Or(
				r.reopenIncoming(state.IncomingID(r.chat, m.Name), state.OutcomeNobody),
				pass.writeErr,
			)
		}
		pass.writeErr = cmp.Or(r.addListed(pass, m), pass.writeErr)
	}
	_, err := state.ChangeQuestion(q.Path, func(q *state.Question) {
		if needsStart(q) {
			q.PostedAt = &after
		}
	})
	pass.writeErr = cmp.Or(err, pass.writeErr)
}

// quotedQuestion is the question whose message a person quotes, nil for none.
func (v *spaceView) quotedQuestion(m gchat.Message) *state.Question {
	if !m.Human || m.Quotes == "" {
		return nil
	}
	for _, questions := range v.questionsByThread {
		for _, q := range questions {
			if m.Quotes == q.MessageName {
				return q
			}
		}
	}
	return nil
}
