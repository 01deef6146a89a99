package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

const (
	// overlap is read again with every list: a message can be listed after one that was created later.
	overlap = 2 * time.Minute
	// clockSlack is how far before its asking the thread of a question is read for the first time whose message's time is not
	// known: this machine's clock may be wrong.
	clockSlack = 10 * time.Minute
	quickFor   = 2 * time.Minute // after asking, and after a person's message, a space is listed once a quickCycle
	quickCycle = time.Second
	readOnFor  = 5 * time.Minute // after the last question's end, for a reply that was on its way
	// restCycle is the cycle where only sessions that ended may be written to, and restsFor how long after their end.
	restCycle = 30 * time.Second
	restsFor  = time.Hour

	firstBackup  = 30 * time.Second // after 429
	firstRetry   = time.Second      // after 5xx: Chat stumbles now and then
	refusedPause = time.Minute
	authTries    = 5                // then degraded, and said so
	deafPause    = 10 * time.Minute // for a space that only its Chat app may hear
)

// view is what the reader of a space has to know of the records: the loop gives it a new one with each step.
type view struct {
	records  map[string][]*state.Question // by thread, the oldest first, of every environment; not to be changed
	served   map[*state.Question]*served
	ours     map[*state.Question]bool  // those of this environment: no other is written
	asked    []*state.Question         // open ones of these
	own      []configured              // the projects of these, and of the sessions that listen
	sessions map[string]*state.Session // by the thread of their reports
	youngest time.Time                 // when the youngest question was asked that waits for a reply
	ended    time.Time                 // when the last question ended whose thread may still get a reply
	listens  bool                      // there is the thread of a session that listens
	rests    bool                      // there is that of one that has ended, and can be resumed
}

// configured is by whose configuration something goes: a project's, or with none the person's own.
type configured struct {
	projectDir string
	trusted    bool // its files count
}

// configuredFor is the project by whose configuration a question is asked and answered: none for what is decided.
func configuredFor(q *state.Question, o *state.IndexEntry) configured {
	if q.Kind.Traits().UsesOwnSpace {
		return configured{}
	}
	return configured{q.ProjectDir, o.IsTrusted}
}

// reader lists a space, for the records of every environment: beside the loop, one list at a time.
type reader struct {
	*Poller
	chat   string // host/spaces/S
	spaces state.Spaces
	bad    atomic.Bool // the last list failed
	busy   atomic.Bool // a list is under way: what follows is that goroutine's

	began   time.Time     // when the last list began
	pause   time.Duration // the least time from then to the next
	good    time.Time     // when the last good list began
	pulls   bool          // what is said there comes from the subscription
	lock    *state.Lock   // while this process lists the space
	api     *gchat.API
	from    int        // the space is read by the configuration of this one of the view's own, counted round
	by      configured // which that was, with the last list
	mark    *state.Space
	trouble trouble
	heard   time.Time       // when the last message of a person came
	covered map[string]bool // ids of the questions whose threads were read from their beginnings
	// kept are messages of the threads that a process began to wait in, by the question's id:
	// the list that says which of them counts goes on with the next one.
	kept    map[string][]gchat.Message
	endless bool // the last list had no end
}

// reads says whether a reply to this question is of use now, so that its space has to be read.
func (p *Poller) reads(s *served) bool {
	q := s.q
	switch {
	case s.over || !q.IsMessageSent:
		return false
	case q.Status.IsOpen() || q.HasActiveGrant(): // also answered: a second reply gets its note
		return true
	}
	return q.IsLate(p.Now()) && (p.Daemon || state.HasWaiter(p.Env, s.Path))
}

// views are what there is to be known of each space that a record is in, or the thread of a session that listens.
func (p *Poller) views() map[string]*view {
	views := map[string]*view{}
	viewOf := func(chat string) *view {
		if views[chat] == nil {
			views[chat] = &view{
				records: map[string][]*state.Question{}, served: map[*state.Question]*served{},
				ours: map[*state.Question]bool{}, sessions: p.byThread,
			}
		}
		return views[chat]
	}
	for _, s := range p.ofAll() {
		q := s.q
		if q == nil || q.Chat == "" {
			continue
		}
		v := viewOf(q.Chat)
		for _, thread := range append(slices.Clone(q.FormerThreads), q.ThreadName) {
			if thread != "" {
				v.records[thread] = append(v.records[thread], q)
			}
		}
		v.served[q], v.ours[q] = s, s.Environment == p.environment
		switch {
		case !v.ours[q]:
		case p.reads(s):
			v.own, v.youngest = append(v.own, configuredFor(q, s.IndexEntry)), q.AskedAt
			v.asked = append(v.asked, q)
		case p.endedLately(q):
			v.own = append(v.own, configuredFor(q, s.IndexEntry))
			if q.ResolvedAt.After(v.ended) {
				v.ended = *q.ResolvedAt
			}
		}
	}
	for _, one := range p.ownSessions {
		lives := p.takesCommands(one)
		if lives || p.readsOn(one) {
			v := viewOf(one.Chat)
			v.own = append(v.own, configured{one.ProjectDir, one.IsTrusted})
			v.listens, v.rests = v.listens || lives, v.rests || !lives
		}
	}
	return views
}

// endedLately says whether a reply in a question's thread may have been written before its person saw that it is over.
func (p *Poller) endedLately(q *state.Question) bool {
	ended := !q.Status.IsOpen() && q.IsMessageSent && q.Mode.Traits().Asks && q.ResolvedAt != nil && q.ResolvedBy != state.EndedReplaced
	return ended && p.Now().Sub(*q.ResolvedAt).Abs() < readOnFor
}

// follow has every space listed once a cycle that has a view, and no other. It returns when to come again.
func (p *Poller) follow(ctx context.Context) (next time.Time) {
	views := p.views()
	maps.DeleteFunc(views, func(_ string, v *view) bool { return len(v.own) == 0 })
	p.closeReaders(views)
	for chat, v := range views {
		if v.ended.After(p.ended) {
			p.ended = v.ended
		}
		r := p.readerOf(chat)
		if r.busy.Load() {
			continue
		}
		if at := r.began.Add(max(r.cycle(v), r.pause)); p.Now().Before(at) {
			next = sooner(next, at)
			continue
		}
		r.began = p.Now()
		r.busy.Store(true)
		p.beside("read", func() {
			defer r.busy.Store(false)
			_ = r.list(ctx, v)
		})
	}
	return next
}

func (p *Poller) readerOf(chat string) *reader {
	if p.readers[chat] == nil {
		p.readers[chat] = &reader{Poller: p, chat: chat, spaces: state.SpacesIn(p.user)}
	}
	return p.readers[chat]
}

// closeReaders lets the readers of the other spaces go, with what failed there, but for those at work.
func (p *Poller) closeReaders(kept map[string]*view) {
	for chat, r := range p.readers {
		if kept[chat] == nil && !r.busy.Load() {
			release(&r.lock)
			delete(p.readers, chat)
		}
	}
}

func (p *Poller) reading() bool {
	for _, r := range p.readers {
		if r.bad.Load() {
			return false
		}
	}
	return true
}

func (r *reader) list(ctx context.Context, v *view) error {
	if !r.lead() {
		return r.readWaits(ctx, v)
	}
	r.by = v.own[r.from%len(v.own)]
	began, way := r.Now(), r.gateway(ctx, r.by)
	err := r.readOn(ctx, v, way)
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil:
		r.good, r.trouble, r.pause = began, trouble{}, 0
		r.bad.Store(false)
		if was := r.mark.ReadTrouble; was != nil {
			r.Log.Info().Str("chat", r.chat).Time("since", was.Since).Msg(readAgain)
			r.setTrouble(nil)
		}
		return nil
	case way.events() != nil && (gchat.AuthFailure(err) || gchat.Permanent(err)):
		r.Log.ErrorOnce(err, "the space is not listed: its Chat app hears taps, and words that mention it")
		r.api, r.pause, r.pulls = nil, deafPause, true
		return nil
	}
	r.pause = r.trouble.after(err)
	r.bad.Store(true)
	r.tell(err, v)
	if gchat.AuthFailure(err) { // the next list is by another project's configuration
		r.api, r.from = nil, r.from+1
	}
	release(&r.lock) // a process with better credentials, or a better way to Chat, gets its turn
	return err
}

// lead has this process list the space; false while another environment's poller does, for our records, too.
func (r *reader) lead() bool {
	if r.lock != nil {
		return true
	}
	lock, err := r.spaces.LockReader(r.chat)
	if errors.Is(err, state.ErrLocked) {
		r.trouble, r.pause = trouble{}, 0
		goesOn := func(h state.Heartbeat) bool { return h.IsAlive && h.PID != os.Getpid() && !h.IsSilent(r.Now()) }
		r.good = time.Time{}
		// Where no process shows life, the one that has the lock is stopped, and reads nothing.
		if r.spaces.Get(r.chat).ReadTrouble == nil && slices.ContainsFunc(state.ReadHeartbeats(r.Env), goesOn) {
			r.good = r.Now().Add(-quickFor)
		}
		return false
	}
	r.Log.ErrorOnce(err, "reader's lock")       // better two processes that list than none
	r.lock, r.mark = lock, r.spaces.Get(r.chat) // another process may have read on
	for id := range r.kept {
		delete(r.covered, id)
	}
	r.kept = nil
	return true
}

// cycle is the time from one list to the next: short just after asking and after a person's message.
func (r *reader) cycle(v *view) time.Duration {
	interval := r.config(v.own[r.from%len(v.own)]).PollInterval
	quiet := len(v.asked) == 0 && !v.listens
	if quiet && !v.ended.IsZero() { // ever more rarely
		return max(min(quickCycle, interval), r.Now().Sub(v.ended)/4)
	}
	if quiet && v.rests && !gchat.Local(r.chat) && r.Now().Sub(r.heard).Abs() >= quickFor {
		return max(interval, restCycle)
	}
	if r.Now().Sub(v.youngest).Abs() < quickFor || r.Now().Sub(r.heard).Abs() < quickFor {
		return min(quickCycle, interval)
	}
	return interval
}

// What ends an error: its line in the log has one of these as "until", and `status` shows it until that is logged.
const (
	readAgain = "replies are read again"
	sentAgain = "messages are sent again"
)

// tell says why a list failed: for status, in the log, and once in the open threads when only a person can mend it.
func (r *reader) tell(err error, v *view) {
	was := r.mark.ReadTrouble
	is := state.ReadTrouble{
		Since: r.Now().UTC(), Why: r.Log.Redact(err.Error()),
		IsDegraded: r.trouble.degraded(), IsRefused: gchat.AuthFailure(err) || gchat.Permanent(err),
	}
	if was != nil {
		is.Since = was.Since
	}
	if was == nil || *was != is { // not with every cycle of an outage
		r.Log.Error().Str("chat", r.chat).Str("error", is.Why).Str("hint", gchat.Hint(err)).Bool("degraded", is.IsDegraded).
			Str("until", readAgain).Msg("replies cannot be read")
		r.setTrouble(&is)
	}
	if !is.IsDegraded && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	why := fmt.Sprintf("%s. Hint: %s", wording.Line(is.Why), gchat.Hint(err))
	for _, q := range v.asked {
		if q.HasUnreadNote || !q.Mode.Traits().Asks {
			continue
		}
		r.update(q.Path, "thread not told that replies cannot be read", func(q *state.Question) {
			if !q.HasUnreadNote && q.Status == state.Pending {
				q.HasUnreadNote = true
				q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteUnread, Text: why})
			}
		})
	}
}

func (r *reader) setTrouble(t *state.ReadTrouble) {
	r.mark.ReadTrouble = t
	_, err := r.spaces.Change(r.chat, func(s *state.Space) { s.ReadTrouble = t })
	r.Log.ErrorOnce(err, "trouble not written down")
}

// trouble counts the failures of listing that follow one another.
type trouble struct {
	overloaded int
	auth       int // with what only a person can mend
}

// after is how long to leave Chat alone after err; 0 means the usual cycle.
func (t *trouble) after(err error) time.Duration {
	switch {
	case gchat.AuthFailure(err), gchat.Permanent(err): // 400, 404: a person has to look, or the space is being made
		t.auth++
		if gchat.AuthFailure(err) || t.degraded() {
			return refusedPause
		}
	case gchat.Overloaded(err), errors.Is(err, gchat.ErrEndless):
		first := firstRetry
		if gchat.TooMany(err) {
			first = firstBackup
		}
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows when the quota is back.
		return cmp.Or(gchat.RetryAfter(err), backoff(first, t.overloaded))
	}
	return 0
}

func (t *trouble) degraded() bool { return t.auth >= authTries }
