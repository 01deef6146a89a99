package poller

import (
	"strings"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// TimeOut ends a question in deny mode that nobody replied to in time, as its policy says; the caller has the outbox sent.
// It returns the question as it then stands and whether this call ended it.
func (p *Poller) TimeOut(path string, also func(*state.Question)) (q *state.Question, ended bool, err error) {
	if ended, err = p.Close(path, state.TimedOut, "timeout", func(q *state.Question) {
		if choose(q); also != nil {
			also(q)
		}
	}); err != nil {
		return nil, ended, err
	}
	q, err = state.LoadQuestion(path)
	return q, ended, err
}

// TimedOut is a question as TimeOut would leave it.
func (p *Poller) TimedOut(q *state.Question) *state.Question {
	then := *q
	then.Status, then.ResolvedBy = state.TimedOut, "timeout"
	choose(&then)
	return &then
}

// choose does what the timeout policy says.
func choose(q *state.Question) {
	if q.TimeoutPolicy != state.Recommended {
		return
	}
	q.Answers = map[string]string{}
	for _, prompt := range q.Questions {
		if a := recommended(prompt); !a.Empty() {
			q.Answers[prompt.Question] = a.Value()
		}
	}
	if len(q.Answers) > 0 {
		q.ResolvedBy = "policy"
	}
}

// recommended is the answer that Claude itself recommends: the options that say so, else the first. A question with a single
// choice gets one.
func recommended(prompt state.Prompt) (a state.Answer) {
	for _, o := range prompt.Options {
		if says := strings.ToLower(o.Label + " " + o.Description); strings.Contains(says, "(recommended)") || strings.Contains(says, "[recommended]") {
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

// timedOutNote is what the thread is told of a question that nobody replied to in time.
func timedOutNote(q *state.Question) *state.Outgoing {
	what := "Nobody replied in time. Claude goes on without an answer; a reply still reaches it with its next step."
	switch {
	case q.ResolvedBy == "policy":
		what = "Nobody replied in time."
	case q.TimeoutPolicy == state.AskTerminal:
		what = "Nobody replied in time. Claude is told to ask again, in the terminal."
	}
	answers := make([]state.Answer, len(q.Questions))
	for i, prompt := range q.Questions {
		if v := q.Answers[prompt.Question]; v != "" {
			answers[i] = gchat.Decompose(prompt, v)
		}
	}
	return note(q, "timeout", gchat.TimedOutText(q.SessionName, q.Questions, answers, what))
}

// instead closes a marker whose question goes to the terminal: the same question goes on there, so its thread hears nothing.
const instead = "instead"

// AskInstead takes a question out of deny mode that has to be asked in the terminal after all. It returns the question as
// it goes on there, to be recorded; the marker is closed and can be removed. state.ErrTransition when it is over already.
func (p *Poller) AskInstead(path string) (*state.Question, error) {
	var there state.Question
	_, err := state.UpdateQuestion(path, func(q *state.Question) error {
		there = *q
		if err := q.Move(state.Cancelled, p.now()); err != nil {
			return err
		}
		q.ResolvedBy = instead
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Its id stays, and with it the message's: should the marker be in the space already, it is not posted twice.
	there.Mode, there.Path, there.Denied, there.TimesOutAt, there.TimeoutPolicy = state.Native, "", false, nil, ""
	return &there, nil
}
