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
	// graceForPost is how long the poller holds back a question whose PermissionRequest
	// hook does not wait yet. The hook may be starting, or it may not be registered.
	graceForPost = 1500 * time.Millisecond
	// graceForHook is how long after a question was asked the process that waits for its
	// answer may take to appear.
	graceForHook = 5 * time.Second
	// graceForReply is how long after the asking a reply waits for a process that can
	// deliver it. On a slow machine the PermissionRequest hook comes seconds after the
	// poller posted, and takes over.
	graceForReply = 15 * time.Second
	// graceForConfirmation is how long after the answer was printed the poller waits for
	// the PostToolUse hook, which knows what Claude got.
	graceForConfirmation = 10 * time.Second
	// graceForUnreadSpace is how long a question stays open after its time is up, while
	// its space cannot be read: a reply in time may be there.
	graceForUnreadSpace = 5 * time.Minute
	// maxMissedRounds is how many rounds in a row the tmux session of a question may be
	// missing before the poller abandons the question.
	maxMissedRounds = 3
	sweepInterval   = time.Hour
)

// attendAll attends to every record of this environment. Some checks run only once a
// round, which is once a poll_interval. Like the functions that it calls, it returns when
// it has to run the next time; zero means that it needs no certain time.
func (p *Poller) attendAll(ctx context.Context, cfg *config.Config) (next time.Time, hasWork bool) {
	interval := cfg.PollInterval
	p.canStartSessions, p.receivesEvents = cfg.CanStartSessions, cfg.ReceivesEvents()
	// Abs: a clock that was set back must not delay the round.
	isRoundDue := p.Now().Sub(p.lastRoundAt).Abs() >= interval
	if isRoundDue {
		p.lastRoundAt = p.Now()
		if !p.Once {
			p.abandonWithoutPane(ctx)
		}
	}
	if p.moveOldPrompts() {
		next, hasWork = p.Now(), true // this step read the inbox before they were in it
	}
	retryAt, isRouting := p.routeAll(ctx)
	next = earlier(next, retryAt)
	retryAt, areSessionsBusy := p.attendSessions(ctx, isRoundDue)
	next = earlier(earlier(next, retryAt), p.dialogNoteDue)
	hasWork = hasWork || isRouting || areSessionsBusy
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
		p.runSafely("question", func() {
			next = earlier(next, p.attendRecord(ctx, record, isRoundDue))
		})
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

// attendRecord takes each step that is due for one question.
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
	next = p.closeEnded(record, isRoundDue)
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
	if isUndelivered {
		p.attendUndelivered(record, isRoundDue)
	}
	if needsPost(record) {
		next = earlier(next, p.enqueueWhenDue(ctx, record))
	}
	next = earlier(next, p.callWhenDue(ctx, record))
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

// attendUndelivered handles an answer for which no hook waits: it looks whether the dialog
// has ended, and owes the thread notes about the delay.
func (p *Poller) attendUndelivered(record *trackedRecord, isRoundDue bool) {
	if isRoundDue && record.question.Kind.Traits().Decides {
		p.handleDialogEnd(record) // the reply came after the dialog's end
	}
	if !record.question.HasUnreadReply() {
		p.oweUndeliveredNote(record)
		p.oweStillKeptNote(record)
	}
}

// closeEnded closes a question whose time is up, or whose Claude Code has ended.
func (p *Poller) closeEnded(record *trackedRecord, isRoundDue bool) (next time.Time) {
	next = p.closeExpired(record, isRoundDue)
	// With an unread reply this cannot wait for the round: the sender gets their note at
	// once.
	if record.question.ClaudePID != 0 && (isRoundDue || record.question.HasUnreadReply()) {
		p.handleClaudeEnd(record)
	}
	return next
}

// attendPending looks once a round for what happens to an open question outside of Chat:
// its dialog in the terminal, and a reply by hand. It also owes the reminders.
func (p *Poller) attendPending(record *trackedRecord) (next time.Time) {
	isDrawn := record.question.Kind.Traits().UsesOwnSpace ||
		record.question.Kind == state.KindQuestion && record.question.Mode == state.ModeNative
	if isDrawn && record.question.ClaudePID != 0 {
		p.handleDialogEnd(record)
	}
	if record.question.RemindersSent < len(record.question.RemindAfter) {
		next = p.oweReminder(record)
	}
	// Claude itself can write the file of replies by hand, so it answers nothing
	// personal.
	if !record.question.Kind.Traits().IsPersonal && p.readReplyFile(record) {
		next = earlier(next, p.Now().Add(minReplyFileAge))
	}
	return next
}

// changeRecord changes a question on disk and then in record. The next step tries a
// failed change once more.
func (p *Poller) changeRecord(record *trackedRecord, failure string, change func(*state.Question)) {
	stored, err := state.ChangeQuestion(record.Path, change)
	p.Log.ErrorOnce(err, failure)
	if err == nil && stored.IsChanged {
		record.question = stored
	}
}

// closeQuestion ends a question. change, where it is not nil, runs in the same write.
func (p *Poller) closeQuestion(
	q *state.Question,
	status state.Status,
	resolvedBy string,
	change func(*state.Question),
) {
	_, err := state.CloseQuestion(q.Path, status, resolvedBy, change)
	p.Log.ErrorOnce(err, "question not closed")
}

// closeRecord ends a question and loads it into record.
func (p *Poller) closeRecord(
	record *trackedRecord,
	status state.Status,
	resolvedBy string,
	change func(*state.Question),
) {
	p.closeQuestion(record.question, status, resolvedBy, change)
	p.loadQuestion(record)
}

// closeExpired ends a question whose time is up, and the record of a process that has
// stopped waiting. It also owes the note about an answer that Claude Code does not
// confirm.
func (p *Poller) closeExpired(record *trackedRecord, isRoundDue bool) (next time.Time) {
	q := record.question
	if !q.Status.IsOpen() {
		return time.Time{}
	}
	end := q.AskedAt.Add(state.MaxQuestionAge)
	if q.Status == state.Answered {
		// an answer that came in time has an hour more to be delivered
		end = end.Add(otherEnvironmentGrace)
	}
	isTimeUp, _, next := p.isTimeUp(q, end)
	if isTimeUp {
		p.closeRecord(record, state.Expired, "age", nil)
		return time.Time{}
	}
	if q.TimesOutAt != nil && q.Status == state.Pending {
		isTimeUp, hasUnread, retryAt := p.isTimeUp(q, *q.TimesOutAt)
		if isTimeUp {
			p.closeRecord(record, state.TimedOut, "timeout", func(q *state.Question) {
				judge.ApplyTimeoutPolicy(q, hasUnread || q.HasUnreadReply())
			})
			return time.Time{}
		}
		next = cmp.Or(retryAt, *q.TimesOutAt)
	}
	if dueAt := p.oweSentNote(record); !dueAt.IsZero() {
		return earlier(next, dueAt)
	}
	isOldWait := !q.Mode.Traits().Asks && p.Now().Sub(q.AskedAt).Abs() >= graceForHook
	if isRoundDue && isOldWait && !state.HasWaiter(p.Env, record.Path) {
		p.closeRecord(record, state.Cancelled, state.EndedDismissed, nil)
	}
	return next
}

// isTimeUp reports whether a question's time is up and the poller has read what people
// wrote until then. While the poller still has to read, retryAt is when to look once
// more. For hasUnread see mustReadFirst.
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

// oweSentNote owes the thread a note about an answer that the hook printed and that
// Claude Code does not confirm. It returns when the note is due; zero where none will be.
func (p *Poller) oweSentNote(record *trackedRecord) time.Time {
	q := record.question
	if q.Status != state.Answered || !q.IsPrinted || q.PrintedAt == nil || q.HasSentNote {
		return time.Time{}
	}
	dueAt := q.PrintedAt.Add(graceForConfirmation)
	if remaining := dueAt.Sub(p.Now()); remaining > 0 && remaining <= graceForConfirmation {
		return dueAt
	}
	p.changeRecord(record, "note about a sent answer not owed", func(q *state.Question) {
		if q.Status == state.Answered && !q.HasSentNote {
			q.HasSentNote = true
			q.OweNote(state.NoteSent, "")
		}
	})
	return time.Time{}
}

// handleClaudeEnd ends a question whose Claude Code process has ended. In deny mode the
// question stays open: the session gets the reply when it is resumed.
func (p *Poller) handleClaudeEnd(record *trackedRecord) {
	q, now := record.question, p.Now().UTC()
	isWaiting := q.Status.IsOpen() || q.IsLate(now)
	if !isWaiting || !q.Mode.Traits().Asks || q.SessionEndedAt != nil ||
		!inject.HasEnded(q.ClaudePID, q.ClaudeStart) {
		return
	}
	switch {
	case q.Status == state.Answered && q.IsPrinted: // Claude Code had the answer
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

// handleDialogEnd closes a question whose dialog ended in the terminal. No hook reports
// that before Claude has the results of all its tool calls, and none reports Esc. So the
// poller watches Claude Code's session file: a dialog that the poller saw waiting, and
// that has stopped waiting, has ended. The file says that a dialog of the session waits,
// but not which one. It never means a hidden dialog. It means a subagent's dialog only
// where no other is open.
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
		record.hasSeenDialog = true
		record.isDialogGone, record.dialogGoneAt = false, time.Time{}
	case !isKnown:
	case q.Kind.Traits().Decides:
		p.closeGoneDecision(record, session)
	case record.isDialogGone:
		p.closeGoneQuestion(record)
	default:
		// Wait one round: after Esc a hook runs a moment later and closes the question as
		// dismissed.
		record.isDialogGone = record.hasSeenDialog
	}
}

// closeEndedForm closes a form whose session has gone idle since the form was asked: the
// person stopped the turn with Esc, for which Claude Code runs no hook (2.1.197 and
// 2.1.332).
func (p *Poller) closeEndedForm(record *trackedRecord) {
	q := record.question
	session, err := state.SessionsIn(p.userStateDir).Get(q.ClaudeSession())
	if err != nil {
		return
	}
	if inject.IdleSince(session.TranscriptPath, session.ID, q.ClaudePID).After(q.AskedAt) {
		p.closeRecord(record, state.Cancelled, state.EndedDismissed, nil)
	}
}

// hasOtherDialog reports whether the session of a question has another open dialog.
func (p *Poller) hasOtherDialog(record *trackedRecord) bool {
	return p.hasSessionRecord(record.question.ClaudeSession(), func(other *trackedRecord) bool {
		q := other.question
		return other != record && q.Status == state.Pending && q.IsDialogDrawn() &&
			!q.Kind.Traits().IsPrompt
	})
}

// closeGoneDecision closes a permission or a plan whose dialog is gone. The transcript
// says whether its call was allowed, refused or dismissed. It does not while the call
// runs: then Claude Code works, and the call was allowed. After Esc Claude Code is idle,
// or works on a prompt that was queued. So "it works" alone counts only when the
// transcript has had time to say otherwise.
func (p *Poller) closeGoneDecision(record *trackedRecord, session *state.Session) {
	q := record.question
	if p.CloseByTranscript != nil && p.CloseByTranscript(p.Env, session, q) {
		p.loadQuestion(record)
		return
	}
	isIdle := inject.IdleSince(session.TranscriptPath, q.ClaudeSession(), q.ClaudePID).
		After(q.AskedAt)
	if !record.hasSeenDialog && !isIdle {
		return
	}
	if record.dialogGoneAt.IsZero() {
		record.dialogGoneAt = p.Now()
	}
	gone := p.Now().Sub(record.dialogGoneAt).Abs()
	switch {
	case isIdle && gone >= graceForAnswered:
		p.closeRecord(record, state.Cancelled, state.EndedUnseen, nil)
	case !isIdle && gone >= graceForRefusal:
		p.closeRecord(record, state.Resolved, "terminal", nil)
	}
}

// graceForRefusal is how long the poller waits for the transcript to say that a decision's
// call was refused, once its dialog is gone and Claude Code works. Claude Code writes that
// 0.1 s after the dialog's end (2.1.197 and 2.1.332). A call that was allowed may run for
// long, and meanwhile nobody is to be called for it.
const graceForRefusal = 3 * time.Second

// graceForAnswered is how long the poller waits for the hook or the transcript to report
// a question's end, once the dialog is gone. No hook comes where an update removed the
// plugin's folder: Claude Code then runs none of its hooks (2.1.332).
const graceForAnswered = 10 * time.Second

// closeGoneQuestion closes a question whose dialog is gone, where no hook reported how it
// ended.
func (p *Poller) closeGoneQuestion(record *trackedRecord) {
	if record.dialogGoneAt.IsZero() {
		record.dialogGoneAt = p.Now()
	}
	if p.Now().Sub(record.dialogGoneAt).Abs() >= graceForAnswered {
		p.closeRecord(record, state.Cancelled, state.EndedDialogGone, nil)
	}
}

// oweReminder owes the thread of an open question a reminder when one is due. Several
// that are due at once, as after a night without a poller, become one.
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
	mayHaveReply := p.awakeSince.After(dueAt) && mustWait
	if mayHaveReply || state.SpacesIn(p.userStateDir).Get(q.Chat).Failures > 0 {
		return now.Add(time.Second)
	}
	p.changeRecord(record, "reminder not owed", func(q *state.Question) {
		if q.Status != state.Pending || q.RemindersSent >= len(q.RemindAfter) {
			return
		}
		for q.RemindersSent < len(q.RemindAfter) &&
			!now.Before(q.AskedAt.Add(q.RemindAfter[q.RemindersSent])) {
			q.RemindersSent++
		}
		q.OwedNotes = append(q.OwedNotes, state.OwedNote{
			About: state.NoteReminder,
			Text:  state.DescribeDuration(q.RemindAfter[q.RemindersSent-1]),
		})
	})
	return time.Time{}
}

// graceEnd returns when to post a permission or a plan whose person types in its pane:
// what they answer there until then needs no thread. Zero means at once.
func (p *Poller) graceEnd(ctx context.Context, record *trackedRecord) time.Time {
	q := record.question
	due := q.AskedAt.Add(q.GracePeriod)
	if !p.Now().Before(due) || due.Sub(p.Now()) > q.GracePeriod {
		return time.Time{}
	}
	if !record.hasCheckedKeys {
		lastKeyAt, err := inject.Server{Socket: record.TmuxSocket}.LastTyped(ctx, record.TmuxPane)
		record.hasCheckedKeys = true
		record.isPersonTyping = err == nil && q.AskedAt.Sub(lastKeyAt) < state.MaxKeyAge
	}
	if !record.isPersonTyping {
		return time.Time{}
	}
	return due
}

// mustReadFirst reports whether an action has to wait because a reply from before its due
// time may be unread. If the machine slept or no poller ran then, replies until this
// poller woke count as well. The action waits for graceForUnreadSpace at most. hasUnread
// means that there may be a reply which the poller has not read.
func (p *Poller) mustReadFirst(q *state.Question, due time.Time) (mustWait, hasUnread bool) {
	if q.Chat == "" || !q.IsMessageSent {
		return false, false
	}
	if p.awakeSince.After(due) {
		due = p.awakeSince
	}
	hasUnread = q.HasUnreadReply() || !p.isReadUpTo(q.Chat, due)
	return hasUnread && p.Now().Sub(due) <= graceForUnreadSpace, hasUnread
}

// isReadUpTo reports whether the poller has read every message that came to a chat before
// that time, and has decided what each of them is.
func (p *Poller) isReadUpTo(chat string, end time.Time) bool {
	return p.readUntil[chat].After(end) && !p.hasUndecided(chat)
}

// updateReadUntil notes until when each chat was read.
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
	q := record.question
	return q.Status == state.Pending && q.Mode.Traits().Asks &&
		!q.IsMessageSent && !record.isEnqueued
}

// enqueueWhenDue enqueues a question's message, or returns when to try once more.
func (p *Poller) enqueueWhenDue(ctx context.Context, record *trackedRecord) (retryAt time.Time) {
	q := record.question
	canWait := q.Mode.Traits().HasDialog && p.Now().Sub(q.AskedAt).Abs() < graceForPost
	if canWait && (record.isWaitingForGrant || q.NeedsHook(p.findDeliverer(record))) {
		return p.Now().Add(250 * time.Millisecond)
	}
	if q.GracePeriod > 0 && record.TmuxPane != "" {
		if due := p.graceEnd(ctx, record); !due.IsZero() {
			return due
		}
	}
	if err := p.enqueueQuestion(q, record.IndexEntry, firstMessageKey); err != nil {
		p.Log.ErrorOnce(err, "question not enqueued")
		return p.Now().Add(time.Second)
	}
	record.isEnqueued = true
	return time.Time{}
}

// enqueueOwedNotes enqueues the notes that a question owes its thread, and strikes them
// off. A thread that a process waits in gets none.
func (p *Poller) enqueueOwedNotes(record *trackedRecord) {
	q := record.question
	var done []state.OwedNote
	for _, owed := range q.OwedNotes {
		isDone := !q.Mode.Traits().Asks
		var err error
		if owed.About == state.NoteSendUnsent {
			err = p.forwardUnsentAnswers(q, owed.ReplyMessage)
		}
		if !isDone && err == nil {
			isDone, err = p.enqueueNote(q, record.IndexEntry, owed)
		}
		p.Log.ErrorOnce(err, "note not enqueued")
		if isDone {
			done = append(done, owed)
		}
	}
	if len(done) == 0 {
		return
	}
	if q.Mode.Traits().Asks && !q.Status.IsOpen() {
		// The audit line comes before the notes are struck off. If the poller is killed
		// in between, the line is written twice rather than never.
		p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "audit line not written")
	}
	isDone := func(owed state.OwedNote) bool { return slices.Contains(done, owed) }
	isForward := func(owed state.OwedNote) bool { return owed.About == state.NoteSendUnsent }
	q, err := state.ChangeQuestionRelaxed(record.Path, func(q *state.Question) {
		q.OwedNotes = slices.DeleteFunc(q.OwedNotes, isDone)
		if slices.ContainsFunc(done, isForward) {
			q.PartialAnswers = nil
		}
	})
	if err == nil {
		record.question = q
	}
	p.Log.ErrorOnce(err, "notes not struck off")
}

// forwardUnsentAnswers adds the answers that did not reach Claude to the inbox, as a
// prompt for the question's session. Its id is made from the reply, so it is added once.
func (p *Poller) forwardUnsentAnswers(q *state.Question, messageName string) error {
	reply := q.FindReply(messageName)
	_, err := state.InboxIn(p.userStateDir).Add(&state.Incoming{
		ID:             state.IncomingID(q.Chat, reply.MessageName, state.NoteSendUnsent),
		Chat:           q.Chat,
		MessageName:    reply.MessageName,
		ThreadName:     q.ThreadName,
		Sender:         reply.Sender,
		SenderEmail:    reply.SenderEmail,
		DisplayName:    reply.DisplayName,
		Text:           q.UnsentAnswers(),
		CreatedAt:      reply.CreatedAt,
		LocalCreatedAt: reply.CreatedAt,
		ReadAt:         p.Now().UTC(),
		Status:         state.IncomingRouted,
		SessionID:      q.ClaudeSession(),
	}, false)
	return err
}

// hasWork reports whether the poller has to stay for a question.
func (p *Poller) hasWork(record *trackedRecord) bool {
	q := record.question
	switch {
	case q == nil || record.isDone:
		return false
	case q.Status == state.Pending, len(q.OwedNotes) > 0:
		return true
	case q.HasActiveGrant(), record.isTyping.Load():
		return true
	case q.Status == state.Answered && q.IsPrinted:
		return !q.HasSentNote && q.PrintedAt != nil
	case q.Status == state.Answered && !q.Mode.Traits().HasMarker:
		return state.HasWaiter(p.Env, record.Path) || p.canType(record) && !needsPerson(q)
	}
	return q.IsLate(p.Now()) && state.HasWaiter(p.Env, record.Path)
}

// sweep removes old records and temporary files. It runs once an hour, and before a
// poller without work ends.
func (p *Poller) sweep() {
	now := p.Now()
	p.lastSweepAt = now
	p.Log.ForgetOnce()
	p.attemptedNotes.Clear() // so that a failed summary is tried once more
	state.OutboxIn(p.userStateDir).Sweep(p.Env, now)
	state.SessionsIn(p.userStateDir).Sweep(now)
	state.InboxIn(p.userStateDir).Sweep(now)
	p.sweepFiles(now)
	folders := map[string]bool{}
	for _, name := range []string{
		"open", "outbox", "sessions", "spaces", "pollers", "projects", "",
	} {
		folders[filepath.Join(p.userStateDir, name)] = true
	}
	p.sweepQuestions()
	p.sweepOthers(now)
	for record := range p.allRecords() {
		if record.RecordType != state.IndexedQuestion {
			continue
		}
		folder := filepath.Dir(record.Path)
		folders[folder] = true
		// The state folder around it is swept, too. A folder that a person named may lie
		// elsewhere: what is around that one is left alone.
		if stateDir := filepath.Dir(folder); filepath.Base(stateDir) == "state" {
			folders[stateDir] = true
		}
	}
	oldest := now.Add(-state.MaxQuestionAge - otherEnvironmentGrace)
	for folder := range folders {
		state.RemoveTemporaryFiles(folder)
		_, err := state.RemoveUnindexedQuestions(p.Env, folder, oldest)
		p.Log.ErrorOnce(err, "old questions not removed")
	}
}

// sweepQuestions removes the closed questions of this environment that are older than a
// day.
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
	isOld := age > state.MaxQuestionAge+otherEnvironmentGrace ||
		age > state.MaxQuestionAge && record.isDone
	if isOld && !record.question.Status.IsOpen() {
		release(&record.entryLock)
		p.Log.ErrorOnce(state.RemoveClosedQuestion(p.Env, record.question), "question not removed")
	}
}

// sweepOthers removes questions of other environments that no poller of theirs removed
// within a day and an hour. A record that is missing here keeps its index entry until
// then: another machine with this HOME may have its project.
func (p *Poller) sweepOthers(now time.Time) {
	const maxAge = state.MaxQuestionAge + otherEnvironmentGrace
	for _, record := range p.otherRecords {
		switch {
		case now.Sub(record.AddedAt) <= maxAge:
		case record.isMissing:
			p.removeFromIndex(record)
		case record.question != nil && now.Sub(record.question.AskedAt) > maxAge:
			p.Log.ErrorOnce(state.RemoveQuestion(p.Env, record.question), "question not removed")
		}
	}
}
