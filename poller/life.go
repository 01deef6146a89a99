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
	// graceForPost is how long a question is not posted whose PermissionRequest hook does not wait yet, or is not registered.
	graceForPost = 1500 * time.Millisecond
	graceForHook = 5 * time.Second // after its asking, for a process that can take its answer
	// graceForReply is how long after its asking a reply waits for a process that can deliver it: on a slow machine the
	// PermissionRequest hook comes seconds after the poller posted, and takes over.
	graceForReply = 15 * time.Second
	graceForSeen  = 10 * time.Second // after the answer was printed, for the PostToolUse hook, which knows what Claude was told
	unreadGrace   = 5 * time.Minute  // after a question's time is up, for a space that cannot be read
	mostMissed    = 3                // rounds running without its tmux session, before a question is given up
	sweepEvery    = time.Hour
)

// attendAll attends to every record of this environment; some things have their time once a poll_interval. Like what it calls, it
// returns when to come again, zero for no time of its own.
func (p *Poller) attendAll(ctx context.Context, cfg *config.Config) (next time.Time, busy bool) {
	interval := cfg.PollInterval
	p.starts, p.pulls = cfg.CanStartSessions, cfg.ReceivesEvents()
	due := p.Now().Sub(p.polled).Abs() >= interval // a clock that was set back must not hold the round
	if due {
		p.polled = p.Now()
		if !p.Once {
			p.findPanes(ctx)
		}
	}
	if p.takeOldWords() {
		next, busy = p.Now(), true // they are in the inbox, which was read before
	}
	again, isBusy := p.routeAll(ctx)
	next, busy = sooner(next, again), busy || isBusy
	again, isBusy = p.attendSessions(ctx, due)
	next, busy = sooner(sooner(next, again), p.dialogDue), busy || isBusy
	for _, s := range p.inOrder() {
		if ctx.Err() != nil {
			break
		}
		if s.missing {
			p.forget(s)
		}
		if s.over || s.missing {
			p.shrink(s)
			continue
		}
		p.safely("question", func() { next = sooner(next, p.attend(ctx, s, due)) })
		next = sooner(next, p.hold(s))
		busy = busy || p.busy(s)
		p.shrink(s)
	}
	for _, s := range p.others {
		p.shrink(s)
	}
	if busy {
		next = sooner(next, p.polled.Add(interval))
	}
	return next, busy
}

func (p *Poller) attend(ctx context.Context, s *served, due bool) (next time.Time) {
	if s.q == nil || s.typing.Load() {
		return time.Time{}
	}
	if s.named && s.q.Mode == "" && s.q.Status.IsOpen() {
		p.adopt(ctx, s)
	}
	next = p.closeOver(s, due)
	if (due || s.q.HasUnreadReply()) && s.q.ClaudePID != 0 { // who replied is told at once
		p.noteClaudeEnd(s)
	}
	if due && s.q.Status == state.Pending {
		next = sooner(next, p.attendPending(s))
	}
	if s.q.HasUnreadReply() {
		next = sooner(next, p.judgeUnread(s))
	}
	if s.q.Status == state.Pending && !s.q.IsDialogDrawn() {
		next = sooner(next, p.hideDialog(ctx, s))
	}
	unserved := s.q.Status == state.Answered && !s.q.IsPrinted && !state.HasWaiter(p.Env, s.Path)
	if unserved && !s.q.HasUnreadReply() {
		p.undelivered(s)
		p.tellStillKept(s)
	}
	if isToPost(s) {
		next = sooner(next, p.post(ctx, s))
	}
	if len(s.q.OwedNotes) > 0 {
		p.putOwed(s)
	}
	if unserved {
		next = sooner(next, p.startTyping(ctx, s))
	}
	if s.q.HasActiveGrant() {
		next = sooner(next, p.useGrant(s))
	}
	return next
}

// attendPending looks once a round for what becomes of an open question beside Chat, and reminds
// of it.
func (p *Poller) attendPending(s *served) (next time.Time) {
	drawn := s.q.Kind.Traits().UsesOwnSpace || s.q.Kind == state.KindQuestion && s.q.Mode == state.ModeNative
	if drawn && s.q.ClaudePID != 0 {
		p.noteDialogEnd(s)
	}
	if s.q.RemindersSent < len(s.q.RemindAfter) {
		next = p.remind(s)
	}
	if !s.q.Kind.Traits().IsPersonal && p.takeReplyFile(s) { // Claude itself can write there
		next = sooner(next, p.Now().Add(stillWritten))
	}
	return next
}

// change updates a question, which stands in s afterwards. What failed the next step tries again.
func (p *Poller) change(s *served, what string, change func(*state.Question)) {
	q, err := state.ChangeQuestion(s.Path, change)
	p.Log.ErrorOnce(err, what)
	if err == nil && q.IsChanged {
		s.q = q
	}
}

// end ends a question; also, where it is not nil, changes more in the same write.
func (p *Poller) end(q *state.Question, to state.Status, by string, also func(*state.Question)) {
	_, err := state.CloseQuestion(q.Path, to, by, also)
	p.Log.ErrorOnce(err, "question not closed")
}

// close is end of a question in the index.
func (p *Poller) close(s *served, to state.Status, by string, also func(*state.Question)) {
	p.end(s.q, to, by, also)
	p.load(s)
}

// closeOver ends a question whose time is up, or that can have no answer any more.
func (p *Poller) closeOver(s *served, due bool) (next time.Time) {
	q := s.q
	if !q.Status.IsOpen() {
		return time.Time{}
	}
	end := q.AskedAt.Add(state.MaxQuestionAge)
	if q.Status == state.Answered {
		end = end.Add(expireOthers) // an answer that came in time is still to be delivered
	}
	isUp, _, next := p.isUp(q, end)
	if isUp {
		p.close(s, state.Expired, "age", nil)
		return time.Time{}
	}
	if q.TimesOutAt != nil && q.Status == state.Pending {
		isUp, unread, again := p.isUp(q, *q.TimesOutAt)
		if isUp {
			p.close(s, state.TimedOut, "timeout", func(q *state.Question) { judge.TimeOut(q, unread || q.HasUnreadReply()) })
			return time.Time{}
		}
		next = cmp.Or(again, *q.TimesOutAt)
	}
	if at := p.tellSent(s); !at.IsZero() {
		return sooner(next, at)
	}
	isYoung := p.Now().Sub(q.AskedAt).Abs() < graceForHook
	if due && !q.Mode.Traits().Asks && !isYoung && !state.HasWaiter(p.Env, s.Path) {
		p.close(s, state.Cancelled, state.EndedDismissed, nil)
	}
	return next
}

// isUp reports whether a question's time is up, and all is read that was said until then. While
// that is to be read, again is when to look once more.
func (p *Poller) isUp(q *state.Question, end time.Time) (isUp, unread bool, again time.Time) {
	if p.Now().Before(end) {
		return false, false, again
	}
	wait, unread := p.readFirst(q, end)
	if wait {
		again = p.Now().Add(time.Second)
	}
	return !wait, unread, again
}

// tellSent has the thread told of an answer that was printed, and that Claude Code does not
// confirm. due is when that is to be told; zero for no time of its own.
func (p *Poller) tellSent(s *served) (due time.Time) {
	q := s.q
	if q.Status != state.Answered || !q.IsPrinted || q.PrintedAt == nil || q.HasSentNote {
		return time.Time{}
	}
	at := q.PrintedAt.Add(graceForSeen)
	if left := at.Sub(p.Now()); left > 0 && left <= graceForSeen {
		return at
	}
	p.change(s, "answer not told of", func(q *state.Question) {
		if q.Status == state.Answered && !q.HasSentNote {
			q.HasSentNote = true
			q.OweNote(state.NoteSent, "")
		}
	})
	return time.Time{}
}

// noteClaudeEnd ends a question whose Claude Code has ended. In deny mode the session gets the reply when it is resumed.
func (p *Poller) noteClaudeEnd(s *served) {
	q, now := s.q, p.Now().UTC()
	waits := q.Status.IsOpen() || q.IsLate(now)
	if !waits || !q.Mode.Traits().Asks || q.SessionEndedAt != nil || !inject.Ended(q.ClaudePID, q.ClaudeStart) {
		return
	}
	switch {
	case q.Status == state.Answered && q.IsPrinted: // it had the answer
		p.close(s, state.Resolved, "chat", nil)
	case !q.Mode.Traits().KeepsAnswer:
		p.close(s, state.Cancelled, "claude_gone", nil)
	default:
		p.change(s, "end of the session not noted", func(is *state.Question) {
			isResumed := is.ClaudePID != q.ClaudePID || is.ClaudeStart != q.ClaudeStart
			if is.SessionEndedAt == nil && !isResumed {
				is.SessionEndedAt = &now
			}
		})
	}
}

// noteDialogEnd closes a permission or a plan that was answered in the terminal: no hook is told of that before Claude has the
// results of all its calls. Only a dialog that was seen to wait, and waits no more, was answered.
// Claude Code's file says that a dialog of the session waits, and not which: a hidden one is
// none of them, and an agent's is the one only where no other is open.
func (p *Poller) noteDialogEnd(s *served) {
	q := s.q
	if q.Kind.Traits().AsksForValues {
		p.noteFormEnd(s)
		return
	}
	if q.EndsIndependently() || q.AgentID != "" && p.hasOtherDialog(s) {
		return
	}
	one, err := state.SessionsIn(p.user).Get(q.ClaudeSession())
	if err != nil {
		return
	}
	waits, known := inject.Waits(one.TranscriptPath, q.ClaudeSession(), q.ClaudePID)
	switch {
	case waits:
		s.shown, s.gone, s.goneAt = true, false, time.Time{}
	case known && s.gone && !q.Kind.Traits().Decides:
		p.noteQuestionEnd(s)
	case known && s.gone:
		p.close(s, state.Resolved, "terminal", nil)
	case known:
		s.gone = s.shown // on Esc its hook is told a moment later, and closes it as dismissed
	}
}

// noteFormEnd closes a form whose session has come to rest since it was asked: its turn was broken
// off, with Esc, and no hook is told of that (2.1.197 and 2.1.332).
func (p *Poller) noteFormEnd(s *served) {
	one, err := state.SessionsIn(p.user).Get(s.q.ClaudeSession())
	if err == nil && inject.RestsSince(one.TranscriptPath, one.ID, s.q.ClaudePID).After(s.q.AskedAt) {
		p.close(s, state.Cancelled, state.EndedDismissed, nil)
	}
}

// hasOtherDialog reports whether another dialog of a question's session is open, too.
func (p *Poller) hasOtherDialog(s *served) bool {
	for _, o := range p.index {
		isDialog := o != s && o.q != nil && o.q.Status == state.Pending && o.q.IsDialogDrawn() && !o.q.Kind.Traits().IsPrompt
		if isDialog && o.q.ClaudeSession() == s.q.ClaudeSession() {
			return true
		}
	}
	return false
}

// graceForAnswered is how long the hooks of a question's end have, once its dialog is gone. None comes where a plugin's folder
// went, as with an update: Claude Code then runs no hook of it (2.1.332).
const graceForAnswered = 10 * time.Second

// noteQuestionEnd closes a question whose dialog is gone, and of which no hook told how it ended.
func (p *Poller) noteQuestionEnd(s *served) {
	if s.goneAt.IsZero() {
		s.goneAt = p.Now()
	}
	if p.Now().Sub(s.goneAt).Abs() >= graceForAnswered {
		p.close(s, state.Cancelled, state.EndedDialogGone, nil)
	}
}

func (p *Poller) remind(s *served) (next time.Time) {
	q, now := s.q, p.Now()
	if q.Status != state.Pending || !q.IsMessageSent {
		return time.Time{}
	}
	at := q.AskedAt.Add(q.RemindAfter[q.RemindersSent])
	if now.Before(at) {
		return at
	}
	wait, _ := p.readFirst(q, at)
	if p.awake.After(at) && wait || state.SpacesIn(p.user).Get(q.Chat).Failures > 0 {
		return now.Add(time.Second) // there may be a reply already; or nothing can be sent: what is due by then is one reminder
	}
	p.change(s, "reminder not owed", func(q *state.Question) {
		if q.Status != state.Pending || q.RemindersSent >= len(q.RemindAfter) {
			return
		}
		for q.RemindersSent < len(q.RemindAfter) && !now.Before(q.AskedAt.Add(q.RemindAfter[q.RemindersSent])) {
			q.RemindersSent++ // after a night without a poller one reminder is enough
		}
		q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteReminder, Text: state.DescribeDuration(q.RemindAfter[q.RemindersSent-1])})
	})
	return time.Time{}
}

// graceLeft is when a permission or a plan is due whose person types in its pane: what they answer there meanwhile needs no
// thread. Zero is for now.
func (p *Poller) graceLeft(ctx context.Context, s *served) (due time.Time) {
	q := s.q
	due = q.AskedAt.Add(q.GracePeriod)
	if !p.Now().Before(due) || due.Sub(p.Now()) > q.GracePeriod {
		return time.Time{}
	}
	if !s.looked {
		typed, err := inject.Server{Socket: s.TmuxSocket}.LastTyped(ctx, s.TmuxPane)
		s.looked, s.sits = true, err == nil && q.AskedAt.Sub(typed) < state.MaxKeyAge
	}
	if !s.sits {
		return time.Time{}
	}
	return due
}

// readFirst says whether what was due then has to wait: what was said until then, or while the machine slept or no poller ran, is
// still to be read. A space that cannot be read is not waited for any longer; unread says that there may have been a reply.
func (p *Poller) readFirst(q *state.Question, due time.Time) (wait, unread bool) {
	if q.Chat == "" || !q.IsMessageSent {
		return false, false
	}
	if p.awake.After(due) {
		due = p.awake
	}
	unread = q.HasUnreadReply() || !p.readSince(q.Chat, due)
	return unread && p.Now().Sub(due) <= unreadGrace, unread
}

// readSince says whether all that was said in a chat until then is read, and decided.
func (p *Poller) readSince(chat string, then time.Time) bool {
	return p.readTo[chat].After(then) && !p.isUndecided(chat)
}

// noteReadTo notes up to when each chat was read.
func (p *Poller) noteReadTo() {
	p.readTo = map[string]time.Time{}
	p.events.mu.Lock()
	defer p.events.mu.Unlock()
	for chat, r := range p.readers {
		switch {
		case r.busy.Load():
		case !r.pulls:
			p.readTo[chat] = r.good
		case p.events.failed == 0:
			p.readTo[chat] = p.events.good
		}
	}
}

func isToPost(s *served) bool {
	return s.q.Status == state.Pending && !s.q.IsMessageSent && !s.put && s.q.Mode.Traits().Asks
}

func (p *Poller) post(ctx context.Context, s *served) (again time.Time) {
	q := s.q
	young := p.Now().Sub(q.AskedAt).Abs() < graceForPost
	if q.Mode.Traits().HasDialog && young && (s.unsure || q.NeedsHook(p.deliverer(s))) {
		return p.Now().Add(250 * time.Millisecond) // its hook may just be starting
	}
	if q.GracePeriod > 0 && s.TmuxPane != "" {
		if due := p.graceLeft(ctx, s); !due.IsZero() {
			return due
		}
	}
	if err := p.putQuestion(q, s.IndexEntry, firstMessage); err != nil {
		p.Log.ErrorOnce(err, "question not put into the outbox")
		return p.Now().Add(time.Second)
	}
	s.put = true
	return time.Time{}
}

// putOwed puts the notes that a question's thread is owed, and strikes them off. A thread that a process waits in gets none.
func (p *Poller) putOwed(s *served) {
	q := s.q
	var told []state.OwedNote
	for _, owed := range q.OwedNotes {
		done, err := !q.Mode.Traits().Asks, error(nil)
		if owed.About == state.NoteSendUnsent {
			err = p.sendOn(q, owed.ReplyMessage)
		}
		if !done && err == nil {
			done, err = p.putNote(q, s.IndexEntry, owed)
		}
		p.Log.ErrorOnce(err, "note not put into the outbox")
		if done {
			told = append(told, owed)
		}
	}
	if len(told) == 0 {
		return
	}
	if q.Mode.Traits().Asks && !q.Status.IsOpen() { // before they are struck off: killed in between, it is written again
		p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "end not in the audit log")
	}
	q, err := state.ChangeQuestionRelaxed(s.Path, func(q *state.Question) {
		q.OwedNotes = slices.DeleteFunc(q.OwedNotes, func(owed state.OwedNote) bool { return slices.Contains(told, owed) })
		if slices.ContainsFunc(told, func(owed state.OwedNote) bool { return owed.About == state.NoteSendUnsent }) {
			q.PartialAnswers = nil
		}
	})
	if err == nil {
		s.q = q
	}
	p.Log.ErrorOnce(err, "notes not struck off")
}

// sendOn gives what a question's person answered, and did not reach Claude, to its session as words of that reply. The same
// reply is one record there.
func (p *Poller) sendOn(q *state.Question, reply string) error {
	r, session := q.FindReply(reply), q.ClaudeSession()
	_, err := state.InboxIn(p.user).Add(&state.Incoming{
		ID: state.IncomingID(q.Chat, r.MessageName, state.NoteSendUnsent), Chat: q.Chat, MessageName: r.MessageName,
		ThreadName: q.ThreadName, Sender: r.Sender, SenderEmail: r.SenderEmail, DisplayName: r.DisplayName,
		Text: q.UnsentAnswers(), CreatedAt: r.CreatedAt, LocalCreatedAt: r.CreatedAt, ReadAt: p.Now().UTC(),
		Status: state.IncomingRouted, SessionID: session,
	}, false)
	return err
}

func (p *Poller) busy(s *served) bool {
	q := s.q
	switch {
	case q == nil || s.over:
		return false
	case s.typing.Load() || q.HasActiveGrant() || len(q.OwedNotes) > 0 || q.Status == state.Pending:
		return true
	case q.Status == state.Answered && q.IsPrinted:
		return !q.HasSentNote && q.PrintedAt != nil
	case q.Status == state.Answered && !q.Mode.Traits().HasMarker:
		return state.HasWaiter(p.Env, s.Path) || p.typable(s) && !spoiled(q)
	}
	return q.IsLate(p.Now()) && state.HasWaiter(p.Env, s.Path)
}

// sweep removes what is old: once an hour, and before a poller ends that has nothing to do.
func (p *Poller) sweep() {
	now := p.Now()
	p.swept = now
	p.Log.ForgetOnce()
	p.summed.Clear() // a summary that failed is tried again
	state.OutboxIn(p.user).Sweep(p.Env, now)
	state.SessionsIn(p.user).Sweep(now)
	state.InboxIn(p.user).Sweep(now)
	folders := map[string]bool{}
	for _, name := range []string{"open", "outbox", "sessions", "spaces", "pollers", "projects", ""} {
		folders[filepath.Join(p.user, name)] = true
	}
	p.sweepQuestions()
	p.sweepOthers(now)
	for s := range p.everyRecord() {
		if s.RecordType == state.IndexedQuestion {
			folders[filepath.Dir(s.Path)] = true
			if state := filepath.Dir(filepath.Dir(s.Path)); filepath.Base(state) == "state" { // and none that a person named
				folders[state] = true
			}
		}
	}
	for folder := range folders {
		state.RemoveTemporaryFiles(folder)
		_, err := state.RemoveUnindexedQuestions(p.Env, folder, now.Add(-state.MaxQuestionAge-expireOthers))
		p.Log.ErrorOnce(err, "old questions not removed")
	}
}

// sweepQuestions removes the questions that ended and are older than a day, as far as this poller serves them.
func (p *Poller) sweepQuestions() {
	for _, s := range p.index {
		p.safely("sweep", func() { p.sweepOne(s, p.Now()) })
	}
}

func (p *Poller) sweepOne(s *served, now time.Time) {
	if s.q == nil {
		return
	}
	age := now.Sub(s.q.AskedAt)
	if !s.q.Status.IsOpen() && age > state.MaxQuestionAge && (s.over || age > state.MaxQuestionAge+expireOthers) {
		release(&s.lock)
		p.Log.ErrorOnce(state.RemoveClosedQuestion(p.Env, s.q), "question not removed")
	}
}

// sweepOthers removes what the poller of another environment left, which did not come again
// for a day and an hour. What is not there may be out of our sight until then: another
// machine with this HOME has projects of its own.
func (p *Poller) sweepOthers(now time.Time) {
	for _, s := range p.others {
		switch {
		case now.Sub(s.AddedAt) <= state.MaxQuestionAge+expireOthers:
		case s.missing:
			p.forget(s)
		case s.q != nil && now.Sub(s.q.AskedAt) > state.MaxQuestionAge+expireOthers:
			p.Log.ErrorOnce(state.RemoveQuestion(p.Env, s.q), "question not removed")
		}
	}
}
