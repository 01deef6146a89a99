package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// Exit codes of gchat-wait.
const (
	exitTrouble = 2
	exitNoReply = 3
)

// wait is gchat-wait: it waits for one reply.
type wait struct {
	env      state.Getenv
	self     string
	out      io.Writer
	errOut   io.Writer
	interval string // as given
	timeout  time.Duration
	asJSON   bool
	replyTo  []awaited
}

// waitError is a trouble of gchat-wait.
type waitError struct {
	error
	hint string
}

func (e waitError) Hint() string  { return e.hint }
func (waitError) ExitCode() int   { return exitTrouble }
func (e waitError) Unwrap() error { return e.error }

// noReply ends gchat-wait when the time is up; that was said on stdout.
type noReply struct{ error }

func (noReply) ExitCode() int { return exitNoReply }

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
	record   func() error // after it was printed
	err      error
}

func (w wait) run(ctx context.Context) error {
	env := withInterval(w.env, w.interval)
	p := &poller.Poller{Env: env, Log: state.NewLog(env, "gchat-wait")}
	trouble := make(chan error, 1)
	first := true
	p.Listed = func(err error) {
		if first && (gchat.AuthFailure(err) || gchat.Permanent(err)) { // what was well before may come back
			select {
			case trouble <- err:
			default:
			}
		}
		first = false
	}
	var waits []func(context.Context, time.Time) heard
	for _, a := range w.replyTo {
		f, err := w.waiting(p, a)
		if err != nil {
			return err
		}
		waits = append(waits, f)
	}
	begun := time.Now()
	until := begun.Add(w.timeout)
	stop := showProgress(w.errOut, until)
	h := firstOf(ctx, waits, until, trouble)
	stop()
	defer w.tell(ctx, p)
	switch {
	case ctx.Err() != nil && h.err != nil:
		return waitError{errors.New("interrupted"), ""}
	case errors.Is(h.err, poller.ErrNoReply):
		return w.sayTimeout(h)
	case h.err != nil:
		return waitError{h.err, gchat.Hint(h.err)}
	}
	if err := w.say(h, hooks.ReplyLine(h.Response)); err != nil {
		return waitError{err, ""}
	}
	if h.record != nil {
		if err := h.record(); err != nil {
			p.Log.Error().Err(err).Msg("reply printed, and not written down")
		}
	}
	return nil
}

// tell sends what the threads are told; what cannot be sent at once is the flusher's.
func (w wait) tell(ctx context.Context, p *poller.Poller) {
	ctx, cancel := context.WithTimeout(ctx, tellBound)
	defer cancel()
	if p.Left() {
		p.Send(ctx)
	}
	if p.Left() {
		_ = poller.StartFlusher(w.env, w.self)
	}
}

// tellBound is how long gchat-wait stays to tell the thread.
const tellBound = 2 * time.Second

// firstOf is what is heard first; ErrNoReply when the time is up for all of them, which then have been recorded so.
func firstOf(ctx context.Context, waits []func(context.Context, time.Time) heard, until time.Time, trouble <-chan error) heard {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan heard, len(waits))
	for _, f := range waits {
		go func() { results <- f(ctx, until) }()
	}
	var last heard
	got := 0
	defer func() {
		cancel()
		for ; got < len(waits); got++ { // each lets go of its question
			<-results
		}
	}()
	for got < len(waits) {
		select {
		case err := <-trouble:
			return heard{err: err}
		case h := <-results:
			if got++; h.err == nil {
				return h
			}
			if last.err == nil || !errors.Is(h.err, poller.ErrNoReply) {
				last = h
			}
		}
	}
	return last
}

// waiting finds what is meant.
func (w wait) waiting(p *poller.Poller, a awaited) (func(context.Context, time.Time) heard, error) {
	var q *state.Question
	var err error
	switch by := a.question + a.threadKey + a.threadName; {
	case a.marker != "":
		path, aerr := filepath.Abs(a.marker)
		if aerr != nil {
			return nil, waitError{aerr, ""}
		}
		if q, err = state.PeekQuestion(path); err != nil {
			return nil, waitError{fmt.Errorf("marker: %w", err), ""}
		}
		if !state.AmongMarkers(path) && q.Mode == "" { // a copy somewhere: its thread is all that can be waited for
			a, q = awaited{threadName: q.ThreadName, threadKey: q.ThreadKey}, nil
		}
	default:
		if q, err = p.FindQuestion(by); err != nil && q == nil {
			return nil, waitError{err, ""}
		}
	}
	if q != nil && q.Mode == "" && state.AmongMarkers(q.Path) && q.Status.Open() {
		if q, err = p.AdoptMarker(q); err != nil {
			return nil, waitError{err, ""}
		}
	}
	if q != nil {
		return func(ctx context.Context, until time.Time) heard { return w.question(ctx, p, q, until) }, nil
	}
	switch {
	case a.question != "":
		return nil, waitError{fmt.Errorf("no question %s is known", a.question), "is this the machine, the user and the project that asked it?"}
	case a.threadName == "":
		if a.threadName = p.ThreadOf(a.threadKey); a.threadName == "" {
			return nil, waitError{fmt.Errorf("no thread with the key %s is known", a.threadKey), "only threads that gchat-hooks began on this machine have a key; use --thread-name"}
		}
	}
	if !gchat.IsThreadName(a.threadName) {
		return nil, waitError{fmt.Errorf("%q is no thread's name: spaces/S/threads/T", a.threadName), ""}
	}
	return func(ctx context.Context, until time.Time) heard {
		r, err := p.AwaitInThread(ctx, a.threadName, until)
		h := heard{ThreadKey: a.threadKey, ThreadName: a.threadName, Status: "answered", Response: r.Text, AnsweredBy: r.Sender, Name: r.DisplayName, err: err}
		return h
	}, nil
}

// question waits for the reply to a question. One in deny mode, that nobody else waits for, is then resolved or timed out.
func (w wait) question(ctx context.Context, p *poller.Poller, q *state.Question, until time.Time) heard {
	var lock *state.Lock
	if q.Mode == state.Deny {
		var err error
		if lock, err = state.LockWaiter(q); err != nil && !errors.Is(err, state.ErrLocked) {
			return heard{err: err}
		}
	}
	q, err := p.Await(ctx, q, until, lock != nil, nil)
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
				_, _, err := p.TimeOut(q.Path, nil)
				return err
			}
			h.question = p.TimedOut(q)
		}
	case err != nil:
		_ = release()
		if errors.Is(err, poller.ErrGaveUp) {
			h.err = errors.New("the question was removed")
		}
	case q.Status == state.TimedOut: // by whoever waits for it
		h.err = poller.ErrNoReply
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

func (w wait) sayTimeout(h heard) error {
	h.Status, h.Answers = "timeout", nil
	if h.question != nil && h.question.ResolvedBy == "policy" {
		h.Answers, h.AnsweredBy = maps.Clone(h.question.Answers), "policy"
	}
	if err := w.say(h, hooks.TimeoutLine(w.timeout, h.question)); err != nil {
		return waitError{err, ""}
	}
	if h.record != nil {
		if err := h.record(); err != nil {
			return waitError{err, ""}
		}
	}
	return noReply{poller.ErrNoReply}
}

// say prints one line.
func (w wait) say(h heard, line string) error {
	if w.asJSON {
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		line = string(b)
	}
	_, err := fmt.Fprintln(w.out, line)
	return err
}
