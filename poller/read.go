package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// overlap is read again with every list: a message can be listed after one that was created later.
	overlap = 2 * time.Minute
	// clockSlack is how far before its asking the thread of a question is read for the first time whose message's time is not
	// known: this machine's clock may be wrong.
	clockSlack = 10 * time.Minute
	// quickFor is how long after asking, and after a person's message, the space is listed once a second.
	quickFor   = 2 * time.Minute
	quickCycle = time.Second
	// otherReads is the time from one try to become the reader of a space to the next.
	otherReads = time.Second

	firstBackup  = 30 * time.Second
	mostBackup   = 5 * time.Minute
	refusedPause = time.Minute
	authTries    = 5 // then degraded, and said so
)

// view is what the reader of a space has to know of the records: the loop gives it a new one with each step.
type view struct {
	records  map[string][]*state.Question // by thread, the oldest first, of every environment; not to be changed
	own      []asked                      // open ones of this environment, the newest first
	sessions map[string]*state.Session    // by the thread of their reports
	youngest time.Time                    // when the youngest question was asked that waits for a reply
}

// asked is a question whose project's configuration may read the space.
type asked struct {
	*state.Question
	trusted bool
}

// reader is the one goroutine that lists a space, for the records of every environment.
type reader struct {
	*Poller
	chat   string // host/spaces/S
	spaces state.Spaces
	stop   context.CancelFunc
	done   chan struct{}
	fresh  chan struct{} // there is another view

	mu   sync.Mutex
	view view
	good time.Time // when the last good list began
	bad  bool      // the last list failed

	lock    *state.Lock // while this process is the one that lists the space
	api     *gchat.Reader
	from    int // whose configuration reads the space, of the view's own
	mark    *state.Space
	trouble trouble
	heard   time.Time       // when the last message of a person came
	covered map[string]bool // ids of the questions whose threads were read from their beginnings
}

// reads says whether a reply to this question is of use now, so that its space has to be read.
func (p *Poller) reads(s *served) bool {
	q := s.q
	switch {
	case q == nil || s.settled || q.Chat == "" || !q.MessageSent && (q.Mode != state.Thread || q.ThreadName == ""):
		return false
	case q.Status.Open(): // also answered: a second reply gets its note
		return true
	}
	return q.Late(p.now()) && (p.Daemon || state.HasWaiter(p.Env, s.Path))
}

// views are what there is to be known of each space that an open question of this environment is in.
func (p *Poller) views() map[string]view {
	views := map[string]view{}
	all := p.inOrder()
	for _, s := range slices.Backward(all) {
		if !s.mine(p) || !p.reads(s) {
			continue
		}
		v := views[s.q.Chat]
		if v.own = append(v.own, asked{s.q, s.Trusted}); s.q.AskedAt.After(v.youngest) {
			v.youngest = s.q.AskedAt
		}
		views[s.q.Chat] = v
	}
	for chat, v := range views {
		v.sessions, v.records = p.people.byThread, map[string][]*state.Question{}
		for _, s := range all {
			if s.q != nil && s.q.Chat == chat && s.q.ThreadName != "" {
				v.records[s.q.ThreadName] = append(v.records[s.q.ThreadName], s.q)
			}
		}
		views[chat] = v
	}
	return views
}

// follow has every space listed that an open question is in, and no other.
func (p *Poller) follow(ctx context.Context) {
	views := p.views()
	for chat, r := range p.readers {
		select {
		case <-r.done: // also after a panic
			delete(p.readers, chat)
			continue
		default:
		}
		if _, open := views[chat]; !open {
			r.stop()
		}
	}
	for chat, v := range views {
		r := p.readers[chat]
		if r == nil {
			r = p.readerOf(chat)
			r.give(v)
			p.readers[chat] = r
			rctx, stop := context.WithCancel(ctx)
			r.stop = stop
			go func() {
				defer p.wake()
				defer close(r.done)
				p.safely("read", func() { r.follow(rctx) })
			}()
		}
		r.give(v)
	}
}

func (p *Poller) readerOf(chat string) *reader {
	return &reader{
		Poller: p, chat: chat, spaces: state.SpacesIn(p.user()), done: make(chan struct{}), fresh: make(chan struct{}, 1),
	}
}

// reading says whether every list went well the last time.
func (p *Poller) reading() bool {
	for _, r := range p.readers {
		r.mu.Lock()
		bad := r.bad
		r.mu.Unlock()
		if bad {
			return false
		}
	}
	return true
}

func (r *reader) give(v view) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(v.own) != len(r.view.own) || !v.youngest.Equal(r.view.youngest) {
		select {
		case r.fresh <- struct{}{}:
		default:
		}
	}
	r.view = v
}

// readAfter says whether a good list began after t.
func (r *reader) readAfter(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.good.After(t)
}

// follow lists the space once a cycle, as long as no other process does, until ctx ends.
func (r *reader) follow(ctx context.Context) {
	defer r.unlock()
	for ctx.Err() == nil {
		if !r.lead() {
			sleep(ctx, otherReads)
			continue
		}
		began := r.now()
		err := r.list(ctx, r.current())
		pause := r.trouble.after(err)
		if gchat.AuthFailure(err) {
			r.api, r.from = nil, r.from+1
			r.unlock() // a process with better credentials gets its turn
		}
		r.rest(ctx, func() time.Time { return began.Add(max(r.cycle(ctx, r.current()), pause)) })
	}
}

// lead makes this process the one that lists the space; false while another environment's poller does, for our records, too.
func (r *reader) lead() bool {
	if r.lock != nil {
		return true
	}
	lock, err := r.spaces.LockReader(r.chat)
	if errors.Is(err, state.ErrLocked) {
		r.trouble = trouble{}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.good = (time.Time{}); r.spaces.Of(r.chat).Trouble == nil {
			r.good = r.now().Add(-quickFor)
		}
		return false
	}
	if err != nil {
		r.logOnce(err, "reader's lock") // better two processes that list than none
	}
	r.lock, r.mark = lock, r.spaces.Of(r.chat) // another process may have read on
	return true
}

func (r *reader) unlock() {
	if r.lock != nil {
		r.lock.Unlock()
		r.lock = nil
	}
}

// rest waits until then, which may be sooner with another view.
func (r *reader) rest(ctx context.Context, until func() time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(until().Sub(r.now())):
			return
		case <-r.fresh:
		}
	}
}

func (r *reader) current() view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// gatewayOf is the gateway that the space is read by: another question's after the credentials of the former were refused.
func (r *reader) gatewayOf(ctx context.Context, v view) *gateway {
	if len(v.own) == 0 {
		return r.gateway(ctx, state.ProjectDir(r.Env), false)
	}
	q := v.own[r.from%len(v.own)]
	return r.gateway(ctx, q.ProjectDir, q.trusted)
}

// cycle is the time from one list to the next: short just after asking and after a person's message.
func (r *reader) cycle(ctx context.Context, v view) time.Duration {
	interval := r.gatewayOf(ctx, v).cfg.PollInterval
	if r.now().Sub(v.youngest).Abs() < quickFor || r.now().Sub(r.heard).Abs() < quickFor {
		return min(quickCycle, interval)
	}
	return interval
}

// listOnce is a single round's list, unless another process reads the space anyway.
func (r *reader) listOnce(ctx context.Context, v view) error {
	defer r.unlock()
	if !r.lead() {
		return nil
	}
	return r.list(ctx, v)
}

// list lists the space and tells how that went.
func (r *reader) list(ctx context.Context, v view) error {
	began := r.now()
	err := r.readOn(ctx, v)
	if ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	if r.bad = err != nil; err == nil {
		r.good = began
	}
	r.mu.Unlock()
	r.tell(err, v)
	r.wake() // a question's time may be up, which waits for a list
	return err
}

// tell says how a list went: for status, in the log when that is news, and once in the open threads when only a person can
// mend it.
func (r *reader) tell(err error, v view) {
	was := r.mark.Trouble
	if err == nil {
		if was != nil {
			r.Log.Info().Str("chat", r.chat).Time("since", was.Since).Msg("replies are read again")
			r.setTrouble(nil)
		}
		return
	}
	is := state.ReadTrouble{
		Since: r.now().UTC(), Why: r.Log.Clean(err.Error()),
		Degraded: r.trouble.degraded(), Refused: gchat.AuthFailure(err) || gchat.Permanent(err),
	}
	if was != nil {
		is.Since = was.Since
	}
	if was == nil || *was != is { // not with every cycle of an outage
		r.Log.Error().Str("chat", r.chat).Str("error", is.Why).Str("hint", gchat.Hint(err)).Bool("degraded", is.Degraded).
			Msg("replies cannot be read")
		r.setTrouble(&is)
	}
	if !is.Degraded && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	why := fmt.Sprintf("%s. Hint: %s", gchat.Line(is.Why), gchat.Hint(err))
	for _, q := range v.own {
		if q.ToldUnread || q.Mode == state.Thread {
			continue
		}
		r.update(q.Path, "thread not told that replies cannot be read", func(q *state.Question) error {
			if q.ToldUnread || q.Status != state.Pending {
				return state.ErrUnchanged
			}
			q.ToldUnread = true
			q.Owes = append(q.Owes, state.Owed{About: state.NoteUnread, Seen: why})
			return nil
		})
	}
}

func (r *reader) setTrouble(t *state.ReadTrouble) {
	r.mark.Trouble = t
	if _, err := r.spaces.Change(r.chat, func(s *state.Space) { s.Trouble = t }); err != nil {
		r.logOnce(err, "trouble not written down")
	}
}

// trouble counts the failures of listing and says how long to leave Chat alone.
type trouble struct {
	overloaded int
	auth       int
}

// after is the pause after err; 0 means the usual cycle.
func (t *trouble) after(err error) time.Duration {
	switch {
	case err == nil:
		*t = trouble{}
	case gchat.AuthFailure(err):
		t.auth++
		return refusedPause
	case gchat.Permanent(err): // 400, 404: a person has to look, or the space is being made
		if t.auth++; !t.degraded() {
			return 0
		}
		return refusedPause
	case gchat.Overloaded(err):
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows when the quota is back.
		return cmp.Or(gchat.RetryAfter(err), min(firstBackup<<min(t.overloaded-1, 4), mostBackup))
	}
	return 0
}

func (t *trouble) degraded() bool { return t.auth >= authTries }
