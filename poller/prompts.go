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

// attendPrompts brings to Claude what people said to a session unasked, in its order, and
// tells the session's thread what became of it.
func (p *Poller) attendPrompts(
	ctx context.Context,
	session *state.Session,
	isRoundDue bool,
) (next time.Time, hasWork bool) {
	job := "words " + session.ID
	if _, isUnderWay := p.inProgress.Load(job); isUnderWay {
		return time.Time{}, true
	}
	var routed, waiting []*state.Incoming
	for _, in := range p.routedBySession[session.ID] {
		switch {
		case in.ResolvedBy != "":
			p.runSafely("words", func() { p.finishEndedPrompt(session, in) })
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
	if len(routed) == 0 && first == nil || p.loadPersonalConfig().HasUnreadFile {
		// who may say something is not known
		return next, hasWork
	}
	p.inProgress.Store(job, true)
	p.runInBackground("words", func() {
		defer p.inProgress.Delete(job)
		if len(routed) > 0 {
			p.keepPrompts(ctx, session, routed)
		} else {
			p.typeKeptPrompt(ctx, session, first)
		}
	})
	return next, true
}

// returnToHook says whether the hook of a turn's end waits for the next instruction
// outside of tmux, so that no other hook would bring words that were kept. They are
// decided once more then.
func (p *Poller) returnToHook(session *state.Session, in *state.Incoming) bool {
	if session.TmuxPane != "" || !canBeTyped(in) {
		return false
	}
	hasWaiter := false
	for _, record := range p.ownRecords {
		isNext := record.question != nil && record.question.Kind == state.KindNext &&
			record.question.ClaudeSession() == session.ID
		isOpen := isNext && record.question.Status == state.Pending &&
			!record.question.HasUnreadReply()
		hasWaiter = hasWaiter || isOpen && state.HasWaiter(p.Env, record.Path)
	}
	if !hasWaiter {
		return false
	}
	return p.changePrompt(in, func(in *state.Incoming) error {
		if in.Status != state.IncomingKept {
			return state.ErrTransition // a hook woke the session with them just now
		}
		in.Status = state.IncomingRouted
		return nil
	}) == nil
}

// nextToType is what is to be typed now of the words that wait for a session; nil for
// nothing yet, and when to look again.
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

// canBeTyped says whether words wait that a person has not to look after.
func canBeTyped(in *state.Incoming) bool {
	needsPerson := in.Typing != nil && in.Typing.IsEnded
	return in.IsWaitingPrompt() && in.PrintedAt.IsZero() && !needsPerson
}

// isBehindAnswer says whether an answer to the session's question for the next
// instruction is to be typed, which was asked before these words were said.
func (p *Poller) isBehindAnswer(in *state.Incoming) bool {
	for _, record := range p.ownRecords {
		isAnswer := record.question != nil && record.question.Kind.Traits().IsPrompt &&
			record.question.Status == state.Answered &&
			!needsPerson(record.question)
		if isAnswer && record.question.ClaudeSession() == in.SessionID &&
			record.question.AskedAt.Before(in.LocalCreatedAt) &&
			p.canType(record) {
			return true
		}
	}
	return false
}

// isBehindPrompt says whether words were said to a session, before it asked, that are to
// be typed.
func (p *Poller) isBehindPrompt(q *state.Question) bool {
	return slices.ContainsFunc(p.routedBySession[q.ClaudeSession()], func(in *state.Incoming) bool {
		return canBeTyped(in) && in.LocalCreatedAt.Before(q.AskedAt)
	})
}

// promptTriesOf is what this process did about words.
func (p *Poller) promptTriesOf(in *state.Incoming) *typingTries {
	tries := p.promptTries[in.ID]
	if tries == nil {
		tries = &typingTries{}
		p.promptTries[in.ID] = tries
	}
	return tries
}

// keepPrompts has what was said to a session wait until Claude can take it, and tells the
// thread what it has to know beforehand.
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
		p.Log.ErrorOnce(err, "what was said to a session is not done yet")
	}
	state.Sleep(ctx, retryPause) // the loop goes on at once when this ends
}

// typeKeptPrompt types the words that are next. A signal does not cut what is being
// typed.
func (p *Poller) typeKeptPrompt(ctx context.Context, session *state.Session, prompt *nextPrompt) {
	in, err := state.InboxIn(p.userStateDir).Load(prompt.incoming.ID)
	if err != nil || !canBeTyped(in) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeTimeout)
	defer cancel()
	prompt.incoming, prompt.session, prompt.question, prompt.isTrusted = in, session, in.AsQuestion(
		session,
	), session.IsTrusted
	p.typePrompt(ctx, prompt)
}

// enqueuePromptNotes tells a session's thread, once each, of words that wait: that an
// attachment was left out, that they come with the end of a turn, that a hook woke Claude
// with them, and that they wait for long. It returns when the next of these is due.
func (p *Poller) enqueuePromptNotes(session *state.Session, in *state.Incoming) (next time.Time) {
	now, why := p.Now(), p.promptTriesOf(in).lastReason
	isPrinted, isTyped := !in.PrintedAt.IsZero(), session.TmuxPane != ""
	sentAt, longAt := in.PrintedAt.Add(graceForConfirmation), in.LocalCreatedAt.Add(stillKeptDelay)
	isLong := canBeTyped(in) && !now.Before(longAt) && (!isTyped || why != "")
	for _, note := range []struct {
		isTrue bool
		about  string
		seen   string
	}{
		{in.HasAttachment, state.NoteAttached, ""},
		{!isPrinted && !isTyped, state.NoteLater, ""},
		{isPrinted && !now.Before(sentAt), state.NoteSent, ""},
		{isLong, state.NoteStillKept, why},
	} {
		if !note.isTrue || slices.Contains(in.SentNotes, note.about) {
			continue
		}
		owed := state.OwedNote{About: note.about, ReplyMessage: in.MessageName, Text: note.seen}
		if p.enqueuePromptNote(session, in.AsQuestion(session), owed) == nil {
			p.changePrompt(in, func(in *state.Incoming) error {
				in.SentNotes = append(in.SentNotes, note.about)
				return nil
			})
		}
	}
	if isPrinted {
		return sentAt
	}
	return longAt
}

// enqueuePromptNote puts a note about words that wait into their session's thread, once.
func (p *Poller) enqueuePromptNote(
	session *state.Session,
	q *state.Question,
	owed state.OwedNote,
) error {
	_, err := p.enqueueNote(q, indexEntryOf(session), owed)
	p.Log.ErrorOnce(err, "note not put into the outbox")
	return err
}

// finishEndedPrompt tells a session's thread how words for it ended.
func (p *Poller) finishEndedPrompt(session *state.Session, in *state.Incoming) {
	owed := state.OwedNote{About: state.NoteClosed}
	switch {
	case in.ResolvedBy == state.EndedReplaced:
		owed = state.OwedNote{About: state.NoteUnclear, ReplyMessage: in.MessageName}
	case slices.Contains(in.SentNotes, state.NoteSent):
		owed = state.OwedNote{} // it was told
	}
	p.Log.ErrorOnce(p.finishPrompt(session, in, owed), "the end of words not told of")
	delete(p.promptTries, in.ID)
}

// finishPrompt puts the note that ends words, and leaves their tombstone.
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
	p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "end not in the audit log")
	return p.finishIncoming(in, state.OutcomePrompt)
}

// endOldPrompts ends words that are older than a day, or whose Claude Code has ended or,
// outside of tmux, goes on with another session. Where words are typed, that is seen
// then.
func (p *Poller) endOldPrompts(session *state.Session, waiting []*state.Incoming) {
	hasLeft := len(waiting) > 0 && commands.HasMovedOn(state.SessionsIn(p.userStateDir), session)
	for _, in := range waiting {
		resolvedBy := ""
		switch {
		case inject.HasEnded(session.ClaudePID, session.ClaudeStart) && in.PrintedAt.IsZero():
			resolvedBy = "claude_gone"
		case inject.HasEnded(session.ClaudePID, session.ClaudeStart):
			resolvedBy = "chat" // it had them
		case session.TmuxPane == "" && session.EndReason != "clear" && in.PrintedAt.IsZero() && hasLeft:
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
		p.Log.ErrorOnce(err, "the end of words not written down")
	}
}

// changePrompt changes words that wait. An error is also that they ended meanwhile.
func (p *Poller) changePrompt(in *state.Incoming, change func(*state.Incoming) error) error {
	_, err := state.InboxIn(p.userStateDir).Update(in.ID, func(in *state.Incoming) error {
		if !in.IsWaitingPrompt() {
			return state.ErrTransition
		}
		return change(in)
	})
	if !errors.Is(err, state.ErrTransition) && !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "words not written down")
	}
	return err
}

func indexEntryOf(session *state.Session) *state.IndexEntry {
	return &state.IndexEntry{ProjectDir: session.ProjectDir, IsTrusted: session.IsTrusted}
}
