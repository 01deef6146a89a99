package poller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// ThreadOf is the thread that a message of ours with this key is in; "" when none of the last day is known.
func (p *Poller) ThreadOf(key string) string {
	_, threads := p.outbox().Known()
	return threads[key]
}

// AwaitInThread waits for a reply of an allowed person in a thread that no question is known of: the first after the message
// of an app that was the last one there at the first look, or, where there is none, after now. While a message that was put
// before waits in the outbox for the thread, there is none: who replies has not seen it, and does not answer it. A reply is
// delivered once, to the process that takes it first, and of all threads that this Poller waits in, one. Errors are ErrNoReply
// at that time, and what keeps it from reading from the beginning: what was well once may come back.
func (p *Poller) AwaitInThread(ctx context.Context, thread string, until time.Time) (state.Reply, error) {
	begun, trouble := p.now(), trouble{}
	in := threadWait{
		Poller: p, thread: thread, space: thread[:strings.Index(thread, "/threads/")],
		begun: begun, after: begun.Add(-dateSlack), from: begun,
	}
	if said := p.outbox().LastIn(thread); !said.IsZero() && said.Before(in.from) {
		in.from = said
	}
	in.from = in.from.Add(-clockSlack)
	for {
		reply, err := in.look(ctx)
		switch {
		case ctx.Err() != nil:
			return state.Reply{}, ctx.Err()
		case err == nil && reply.MessageName != "":
			return reply, nil
		case err != nil && !in.read && (gchat.AuthFailure(err) || gchat.Permanent(err)):
			return state.Reply{}, err
		case gchat.AuthFailure(err):
			in.reader = nil // a person may have logged in again
		}
		if !p.now().Before(until) {
			if err != nil {
				return state.Reply{}, err // there may be a reply
			}
			return state.Reply{}, ErrNoReply
		}
		pause := max(trouble.after(err), cycle(p.now().Sub(begun), p.config(state.ProjectDir(p.Env)).PollInterval))
		sleep(ctx, min(pause, max(until.Sub(p.now()), time.Millisecond)))
	}
}

// threadWait is the waiting for a reply in one thread.
type threadWait struct {
	*Poller
	thread, space string
	reader        *gchat.Reader
	begun         time.Time // this machine's clock
	from          time.Time // what is older is not read; the server's clock
	after         time.Time // a reply is younger; the server's clock
	read          bool      // the thread was read once
	settled       bool      // it was read once with all that was to be said in it
}

// look looks once for the reply; without a name there is none.
func (w *threadWait) look(ctx context.Context) (found state.Reply, err error) {
	cfg := w.config(state.ProjectDir(w.Env))
	if w.reader == nil {
		if w.reader, err = w.newReader(ctx, cfg); err != nil {
			return found, err
		}
	}
	saying := !w.settled && w.saying() // before the list: what waits no more is in it
	var mine []gchat.Message
	newest := w.from
	done, err := w.reader.Since(ctx, w.space, w.from, func(page []gchat.Message) {
		for _, m := range page {
			if m.ThreadName == w.thread && !m.Deleted {
				mine = append(mine, m)
			}
			if m.CreateTime.After(newest) {
				newest = m.CreateTime
			}
		}
	})
	if err != nil {
		return found, err
	}
	for _, m := range mine {
		if !w.settled && !m.Human {
			w.after = m.CreateTime
		}
	}
	if !done {
		w.from = newest.Add(-time.Millisecond) // the rest comes with the next look
	} else {
		w.read, w.settled = true, w.settled || !saying
	}
	if saying {
		return found, nil
	}
	taken := state.TakenIn(w.user(), w.thread)
	for _, m := range mine {
		reply := replyOf(m, gchat.CleanReply(m.Text))
		if m.Human && m.CreateTime.After(w.after) && strings.TrimSpace(reply.Text) != "" && allowed(cfg, &reply) &&
			!taken.Holds(reply) && ctx.Err() == nil {
			mine, err := w.take(reply)
			if err != nil {
				return found, err
			}
			if mine {
				return reply, nil
			}
		}
	}
	return found, nil
}

// saying says whether a message to the thread waits in the outbox that was put before the waiting began. What is put later is
// not what is waited for.
func (w *threadWait) saying() bool {
	waiting, _ := w.outbox().Waiting()
	return slices.ContainsFunc(waiting, func(m *state.Outgoing) bool {
		if m.CreatedAt.After(w.begun) {
			return false
		}
		return m.ThreadName == w.thread || m.ThreadName == "" && m.ThreadKey != "" && w.ThreadOf(m.ThreadKey) == w.thread
	})
}

// take makes a reply this process's, and says whether it is.
func (w *threadWait) take(r state.Reply) (bool, error) {
	if !w.took.CompareAndSwap(false, true) {
		return false, nil // one was taken in another thread, and only one is printed
	}
	taken, err := state.TakeInThread(w.user(), w.thread, r, w.now())
	if err != nil && !errors.Is(err, state.ErrLocked) {
		w.Log.Error().Err(err).Msg("reply delivered, and not written down: it may be delivered again")
		return true, nil
	}
	w.took.Store(taken)
	return taken, err
}
