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
	newestAt time.Time // when the newest listed message was created
	// waitMessages are the messages in threads for which needsStart holds. Which of them
	// count is known at the end of the list.
	waitMessages map[*state.Question][]gchat.Message
	writeErr     error // why a message could not be written to disk
}

// readSpace lists the space once, and then saves how far it came. The next list continues
// there, even if this one failed halfway.
func (r *reader) readSpace(
	ctx context.Context,
	view *spaceView,
	gateway *projectGateway,
) (err error) {
	if gateway.err == nil {
		r.isPulled, err = gateway.transport.ReceivesAllAsEvents(ctx)
		texts := view.questionsWithoutCard()
		if r.isPulled && gateway.cfg.UsesEmbeddedApp() && len(texts) > 0 {
			return r.enqueueMissingCards(ctx, view, gateway, texts)
		}
		if r.isPulled || gchat.IsOverloaded(err) {
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
		r.Log.ErrorOnce(pass.writeErr, "messages not written to disk; they are read once more")
		return pass.writeErr
	}
	r.isThreadRead, r.keptMessages = isThreadRead, kept
	r.saveWatermark(pass.newestAt)
	return err
}

// listNewMessages lists the space from where the last list ended. It reads a long backlog
// in pieces: hasMore reports that the next list continues where this one stopped.
func (r *reader) listNewMessages(ctx context.Context, pass *listPass) (hasMore bool, err error) {
	_, space, _ := strings.Cut(r.chat, "/")
	now := r.Now().Add(r.api.ClockAhead)
	start := listStart(r.spaceRecord.Watermark, r.isThreadRead, pass.spaceView, now)
	for q := range pass.recordOf {
		pass.waitMessages[q] = r.keptMessages[q.QuestionID]
	}
	err = r.api.ListSince(ctx, space, start, func(page []gchat.Message) { r.readPage(pass, page) })
	isEndless := errors.Is(err, gchat.ErrEndlessList)
	// The server is broken where the next list would start at the same place. It counts
	// as broken until a list ends.
	hasAdvanced := pass.newestAt.Add(-listOverlap).Sub(start) > time.Second
	hasMore = isEndless && hasAdvanced && !r.isEndless
	r.isEndless = isEndless && !hasMore
	if hasMore {
		return true, nil
	}
	return false, err
}

// startWaits calls startWait for each thread that needs it and that this list read to its
// end. It returns which threads need not be read from their beginnings, and the messages
// to keep for a list that continues this one. After a failed list, the thread of a
// waiting process is read from its beginning once more. Both maps are keyed by the
// question's id.
func (r *reader) startWaits(
	pass *listPass,
	hasMore bool,
	hasFailed bool,
) (isThreadRead map[string]bool, kept map[string][]gchat.Message) {
	isThreadRead, kept = map[string]bool{}, map[string][]gchat.Message{}
	for _, questions := range pass.questionsByThread {
		for _, q := range questions {
			isWait := pass.needsStart(q)
			isThreadRead[q.QuestionID] = !hasFailed || !isWait
			switch {
			case !isWait, hasFailed:
			case hasMore:
				kept[q.QuestionID] = pass.waitMessages[q]
			default:
				r.startWait(pass, q)
			}
		}
	}
	return isThreadRead, kept
}

// saveWatermark saves up to where the space was read. A zero time changes nothing.
func (r *reader) saveWatermark(to time.Time) {
	if to.IsZero() || to.Equal(r.spaceRecord.Watermark) {
		return
	}
	r.spaceRecord.Watermark = to
	_, err := r.spaces.Change(r.chat, func(space *state.Space) { space.Watermark = to })
	r.Log.ErrorOnce(err, "watermark not written")
}

// readWaitThreads reads the threads in which a process of this environment waits for a
// reply, if the message from which replies count is not known yet. It is needed while
// another environment's poller reads the space. That poller adds later messages to the
// inbox.
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
		receivesAll, err := gateway.transport.ReceivesAllAsEvents(ctx)
		if receivesAll || err != nil {
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
	readPage := func(page []gchat.Message) { r.readPage(pass, page) }
	start := listStart(time.Time{}, nil, waitView, r.Now())
	for hasMore := true; hasMore; {
		err = r.api.ListSince(ctx, space, start, readPage)
		next := pass.newestAt.Add(-listOverlap)
		hasMore = errors.Is(err, gchat.ErrEndlessList) && next.After(start)
		start = next
	}
	if err != nil {
		return err
	}
	r.startWaits(pass, false, false)
	return pass.writeErr
}

// questionsWithoutCard returns the open questions that were posted as a text, without a
// card.
func (v *spaceView) questionsWithoutCard() (texts []*state.Question) {
	for _, q := range v.ownOpen {
		isText := q.CardMessage == "" && q.MessageName != "" && q.Mode.Traits().Asks
		if isText && q.Status == state.Pending && q.HandedOverAt == nil {
			texts = append(texts, q)
		}
	}
	return texts
}

// enqueueMissingCards enqueues cards for questions that a webhook posted as a text into
// the embedded space. No event brings the replies to them, so it lists the replies first.
// A question with a reply gets no card.
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
	readPage := func(page []gchat.Message) { r.readPage(pass, page) }
	err = r.api.ListSince(ctx, gateway.spaceName, texts[0].AskedAt.Add(-clockSlack), readPage)
	err = cmp.Or(err, pass.writeErr)
	undone, _ := state.InboxIn(r.userStateDir).All()
	for _, q := range texts {
		entry := view.recordOf[q].IndexEntry
		isOfApp := r.gatewayFor(ctx, configSourceOf(q, entry)).cfg.UsesEmbeddedApp()
		hasReply := slices.ContainsFunc(undone, func(in *state.Incoming) bool {
			return in.ThreadName == q.ThreadName
		})
		if err == nil && !hasReply && isOfApp {
			err = r.enqueueQuestion(q, entry, laterCardKey)
		}
	}
	return err
}

// threadStart returns from when a question's thread is read for the first time.
func threadStart(q *state.Question) time.Time {
	switch {
	case !q.Mode.Traits().Asks && q.PostedAt == nil:
		// A reply counts after our last message in the thread, which may be hours old.
		return q.AskedAt.Add(-state.MaxQuestionAge)
	case q.PostedAt != nil:
		return q.PostedAt.Add(-listOverlap)
	}
	return q.AskedAt.Add(-clockSlack)
}

// listStart returns where a list starts: at the watermark, or further back for a question
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
			// Its own environment's poller reads that thread: see readWaitThreads.
			isOthersWait := needsStart(q) && !view.isOwn[q]
			if isOthersWait || isThreadRead[q.QuestionID] || !q.IsAnswerable() {
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

// readPage handles each message of a page. It also notes when the newest one was created,
// and that a person wrote.
func (r *reader) readPage(pass *listPass, page []gchat.Message) {
	// The clock's lead comes from an HTTP header that counts whole seconds.
	latest := r.Now().Add(r.api.ClockAhead + 2*time.Second)
	for _, m := range page {
		// A message from the future must not move the watermark: the next lists would
		// start there and miss what people write until then.
		isFromFuture := m.CreateTime.After(latest)
		if !isFromFuture && m.IsHuman && m.CreateTime.After(r.spaceRecord.Watermark) {
			r.lastHumanMessageAt = r.Now()
		}
		if !isFromFuture && m.CreateTime.After(pass.newestAt) {
			pass.newestAt = m.CreateTime
		}
		err := r.readMessage(pass, m)
		if err != nil {
			pass.writeErr = err
		}
	}
}

// readMessage adds a person's message to the inbox where it may be for a record or a
// session, or asks for a new session. For a message of an app, see readAppMessage.
func (r *reader) readMessage(pass *listPass, m gchat.Message) error {
	if q := pass.quotedQuestion(m); q != nil {
		m.ThreadName = q.ThreadName
	}
	records := pass.questionsByThread[m.ThreadName]
	i := slices.IndexFunc(records, pass.needsStart)
	isCommandAnywhere := wording.IsNewCommand(m.Text) || wording.IsSessionsCommand(m.Text)
	isCommandOfPage := gchat.IsLocalChat(r.chat) && isCommandAnywhere
	switch {
	case m.ThreadName == "":
	case m.IsDeleted: // Chat may leave out who sent it, so this is asked first
		return r.addListed(pass, m)
	case !m.IsHuman:
		return r.readAppMessage(pass, m)
	case i >= 0: // startWait decides whether it counts
		pass.waitMessages[records[i]] = append(pass.waitMessages[records[i]], m)
	case len(records) > 0, pass.sessionsByThread[m.ThreadName] != nil,
		isCommandOfPage:
		return r.addListed(pass, m)
	}
	return nil
}

// addListed adds a listed message of a person to the inbox. It revokes a message that its
// sender deleted before it was used.
func (r *reader) addListed(pass *listPass, m gchat.Message) error {
	in := newIncoming(r.chat, m, r.api.ClockAhead)
	isRevised := slices.ContainsFunc(
		pass.questionsByThread[m.ThreadName],
		func(q *state.Question) bool { return judge.ChangesReply(q, in) },
	)
	switch {
	case isRevised:
		// The reply is not judged yet, so the edit or deletion goes to the question, too.
		err := r.reopenIncoming(in.ID, state.OutcomeReply)
		if err != nil {
			return err
		}
	case in.IsRevoked:
		return r.revokeIncoming(in.ID)
	}
	return r.addIncoming(in)
}

// readAppMessage learns two things from a message of an app: when a question's own
// message was posted, and after which message a waiting process expects its reply.
func (r *reader) readAppMessage(pass *listPass, m gchat.Message) error {
	var lastErr error
	for _, q := range pass.questionsByThread[m.ThreadName] {
		// A [Not read] note answers a message from before the wait. Replies after it
		// count as well as those before it.
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

// needsStart reports whether a process waits for a reply in a thread, and its record does
// not say yet from when on a reply counts there (PostedAt).
func needsStart(q *state.Question) bool {
	return !q.Mode.Traits().Asks && q.PostedAt == nil && q.Status == state.Pending
}

// needsStart is needsStart for questions of this environment, and false for others.
func (v *spaceView) needsStart(q *state.Question) bool { return v.isOwn[q] && needsStart(q) }

// startWait sets from when on a reply counts for a process that waits in a thread: after
// our last message there, a [Not read] note aside. It adds to the inbox what people wrote
// there since. Where a session or another question has the same thread, it also adds
// earlier messages: they may be for those.
func (r *reader) startWait(pass *listPass, q *state.Question) {
	after := q.AskedAt.Add(r.api.ClockAhead - judge.PostTimeSlack)
	for _, m := range pass.waitMessages[q] {
		if !m.IsHuman {
			after = m.CreateTime
		}
	}
	for _, m := range pass.waitMessages[q] {
		isShared := len(pass.questionsByThread[m.ThreadName]) > 1 ||
			pass.sessionsByThread[m.ThreadName] != nil
		isForWait := m.CreateTime.After(after)
		if !m.IsHuman || !isShared && !isForWait {
			continue
		}
		if isForWait { // it may have ended as a message for nobody before the wait was known
			err := r.reopenIncoming(state.IncomingID(r.chat, m.Name), state.OutcomeNobody)
			pass.writeErr = cmp.Or(err, pass.writeErr)
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

// quotedQuestion returns the question whose message a person quotes, or nil.
func (v *spaceView) quotedQuestion(m gchat.Message) *state.Question {
	if !m.IsHuman || m.QuotedMessage == "" {
		return nil
	}
	for _, questions := range v.questionsByThread {
		for _, q := range questions {
			if m.QuotedMessage == q.MessageName {
				return q
			}
		}
	}
	return nil
}
