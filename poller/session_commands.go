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

// canTakeCommands says whether commands in the thread of a session's reports count: its
// hooks said so, and its Claude Code runs.
func (p *Poller) canTakeCommands(session *state.Session) bool {
	return session.ThreadName != "" && session.Chat != "" && commands.AcceptsInput(session, p.Now())
}

// canResume says whether words in a session's thread start its Claude Code again, which
// has ended, where the person wants that.
func (p *Poller) canResume(session *state.Session) bool {
	return session.AcceptsCommands && session.ThreadName != "" && session.Chat != "" &&
		!inject.IsElsewhere(session.ClaudeStart) &&
		!commands.AcceptsInput(session, p.Now())
}

// needsReadingAfterEnd says whether the thread of a session that has ended is read. Where
// words resume it, that is for an hour, or for good where that costs nothing. Else who
// writes there is told that it has ended: for a while after its end, and on the page for
// a while after this poller began, since what is written there starts one.
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

// hasNoPoller says whether no poller of a session's environment runs.
func (p *Poller) hasNoPoller(session *state.Session) bool {
	return !slices.Contains(p.ownSessions, session) &&
		!state.ReadHeartbeat(p.Env, session.Environment).IsAlive
}

// attendSessions has the summaries put that sessions owe, and done what was said to them;
// needed says that it goes on.
func (p *Poller) attendSessions(
	ctx context.Context,
	isRoundDue bool,
) (next time.Time, hasWork bool) {
	if !p.dialogNoteDue.IsZero() && !p.Now().Before(p.dialogNoteDue) {
		isRoundDue = true
	}
	if isRoundDue {
		p.dialogNoteDue = time.Time{}
	}
	for _, session := range p.ownSessions {
		p.moveOldCommands(session)
		p.markRoutedForOldVersion(session)
		hasWork = hasWork || p.canTakeCommands(session) || p.needsReadingAfterEnd(session) ||
			session.Dialog != nil
		p.attendDialog(session, isRoundDue)
		if !session.SummaryOwedFor.IsZero() && p.EnqueueSummary != nil {
			// one that failed waits for sweep
			_, isTried := p.attemptedNotes.LoadOrStore(
				session.ID+session.SummaryOwedFor.String(),
				true,
			)
			if !isTried {
				p.runInBackground(
					"summary",
					func() { p.Log.ErrorOnce(p.EnqueueSummary(ctx, p.Env, session), "summary not put into the outbox") },
				)
			}
		}
		retryAt, isBusy := p.attendPrompts(ctx, session, isRoundDue)
		hasCommands := p.startCommands(ctx, session)
		next, hasWork = earlier(next, retryAt), hasWork || isBusy || hasCommands
	}
	return next, hasWork
}

// startCommands has the commands done that were given to a session, beside the loop.
func (p *Poller) startCommands(ctx context.Context, session *state.Session) (hasWork bool) {
	ours := slices.DeleteFunc(
		slices.Clone(p.routedBySession[session.ID]),
		func(in *state.Incoming) bool {
			return in.IsWaitingPrompt() || in.ResolvedBy != "" ||
				!p.commandRunner().IsOurCommand(session, in)
		},
	)
	if len(ours) == 0 || p.loadPersonalConfig().HasUnreadFile { // who may give one is not known
		return len(ours) > 0
	}
	_, isUnderWay := p.inProgress.LoadOrStore(session.ID, true)
	if !isUnderWay {
		p.runInBackground("command", func() {
			defer p.inProgress.Delete(session.ID)
			err := p.commandRunner().RunCommands(ctx, session, ours)
			if err != nil {
				p.Log.ErrorOnce(err, "what was said to a session is not done yet")
				state.Sleep(ctx, retryPause) // the loop goes on at once when this ends
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
		Enqueue: p.isNew,
		Now:     p.Now,
	}
}

// moveOldCommands puts what a version without an inbox wrote into a session's file into
// the inbox.
func (p *Poller) moveOldCommands(session *state.Session) {
	if len(session.OldCommands) == 0 {
		return
	}
	for _, command := range session.OldCommands {
		in := command.Incoming(session, p.Now())
		existing, err := state.InboxIn(p.userStateDir).Add(in, false)
		if err != nil {
			p.Log.ErrorOnce(err, "words of an earlier version not taken")
			return
		}
		if existing == nil {
			p.routedBySession[session.ID] = append(p.routedBySession[session.ID], in)
		}
	}
	_, err := state.SessionsIn(p.userStateDir).
		Change(session.ID, func(session *state.Session) { session.OldCommands = nil })
	p.Log.ErrorOnce(err, "words of an earlier version not taken off")
}

// markRoutedForOldVersion has a version without an inbox pass over what was routed to a
// session. That version lists its thread again, and knows what was used by its own
// records alone.
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
	_, err := state.SessionsIn(p.userStateDir).
		Change(session.ID, func(session *state.Session) { session.OldIgnoredUntil = until })
	p.Log.ErrorOnce(err, "not noted what an earlier version is to pass over")
}

// moveOldPrompts puts words that a version without an inbox kept as a question into the
// inbox. It reports whether there were any.
func (p *Poller) moveOldPrompts() (hasMoved bool) {
	for _, record := range p.ownRecords {
		if record.question == nil || record.question.Kind != state.KindPrompt ||
			!record.question.Status.IsOpen() {
			continue
		}
		err := state.InboxIn(p.userStateDir).AddOldPrompt(record.question, p.Now())
		p.Log.ErrorOnce(err, "words of an earlier version not taken")
		hasMoved = hasMoved || err == nil
		p.loadQuestion(record)
	}
	return hasMoved
}
