package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"sync"
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

// run waits, and ends soon after ctx: what hangs then, as a disk, does not hold the process.
func (w wait) run(ctx context.Context) error {
	return endsWith(ctx, func() error { return w.await(ctx) })
}

// endsWith runs f, and leaves it endBound after ctx has ended.
func endsWith(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endBound):
		return waitError{errors.New("interrupted"), ""}
	}
}

// endBound is how long gchat-wait has to let go of its questions and to tell their threads when it is told to end.
const endBound = tellBound + 3*time.Second

func (w wait) await(ctx context.Context) error {
	interval := w.interval
	if cfg := state.LoadConfig(w.env, state.ProjectDir(w.env)); interval == "" && cfg.PollInterval > mostInterval {
		interval = mostInterval.String()
	}
	env := withInterval(w.env, interval)
	p := &poller.Poller{Env: env, Log: state.NewLog(env, "gchat-wait")}
	trouble := make(chan error, 1)
	listed := sync.Map{} // chats that were listed
	p.Listed = func(chat string, err error) {
		if _, before := listed.LoadOrStore(chat, true); !before && (gchat.AuthFailure(err) || gchat.Permanent(err)) { // what was well before may come back
			select {
			case trouble <- err:
			default:
			}
		}
	}
	var waits []func(context.Context, time.Time) heard
	known := map[string]bool{}
	for _, a := range w.replyTo {
		what, f, err := w.waiting(p, a)
		if err != nil {
			return err
		}
		if !known[what] { // the same thing under two names is waited for once
			known[what], waits = true, append(waits, f)
		}
	}
	begun := time.Now()
	until := begun.Add(w.timeout)
	stop := showProgress(w.errOut, until)
	h, late := firstOf(ctx, waits, until, trouble)
	stop()
	defer w.tell(ctx, p)
	switch {
	case ctx.Err() != nil && h.err != nil:
		return waitError{errors.New("interrupted"), ""}
	case errors.Is(h.err, poller.ErrNoReply):
		return w.sayTimeout(late)
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

// mostInterval is the time from one look to the next when nobody replies, where nothing else is said.
const mostInterval = 15 * time.Second

// tellBound is how long gchat-wait stays to tell the thread.
const tellBound = 2 * time.Second

// firstOf is what is heard first. When the time is up for all of them, late is what then is to be recorded of each.
func firstOf(ctx context.Context, waits []func(context.Context, time.Time) heard, until time.Time, trouble <-chan error) (h heard, late []heard) {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan heard, len(waits))
	for _, f := range waits {
		go func() { results <- f(ctx, until) }()
	}
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
			return heard{err: err}, nil
		case one := <-results:
			got++
			switch {
			case one.err == nil:
				return one, nil
			case errors.Is(one.err, poller.ErrNoReply):
				late = append(late, one)
			}
			if h.err == nil || errors.Is(h.err, poller.ErrNoReply) { // trouble is worth more than a timeout
				h = one
			}
		}
	}
	return h, late
}

// waiting finds what is meant; what names it.
func (w wait) waiting(p *poller.Poller, a awaited) (what string, wait func(context.Context, time.Time) heard, err error) {
	var q *state.Question
	switch by := a.question + a.threadKey + a.threadName; {
	case a.marker != "":
		path, aerr := filepath.Abs(a.marker)
		if aerr != nil {
			return "", nil, waitError{aerr, ""}
		}
		if q, err = state.PeekQuestion(path); err != nil {
			return "", nil, waitError{fmt.Errorf("marker: %w", err), ""}
		}
		if !state.AmongMarkers(path) { // a copy, or a question elsewhere: the one that it is of
			a = awaited{threadName: q.ThreadName, threadKey: q.ThreadKey}
			if q, err = p.FindQuestion(q.QuestionID); err != nil && q == nil {
				return "", nil, waitError{err, ""}
			}
		}
	default:
		if q, err = p.FindQuestion(by); err != nil && q == nil {
			return "", nil, waitError{err, ""}
		}
	}
	if q != nil && q.Mode == "" && state.AmongMarkers(q.Path) && q.Status.Open() {
		if q, err = p.AdoptMarker(q); err != nil {
			return "", nil, waitError{err, ""}
		}
	}
	if q != nil {
		return q.Path, func(ctx context.Context, until time.Time) heard { return w.question(ctx, p, q, until) }, nil
	}
	switch {
	case a.question != "":
		return "", nil, waitError{fmt.Errorf("no question %s is known", a.question), "is this the machine, the user and the project that asked it?"}
	case a.threadName == "":
		if a.threadName = p.ThreadOf(a.threadKey); a.threadName == "" {
			return "", nil, waitError{fmt.Errorf("no thread with the key %s is known", a.threadKey), "only threads that gchat-hooks began on this machine have a key; use --thread-name"}
		}
	}
	if !gchat.IsThreadName(a.threadName) {
		return "", nil, waitError{fmt.Errorf("%q is no thread's name: spaces/S/threads/T", a.threadName), ""}
	}
	return a.threadName, func(ctx context.Context, until time.Time) heard {
		r, err := p.AwaitInThread(ctx, a.threadName, until)
		h := heard{ThreadKey: a.threadKey, ThreadName: a.threadName, Status: "answered", Response: r.Text, AnsweredBy: r.Sender, Name: r.DisplayName, err: err}
		return h
	}, nil
}

// sayTimeout prints that nobody replied to any of them; of one, also what the timeout policy made of it.
func (w wait) sayTimeout(late []heard) error {
	h := heard{}
	if len(late) == 1 {
		h = late[0]
	}
	h.Status, h.Answers = "timeout", nil
	if h.question != nil && h.question.ResolvedBy == "policy" {
		h.Answers, h.AnsweredBy = maps.Clone(h.question.Answers), "policy"
	}
	if err := w.say(h, hooks.TimeoutLine(cmp.Or(h.waited, w.timeout), h.question)); err != nil {
		return waitError{err, ""}
	}
	for _, one := range late {
		if one.record == nil {
			continue
		}
		if err := one.record(); err != nil {
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
