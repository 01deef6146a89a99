package poller

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// graceForPost is how long a question is not posted whose PermissionRequest hook does
	// not wait yet, or is not registered.
	graceForPost = 1500 * time.Millisecond
	graceForHook = 5 * time.Second // after its asking, for a process that can take its answer
	// graceForReply is how long after its asking a reply waits for a process that can
	// deliver it: on a slow machine the PermissionRequest hook comes seconds after the
	// poller posted, and takes over.
	graceForReply = 15 * time.Second
	// after the answer was printed, for the PostToolUse hook, which knows what Claude was
	// told
	graceForConfirmation = 10 * time.Second
	// after a question's time is up, for a space that cannot be read
	graceForUnreadSpace = 5 * time.Minute
	// rounds running without its tmux session, before a question is given up
	maxMissedRounds = 3
	sweepInterval   = time.Hour
)

// attendAll attends to every record of this environment; some things have their time once
// a poll_interval. Like what it calls, it returns when to come again, zero for no time of
// its own.
func (p *Poller) attendAll(ctx context.Context, cfg *config.Config) (next time.Time, hasWork bool) {
	interval := cfg.PollInterval
	p.canStartSessions, p.receivesEvents = cfg.CanStartSessions, cfg.ReceivesEvents()
	// a clock that was set back must not hold the round
	isRoundDue := p.Now().Sub(p.lastRoundAt).Abs() >= interval
	if isRoundDue {
		p.lastRoundAt = p.Now()
		if !p.Once {
			p.abandonWithoutPane(ctx)
		}
	}
	if p.moveOldPrompts() {
		next, hasWork = p.Now(), true // they are in the inbox, which was read before
	}
	retryAt, isBusy := p.routeAll(ctx)
	next, hasWork = earlier(next, retryAt), hasWork || isBusy
	retryAt, isBusy = p.attendSessions(ctx, isRoundDue)
	next, hasWork = earlier(earlier(next, retryAt), p.dialogNoteDue), hasWork || isBusy
	for _, record := range p.ownOldestFirst() {
		if ctx.Err() != nil {
			break
		}
		if record.isMissing {
			p.removeFromIndex(record)
		}
		if record.isDone || record.isMissing {
			p.shrinkDone(record)
			continue
		}
		p.runSafely(
			"question",
			func() { next = earlier(next, p.attendRecord(ctx, record, isRoundDue)) },
		)
		next = earlier(next, p.holdEntryLock(record))
		hasWork = hasWork || p.hasWork(record)
		p.shrinkDone(record)
	}
	for _, record := range p.otherRecords {
		p.shrinkDone(record)
	}
	if hasWork {
		next = earlier(next, p.lastRoundAt.Add(interval))
	}
	return next, hasWork
}

func (p *Poller) attendRecord(
	ctx context.Context,
	record *trackedRecord,
	isRoundDue bool,
) (next time.Time) {
	if record.question == nil || record.isTyping.Load() {
		return time.Time{}
	}
	if record.isInNamedFolder && record.question.Mode == "" && record.question.Status.IsOpen() {
		p.completeForeign(ctx, record)
	}
	next = p.closeExpired(record, isRoundDue)
	if (isRoundDue || record.question.HasUnreadReply()) && record.question.ClaudePID != 0 {
		// who replied is told at once
		p.handleClaudeEnd(record)
	}
	if isRoundDue && record.question.Status == state.Pending {
		next = earlier(next, p.attendPending(record))
	}
	if record.question.HasUnreadReply() {
		next = earlier(next, p.judgeUnread(record))
	}
	if record.question.Status == state.Pending && !record.question.IsDialogDrawn() {
		next = earlier(next, p.handOverDialog(ctx, record))
	}
	isUndelivered := record.question.Status == state.Answered && !record.question.IsPrinted &&
		!state.HasWaiter(p.Env, record.Path)
	if isUndelivered && !record.question.HasUnreadReply() {
		p.oweUndeliveredNote(record)
		p.oweStillKeptNote(record)
	}
	if needsPost(record) {
		next = earlier(next, p.enqueueWhenDue(ctx, record))
	}
	if len(record.question.OwedNotes) > 0 {
		p.enqueueOwedNotes(record)
	}
	if isUndelivered {
		next = earlier(next, p.startTyping(ctx, record))
	}
	if record.question.HasActiveGrant() {
		next = earlier(next, p.applyGrant(record))
	}
	return next
}

// attendPending looks once a round for what becomes of an open question beside Chat, and
// reminds of it.
func (p *Poller) attendPending(record *trackedRecord) (next time.Time) {
	isDrawn := record.question.Kind.Traits().UsesOwnSpace ||
		record.question.Kind == state.KindQuestion && record.question.Mode == state.ModeNative
	if isDrawn && record.question.ClaudePID != 0 {
		p.handleDialogEnd(record)
	}
	if record.question.RemindersSent < len(record.question.RemindAfter) {
		next = p.oweReminder(record)
	}
	if !record.question.Kind.Traits().IsPersonal && p.readReplyFile(record) {
		// Claude itself can write there
		next = earlier(next, p.Now().Add(minReplyFileAge))
	}
	return next
}

// changeRecord updates a question, which stands in s afterwards. What failed the next
// step tries again.
func (p *Poller) changeRecord(record *trackedRecord, failure string, change func(*state.Question)) {
	stored, err := state.ChangeQuestion(record.Path, change)
	p.Log.ErrorOnce(err, failure)
	if err == nil && stored.IsChanged {
		record.question = stored
	}
}

// closeQuestion ends a question; also, where it is not nil, changes more in the same
// write.
func (p *Poller) closeQuestion(
	q *state.Question,
	status state.Status,
	resolvedBy string,
	change func(*state.Question),
) {
	_, err := state.CloseQuestion(q.Path, status, resolvedBy, change)
	p.Log.ErrorOnce(err, "question not closed")
}

// closeRecord is end of a question in the index.
func (p *Poller) closeRecord(
	record *trackedRecord,
	status state.Status,
	resolvedBy string,
	change func(*state.Question),
) {
	p.closeQuestion(record.question, status, resolvedBy, change)
	p.loadQuestion(record)
}

// closeExpired ends a question whose time is up, or that can have no answer any more.
func (p *Poller) closeExpired(record *trackedRecord, isRoundDue bool) (next time.Time) {
	q := record.question
	if !q.Status.IsOpen() {
		return time.Time{}
	}
	end := q.AskedAt.Add(state.MaxQuestionAge)
	if q.Status == state.Answered {
		end = end.Add(otherEnvironmentGrace) // an answer that came in time is still to be delivered
	}
	isTimeUp, _, next := p.isTimeUp(q, end)
	if isTimeUp {
		p.closeRecord(record, state.Expired, "age", nil)
		return time.Time{}
	}
	if q.TimesOutAt != nil && q.Status == state.Pending {
		isTimeUp, hasUnread, retryAt := p.isTimeUp(q, *q.TimesOutAt)
		if isTimeUp {
			p.closeRecord(
				record,
				state.TimedOut,
				"timeout",
				func(q *state.Question) { judge.ApplyTimeoutPolicy(q, hasUnread || q.HasUnreadReply()) },
			)
			return time.Time{}
		}
		next = cmp.Or(retryAt, *q.TimesOutAt)
	}
	if dueAt := p.oweSentNote(record); !dueAt.IsZero() {
		return earlier(next, dueAt)
	}
	isYoung := p.Now().Sub(q.AskedAt).Abs() < graceForHook
	if isRoundDue && !q.Mode.Traits().Asks && !isYoung && !state.HasWaiter(p.Env, record.Path) {
		p.closeRecord(record, state.Cancelled, state.EndedDismissed, nil)
	}
	return next
}

// isTimeUp reports whether a question's time is up, and all is read that was said until
// then. While that is to be read, again is when to look once more.
func (p *Poller) isTimeUp(
	q *state.Question,
	end time.Time,
) (isTimeUp, hasUnread bool, retryAt time.Time) {
	if p.Now().Before(end) {
		return false, false, retryAt
	}
	mustWait, hasUnread := p.mustReadFirst(q, end)
	if mustWait {
		retryAt = p.Now().Add(time.Second)
	}
	return !mustWait, hasUnread, retryAt
}

// oweSentNote has the thread told of an answer that was printed, and that Claude Code
// does not confirm. due is when that is to be told; zero for no time of its own.
func (p *Poller) oweSentNote(record *trackedRecord) (due time.Time) {
	q := record.question
	if q.Status != state.Answered || !q.IsPrinted || q.PrintedAt == nil || q.HasSentNote {
		return time.Time{}
	}
	dueAt := q.PrintedAt.Add(graceForConfirmation)
	if remaining := dueAt.Sub(p.Now()); remaining > 0 && remaining <= graceForConfirmation {
		return dueAt
	}
	p.changeRecord(record, "answer not told of", func(q *state.Question) {
		if q.Status == state.Answered && !q.HasSentNote {
			q.HasSentNote = true
			q.OweNote(state.NoteSent, "")
		}
	})
	return time.Time{}
}

// handleClaudeEnd ends a question whose Claude Code has ended. In deny mode the session
// gets the reply when it is resumed.
func (p *Poller) handleClaudeEnd(record *trackedRecord) {
	q, now := record.question, p.Now().UTC()
	isWaiting := q.Status.IsOpen() || q.IsLate(now)
	if !isWaiting || !q.Mode.Traits().Asks || q.SessionEndedAt != nil ||
		!inject.HasEnded(q.ClaudePID, q.ClaudeStart) {
		return
	}
	switch {
	case q.Status == state.Answered && q.IsPrinted: // it had the answer
		p.closeRecord(record, state.Resolved, "chat", nil)
	case !q.Mode.Traits().KeepsAnswer:
		p.closeRecord(record, state.Cancelled, "claude_gone", nil)
	default:
		p.changeRecord(record, "end of the session not noted", func(current *state.Question) {
			isResumed := current.ClaudePID != q.ClaudePID || current.ClaudeStart != q.ClaudeStart
			if current.SessionEndedAt == nil && !isResumed {
				current.SessionEndedAt = &now
			}
		})
	}
}

// handleDialogEnd closes a permission or a plan that was answered in the terminal: no
// hook is told of that before Claude has the results of all its calls. Only a dialog that
// was seen to wait, and waits no more, was answered. Claude Code's file says that a
// dialog of the session waits, and not which: a hidden one is none of them, and an
// agent's is the one only where no other is open.
func (p *Poller) handleDialogEnd(record *trackedRecord) {
	q := record.question
	if q.Kind.Traits().AsksForValues {
		p.closeEndedForm(record)
		return
	}
	if q.EndsIndependently() || q.AgentID != "" && p.hasOtherDialog(record) {
		return
	}
	session, err := state.SessionsIn(p.userStateDir).Get(q.ClaudeSession())
	if err != nil {
		return
	}
	isWaiting, isKnown := inject.IsWaiting(session.TranscriptPath, q.ClaudeSession(), q.ClaudePID)
	switch {
	case isWaiting:
		record.hasSeenDialog, record.isDialogGone, record.dialogGoneAt = true, false, time.Time{}
	case isKnown && record.isDialogGone && !q.Kind.Traits().Decides:
		p.closeGoneQuestion(record)
	case isKnown && record.isDialogGone:
		p.closeRecord(record, state.Resolved, "terminal", nil)
	case isKnown:
		// on Esc its hook is told a moment later, and closes it as dismissed
		record.isDialogGone = record.hasSeenDialog
	}
}

// closeEndedForm closes a form whose session has come to rest since it was asked: its
// turn was broken off, with Esc, and no hook is told of that (2.1.197 and 2.1.332).
func (p *Poller) closeEndedForm(record *trackedRecord) {
	session, err := state.SessionsIn(p.userStateDir).Get(record.question.ClaudeSession())
	if err == nil &&
		inject.IdleSince(session.TranscriptPath, session.ID, record.question.ClaudePID).
			After(record.question.AskedAt) {
		p.closeRecord(record, state.Cancelled, state.EndedDismissed, nil)
	}
}

// hasOtherDialog reports whether another dialog of a question's session is open, too.
func (p *Poller) hasOtherDialog(record *trackedRecord) bool {
	for _, other := range p.ownRecords {
		isDialog := other != record && other.question != nil &&
			other.question.Status == state.Pending &&
			other.question.IsDialogDrawn() &&
			!other.question.Kind.Traits().IsPrompt
		if isDialog && other.question.ClaudeSession() == record.question.ClaudeSession() {
			return true
		}
	}
	return false
}

// graceForAnswered is how long the hooks of a question's end have, once its dialog is
// gone. None comes where a plugin's folder went, as with an update: Claude Code then runs
// no hook of it (2.1.332).
const graceForAnswered = 10 * time.Second

// closeGoneQuestion closes a question whose dialog is gone, and of which no hook told how
// it ended.
func (p *Poller) closeGoneQuestion(record *trackedRecord) {
	if record.dialogGoneAt.IsZero() {
		record.dialogGoneAt = p.Now()
	}
	if p.Now().Sub(record.dialogGoneAt).Abs() >= graceForAnswered {
		p.closeRecord(record, state.Cancelled, state.EndedDialogGone, nil)
	}
}

func (p *Poller) oweReminder(record *trackedRecord) (next time.Time) {
	q, now := record.question, p.Now()
	if q.Status != state.Pending || !q.IsMessageSent {
		return time.Time{}
	}
	dueAt := q.AskedAt.Add(q.RemindAfter[q.RemindersSent])
	if now.Before(dueAt) {
		return dueAt
	}
	mustWait, _ := p.mustReadFirst(q, dueAt)
	if p.awakeSince.After(dueAt) && mustWait ||
		state.SpacesIn(p.userStateDir).Get(q.Chat).Failures > 0 {
		// there may be a reply already; or nothing can be sent: what is due by then is
		// one reminder
		return now.Add(time.Second)
	}
	p.changeRecord(record, "reminder not owed", func(q *state.Question) {
		if q.Status != state.Pending || q.RemindersSent >= len(q.RemindAfter) {
			return
		}
		for q.RemindersSent < len(q.RemindAfter) && !now.Before(q.AskedAt.Add(q.RemindAfter[q.RemindersSent])) {
			q.RemindersSent++ // after a night without a poller one reminder is enough
		}
		q.OwedNotes = append(
			q.OwedNotes,
			state.OwedNote{
				About: state.NoteReminder,
				Text:  state.DescribeDuration(q.RemindAfter[q.RemindersSent-1]),
			},
		)
	})
	return time.Time{}
}

// graceEnd is when a permission or a plan is due whose person types in its pane: what
// they answer there meanwhile needs no thread. Zero is for now.
func (p *Poller) graceEnd(ctx context.Context, record *trackedRecord) (due time.Time) {
	q := record.question
	due = q.AskedAt.Add(q.GracePeriod)
	if !p.Now().Before(due) || due.Sub(p.Now()) > q.GracePeriod {
		return time.Time{}
	}
	if !record.hasCheckedKeys {
		lastKeyAt, err := inject.Server{Socket: record.TmuxSocket}.LastTyped(ctx, record.TmuxPane)
		record.hasCheckedKeys, record.isPersonTyping = true, err == nil &&
			q.AskedAt.Sub(lastKeyAt) < state.MaxKeyAge
	}
	if !record.isPersonTyping {
		return time.Time{}
	}
	return due
}

// mustReadFirst says whether what was due then has to wait: what was said until then, or
// while the machine slept or no poller ran, is still to be read. A space that cannot be
// read is not waited for any longer; unread says that there may have been a reply.
func (p *Poller) mustReadFirst(q *state.Question, due time.Time) (mustWait, hasUnread bool) {
	if q.Chat == "" || !q.IsMessageSent {
		return false, false
	}
	if p.awakeSince.After(due) {
		due = p.awakeSince
	}
	hasUnread = q.HasUnreadReply() || !p.isReadSince(q.Chat, due)
	return hasUnread && p.Now().Sub(due) <= graceForUnreadSpace, hasUnread
}

// isReadSince says whether all that was said in a chat until then is read, and decided.
func (p *Poller) isReadSince(chat string, since time.Time) bool {
	return p.readUntil[chat].After(since) && !p.hasUndecided(chat)
}

// updateReadUntil notes up to when each chat was read.
func (p *Poller) updateReadUntil() {
	p.readUntil = map[string]time.Time{}
	p.puller.mu.Lock()
	defer p.puller.mu.Unlock()
	for chat, reader := range p.readers {
		switch {
		case reader.isListing.Load():
		case !reader.isPulled:
			p.readUntil[chat] = reader.lastGoodList
		case p.puller.failedPulls == 0:
			p.readUntil[chat] = p.puller.lastGoodPull
		}
	}
}

func needsPost(record *trackedRecord) bool {
	return record.question.Status == state.Pending && !record.question.IsMessageSent &&
		!record.isEnqueued &&
		record.question.Mode.Traits().Asks
}

func (p *Poller) enqueueWhenDue(ctx context.Context, record *trackedRecord) (retryAt time.Time) {
	q := record.question
	isYoung := p.Now().Sub(q.AskedAt).Abs() < graceForPost
	if q.Mode.Traits().HasDialog && isYoung &&
		(record.isWaitingForGrant || q.NeedsHook(p.findDeliverer(record))) {
		return p.Now().Add(250 * time.Millisecond) // its hook may just be starting
	}
	if q.GracePeriod > 0 && record.TmuxPane != "" {
		if due := p.graceEnd(ctx, record); !due.IsZero() {
			return due
		}
	}
	if err := p.enqueueQuestion(q, record.IndexEntry, firstMessageKey); err != nil {
		p.Log.ErrorOnce(err, "question not put into the outbox")
		return p.Now().Add(time.Second)
	}
	record.isEnqueued = true
	return time.Time{}
}

// enqueueOwedNotes puts the notes that a question's thread is owed, and strikes them off.
// A thread that a process waits in gets none.
func (p *Poller) enqueueOwedNotes(record *trackedRecord) {
	q := record.question
	var done []state.OwedNote
	for _, owed := range q.OwedNotes {
		isDone, err := !q.Mode.Traits().Asks, error(nil)
		if owed.About == state.NoteSendUnsent {
			err = p.forwardUnsentAnswers(q, owed.ReplyMessage)
		}
		if !isDone && err == nil {
			isDone, err = p.enqueueNote(q, record.IndexEntry, owed)
		}
		p.Log.ErrorOnce(err, "note not put into the outbox")
		if isDone {
			done = append(done, owed)
		}
	}
	if len(done) == 0 {
		return
	}
	if q.Mode.Traits().Asks && !q.Status.IsOpen() {
		// before they are struck off: killed in between, it is written again
		p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "end not in the audit log")
	}
	q, err := state.ChangeQuestionRelaxed(record.Path, func(q *state.Question) {
		q.OwedNotes = slices.DeleteFunc(
			q.OwedNotes,
			func(owed state.OwedNote) bool { return slices.Contains(done, owed) },
		)
		if slices.ContainsFunc(
			done,
			func(owed state.OwedNote) bool { return owed.About == state.NoteSendUnsent },
		) {
			q.PartialAnswers = nil
		}
	})
	if err == nil {
		record.question = q
	}
	p.Log.ErrorOnce(err, "notes not struck off")
}

// forwardUnsentAnswers gives what a question's person answered, and did not reach Claude,
// to its session as words of that reply. The same reply is one record there.
func (p *Poller) forwardUnsentAnswers(q *state.Question, messageName string) error {
	replied, sessionID := q.FindReply(messageName), q.ClaudeSession()
	_, err := state.InboxIn(p.userStateDir).Add(&state.Incoming{
		ID: state.IncomingID(
			q.Chat,
			replied.MessageName,
			state.NoteSendUnsent,
		), Chat: q.Chat, MessageName: replied.MessageName,
		ThreadName: q.ThreadName, Sender: replied.Sender, SenderEmail: replied.SenderEmail, DisplayName: replied.DisplayName,
		Text: q.UnsentAnswers(), CreatedAt: replied.CreatedAt, LocalCreatedAt: replied.CreatedAt, ReadAt: p.Now().UTC(),
		Status: state.IncomingRouted, SessionID: sessionID,
	}, false)
	return err
}

func (p *Poller) hasWork(record *trackedRecord) bool {
	q := record.question
	switch {
	case q == nil || record.isDone:
		return false
	case record.isTyping.Load() || q.HasActiveGrant() || len(q.OwedNotes) > 0 || q.Status == state.Pending:
		return true
	case q.Status == state.Answered && q.IsPrinted:
		return !q.HasSentNote && q.PrintedAt != nil
	case q.Status == state.Answered && !q.Mode.Traits().HasMarker:
		return state.HasWaiter(p.Env, record.Path) || p.canType(record) && !needsPerson(q)
	}
	return q.IsLate(p.Now()) && state.HasWaiter(p.Env, record.Path)
}

// sweep removes what is old: once an hour, and before a poller ends that has nothing to
// do.
func (p *Poller) sweep() {
	now := p.Now()
	p.lastSweepAt = now
	p.Log.ForgetOnce()
	p.attemptedNotes.Clear() // a summary that failed is tried again
	state.OutboxIn(p.userStateDir).Sweep(p.Env, now)
	state.SessionsIn(p.userStateDir).Sweep(now)
	state.InboxIn(p.userStateDir).Sweep(now)
	folders := map[string]bool{}
	for _, name := range []string{"open", "outbox", "sessions", "spaces", "pollers", "projects", ""} {
		folders[filepath.Join(p.userStateDir, name)] = true
	}
	p.sweepQuestions()
	p.sweepOthers(now)
	for record := range p.allRecords() {
		if record.RecordType == state.IndexedQuestion {
			folders[filepath.Dir(record.Path)] = true
			if stateDir := filepath.Dir(filepath.Dir(record.Path)); filepath.Base(
				stateDir,
			) == "state" {
				// and none that a person named
				folders[stateDir] = true
			}
		}
	}
	for folder := range folders {
		state.RemoveTemporaryFiles(folder)
		_, err := state.RemoveUnindexedQuestions(
			p.Env,
			folder,
			now.Add(-state.MaxQuestionAge-otherEnvironmentGrace),
		)
		p.Log.ErrorOnce(err, "old questions not removed")
	}
}

// sweepQuestions removes the questions that ended and are older than a day, as far as
// this poller serves them.
func (p *Poller) sweepQuestions() {
	for _, record := range p.ownRecords {
		p.runSafely("sweep", func() { p.sweepRecord(record, p.Now()) })
	}
}

func (p *Poller) sweepRecord(record *trackedRecord, now time.Time) {
	if record.question == nil {
		return
	}
	age := now.Sub(record.question.AskedAt)
	if !record.question.Status.IsOpen() && age > state.MaxQuestionAge &&
		(record.isDone || age > state.MaxQuestionAge+otherEnvironmentGrace) {
		release(&record.entryLock)
		p.Log.ErrorOnce(state.RemoveClosedQuestion(p.Env, record.question), "question not removed")
	}
}

// sweepOthers removes what the poller of another environment left, which did not come
// again for a day and an hour. What is not there may be out of our sight until then:
// another machine with this HOME has projects of its own.
func (p *Poller) sweepOthers(now time.Time) {
	for _, record := range p.otherRecords {
		switch {
		case now.Sub(record.AddedAt) <= state.MaxQuestionAge+otherEnvironmentGrace:
		case record.isMissing:
			p.removeFromIndex(record)
		case record.question != nil && now.Sub(record.question.AskedAt) > state.MaxQuestionAge+otherEnvironmentGrace:
			p.Log.ErrorOnce(state.RemoveQuestion(p.Env, record.question), "question not removed")
		}
	}
}
