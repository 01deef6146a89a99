package poller

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"gchat-hooks/state"
)

const (
	// graceForHook is how long a question waits for its PermissionRequest hook to post it before the flusher does.
	graceForHook = 2 * time.Second
	// FlushTimeout is how long a detached flusher keeps trying. After it, the next hook starts another.
	FlushTimeout = time.Hour
)

// Flush sends what is waiting: notes, and questions that no hook posts. It ends when there is nothing left, when
// another flusher is at it, or with ctx; it reports whether something is left.
func (p *Poller) Flush(ctx context.Context) (left bool) {
	for ctx.Err() == nil {
		lock, err := state.TryLock(flusherLock(p.user()))
		if err != nil {
			return true
		}
		p.flush(ctx)
		lock.Unlock()
		// A hook that saw our lock relied on us: look once more after letting go.
		if waiting, _ := p.unposted(&state.Scan{}); len(waiting) == 0 && !p.Left() {
			return false
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return true
}

func flusherLock(user string) string { return filepath.Join(user, "flusher.lock") }

// Left says whether the outbox holds messages.
func (p *Poller) Left() bool {
	ms, _ := state.OutboxIn(p.user()).Waiting()
	return len(ms) > 0
}

func (p *Poller) flush(ctx context.Context) {
	scan := &state.Scan{}
	failures, notBefore := map[string]int{}, map[string]time.Time{}
	for ctx.Err() == nil {
		left, pause := p.Send(ctx), time.Second
		qs, all := p.unposted(scan)
		for _, q := range qs {
			left, pause = true, 250*time.Millisecond
			if p.now().Sub(q.AskedAt) < graceForHook || p.now().Before(notBefore[q.Path]) || state.HasWaiter(q) {
				continue
			}
			if _, err := p.Post(ctx, q.Path); err != nil {
				failures[q.Path]++
				notBefore[q.Path] = p.now().Add(min(time.Second<<min(failures[q.Path], 8), mostBackup))
			}
		}
		if !left {
			p.sweep(all)
			return
		}
		sleep(ctx, pause)
	}
}

// unposted are the questions that are not in their space and have no hook that waits and posts them. It also returns
// the project states that it looked into.
func (p *Poller) unposted(scan *state.Scan) (qs []*state.Question, dirs []string) {
	dirs, err := state.ProjectStates(p.user())
	if err != nil {
		p.Log.Error().Err(err).Msg("project registry")
	}
	all, bad := scan.Questions(dirs)
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("question set aside")
	}
	for _, q := range all {
		if q.Status == state.Pending && !posted(q) && p.now().Sub(q.AskedAt) < state.MaxAge && !gone(q) && !state.HasWaiter(q) {
			qs = append(qs, q)
		}
	}
	return qs, dirs
}

func (p *Poller) sweep(dirs []string) {
	state.OutboxIn(p.user()).Sweep(p.now())
	for _, dir := range dirs {
		for _, err := range state.QuestionsIn(dir).Sweep(p.now()) {
			p.Log.Error().Err(err).Msg("sweep questions")
		}
	}
}

// StartFlusher starts self as a detached flusher, unless one runs: in a session of its own, with none of our
// descriptors, so that Claude Code neither waits for it nor takes it down. It costs a fork, not a network call.
func StartFlusher(user, self string) error {
	if state.Held(flusherLock(user)) {
		return nil
	}
	cmd := exec.Command(self, "flush", "--timeout", FlushTimeout.String())
	cmd.Dir = "/"
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
