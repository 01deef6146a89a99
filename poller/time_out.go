package poller

import (
	"strings"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// TimeOut ends a question in deny mode that had no reply in time, as its policy says; the caller has the outbox sent.
// Unread says that there may have been a reply: then nothing is chosen in the person's place. It reports whether this call
// ended it.
func (p *Poller) TimeOut(path string, unread bool, also func(*state.Question)) (ended bool, err error) {
	return p.Close(path, state.TimedOut, "timeout", func(q *state.Question) {
		if p.choose(q, unread); also != nil {
			also(q)
		}
	})
}

// TimedOut is a question as TimeOut would leave it.
func (p *Poller) TimedOut(q *state.Question, unread bool) *state.Question {
	then := *q
	then.Status, then.ResolvedBy = state.TimedOut, "timeout"
	p.choose(&then, unread)
	return &then
}

// choose does what the timeout policy says, in its time: a process that waits for a shorter one chooses nothing, and none
// chooses against a reply that was not judged yet. What the person did answer stays.
func (p *Poller) choose(q *state.Question, unread bool) {
	if q.TimeoutPolicy != state.Recommended || unread || q.Unread() || q.TimesOutAt != nil && p.now().Before(*q.TimesOutAt) {
		return
	}
	q.Answers = map[string]string{}
	for i, prompt := range q.Questions {
		a := q.Partial[i]
		if a.Empty() {
			a = recommended(prompt)
		}
		if !a.Empty() {
			q.Answers[prompt.Question] = a.Value()
		}
	}
	q.ResolvedBy = "policy"
}

// recommended is the answer that Claude itself recommends: the options that say so, else the first. A question with a single
// choice gets one.
func recommended(prompt state.Prompt) (a state.Answer) {
	for _, o := range prompt.Options {
		says := strings.ToLower(o.Label + " " + o.Description)
		if strings.Contains(says, "(recommended)") || strings.Contains(says, "[recommended]") {
			if a.Labels = append(a.Labels, o.Label); !prompt.MultiSelect {
				return a
			}
		}
	}
	if len(a.Labels) == 0 && len(prompt.Options) > 0 {
		a.Labels = []string{prompt.Options[0].Label}
	}
	return a
}

// timedOutNote is what the thread is told of a question that had no reply in time.
func timedOutNote(q *state.Question) *state.Outgoing {
	what := "Nobody replied in time. Claude goes on without an answer; a reply still reaches it."
	switch {
	case q.ResolvedBy == "policy":
		what = "Nobody replied in time."
	case q.TimeoutPolicy == state.AskTerminal:
		what = "Nobody replied in time. Claude is told to ask again, in the terminal."
	}
	chosen := make([]state.Answer, len(q.Questions))
	for i, prompt := range q.Questions {
		if v := q.Answers[prompt.Question]; v != "" && q.Partial[i].Empty() {
			chosen[i] = gchat.Decompose(prompt, v)
		}
	}
	return note(q, "timeout", gchat.TimedOutText(q.SessionName, q.Questions, chosen, q.Partial, what))
}

// instead closes a marker whose question goes to the terminal: the same question goes on there, so its thread hears nothing.
const instead = "instead"

// Instead is a question of deny mode as it goes on in the terminal, to be recorded there. Its id stays, and with it the
// message's: should it be in the space already, it is not posted twice.
func Instead(q *state.Question) *state.Question {
	there := *q
	there.Mode, there.Path, there.Denied, there.TimesOutAt, there.TimeoutPolicy = state.Native, "", false, nil, ""
	return &there
}

// CloseInstead ends a marker whose question goes on in the terminal; its thread hears nothing. ErrTransition of package state
// when it is over already.
func (p *Poller) CloseInstead(path string) error {
	_, err := state.UpdateQuestion(path, func(q *state.Question) error {
		if err := q.Move(state.Cancelled, p.now()); err != nil {
			return err
		}
		q.ResolvedBy = instead
		return nil
	})
	return err
}
