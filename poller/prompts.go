package poller

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// attendPrompts handles the messages that people wrote to a session without being
// asked, in their order: Claude gets the prompts, and the session's thread is informed
// of their end.
func (p *Poller) attendPrompts(
	ctx context.Context,
	session *state.Session,
	isRoundDue bool,
) (next time.Time, hasWork bool) {
	job := "prompts " + session.ID
	if _, isUnderWay := p.inProgress.Load(job); isUnderWay {
		return time.Time{}, true
	}
	var routed, waiting []*state.Incoming
	for _, in := range p.routedBySession[session.ID] {
		switch {
		case in.ResolvedBy != "":
			p.runSafely("prompts", func() { p.finishEndedPrompt(session, in) })
			hasWork = true
		case len(waiting) == 0 && p.returnToHook(session, in):
			routed = append(routed, in)
			hasWork = true
		case in.IsWaitingPrompt():
			waiting = append(waiting, in)
			next = earlier(next, p.enqueuePromptNotes(session, in))
			hasWork = hasWork || session.TmuxPane != "" || !in.PrintedAt.IsZero()
		case !p.commandRunner().IsOurCommand(session, in):
			routed = append(routed, in)
			hasWork = true
		}
	}
	if isRoundDue {
		p.endOldPrompts(session, waiting)
	}
	first, retryAt := p.nextToType(session, waiting)
	next = earlier(next, retryAt)
	if len(routed) == 0 && first == nil {
		return next, hasWork
	}
	if p.loadPersonalConfig().HasUnreadFile { // nobody knows yet who may write to the session
		return next, hasWork
	}
	p.inProgress.Store(job, true)
	p.runInBackground("prompts", func() {
		defer p.inProgress.Delete(job)
		if len(routed) > 0 {
			p.keepPrompts(ctx, session, routed)
		} else {
			p.typeKeptPrompt(ctx, session, first)
		}
	})
	return next, true
}

// returnToHook routes a kept prompt once more if a Stop hook waits for the next
// instruction outside of tmux. No other hook would deliver the prompt then. It reports
// whether it did so.
func (p *Poller) returnToHook(session *state.Session, in *state.Incoming) bool {
	if session.TmuxPane != "" || !canBeTyped(in) {
		return false
	}
	hasWaiter := p.hasSessionRecord(session.ID, func(record *trackedRecord) bool {
		q := record.question
		isOpen := q.Kind == state.KindNext && q.Status == state.Pending && !q.HasUnreadReply()
		return isOpen && state.HasWaiter(p.Env, record.Path)
	})
	if !hasWaiter {
		return false
	}
	return p.changePrompt(in, func(in *state.Incoming) error {
		if in.Status != state.IncomingKept {
			return state.ErrTransition // a hook just woke the session with it
		}
		in.Status = state.IncomingRouted
		return nil
	}) == nil
}

// nextToType returns the oldest of a session's waiting prompts if it can be typed now.
// Otherwise it returns nil and when to look again; zero means that typing is not the way.
func (p *Poller) nextToType(
	session *state.Session,
	waiting []*state.Incoming,
) (first *nextPrompt, retryAt time.Time) {
	i := slices.IndexFunc(waiting, canBeTyped)
	if i < 0 || session.TmuxPane == "" || inject.IsElsewhere(session.ClaudeStart) {
		return nil, time.Time{}
	}
	in := waiting[i]
	tries := p.promptTriesOf(in)
	switch {
	case p.isBehindAnswer(in):
		return nil, p.Now().Add(retryPause)
	case p.Now().Before(tries.nextAt):
		return nil, tries.nextAt
	}
	return &nextPrompt{incoming: in, tries: tries}, time.Time{}
}

// canBeTyped reports whether a prompt waits to be delivered, and no person has to look
// after it.
func canBeTyped(in *state.Incoming) bool {
	return in.IsWaitingPrompt() && in.PrintedAt.IsZero() &&
		(in.Typing == nil || !in.Typing.IsEnded)
}

// isBehindAnswer reports whether an answer to the session's "next instruction" question
// has to be typed before this prompt: the question was asked before the prompt was
// written.
func (p *Poller) isBehindAnswer(in *state.Incoming) bool {
	return p.hasSessionRecord(in.SessionID, func(record *trackedRecord) bool {
		q := record.question
		isAnswer := q.Kind.Traits().IsPrompt && q.Status == state.Answered && !needsPerson(q)
		return isAnswer && q.AskedAt.Before(in.LocalCreatedAt) && p.canType(record)
	})
}

// isBehindPrompt reports whether a prompt that was written before this question was
// asked is still to be typed into the same session.
func (p *Poller) isBehindPrompt(q *state.Question) bool {
	return slices.ContainsFunc(p.routedBySession[q.ClaudeSession()], func(in *state.Incoming) bool {
		return canBeTyped(in) && in.LocalCreatedAt.Before(q.AskedAt)
	})
}

// promptTriesOf returns this process's tries to type a prompt.
func (p *Poller) promptTriesOf(in *state.Incoming) *typingTries {
	tries := p.promptTries[in.ID]
	if tries == nil {
		tries = &typingTries{}
		p.promptTries[in.ID] = tries
	}
	return tries
}

// keepPrompts keeps the messages to a session until Claude can take them, and enqueues
// the notes that the thread needs before that.
func (p *Poller) keepPrompts(
	ctx context.Context,
	session *state.Session,
	routed []*state.Incoming,
) {
	err := p.commandRunner().KeepPrompts(ctx, session, routed)
	if err == nil {
		return
	}
	if !errors.Is(err, commands.ErrStarting) {
		p.Log.ErrorOnce(err, "prompt not kept yet")
	}
	state.Sleep(ctx, retryPause) // the loop looks again as soon as this goroutine ends
}

// typeKeptPrompt types the next kept prompt. A signal to the poller does not interrupt
// the typing.
func (p *Poller) typeKeptPrompt(ctx context.Context, session *state.Session, prompt *nextPrompt) {
	in, err := state.InboxIn(p.userStateDir).Load(prompt.incoming.ID)
	if err != nil || !canBeTyped(in) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeTimeout)
	defer cancel()
	prompt.incoming, prompt.session = in, session
	prompt.question, prompt.isTrusted = in.AsQuestion(session), session.IsTrusted
	p.typePrompt(ctx, prompt)
}

// enqueuePromptNotes enqueues the notes about a kept prompt, each once: that an
// attachment was left out, that the prompt comes with the end of the turn, that a hook
// woke Claude with it, and that it has waited long. It returns when the next note is
// due.
func (p *Poller) enqueuePromptNotes(session *state.Session, in *state.Incoming) (next time.Time) {
	now := p.Now()
	reason := p.promptTriesOf(in).lastReason
	isPrinted, isTyped := !in.PrintedAt.IsZero(), session.TmuxPane != ""
	sentAt, longAt := in.PrintedAt.Add(graceForConfirmation), in.LocalCreatedAt.Add(stillKeptDelay)
	isLong := canBeTyped(in) && !now.Before(longAt) && (!isTyped || reason != "")
	for _, note := range []struct {
		isDue bool
		about string
		text  string
	}{
		{in.HasAttachment, state.NoteAttached, state.FileProblems(in.Files)},
		{!isPrinted && !isTyped, state.NoteLater, ""},
		{isPrinted && !now.Before(sentAt), state.NoteSent, ""},
		{isLong, state.NoteStillKept, reason},
	} {
		if !note.isDue || slices.Contains(in.SentNotes, note.about) {
			continue
		}
		owed := state.OwedNote{About: note.about, ReplyMessage: in.MessageName, Text: note.text}
		if p.enqueuePromptNote(session, in.AsQuestion(session), owed) == nil {
			p.markNoteSent(in, note.about)
		}
	}
	next = longAt
	if isPrinted {
		next = sentAt
	}
	if !next.After(now) {
		return time.Time{} // that note is enqueued, or something else makes it due
	}
	return next
}

// markNoteSent writes down that a note about a prompt is in the outbox. The prompt may have
// ended meanwhile.
func (p *Poller) markNoteSent(in *state.Incoming, about string) {
	_, err := state.InboxIn(p.userStateDir).Update(in.ID, func(in *state.Incoming) error {
		in.SentNotes = append(in.SentNotes, about)
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "note not written down")
	}
}

// enqueuePromptNote enqueues a note about a kept prompt for its session's thread, once.
func (p *Poller) enqueuePromptNote(
	session *state.Session,
	q *state.Question,
	owed state.OwedNote,
) error {
	_, err := p.enqueueNote(q, indexEntryOf(session), owed)
	p.Log.ErrorOnce(err, "note not enqueued")
	return err
}

// finishEndedPrompt has a session's thread informed how a prompt ended.
func (p *Poller) finishEndedPrompt(session *state.Session, in *state.Incoming) {
	owed := state.OwedNote{About: state.NoteClosed}
	switch {
	case in.ResolvedBy == state.EndedReplaced:
		owed = state.OwedNote{About: state.NoteUnclear, ReplyMessage: in.MessageName}
	case slices.Contains(in.SentNotes, state.NoteSent):
		owed = state.OwedNote{} // the note "Sent" was the last one
	}
	p.Log.ErrorOnce(p.finishPrompt(session, in, owed), "end of a prompt not noted")
	delete(p.promptTries, in.ID)
}

// finishPrompt enqueues the last note of a prompt, and turns its record into a
// tombstone.
func (p *Poller) finishPrompt(
	session *state.Session,
	in *state.Incoming,
	owed state.OwedNote,
) error {
	q := in.AsQuestion(session)
	_, err := p.enqueueNote(q, indexEntryOf(session), owed)
	if err != nil {
		return err
	}
	p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "end not written to the audit log")
	return p.finishIncoming(in, state.OutcomePrompt)
}

// endOldPrompts ends prompts that are older than a day, that lost their Claude Code, or
// whose Claude Code, outside of tmux, has moved on to another session. In tmux, that
// move is noticed when the prompt is typed.
func (p *Poller) endOldPrompts(session *state.Session, waiting []*state.Incoming) {
	hasLeft := len(waiting) > 0 && commands.HasMovedOn(state.SessionsIn(p.userStateDir), session)
	isLeft := hasLeft && session.TmuxPane == "" && session.EndReason != "clear"
	for _, in := range waiting {
		resolvedBy := ""
		isPrinted := !in.PrintedAt.IsZero()
		hasEnded := inject.HasEnded(session.ClaudePID, session.ClaudeStart)
		switch {
		case hasEnded && !isPrinted:
			resolvedBy = "claude_gone"
		case hasEnded:
			resolvedBy = "chat" // Claude had it
		case isLeft && !isPrinted:
			resolvedBy = "superseded"
		case p.Now().Sub(in.LocalCreatedAt) > state.MaxQuestionAge+otherEnvironmentGrace:
			resolvedBy = "age"
		default:
			continue
		}
		p.endKeptPrompt(in, resolvedBy, "")
	}
}

func (p *Poller) endKeptPrompt(in *state.Incoming, resolvedBy, terminalOutput string) {
	_, err := state.InboxIn(p.userStateDir).EndPrompt(in.ID, resolvedBy, terminalOutput)
	if !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "end of a prompt not saved")
	}
}

// changePrompt changes a prompt that waits. It fails with state.ErrTransition or
// fs.ErrNotExist if the prompt ended meanwhile.
func (p *Poller) changePrompt(in *state.Incoming, change func(*state.Incoming) error) error {
	_, err := state.InboxIn(p.userStateDir).Update(in.ID, func(in *state.Incoming) error {
		if !in.IsWaitingPrompt() {
			return state.ErrTransition
		}
		return change(in)
	})
	if !errors.Is(err, state.ErrTransition) && !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "prompt not saved")
	}
	return err
}

func indexEntryOf(session *state.Session) *state.IndexEntry {
	return &state.IndexEntry{ProjectDir: session.ProjectDir, IsTrusted: session.IsTrusted}
}
