package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// heard is what came of waiting for one of them.
type heard struct {
	QuestionID   string            `json:"question_id,omitempty"`
	ThreadKey    string            `json:"thread_key,omitempty"`
	ThreadName   string            `json:"thread_name,omitempty"`
	Status       string            `json:"status"` // answered or timeout
	Response     string            `json:"response"`
	ResponseType string            `json:"response_type,omitempty"`
	Answers      map[string]string `json:"answers,omitempty"`
	Notes        map[string]string `json:"notes,omitempty"`
	AnsweredBy   string            `json:"answered_by,omitempty"` // users/ID; terminal, policy
	Name         string            `json:"answered_by_name,omitempty"`

	question *state.Question
	waited   time.Duration // of a timeout that came to pass earlier
	record   func() error  // after it was printed
	err      error
}

// question waits for the reply to a question. One in deny mode, that nobody else waits for, is then resolved or timed out.
func (w wait) question(ctx context.Context, p *poller.Poller, q *state.Question, until time.Time) heard {
	var lock *state.Lock
	if q.Mode == state.Deny {
		var err error
		if lock, err = state.LockWaiter(q); err != nil && !errors.Is(err, state.ErrLocked) {
			return heard{err: err}
		}
		if lock != nil {
			state.SignWaiter(q, "gchat-wait")
		}
	}
	q, err := p.Await(ctx, q, poller.Waiting{Until: until, Held: lock != nil})
	h := heard{
		QuestionID: q.QuestionID, ThreadKey: q.ThreadKey, ThreadName: q.ThreadName, Status: "answered", Answers: q.Answers, Notes: q.Notes,
		AnsweredBy: q.AnsweredBy, Name: q.AnsweredByName, question: q, err: err,
	}
	if q.ResponseType != nil {
		h.ResponseType = *q.ResponseType
	}
	release := func() error {
		if lock != nil {
			lock.Unlock()
		}
		return nil
	}
	h.record = release
	switch {
	case errors.Is(err, poller.ErrNoReply):
		if lock != nil {
			h.record = func() error {
				defer lock.Unlock()
				_, err := p.TimeOut(q.Path, false, nil)
				return err
			}
			h.question = p.TimedOut(q, false)
		}
	case err != nil:
		_ = release()
		if errors.Is(err, poller.ErrGaveUp) {
			h.err = errors.New("the question was removed")
		}
	case q.Status == state.TimedOut: // by whoever waited for it, and no reply would count any more, or that one goes on waiting
		h.err = poller.ErrNoReply
		if q.TimesOutAt != nil {
			h.waited = q.TimesOutAt.Sub(q.AskedAt)
		}
	case q.Status == state.Answered || q.Status == state.Resolved:
		if q.Response != nil {
			h.Response = *q.Response
		} else { // in the terminal
			h.AnsweredBy = q.ResolvedBy
			var values []string
			for _, prompt := range q.Questions {
				values = append(values, q.Answers[prompt.Question])
			}
			h.Response = strings.Join(values, "; ")
		}
		if lock == nil && q.Mode == state.Deny && q.Status == state.Answered {
			lock, _ = state.LockWaiter(q) // whoever had it may have been killed
		}
		if lock != nil && q.Status == state.Answered {
			h.record = func() error {
				defer lock.Unlock()
				_, err := p.Close(q.Path, state.Resolved, "chat", nil)
				return err
			}
		}
	default:
		_ = release()
		h.err = fmt.Errorf("the question was closed without a reply: it is %s", q.Status)
	}
	return h
}
