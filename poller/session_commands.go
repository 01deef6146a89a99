package poller

import (
	"context"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// canTakeCommands reports whether commands in a session's thread count: the session's
// hooks accept them, and its Claude Code runs.
func (p *Poller) canTakeCommands(session *state.Session) bool {
	return session.ThreadName != "" && session.Chat != "" && commands.AcceptsInput(session, p.Now())
}

// canResume reports whether a message in a session's thread can start its Claude Code
// again, which has ended. Whether the person wants that is p.canStartSessions.
func (p *Poller) canResume(session *state.Session) bool {
	return session.AcceptsCommands && session.ThreadName != "" && session.Chat != "" &&
		!inject.IsElsewhere(session.ClaudeStart) &&
		!commands.AcceptsInput(session, p.Now())
}

// needsReadingAfterEnd reports whether the poller reads the thread of a session that
// has ended.
//
// If a message there resumes the session, the thread is read for restPeriod, or for
// good where reading costs nothing. Otherwise the sender only gets a note that the
// session has ended: for readAfterEnd after the end. On the page of the embedded space,
// also for readAfterEnd after this poller started, since a message there starts a
// poller.
func (p *Poller) needsReadingAfterEnd(session *state.Session) bool {
	if !p.canResume(session) {
		return false
	}
	endedAt := session.EndedAt
	if endedAt.IsZero() {
		endedAt = session.LastSeen
	}
	age := p.Now().Sub(endedAt).Abs()
	if !p.canStartSessions {
		canBeWoken := gchat.IsLocalChat(session.Chat) &&
			(p.Daemon || p.Now().Sub(p.startedAt) < readAfterEnd)
		return age < readAfterEnd || canBeWoken && age < state.MaxQuestionAge
	}
	return p.Daemon || p.receivesEvents || gchat.IsLocalChat(session.Chat) || age < restPeriod
}

// hasNoPoller reports whether no poller of a session's environment runs.
func (p *Poller) hasNoPoller(session *state.Session) bool {
	return !slices.Contains(p.ownSessions, session) &&
		!state.ReadHeartbeat(p.Env, session.Environment).IsAlive
}

// attendSessions enqueues the summaries that sessions owe, and handles the prompts and
// commands for each session. hasWork reports that more work is expected.
func (p *Poller) attendSessions(
	ctx context.Context,
	isRoundDue bool,
) (next time.Time, hasWork bool) {
	isNoteDue := !p.dialogNoteDue.IsZero() && !p.Now().Before(p.dialogNoteDue)
	isRoundDue = isRoundDue || isNoteDue
	if isRoundDue {
		p.dialogNoteDue = time.Time{}
	}
	for _, session := range p.ownSessions {
		p.moveOldCommands(session)
		p.markRoutedForOldVersion(session)
		hasWork = hasWork || p.canTakeCommands(session) || p.needsReadingAfterEnd(session) ||
			session.Dialog != nil
		p.attendDialog(session, isRoundDue)
		if session.Watch != nil {
			next, hasWork = earlier(next, p.attendWatch(session)), true
		}
		p.startSummary(ctx, session)
		retryAt, isBusy := p.attendPrompts(ctx, session, isRoundDue)
		hasCommands := p.startCommands(ctx, session)
		next, hasWork = earlier(next, retryAt), hasWork || isBusy || hasCommands
	}
	return next, hasWork
}

// startSummary has the summary enqueued that a session owes, in a goroutine, once. If
// that fails, sweep allows another try.
func (p *Poller) startSummary(ctx context.Context, session *state.Session) {
	if session.SummaryOwedFor.IsZero() || p.EnqueueSummary == nil {
		return
	}
	summaryID := session.ID + session.SummaryOwedFor.String()
	if _, isTried := p.attemptedNotes.LoadOrStore(summaryID, true); isTried {
		return
	}
	p.runInBackground("summary", func() {
		p.Log.ErrorOnce(p.EnqueueSummary(ctx, p.Env, session), "summary not enqueued")
	})
}

// startCommands runs the commands that were sent to a session, in a goroutine.
func (p *Poller) startCommands(ctx context.Context, session *state.Session) (hasWork bool) {
	var ours []*state.Incoming
	for _, in := range p.routedBySession[session.ID] {
		isDone := in.IsWaitingPrompt() || in.ResolvedBy != ""
		if !isDone && p.commandRunner().IsOurCommand(session, in) {
			ours = append(ours, in)
		}
	}
	if len(ours) == 0 {
		return false
	}
	if p.loadPersonalConfig().HasUnreadFile { // nobody knows yet who may give a command
		return true
	}
	_, isUnderWay := p.inProgress.LoadOrStore(session.ID, true)
	if !isUnderWay {
		p.runInBackground("command", func() {
			defer p.inProgress.Delete(session.ID)
			runner := p.commandRunner()
			runner.WhyNoWatch = p.whyNoWatch(ctx, session)
			err := runner.RunCommands(ctx, session, ours)
			if err != nil {
				p.Log.ErrorOnce(err, "command not done yet")
				state.Sleep(ctx, retryPause) // the loop looks again as soon as this goroutine ends
			}
		})
	}
	return true
}

func (p *Poller) commandRunner() commands.Runner {
	return commands.Runner{
		Env:     p.Env,
		Log:     p.Log,
		DryRun:  p.isDryRun(),
		Config:  p.loadPersonalConfig(),
		Enqueue: p.enqueue,
		Now:     p.Now,
	}
}

// moveOldCommands moves messages from a session's file into the inbox. A version
// without an inbox wrote them there.
func (p *Poller) moveOldCommands(session *state.Session) {
	if len(session.OldCommands) == 0 {
		return
	}
	for _, command := range session.OldCommands {
		in := command.Incoming(session, p.Now())
		existing, err := state.InboxIn(p.userStateDir).Add(in, false)
		if err != nil {
			p.Log.ErrorOnce(err, "message of an earlier version not moved to the inbox")
			return
		}
		if existing == nil {
			p.routedBySession[session.ID] = append(p.routedBySession[session.ID], in)
		}
	}
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(s *state.Session) {
		s.OldCommands = nil
	})
	p.Log.ErrorOnce(err, "messages of an earlier version not removed from the session")
}

// markRoutedForOldVersion makes a version without an inbox ignore what was routed to a
// session. That version lists the session's thread itself, and knows only from its own
// records what was handled.
func (p *Poller) markRoutedForOldVersion(session *state.Session) {
	until := session.OldIgnoredUntil
	for _, in := range p.routedBySession[session.ID] {
		if in.ThreadName == session.ThreadName && in.CreatedAt.After(until) {
			until = in.CreatedAt
		}
	}
	if until.Equal(session.OldIgnoredUntil) {
		return
	}
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(s *state.Session) {
		s.OldIgnoredUntil = until
	})
	p.Log.ErrorOnce(err, "messages not marked as handled for an earlier version")
}

// moveOldPrompts moves prompts into the inbox that a version without an inbox kept as
// questions. It reports whether it moved any.
func (p *Poller) moveOldPrompts() (hasMoved bool) {
	for _, record := range p.ownRecords {
		q := record.question
		if q == nil || q.Kind != state.KindPrompt || !q.Status.IsOpen() {
			continue
		}
		err := state.InboxIn(p.userStateDir).AddOldPrompt(q, p.Now())
		p.Log.ErrorOnce(err, "message of an earlier version not moved to the inbox")
		hasMoved = hasMoved || err == nil
		p.loadQuestion(record)
	}
	return hasMoved
}
