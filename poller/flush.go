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
		lock, err := state.TryLock(flusherLock(p.Env))
		if err != nil {
			return true
		}
		p.flush(ctx)
		lock.Unlock()
		// A hook that saw our lock relied on us: look once more after letting go.
		if waiting, _ := p.unposted(&state.Scan{}); len(waiting) == 0 && !p.due(ctx) {
			return false
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return true
}

// flusherLock is one for each environment that configures differently: a flusher cannot send what only another one's
// webhook reaches. Mostly there is one.
func flusherLock(env state.Getenv) string {
	h := sha256.New()
	for _, name := range state.Variables() {
		fmt.Fprintf(h, "%s=%s\x00", name, env(name))
	}
	fmt.Fprint(h, state.ProjectDir(env))
	return filepath.Join(state.UserState(env), "flusher-"+hex.EncodeToString(h.Sum(nil)[:6])+".lock")
}

// due says whether the outbox holds a message that this process could send.
func (p *Poller) due(ctx context.Context) bool {
	ms, _ := state.OutboxIn(p.user()).Waiting()
	return slices.ContainsFunc(ms, func(m *state.Outgoing) bool { return p.webhookFor(ctx, m) != nil })
}

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
			left = true
			if p.now().Sub(q.AskedAt) < graceForHook {
				pause = 250 * time.Millisecond
				continue
			}
			// While its hook lives, that one posts; should it be killed, it is our turn.
			if p.now().Before(notBefore[q.Path]) || state.HasWaiter(q) {
				continue
			}
			if _, err := p.Post(ctx, q.Path, false); err != nil {
				failures[q.Path]++
				notBefore[q.Path] = p.now().Add(min(time.Second<<min(failures[q.Path], 8), mostBackup))
			}
		}
		if !left {
			p.sweep(ctx, all)
			return
		}
		sleep(ctx, pause)
	}
}

// unposted are the questions that are not in their space. It also returns all that it looked at.
func (p *Poller) unposted(scan *state.Scan) (qs, all []*state.Question) {
	dirs, err := state.ProjectStates(p.user())
	if err != nil {
		p.Log.Error().Err(err).Msg("project registry")
	}
	all, bad := scan.Questions(dirs)
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("question set aside")
	}
	for _, q := range all {
		if toBePosted(q) && p.now().Sub(q.AskedAt) < state.MaxAge && (q.Closed() || !Gone(q)) && p.reaches(q) {
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

// sweep ends what nobody ends any more, and removes what is a day old.
func (p *Poller) sweep(ctx context.Context, all []*state.Question) {
	p.CloseGone(all)
	state.OutboxIn(p.user()).Sweep(p.now())
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

// CloseGone closes the open questions whose Claude Code has ended together with its hook, so that nobody else tells.
func (p *Poller) CloseGone(qs []*state.Question) {
	for _, q := range qs {
		if q.Status.Open() && Gone(q) && !state.HasWaiter(q) {
			if _, err := p.Close(q.Path, state.Cancelled, "claude_gone", nil); err != nil {
				p.Log.Error().Err(err).Msg("close question")
			}
		}
	}
}

// StartFlusher starts self as a detached flusher, unless one runs: in a session of its own, with none of our
// descriptors, so that Claude Code neither waits for it nor takes it down. It costs a fork, not a network call.
func StartFlusher(env state.Getenv, self string) error {
	if state.Held(flusherLock(env)) {
		return nil
	}
	cmd := exec.Command(self, "flush", "--timeout", FlushTimeout.String())
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
