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

// takesCommands says whether commands in the thread of a session's reports count: its hooks said so, and its Claude Code runs.
func (p *Poller) takesCommands(one *state.Session) bool {
	return one.ThreadName != "" && one.Chat != "" && commands.Listens(one, p.Now())
}

// resumes says whether words in a session's thread start its Claude Code again, which has ended, where the person wants that.
func (p *Poller) resumes(one *state.Session) bool {
	return one.AcceptsCommands && one.ThreadName != "" && one.Chat != "" && !inject.Elsewhere(one.ClaudeStart) &&
		!commands.Listens(one, p.Now())
}

// readsOn says whether the thread of a session that has ended is read. Where words resume it, that is for an hour, or for good
// where that costs nothing. Else who writes there is told that it has ended: for a while after its end, and on the page for a
// while after this poller began, since what is written there starts one.
func (p *Poller) readsOn(one *state.Session) bool {
	if !p.resumes(one) {
		return false
	}
	ended := one.EndedAt
	if ended.IsZero() {
		ended = one.LastSeen
	}
	age := p.Now().Sub(ended).Abs()
	if !p.starts {
		isWoken := gchat.Local(one.Chat) && (p.Daemon || p.Now().Sub(p.began) < readOnFor)
		return age < readOnFor || isWoken && age < state.MaxQuestionAge
	}
	return p.Daemon || p.pulls || gchat.Local(one.Chat) || age < restsFor
}

// isDeserted says whether no poller of a session's environment runs.
func (p *Poller) isDeserted(one *state.Session) bool {
	return !slices.Contains(p.ownSessions, one) && !state.ReadHeartbeat(p.Env, one.Environment).IsAlive
}

// attendSessions has the summaries put that sessions owe, and done what was said to them; needed says that it goes on.
func (p *Poller) attendSessions(ctx context.Context, due bool) (next time.Time, needed bool) {
	if !p.dialogDue.IsZero() && !p.Now().Before(p.dialogDue) {
		due = true
	}
	if due {
		p.dialogDue = time.Time{}
	}
	for _, one := range p.ownSessions {
		p.takeOldCommands(one)
		p.noteRouted(one)
		needed = needed || p.takesCommands(one) || p.readsOn(one) || one.Dialog != nil
		p.attendDialog(one, due)
		if !one.SummaryOwedFor.IsZero() && p.Summary != nil {
			_, tried := p.summed.LoadOrStore(one.ID+one.SummaryOwedFor.String(), true) // one that failed waits for sweep
			if !tried {
				p.beside("summary", func() { p.Log.ErrorOnce(p.Summary(ctx, p.Env, one), "summary not put into the outbox") })
			}
		}
		again, isBusy := p.attendWords(ctx, one, due)
		areUnderWay := p.doCommands(ctx, one)
		next, needed = sooner(next, again), needed || isBusy || areUnderWay
	}
	return next, needed
}

// doCommands has the commands done that were given to a session, beside the loop.
func (p *Poller) doCommands(ctx context.Context, one *state.Session) (needed bool) {
	ours := slices.DeleteFunc(slices.Clone(p.routed[one.ID]), func(in *state.Incoming) bool {
		return in.IsWaitingPrompt() || in.ResolvedBy != "" || !p.room().IsOurs(one, in)
	})
	if len(ours) == 0 || p.personal().HasUnreadFile { // who may give one is not known
		return len(ours) > 0
	}
	_, isUnderWay := p.doing.LoadOrStore(one.ID, true)
	if !isUnderWay {
		p.beside("command", func() {
			defer p.doing.Delete(one.ID)
			err := p.room().Work(ctx, one, ours)
			if err != nil {
				p.Log.ErrorOnce(err, "what was said to a session is not done yet")
				state.Sleep(ctx, retryPause) // the loop goes on at once when this ends
			}
		})
	}
	return true
}

func (p *Poller) room() commands.Room {
	return commands.Room{Env: p.Env, Log: p.Log, DryRun: p.isDryRun(), Config: p.personal(), Put: p.put, Now: p.Now}
}

// takeOldCommands puts what a version without an inbox wrote into a session's file into the
// inbox.
func (p *Poller) takeOldCommands(one *state.Session) {
	if len(one.OldCommands) == 0 {
		return
	}
	for _, c := range one.OldCommands {
		in := c.Incoming(one, p.Now())
		known, err := state.InboxIn(p.user).Add(in, false)
		if err != nil {
			p.Log.ErrorOnce(err, "words of an earlier version not taken")
			return
		}
		if known == nil {
			p.routed[one.ID] = append(p.routed[one.ID], in)
		}
	}
	_, err := state.SessionsIn(p.user).Change(one.ID, func(one *state.Session) { one.OldCommands = nil })
	p.Log.ErrorOnce(err, "words of an earlier version not taken off")
}

// noteRouted has a version without an inbox pass over what was routed to a session. That
// version lists its thread again, and knows what was used by its own records alone.
func (p *Poller) noteRouted(one *state.Session) {
	until := one.OldIgnoredUntil
	for _, in := range p.routed[one.ID] {
		if in.ThreadName == one.ThreadName && in.CreatedAt.After(until) {
			until = in.CreatedAt
		}
	}
	if until.Equal(one.OldIgnoredUntil) {
		return
	}
	_, err := state.SessionsIn(p.user).Change(one.ID, func(one *state.Session) { one.OldIgnoredUntil = until })
	p.Log.ErrorOnce(err, "not noted what an earlier version is to pass over")
}

// takeOldWords puts words that a version without an inbox kept as a question into the inbox. It
// reports whether there were any.
func (p *Poller) takeOldWords() (any bool) {
	for _, s := range p.index {
		if s.q == nil || s.q.Kind != state.KindPrompt || !s.q.Status.IsOpen() {
			continue
		}
		err := state.InboxIn(p.user).AddOldPrompt(s.q, p.Now())
		p.Log.ErrorOnce(err, "words of an earlier version not taken")
		any = any || err == nil
		p.load(s)
	}
	return any
}
