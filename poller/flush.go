package poller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

const (
	// graceForHook is how long a question waits for its PermissionRequest hook to post it before the flusher does.
	graceForHook = 5 * time.Second
	// graceForReply is how long after its asking a thread hears nothing of it that no hook waits: on a slow machine the
	// PermissionRequest hook comes seconds after the flusher posted, and takes over.
	graceForReply = 15 * time.Second
	// FlushPatience is how long a detached flusher keeps trying in vain. After it, the next hook starts another.
	FlushPatience = time.Hour
)

// Flush sends what is waiting, now: messages, and questions that no hook posts. It ends when nothing is left that this
// process could send, or with ctx. What is held back stays.
func (p *Poller) Flush(ctx context.Context) (left Left) { return p.flush(ctx, 0, nil) }

// FlushDetached is Flush as hooks have it done: by one process for each environment, that also waits for what is held back,
// and gives up when nothing was sent for as long as its patience.
func (p *Poller) FlushDetached(ctx context.Context, patience time.Duration) (left Left) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	poked := state.Watch(ctx, pokePath(p.Env))
	for try := 0; ; try++ {
		lock, err := state.TryLock(flusherLock(p.Env))
		if err != nil {
			if try > 0 {
				return left
			}
			sleep(ctx, 10*time.Millisecond) // a hook may just be trying whether it is free
			continue
		}
		left = p.flush(ctx, patience, poked)
		lock.Unlock()
		// A hook that saw our lock relied on us: look once more after letting go.
		if ctx.Err() != nil || len(poked) == 0 && (left.GaveUp || !p.due(ctx, left.HeldUntil)) {
			return left
		}
	}
}

// FlushSteadily is FlushDetached for a process that stays: hooks of the same environment leave their sending to it. It also
// sends when kick says so, and sweeps what is old.
func (p *Poller) FlushSteadily(ctx context.Context, kick <-chan struct{}) {
	const forever = 10 * 365 * 24 * time.Hour
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	poked := make(chan struct{}, 1)
	touched := state.Watch(ctx, pokePath(p.Env))
	p.goSafely("pass pokes on", func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-kick:
			case <-touched:
			}
			state.Wake(poked)
		}
	})
	for ctx.Err() == nil {
		lock, err := state.TryLock(flusherLock(p.Env))
		if err != nil { // a hook's flusher, that ends by itself
			sleep(ctx, time.Second)
			continue
		}
		func() {
			defer lock.Unlock() // also in a panic
			for ctx.Err() == nil {
				p.flush(ctx, forever, poked)
				p.pause(ctx, p.now().Add(time.Minute), poked)
			}
		}()
	}
}

// flusherLock is one for each environment that configures differently: a flusher cannot send what only another one's
// webhook reaches. Mostly there is one.
func flusherLock(env state.Getenv) string {
	h := sha256.New()
	for _, name := range state.Variables() {
		if strings.HasPrefix(name, "GCHAT_POLLER_") {
			continue // of the daemon's reading, not of what is sent where
		}
		fmt.Fprintf(h, "%s=%s\x00", name, env(name))
	}
	// A command for the webhook, and questions of projects that have none, are each project's own affair.
	if dir := state.ProjectDir(env); state.LoadConfig(env, dir).WebhookURL == "" {
		fmt.Fprint(h, dir)
	}
	return filepath.Join(state.UserState(env), "flusher-"+hex.EncodeToString(h.Sum(nil)[:6])+".lock")
}

// pokePath is touched to wake the flusher that holds the lock.
func pokePath(env state.Getenv) string {
	return strings.TrimSuffix(flusherLock(env), ".lock") + ".poke"
}

// due says whether something is left that this process could send, other than what is held until then.
func (p *Poller) due(ctx context.Context, held time.Time) bool {
	if waiting, _ := p.unposted(&state.Scan{}); len(waiting) > 0 || p.Compose != nil && p.Compose(ctx) {
		return true
	}
	s := p.sender(nil)
	return slices.ContainsFunc(s.lanes(), func(l []state.Queued) bool {
		return slices.ContainsFunc(l, func(q state.Queued) bool {
			m := s.letter(ctx, q.Path)
			return m != nil && m.hook != nil && (held.IsZero() || m.NotBefore.Before(held) && m.quiet.Before(held))
		})
	}) || !s.left.Again.IsZero()
}

// Left says whether the outbox holds messages.
func (p *Poller) Left() bool { return !p.outbox().Empty() }

func (p *Poller) flush(ctx context.Context, patience time.Duration, poked <-chan struct{}) (left Left) {
	scan := &state.Scan{}
	failures, notBefore := map[string]int{}, map[string]time.Time{}
	alone := map[string]bool{} // paths of the questions that were posted here, for want of a hook
	until, busyFor, swept := p.now().Add(patience), busy, p.now()
	for {
		select {
		case <-poked: // by what this pass will see
		default:
		}
		left = p.Send(ctx) // before composing, which takes its time
		composing := p.Compose != nil && p.Compose(ctx)
		sent := left.Sent
		left = p.Send(ctx)
		if left.Sent += sent; left.Sent > 0 {
			until = p.now().Add(patience)
		}
		next := left.Again
		if busyFor = min(2*busyFor, time.Second); !left.Busy {
			busyFor = busy
		} else if at := p.now().Add(busyFor); next.Before(at) {
			next = at // the process that sends takes ours along, most probably
		}
		if composing {
			next = sooner(next, p.now().Add(time.Second))
		}
		qs, all := p.unposted(scan)
		for _, q := range qs {
			left.Questions++
			if wait := graceForHook - p.now().Sub(q.AskedAt); wait > 0 && q.Mode != state.Inject { // there no hook will post it
				next = sooner(next, p.now().Add(min(wait, 250*time.Millisecond)))
				continue
			}
			// While its hook lives, that one posts; should it be killed, it is our turn.
			if p.now().Before(notBefore[q.Path]) || state.HasWaiter(q) {
				next = sooner(next, p.now().Add(time.Second))
				continue
			}
			if _, err := p.Post(ctx, q.Path, false); err == nil {
				alone[q.Path], next = true, sooner(next, p.now())
			} else {
				pause := waitOf(err)
				if pause == 0 {
					failures[q.Path]++
					pause = min(time.Second<<min(failures[q.Path], 8), mostBackup)
				}
				notBefore[q.Path] = p.now().Add(pause)
				next = sooner(next, p.now().Add(time.Second))
			}
		}
		for _, q := range all {
			if patience > 0 && alone[q.Path] && p.unheard(q) {
				next = sooner(next, p.tellUnheard(q))
			}
		}
		if patience > 0 && p.now().Sub(swept).Abs() >= time.Minute { // also while something waits that cannot be sent
			swept = p.now()
			p.sweep(ctx, all)
		}
		left.Again = next
		switch {
		case ctx.Err() != nil:
			return left
		case next.IsZero():
			p.sweep(ctx, all)
			if len(poked) > 0 {
				continue // a hook left something while we were sending
			}
			if patience == 0 || left.HeldUntil.IsZero() {
				return left
			}
		case patience > 0 && p.now().After(until) && left.HeldUntil.IsZero() && len(poked) == 0:
			left.GaveUp = true
			return left
		}
		if p.pause(ctx, sooner(next, left.HeldUntil), poked) {
			until = p.now().Add(patience)
		}
	}
}

// pause waits until then or a poke, and reports which. It looks at the clock every five minutes: timers stand still while a
// laptop sleeps.
func (p *Poller) pause(ctx context.Context, until time.Time, poked <-chan struct{}) (poke bool) {
	t := time.NewTimer(min(max(until.Sub(p.now()), time.Millisecond), 5*time.Minute))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-poked:
		return true
	}
	return false
}

// unposted are the questions that are not in their space. One in deny mode is posted by its hook or goes to the terminal. It
// also returns all that it looked at.
func (p *Poller) unposted(scan *state.Scan) (qs, all []*state.Question) {
	dirs, err := p.stateDirs()
	if err != nil {
		p.Log.Error().Err(err).Msg("project registry")
	}
	all, bad := scan.Questions(dirs, p.Folders...)
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("question set aside")
	}
	for _, q := range all {
		young := p.now().Sub(q.AskedAt) < state.MaxAge
		if young && toBePosted(q) && q.Mode != state.Deny && (q.Closed() || !Gone(q)) && p.reaches(q) {
			qs = append(qs, q)
		}
	}
	return qs, all
}

// reaches says whether this process's environment may know where the question goes: it asked it, or says the same space.
func (p *Poller) reaches(q *state.Question) bool {
	if q.Chat == "" {
		return true
	}
	hook, err := p.webhook(context.Background(), p.config(q.ProjectDir))
	return err != nil || hook.Chat() == q.Chat
}

// sweep ends the questions that were left open, and removes what is a day old.
func (p *Poller) sweep(ctx context.Context, all []*state.Question) {
	p.CloseGone(all)
	p.outbox().Sweep(p.now())
	p.parkOld()
	for _, q := range all {
		if p.now().Sub(q.AskedAt) < state.MaxAge {
			continue
		}
		var err error
		if q.Closed() {
			err = state.Questions{Dir: filepath.Dir(q.Path)}.Remove(q)
		} else {
			_, err = p.Close(q.Path, state.Expired, "age", nil)
		}
		if err != nil {
			p.Log.Error().Err(err).Msg("sweep questions")
		}
	}
	p.Send(ctx)
}

// daemonWaits says whether the daemon is there to read the replies to a question that no hook waits for.
func (p *Poller) daemonWaits(q *state.Question) bool {
	return typable(q) && state.DaemonRuns(stateDirOf(q), p.user())
}

// CloseGone closes the open questions whose Claude Code has ended together with its hook, which would have told. One in
// deny mode stays: the session gets the reply when it is resumed.
func (p *Poller) CloseGone(qs []*state.Question) {
	for _, q := range qs {
		if q.Status.Open() && q.Mode != state.Deny && Gone(q) && !state.HasWaiter(q) {
			if _, err := p.Close(q.Path, state.Cancelled, "claude_gone", nil); err != nil {
				p.Log.Error().Err(err).Msg("close question")
			}
		}
	}
}

// StartFlusher starts self as a detached flusher, or wakes the running one: in a session of its own, with none of our
// descriptors, so that Claude Code neither waits for it nor takes it down. It costs a fork, not a network call.
func StartFlusher(env state.Getenv, self string) error {
	if state.Held(flusherLock(env)) {
		return state.Touch(pokePath(env))
	}
	cmd := &exec.Cmd{
		Path: self, Args: []string{"gchat-hooks", "flush", "--detached"}, // self may be a copy that is called as a hook
		Env: os.Environ(), SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
