package poller

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	proofBound = 10 * time.Second       // after its typing, for the hook that saw an instruction as a prompt
	proofLook  = 300 * time.Millisecond // from one look for such a proof to the next
	mostPastes = 3                      // of an instruction that no hook ever sees
)

// typeNext types a session's next instruction at its empty prompt, and submits it. The next UserPromptSubmit or Stop of the
// session proves that it arrived and closes the question; where neither comes, it is typed again. What is said while Claude works
// is queued by Claude Code, and typed once: where it cannot be seen that Claude Code has it, a person has to look.
func (p *Poller) typeNext(ctx context.Context, s *served, q *state.Question) {
	s.try.next = p.Now().Add(retryPause)
	words, _ := q.Decision()
	if q.Typing != nil && strings.HasPrefix(words, "/") {
		p.endCommand(q, "What became of it was not seen.") // a poller was killed
		return
	}
	if t := q.Typing; t != nil {
		left, queued := t.At.Add(proofBound).Sub(p.Now()), t.Last == state.TypedQueued
		waits := left > 0 && left <= proofBound
		one, err := state.SessionsIn(p.user).Of(q.ClaudeSession())
		switch {
		case (queued || !waits) && err == nil && inject.Queued(p.transcriptOf(one), words, t.At, true):
			p.end(q, state.Resolved, "chat", nil) // it is in the queue; or no hook of ours runs there
			return
		case waits && queued: // 2.1.329 tells a hook of the queue, and the transcript says so in both versions
			s.try.next = p.Now().Add(proofLook)
			return
		case waits:
			s.try.next = p.Now().Add(left)
			return
		case queued:
			p.leaveToPerson(q, inject.Outcome{Result: inject.Dirty, Why: "Claude Code did not say that it has your message"})
			return
		case t.Keys >= mostPastes:
			p.end(q, state.Cancelled, "not_typed", nil)
			return
		}
	}
	if p.isDryRun() {
		p.endDryRun(s, q, q.TmuxPane, "would type: "+words, 0)
		return
	}
	one, last, why := p.readyFor(ctx, q, words)
	// What was said after a /clear from Chat is for what its Claude Code has by now.
	if one != nil && one.Reason != "clear" && commands.Left(state.SessionsIn(p.user), one) {
		p.end(q, state.Cancelled, "superseded", nil)
		return
	}
	if why != "" && one != nil && p.Now().Sub(one.Begins).Abs() < commands.BeginBound {
		s.try.next = p.Now().Add(retryPause) // it has just begun
		return
	}
	if why != "" {
		p.notTyped(s, q, why, false)
		return
	}
	if _, err := state.UpdateQuestion(s.Path, func(q *state.Question) error {
		if q.Status != state.Answered {
			return state.ErrTransition // its person went on in the terminal
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{}
		}
		q.InjectionAttempted = true
		q.Typing.At, q.Typing.Last, q.Typing.Commit = p.Now().UTC(), last, true
		q.Typing.Keys++
		return nil
	}); err != nil {
		if !errors.Is(err, state.ErrTransition) {
			p.Log.Once(err, "next instruction not typed")
		}
		return
	}
	isFirst := q.Typing == nil
	if isFirst {
		p.Log.Once(state.Audit(p.Env, p.Log, q.Decided(words)), "not in the audit log")
	}
	menu := commands.Menu(p.Env, one)
	if q.Typing != nil {
		menu.Ours = words
	}
	err := menu.Run(ctx, one.TmuxPane, "type", []string{words})
	p.Log.Info().Str("question", q.QuestionID).Str("session", q.SessionName).Err(err).Msg("next instruction typed")
	refused := new(state.UserError)
	unpressed := errors.As(err, &refused) && refused.Code == 2
	if unpressed || errors.As(err, new(inject.Unsubmitted)) && last == state.TypedQueued {
		p.update(s.Path, "typing not taken back", func(q *state.Question) {
			q.Typing.Last = "text"
			if unpressed {
				q.Typing.Keys-- // nothing of it stands there
			}
			if unpressed && isFirst {
				q.Typing = nil
			}
		})
		p.notTyped(s, q, err.Error(), false)
		return
	}
	if strings.HasPrefix(words, "/") {
		p.endCommand(q, p.room().Outcome(ctx, one, words))
		return
	}
	s.try.next = p.Now().Add(proofBound)
	if last == state.TypedQueued {
		s.try.next = time.Time{} // its proof is looked for
	}
}

// transcriptOf is a session's transcript; of one that was begun from Chat, and called no hook yet, where Claude Code puts it.
func (p *Poller) transcriptOf(one *state.Session) string {
	if one.TranscriptPath != "" {
		return one.TranscriptPath
	}
	usual, _ := filepath.Glob(filepath.Join(state.Home(p.Env), ".claude", "projects", "*", one.ID+".jsonl"))
	return strings.Join(usual, "") // of several none
}

// readyFor says whether an instruction can be typed into the pane of its session: at an
// empty prompt, or where it stands there already, since a poller was killed; then it is
// taken out first. last is the key that is written down before. why says what is in the
// way; a person's draft is left alone.
func (p *Poller) readyFor(ctx context.Context, q *state.Question, words string) (one *state.Session, last, why string) {
	one, err := state.SessionsIn(p.user).Of(q.ClaudeSession())
	var screen inject.Screen
	if err == nil {
		_, screen, err = commands.Shot(ctx, one)
	}
	dialog := (*state.Dialog)(nil)
	if err == nil {
		dialog, _ = inject.DialogOf(one)
	}
	last = "text"
	if screen.Busy {
		last = state.TypedQueued
	}
	switch {
	case err != nil:
		return one, "", err.Error()
	case screen.Busy && (!q.Kind.Row().Said || q.Typing != nil || strings.HasPrefix(words, "/")):
		return one, "", wording.ClaudeWorks
	case dialog != nil && !screen.Dialog(): // whatever the screen looks like
		return one, "", "a dialog is open in the terminal; answer it there, and your message goes in then"
	case screen.Limit != "": // the request would be refused
		return one, "", "the usage limit is reached, and Claude goes on " + screen.Limit + "; your message goes in then"
	case screen.Shows == inject.Prompt,
		screen.Shows == inject.Draft && q.Typing != nil && inject.Same(screen.Draft, words):
		return one, last, ""
	}
	if screen.Shows == inject.Draft { // which is its person's, and not for the space
		return one, "", wording.DraftStands
	}
	why = "the terminal shows " + screen.String()
	if screen.Dialog() {
		why += "; answer it in its own thread, or in the terminal, and your message goes in then"
	}
	return one, "", why
}

// endCommand closes one of Claude Code's own commands, with what the terminal says of it. It is typed once.
func (p *Poller) endCommand(q *state.Question, outcome string) {
	p.end(q, state.Resolved, "chat", func(q *state.Question) {
		q.Notes = map[string]string{q.Questions[0].Question: outcome}
	})
}
