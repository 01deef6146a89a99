package poller

import (
	"context"
	"errors"
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
	projectDir string // whose configuration it reads with
	stateDir   string // served also where the registry cannot be written

	scan    state.Scan
	reader  *gchat.Reader
	mark    *state.Inbox
	trouble trouble
	told    bool            // the threads were told that replies cannot be read
	logged  map[string]bool // what is said once, not every cycle
	looked  time.Time       // for sessions that ended without a word
}

// Lead takes part in listing q's space until ctx ends: it leads whenever nobody else does, with the configuration of
// q's project.
func (p *Poller) Lead(ctx context.Context, q *state.Question) {
	in := &inbox{
		Poller: p, chat: q.Chat, space: q.Space, projectDir: q.ProjectDir, stateDir: filepath.Dir(filepath.Dir(q.Path)), logged: map[string]bool{},
	}
	for ctx.Err() == nil {
		lock, err := state.LockLeader(p.user(), q.Chat)
		if errors.Is(err, state.ErrLocked) {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		if err != nil {
			// The person's state cannot be written: better two that list than none.
			in.once(err, "leader lock")
		}
		pause := in.lead(ctx)
		if lock != nil {
			lock.Unlock() // so that a waiter with better credentials gets its turn
		}
		sleep(ctx, pause)
	}
}

// lead lists once a cycle until ctx ends or reading fails for want of credentials; it returns how long to stand back.
func (in *inbox) lead(ctx context.Context) time.Duration {
	last, pause := time.Time{}, time.Duration(0)
	in.mark = nil // another leader may have read on
	for ctx.Err() == nil {
		cfg := in.config(in.projectDir)
		qs := in.questions()
		youngest, open := time.Time{}, false
		for _, q := range qs {
			if q.Status == state.Pending && q.MessageSent {
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
			if err != nil && ctx.Err() == nil {
				in.report(ctx, err, qs)
				if gchat.AuthFailure(err) {
					in.reader = nil
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

// questions are those of this space, of all projects.
func (in *inbox) questions() []*state.Question {
	dirs, err := state.ProjectStates(in.user())
	if err != nil {
		in.once(err, "project registry")
	}
	if !slices.Contains(dirs, in.stateDir) {
		dirs = append(dirs, in.stateDir)
	}
	qs, bad := in.scan.Questions(dirs)
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

// report says that reading fails: in the log, and once in the open threads when only a person can mend it.
func (in *inbox) report(ctx context.Context, err error, qs []*state.Question) {
	in.Log.Error().Str("error", in.Log.Clean(err.Error())).Str("hint", gchat.Hint(err)).Bool("degraded", in.trouble.degraded()).
		Msg("replies cannot be read")
	if in.told || !in.trouble.degraded() && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	in.told = true
	for _, q := range qs {
		if q.Status == state.Pending && q.MessageSent {
			in.put(note(q, "unread", "[Not read] Replies here cannot be read yet: "+gchat.Line(in.Log.Clean(err.Error()))+". Hint: "+gchat.Hint(err)+". Until then answer in the terminal."))
		}
	}
	in.Send(ctx)
}
