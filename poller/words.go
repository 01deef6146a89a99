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

// attendWords brings to Claude what people said to a session unasked, in its order, and tells
// the session's thread what became of it.
func (p *Poller) attendWords(ctx context.Context, one *state.Session, due bool) (next time.Time, busy bool) {
	lane := "words " + one.ID
	if _, isUnderWay := p.doing.Load(lane); isUnderWay {
		return time.Time{}, true
	}
	var routed, waiting []*state.Incoming
	for _, in := range p.routed[one.ID] {
		switch {
		case in.ResolvedBy != "":
			p.safely("words", func() { p.tellEnd(one, in) })
			busy = true
		case len(waiting) == 0 && p.isForHook(one, in):
			routed = append(routed, in)
			busy = true
		case in.IsWaitingPrompt():
			waiting = append(waiting, in)
			next = sooner(next, p.tellOfWords(one, in))
			busy = busy || one.TmuxPane != "" || !in.PrintedAt.IsZero()
		case !p.room().IsOurs(one, in):
			routed = append(routed, in)
			busy = true
		}
	}
	if due {
		p.endOldWords(one, waiting)
	}
	first, again := p.toBeTyped(one, waiting)
	next = sooner(next, again)
	if len(routed) == 0 && first == nil || p.personal().HasUnreadFile { // who may say something is not known
		return next, busy
	}
	p.doing.Store(lane, true)
	p.beside("words", func() {
		defer p.doing.Delete(lane)
		if len(routed) > 0 {
			p.keepWords(ctx, one, routed)
		} else {
			p.typeWords(ctx, one, first)
		}
	})
	return next, true
}

// isForHook says whether the hook of a turn's end waits for the next instruction outside of tmux,
// so that no other hook would bring words that were kept. They are decided once more then.
func (p *Poller) isForHook(one *state.Session, in *state.Incoming) bool {
	if one.TmuxPane != "" || !isToBeTyped(in) {
		return false
	}
	isWaited := false
	for _, s := range p.index {
		isNext := s.q != nil && s.q.Kind == state.KindNext && s.q.ClaudeSession() == one.ID
		isOpen := isNext && s.q.Status == state.Pending && !s.q.HasUnreadReply()
		isWaited = isWaited || isOpen && state.HasWaiter(p.Env, s.Path)
	}
	if !isWaited {
		return false
	}
	return p.changeWords(in, func(in *state.Incoming) error {
		if in.Status != state.IncomingKept {
			return state.ErrTransition // a hook woke the session with them just now
		}
		in.Status = state.IncomingRouted
		return nil
	}) == nil
}

// toBeTyped is what is to be typed now of the words that wait for a session; nil for nothing
// yet, and when to look again.
func (p *Poller) toBeTyped(one *state.Session, waiting []*state.Incoming) (first *prompt, again time.Time) {
	i := slices.IndexFunc(waiting, isToBeTyped)
	if i < 0 || one.TmuxPane == "" || inject.Elsewhere(one.ClaudeStart) {
		return nil, time.Time{}
	}
	in := waiting[i]
	t := p.tryOf(in)
	switch {
	case p.isBehindAnswer(in):
		return nil, p.Now().Add(retryPause)
	case p.Now().Before(t.next):
		return nil, t.next
	}
	return &prompt{in: in, try: t}, time.Time{}
}

// isToBeTyped says whether words wait that a person has not to look after.
func isToBeTyped(in *state.Incoming) bool {
	isSpoiled := in.Typing != nil && in.Typing.IsEnded
	return in.IsWaitingPrompt() && in.PrintedAt.IsZero() && !isSpoiled
}

// isBehindAnswer says whether an answer to the session's question for the next instruction is to
// be typed, which was asked before these words were said.
func (p *Poller) isBehindAnswer(in *state.Incoming) bool {
	for _, s := range p.index {
		isAnswer := s.q != nil && s.q.Kind.Traits().IsPrompt && s.q.Status == state.Answered && !spoiled(s.q)
		if isAnswer && s.q.ClaudeSession() == in.SessionID && s.q.AskedAt.Before(in.LocalCreatedAt) && p.typable(s) {
			return true
		}
	}
	return false
}

// isBehindWords says whether words were said to a session, before it asked, that are to be typed.
func (p *Poller) isBehindWords(q *state.Question) bool {
	return slices.ContainsFunc(p.routed[q.ClaudeSession()], func(in *state.Incoming) bool {
		return isToBeTyped(in) && in.LocalCreatedAt.Before(q.AskedAt)
	})
}

// tryOf is what this process did about words.
func (p *Poller) tryOf(in *state.Incoming) *try {
	t := p.wordTries[in.ID]
	if t == nil {
		t = &try{}
		p.wordTries[in.ID] = t
	}
	return t
}

// keepWords has what was said to a session wait until Claude can take it, and tells the thread
// what it has to know beforehand.
func (p *Poller) keepWords(ctx context.Context, one *state.Session, routed []*state.Incoming) {
	err := p.room().Keep(ctx, one, routed)
	if err == nil {
		return
	}
	if !errors.Is(err, commands.ErrBegins) {
		p.Log.ErrorOnce(err, "what was said to a session is not done yet")
	}
	state.Sleep(ctx, retryPause) // the loop goes on at once when this ends
}

// typeWords types the words that are next. A signal does not cut what is being typed.
func (p *Poller) typeWords(ctx context.Context, one *state.Session, t *prompt) {
	in, err := state.InboxIn(p.user).Load(t.in.ID)
	if err != nil || !isToBeTyped(in) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeBound)
	defer cancel()
	t.in, t.one, t.q, t.trusted = in, one, in.AsQuestion(one), one.IsTrusted
	p.typePrompt(ctx, t)
}

// tellOfWords tells a session's thread, once each, of words that wait: that an attachment was
// left out, that they come with the end of a turn, that a hook woke Claude with them, and that
// they wait for long. It returns when the next of these is due.
func (p *Poller) tellOfWords(one *state.Session, in *state.Incoming) (next time.Time) {
	now, why := p.Now(), p.tryOf(in).why
	isPrinted, isTyped := !in.PrintedAt.IsZero(), one.TmuxPane != ""
	sentAt, longAt := in.PrintedAt.Add(graceForSeen), in.LocalCreatedAt.Add(keptLong)
	isLong := isToBeTyped(in) && !now.Before(longAt) && (!isTyped || why != "")
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
		if p.noteWords(one, in.AsQuestion(one), owed) == nil {
			p.changeWords(in, func(in *state.Incoming) error {
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

// noteWords puts a note about words that wait into their session's thread, once.
func (p *Poller) noteWords(one *state.Session, q *state.Question, owed state.OwedNote) error {
	_, err := p.putNote(q, openOf(one), owed)
	p.Log.ErrorOnce(err, "note not put into the outbox")
	return err
}

// tellEnd tells a session's thread how words for it ended.
func (p *Poller) tellEnd(one *state.Session, in *state.Incoming) {
	owed := state.OwedNote{About: state.NoteClosed}
	switch {
	case in.ResolvedBy == state.EndedReplaced:
		owed = state.OwedNote{About: state.NoteUnclear, ReplyMessage: in.MessageName}
	case slices.Contains(in.SentNotes, state.NoteSent):
		owed = state.OwedNote{} // it was told
	}
	p.Log.ErrorOnce(p.finishWords(one, in, owed), "the end of words not told of")
	delete(p.wordTries, in.ID)
}

// finishWords puts the note that ends words, and leaves their tombstone.
func (p *Poller) finishWords(one *state.Session, in *state.Incoming, owed state.OwedNote) error {
	q := in.AsQuestion(one)
	_, err := p.putNote(q, openOf(one), owed)
	if err != nil {
		return err
	}
	p.Log.ErrorOnce(state.AppendAuditLine(p.Env, q.Ending()), "end not in the audit log")
	return p.finish(in, state.OutcomePrompt)
}

// endOldWords ends words that are older than a day, or whose Claude Code has ended or, outside of
// tmux, goes on with another session. Where words are typed, that is seen then.
func (p *Poller) endOldWords(one *state.Session, waiting []*state.Incoming) {
	hasLeft := len(waiting) > 0 && commands.Left(state.SessionsIn(p.user), one)
	for _, in := range waiting {
		by := ""
		switch {
		case inject.Ended(one.ClaudePID, one.ClaudeStart) && in.PrintedAt.IsZero():
			by = "claude_gone"
		case inject.Ended(one.ClaudePID, one.ClaudeStart):
			by = "chat" // it had them
		case one.TmuxPane == "" && one.EndReason != "clear" && in.PrintedAt.IsZero() && hasLeft:
			by = "superseded"
		case p.Now().Sub(in.LocalCreatedAt) > state.MaxQuestionAge+expireOthers:
			by = "age"
		default:
			continue
		}
		p.endWords(in, by, "")
	}
}

func (p *Poller) endWords(in *state.Incoming, by, said string) {
	_, err := state.InboxIn(p.user).EndPrompt(in.ID, by, said)
	if !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "the end of words not written down")
	}
}

// changeWords changes words that wait. An error is also that they ended meanwhile.
func (p *Poller) changeWords(in *state.Incoming, change func(*state.Incoming) error) error {
	_, err := state.InboxIn(p.user).Update(in.ID, func(in *state.Incoming) error {
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

func openOf(one *state.Session) *state.IndexEntry {
	return &state.IndexEntry{ProjectDir: one.ProjectDir, IsTrusted: one.IsTrusted}
}
