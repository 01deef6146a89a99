package poller

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// inbox is the one loop of this machine that lists a space, for all open questions of all projects.
type inbox struct {
	*Poller
	chat       string // host/spaces/S
	space      string
	projectDir string      // whose configuration it reads with
	stateDir   string      // served also where the registry cannot be written
	listed     func(error) // called after every list

	scan    state.Scan
	reader  *gchat.Reader
	mark    *state.Inbox
	trouble trouble
	told    bool            // the threads were told that replies cannot be read
	logged  map[string]bool // what is said once, not every cycle
	looked  time.Time       // for sessions that ended without a word
}

// Lead takes part in listing q's space until ctx ends: it leads whenever no other process does, with the configuration of
// q's project.
func (p *Poller) Lead(ctx context.Context, q *state.Question) {
	p.newInbox(q).follow(ctx)
}

func (p *Poller) newInbox(q *state.Question) *inbox {
	return &inbox{
		Poller: p, chat: q.Chat, space: q.Space, projectDir: q.ProjectDir, stateDir: stateDirOf(q), logged: map[string]bool{},
		listed: func(err error) {
			if p.Listed != nil {
				p.Listed(q.Chat, err)
			}
		},
	}
}

// stateDirOf is the state folder that a question is in.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// follow leads whenever no other process does, until ctx ends.
func (in *inbox) follow(ctx context.Context) {
	for ctx.Err() == nil {
		lock, err := state.LockLeader(in.user(), in.chat)
		if errors.Is(err, state.ErrLocked) {
			in.trouble = trouble{} // another process reads, perhaps with better credentials
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		if err != nil {
			// The person's state cannot be written: better two that list than none.
			in.once(err, "leader lock")
		}
		pause := in.leadFrom(ctx, lock)
		if lock != nil {
			lock.Unlock() // so that a waiter with better credentials gets its turn
		}
		sleep(ctx, pause)
	}
}

// leadFrom leads from a seat, nil for none, and shows meanwhile that this process goes on. One that stands in makes way as soon
// as the leader that was silent goes on, or its seat is free.
func (in *inbox) leadFrom(ctx context.Context, seat *state.Leader) time.Duration {
	if seat == nil {
		return in.lead(ctx)
	}
	if seat.StandsIn() {
		sleep(ctx, 500*time.Millisecond) // one that just took its seat has not shown anything
		if !seat.Needed() {
			return 0
		}
		in.Log.Warn().Str("chat", in.chat).Msg("the process that reads replies is stopped; another reads beside it")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	in.goSafely("show that it goes on", func() {
		for seat.Needed() {
			seat.Beat()
			if sleep(ctx, state.BeatEvery); ctx.Err() != nil {
				return
			}
		}
		stop()
	})
	return in.lead(ctx)
}

// lead lists once a cycle until ctx ends or reading fails for want of credentials; it returns how long to stand back.
func (in *inbox) lead(ctx context.Context) time.Duration {
	last, pause := time.Time{}, time.Duration(0)
	in.mark = nil // another leader may have read on
	for turn := in.now(); ctx.Err() == nil; {
		if now := in.now(); now.Sub(turn) > state.BeatEvery { // also while this process was stopped
			in.mark = nil
		}
		turn = in.now()
		cfg := in.config(in.projectDir)
		qs := in.questions()
		youngest, open := time.Time{}, false
		for _, q := range qs {
			if in.awaited(q) {
				open = true
				if q.AskedAt.After(youngest) {
					youngest = q.AskedAt
				}
			}
		}
		every := cycle(max(in.now().Sub(youngest), 0), cfg.PollInterval)
		if open && in.now().Sub(last) >= max(every, pause) {
			err := in.list(ctx, cfg, qs)
			last, pause = in.now(), in.trouble.after(err)
			if ctx.Err() == nil {
				in.tell(ctx, err, qs)
				if gchat.AuthFailure(err) {
					in.reader, in.projectDir = nil, nextProject(qs, in.projectDir)
					return pause
				}
			}
		}
		if in.now().Sub(in.looked) > time.Minute {
			in.looked = in.now()
			in.CloseGone(qs)
		}
		// A question that was just asked shortens the cycle, so look around more often than it says.
		sleep(ctx, min(lookAround, every))
	}
	return 0
}

// nextProject is another project of the open questions, whose credentials may be better; the same where there is none.
func nextProject(qs []*state.Question, is string) string {
	var dirs []string
	for _, q := range qs {
		if q.Status.Open() && q.ProjectDir != "" {
			dirs = append(dirs, q.ProjectDir)
		}
	}
	slices.Sort(dirs)
	if i := slices.IndexFunc(dirs, func(d string) bool { return d > is }); i >= 0 {
		return dirs[i]
	}
	if len(dirs) > 0 {
		return dirs[0]
	}
	return is
}

// questions are those of this space, of all projects.
func (in *inbox) questions() []*state.Question {
	dirs, err := in.stateDirs()
	if err != nil {
		in.once(err, "project registry")
	}
	if !slices.Contains(dirs, in.stateDir) {
		dirs = append(dirs, in.stateDir)
	}
	qs, bad := in.scan.Questions(dirs, in.Folders...)
	for _, err := range bad {
		in.once(err, "question set aside")
	}
	return slices.DeleteFunc(qs, func(q *state.Question) bool { return q.Chat != in.chat })
}

// once logs what would come again with every cycle.
func (in *inbox) once(err error, what string) {
	if key := what + err.Error(); !in.logged[key] {
		in.logged[key] = true
		in.Log.Error().Str("error", in.Log.Clean(err.Error())).Msg(what)
	}
}

// tell says how a list went: for status, in the log when that is news, and once in the open threads when only a person can
// mend it.
func (in *inbox) tell(ctx context.Context, err error, qs []*state.Question) {
	in.listed(err)
	was := in.mark.Trouble
	if err == nil {
		if was != nil {
			in.Log.Info().Str("chat", in.chat).Time("since", was.Since).Msg("replies are read again")
			in.told = false
			in.setTrouble(nil)
		}
		return
	}
	is := state.ReadTrouble{
		Since: in.now().UTC(), Why: in.Log.Clean(err.Error()),
		Degraded: in.trouble.degraded(), Refused: gchat.AuthFailure(err) || gchat.Permanent(err),
	}
	if was != nil {
		is.Since = was.Since
	}
	if was == nil || *was != is { // not with every cycle of an outage
		in.Log.Error().Str("chat", in.chat).Str("error", is.Why).Str("hint", gchat.Hint(err)).Bool("degraded", is.Degraded).
			Msg("replies cannot be read")
		in.setTrouble(&is)
	}
	// A hook that waits has no time to lose; beside the daemon there may be one that reads.
	if in.told || !is.Degraded && (in.Steady || !errors.Is(err, gchat.ErrCredentials)) {
		return
	}
	in.told = true
	unread := fmt.Sprintf("[Not read] Replies here cannot be read yet: %s. Hint: %s. Until then answer in the terminal.",
		gchat.Line(is.Why), gchat.Hint(err))
	for _, q := range qs {
		if q.Status == state.Pending && q.MessageSent {
			in.put(note(q, "unread", unread))
		}
	}
	in.Send(ctx)
}

func (in *inbox) setTrouble(t *state.ReadTrouble) {
	in.mark.Trouble = t
	if err := in.mark.Save(); err != nil {
		in.once(err, "inbox watermark")
	}
}

const (
	quickCycle  = time.Second // just after asking
	easeOver    = 30          // a question's age divided by this is the cycle, up to the poll interval
	firstBackup = 30 * time.Second
	mostBackup  = 5 * time.Minute
	authPause   = time.Minute
	authTries   = 5 // then degraded, and said so
)

// cycle is the time from one list to the next: quick just after asking, easing to interval when no answer comes.
func cycle(sinceAsked, interval time.Duration) time.Duration {
	return min(max(quickCycle, sinceAsked/easeOver), interval)
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
		return authPause
	case gchat.Permanent(err): // 400, 404: a person has to look, or the space is being made
		if t.auth++; !t.degraded() {
			return 0
		}
		return authPause
	case gchat.Overloaded(err):
		d := mostBackup
		if t.overloaded < 4 {
			d = min(firstBackup<<t.overloaded, mostBackup)
		}
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows when the quota is back.
		if asked := gchat.RetryAfter(err); asked > 0 {
			return asked
		}
		return d
	}
	return 0
}

func (t *trouble) degraded() bool { return t.auth >= authTries }
