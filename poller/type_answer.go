package poller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// confirmBound is how long after the dialog closed the PostToolUse hook is waited for, which knows what Claude was
	// told. Where it is not installed, the daemon says so itself.
	confirmBound = 3 * time.Second
	// typeBound is how long one injection may take: 10 kB of text into a slow terminal.
	typeBound = time.Minute
	// triesBeforeTold is how many tries that changed nothing go by before the thread is told why.
	triesBeforeTold = 3
	// mostOffs is how many tries running may find that the dialog is not there before it counts as gone.
	mostOffs = 3
)

// deliverTyped types a question's answer into its pane. The caller holds the question's waiter lock.
func (d *Daemon) deliverTyped(ctx context.Context, t *task, path string) {
	q, err := state.LoadQuestion(path)
	if err != nil || q.Status != state.Answered {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, typeBound)
	defer cancel()
	t.next = d.now().Add(lookAround) // whatever fails below
	if q.Typing != nil && !q.Typing.Ended && t.ended {
		d.endTyping(t, q, t.outcome, nil) // our own, whose end could not be written down
		return
	}
	if q.Typing != nil && !q.Typing.Ended {
		d.afterKill(ctx, t, q)
		return
	}
	if q.InjectionSucceeded != nil && *q.InjectionSucceeded { // killed while it was waiting for the confirmation
		d.confirmTyped(ctx, path)
		return
	}
	to, err := (&tmuxView{own: d.Env("TMUX")}).where(ctx, q)
	if err != nil {
		d.notTyped(t, q, err.Error(), false)
		return
	}
	out := d.typist(path).Answer(ctx, to, choices(q))
	if out.Keys > 0 {
		d.Log.Info().Str("question", q.QuestionID).Str("session", q.SessionName).Str("pane", to.Pane).
			Str("result", string(out.Result)).Int("keys", out.Keys).Str("why", out.Why).Msg("answer typed")
	}
	switch {
	case d.DryRun:
		would := "would type: " + strings.Join(out.Steps, ", ")
		if out.Why != "" {
			would = "would not type: " + out.Why
		}
		d.Log.Info().Str("question", q.QuestionID).Str("pane", to.Pane).Int("keys", len(out.Steps)).Msg("dry run")
		if d.Out != nil {
			fmt.Fprintf(d.Out, "%s, pane %s: %s\n", gchat.Line(q.SessionName), to.Pane, gchat.Line(would))
		}
		t.next = d.now().Add(state.MaxAge) // said once
	case out.Result == inject.Injected:
		d.endTyping(t, q, out, succeeded(true))
		if out.Removed {
			d.put(note(q, "removed", "[Changed] Control characters in your reply were left out."))
		}
		d.confirmTyped(ctx, path)
	case out.Result == inject.Dirty && d.awaitClosed(ctx, path, confirmBound):
		// A person answered meanwhile, and the hook said so: no person has to look.
		d.endTyping(t, q, out, func(q *state.Question) { done := q.ResolvedBy == "chat"; q.InjectionSucceeded = &done })
	case out.Result == inject.Dirty:
		d.spoiled(t, q, out)
	default:
		d.endTyping(t, q, out, nil) // also without a key: one may have been written down and then not sent
		d.notTyped(t, q, out.Why, out.Gone)
	}
}

// typist writes down each key before it is sent.
func (d *Daemon) typist(path string) inject.Typist {
	return inject.Typist{UserState: d.user(), DryRun: d.DryRun, Before: func(key string, commit bool) error {
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
			q.Typing.At, q.Typing.Last, q.Typing.Commit = d.now().UTC(), key, commit
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

func (d *Daemon) endTyping(t *task, q *state.Question, out inject.Outcome, also func(*state.Question)) {
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Typing == nil && out.Result == inject.Unchanged {
			return state.ErrUnchanged
		}
		if q.Typing == nil {
			q.Typing = &state.Typing{At: d.now().UTC()}
		}
		q.Typing.Ended, q.Typing.Result, q.Typing.Why = true, string(out.Result), gchat.Line(out.Why)
		if also != nil {
			also(q)
		}
		return nil
	}); err != nil {
		d.Log.Error().Err(err).Str("question", q.QuestionID).Msg("the end of typing not written down")
		t.ended, t.outcome = true, out
		return
	}
	t.ended = false
}

func succeeded(yes bool) func(*state.Question) {
	return func(q *state.Question) { q.InjectionSucceeded = &yes }
}

// confirmTyped closes a question whose answer was typed. The PostToolUse hook is given time to do it: it knows what Claude
// was told.
func (d *Daemon) confirmTyped(ctx context.Context, path string) {
	if d.awaitClosed(ctx, path, confirmBound) {
		if _, err := state.UpdateQuestion(path, func(q *state.Question) error {
			if q.ResolvedBy != "terminal" {
				return state.ErrUnchanged
			}
			succeeded(false)(q) // a person's key was faster than ours by a moment that no screen shows
			return nil
		}); err != nil {
			d.Log.Error().Err(err).Msg("question not corrected")
		}
		return
	}
	if _, err := d.Close(path, state.Resolved, "chat", nil); err != nil {
		d.Log.Error().Err(err).Msg("question not closed")
	}
	d.flushSoon()
}

// awaitClosed waits for others to close the question.
func (d *Daemon) awaitClosed(ctx context.Context, path string, bound time.Duration) (closed bool) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	changed := state.Watch(ctx, path)
	for {
		if q, err := state.LoadQuestion(path); err != nil || q.Closed() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// afterKill ends what a killed daemon began. Its last key may have been sent or not, so none is sent again: either the
// dialog is gone, or a person has to look.
func (d *Daemon) afterKill(ctx context.Context, t *task, q *state.Question) {
	if d.awaitClosed(ctx, q.Path, confirmBound) {
		return
	}
	to, err := (&tmuxView{own: d.Env("TMUX")}).where(ctx, q)
	standing := inject.Unseen
	if err == nil {
		standing, err = d.standing(ctx, to, q)
	}
	switch {
	case errors.Is(err, errTmuxGone), errors.Is(err, errNoTmux):
		d.notTyped(t, q, err.Error(), false)
	case err == nil && standing == inject.Gone && q.Typing.Commit:
		d.endTyping(t, q, inject.Outcome{Result: inject.Injected}, succeeded(true))
		d.confirmTyped(ctx, q.Path)
	case err == nil && standing == inject.Gone:
		d.endTyping(t, q, inject.Outcome{Result: inject.Unchanged, Why: "the dialog was closed meanwhile"}, nil)
		if _, err := d.Close(q.Path, state.Cancelled, "screen", nil); err != nil {
			d.Log.Error().Err(err).Msg("question not closed")
		}
		d.flushSoon()
	default:
		why := "the daemon was stopped while it typed your answer"
		if err != nil {
			why += "; " + err.Error()
		}
		d.spoiled(t, q, inject.Outcome{Result: inject.Dirty, Why: why})
	}
}

// standing says how the question's dialog stands in the pane of the Claude Code that asked.
func (d *Daemon) standing(ctx context.Context, to inject.Target, q *state.Question) (inject.Standing, error) {
	pane, err := to.Server.Pane(ctx, to.Pane)
	if err != nil {
		return inject.Unseen, err
	}
	if _, err := pane.Claude(to.ClaudePID, to.ClaudeStart); err != nil {
		return inject.Unseen, err
	}
	return d.typist(q.Path).Standing(ctx, to, choices(q))
}

// spoiled says that a person has to look. No further key is sent for this question.
func (d *Daemon) spoiled(t *task, q *state.Question, out inject.Outcome) {
	d.put(note(q, "dirty", "[Look] Your answer was not typed to its end: "+gchat.Line(out.Why)+
		". The dialog may be half filled in: please finish it in the terminal."))
	d.endTyping(t, q, out, succeeded(false))
	d.flushSoon()
}

// notTyped counts a try that changed nothing, and tells the thread why when it goes on.
func (d *Daemon) notTyped(t *task, q *state.Question, why string, off bool) {
	t.tries++
	t.next = d.now().Add(min(time.Second<<min(t.tries-1, 8), max(d.config(q.ProjectDir).PollInterval, time.Second)))
	if t.offs++; !off {
		t.offs = 0
	}
	if t.offs >= mostOffs {
		if _, err := d.Close(q.Path, state.Cancelled, "screen", nil); err != nil {
			d.Log.Error().Err(err).Msg("question not closed")
		}
		d.flushSoon()
		return
	}
	if t.tries == 1 || t.tries == triesBeforeTold {
		d.Log.Warn().Str("question", q.QuestionID).Str("session", q.SessionName).Str("why", why).Msg("answer not typed yet")
	}
	if t.tries == triesBeforeTold {
		d.put(note(q, "waiting", "[Waiting] Your answer is not in the terminal yet: "+gchat.Line(why)+
			". It is tried again until the question is closed."))
		d.flushSoon()
	}
}
