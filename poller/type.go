package poller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// confirmBound is how long after the dialog closed the PostToolUse hook is waited for, which knows what Claude was
	// told. Where it is not installed, the poller says so itself.
	confirmBound = 3 * time.Second
	// typeBound is how long one injection may take: 10 kB of text into a slow terminal.
	typeBound = time.Minute
	// triesBeforeTold is how many tries that changed nothing go by before the thread is told why.
	triesBeforeTold = 3
	// mostOffs is how many tries running may find that the dialog is not there before it counts as gone.
	mostOffs = 3
	// retryPause is the least time from one try to the next.
	retryPause = 2 * time.Second
)

// try is what the poller did about an answer that it types, and when it comes again.
type try struct {
	next  time.Time // no try before
	tries int       // that changed nothing
	offs  int       // tries running that found the dialog gone
}

// spoiled says that a person has to finish the dialog: no further key is sent.
func spoiled(q *state.Question) bool { return q.InjectionSucceeded != nil && !*q.InjectionSucceeded }

// startTyping has an answer typed that no process delivers, beside the loop: typing takes its time. It returns when to come
// again.
func (p *Poller) startTyping(ctx context.Context, s *served) (again time.Time) {
	q, now := s.q, p.now()
	if q.Status != state.Answered || spoiled(q) || !p.typable(s) {
		return time.Time{}
	}
	if now.Before(s.try.next) {
		return s.try.next
	}
	lock, err := state.LockWaiter(p.Env, s.Path)
	if err != nil {
		return time.Time{} // a hook waits: it delivers the answer
	}
	s.typing.Store(true)
	// A signal does not cut what is being typed: half an answer is worse than a late end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typeBound)
	p.beside("type", func() {
		defer s.typing.Store(false)
		defer lock.Unlock()
		defer cancel()
		p.typeAnswer(ctx, s)
	})
	return time.Time{}
}

// typeAnswer types a question's answer into its pane.
func (p *Poller) typeAnswer(ctx context.Context, s *served) {
	q, err := state.LoadQuestion(s.Path)
	if err != nil || q.Status != state.Answered || q.Printed {
		return
	}
	q = p.placed(s, q)
	s.try.next = p.now().Add(retryPause) // whatever fails below
	if q.Typing != nil && !q.Typing.Ended {
		// A poller was killed while it typed. Its last key may have been sent or not, so none is sent again: where no hook says
		// that Claude has the answer, a person has to finish the dialog.
		if !p.awaitClosed(ctx, q.Path) {
			p.leaveToPerson(q, inject.Outcome{Result: inject.Dirty, Why: "the poller was stopped while it typed your answer"})
		}
		return
	}
	if q.InjectionSucceeded != nil && *q.InjectionSucceeded { // killed while it was waiting for the confirmation
		p.confirmTyped(ctx, q)
		return
	}
	to, err := p.tmuxView().where(ctx, q)
	if err != nil {
		p.notTyped(s, q, err.Error(), false)
		return
	}
	out := p.typist(s.Path).Answer(ctx, to, choices(q))
	if out.Keys > 0 {
		p.Log.Info().Str("question", q.QuestionID).Str("session", q.SessionName).Str("pane", to.Pane).
			Str("result", string(out.Result)).Int("keys", out.Keys).Str("why", out.Why).Msg("answer typed")
	}
	switch {
	case p.DryRun:
		would := "would type: " + strings.Join(out.Steps, ", ")
		if out.Why != "" {
			would = "would not type: " + out.Why
		}
		p.Log.Info().Str("question", q.QuestionID).Str("pane", to.Pane).Int("keys", len(out.Steps)).Msg("dry run")
		if p.Out != nil {
			fmt.Fprintf(p.Out, "%s, pane %s: %s\n", gchat.Line(q.SessionName), to.Pane, gchat.Line(would))
		}
		s.try.next = p.now().Add(state.MaxAge) // said once
	case out.Result == inject.Injected:
		p.endTyping(q, out, succeeded(true))
		p.confirmTyped(ctx, q)
	case out.Result == inject.Dirty && p.awaitClosed(ctx, s.Path):
		// A person answered meanwhile, and the hook said so: no person has to look.
		p.endTyping(q, out, func(q *state.Question) { done := q.ResolvedBy == "chat"; q.InjectionSucceeded = &done })
	case out.Result == inject.Dirty:
		p.leaveToPerson(q, out)
	default:
		p.endTyping(q, out, nil) // also without a key: one may have been written down and then not sent
		p.notTyped(s, q, out.Why, out.Gone)
	}
}

// typist writes down each key before it is sent.
func (p *Poller) typist(path string) inject.Typist {
	return inject.Typist{UserState: p.user(), DryRun: p.DryRun, Before: func(key string, commit bool) error {
		_, err := state.UpdateQuestion(path, func(q *state.Question) error {
			if q.Status != state.Answered {
				return fmt.Errorf("type answer: the question is %s", q.Status) // a person was faster
			}
			if q.Typing == nil || q.Typing.Ended {
				q.Typing = &state.Typing{}
			}
			q.InjectionAttempted = true
			if strings.HasPrefix(key, "text") {
				key = "text" // the person's words are in the reply
			}
			q.Typing.At, q.Typing.Last, q.Typing.Commit = p.now().UTC(), key, commit
			q.Typing.Keys++
			return nil
		})
		return err
	}}
}

// choices are the prompts of a question with their answers.
func choices(q *state.Question) []inject.Choice {
	cs := make([]inject.Choice, len(q.Questions))
	for i, p := range q.Questions {
		a := gchat.Decompose(p, q.Answers[p.Question])
		a.Notes = q.Notes[p.Question]
		cs[i] = inject.Choice{Prompt: p, Answer: a}
	}
	return cs
}

// endTyping writes down how typing ended; also, where it is not nil, changes more in that write.
func (p *Poller) endTyping(q *state.Question, out inject.Outcome, also func(*state.Question)) {
	p.update(q.Path, "the end of typing not written down", func(q *state.Question) error {
		if q.Typing == nil && out.Result == inject.Unchanged {
			return state.ErrUnchanged
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{At: p.now().UTC()}
		}
		q.Typing.Ended, q.Typing.Result, q.Typing.Why = true, string(out.Result), gchat.Line(out.Why)
		if also != nil {
			also(q)
		}
		return nil
	})
}

// update changes a question beside the loop, which reads it again. A failure is logged.
func (p *Poller) update(path, what string, change func(*state.Question) error) {
	if _, err := state.UpdateQuestion(path, change); err != nil {
		p.logOnce(err, what)
	}
}

func succeeded(yes bool) func(*state.Question) {
	return func(q *state.Question) { q.InjectionSucceeded = &yes }
}

// confirmTyped closes a question whose answer was typed. The PostToolUse hook is given time to do it: it knows what Claude
// was told.
func (p *Poller) confirmTyped(ctx context.Context, q *state.Question) {
	if !p.awaitClosed(ctx, q.Path) {
		p.end(q, state.Resolved, "chat", nil)
		return
	}
	p.update(q.Path, "question not corrected", func(q *state.Question) error {
		if q.ResolvedBy != "terminal" {
			return state.ErrUnchanged
		}
		succeeded(false)(q) // a person's key was faster than ours by a moment that no screen shows
		return nil
	})
}

// awaitClosed waits for a hook to close the question.
func (p *Poller) awaitClosed(ctx context.Context, path string) (closed bool) {
	ctx, cancel := context.WithTimeout(ctx, confirmBound)
	defer cancel()
	for {
		if q, err := state.LoadQuestion(path); err != nil || q.Closed() {
			return true
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return false
		}
	}
}

// leaveToPerson says that a person has to finish the dialog. No further key is sent for this question.
func (p *Poller) leaveToPerson(q *state.Question, out inject.Outcome) {
	p.endTyping(q, out, func(q *state.Question) {
		succeeded(false)(q)
		q.Owes = append(q.Owes, state.Owed{About: state.NoteNotTyped, Reply: q.AnsweredMessage, Seen: out.Why})
	})
}

// notTyped counts a try that changed nothing, and tells the thread why when it goes on. Off says that the dialog is not there.
func (p *Poller) notTyped(s *served, q *state.Question, why string, off bool) {
	t := &s.try
	t.tries++
	t.next = p.now().Add(min(time.Second<<min(t.tries-1, 8), max(p.config(q.ProjectDir, s.Trusted).PollInterval, time.Second)))
	if t.offs++; !off {
		t.offs = 0
	}
	if t.offs >= mostOffs {
		p.end(q, state.Cancelled, "screen", nil)
		return
	}
	if t.tries == 1 || t.tries == triesBeforeTold {
		p.Log.Warn().Str("question", q.QuestionID).Str("session", q.SessionName).Str("why", why).Msg("answer not typed yet")
	}
	if t.tries == triesBeforeTold {
		p.update(q.Path, "thread not told that the answer waits", func(q *state.Question) error {
			q.Owes = append(q.Owes, state.Owed{About: state.NoteNotTyped, Seen: why})
			return nil
		})
	}
}
