package poller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"gchat-hooks/state"
)

// lookAround is how often a waiter sees whether Claude Code still lives, whether a reply was put there by hand, and, when
// it leads, whether another question was asked. Each look wakes an idle process, which costs more than the look.
const lookAround = 2 * time.Second

// ErrGaveUp says that the waiter stopped for its own reasons and the question is still open in the terminal.
var ErrGaveUp = errors.New("stopped waiting")

// Wait puts the question into its space and waits until it is answered or closed, whichever comes first. The caller
// holds the question's waiter lock. It returns the question as it then stands; ErrGaveUp when it waited long enough or
// posting is not configured, and ctx's error when it was told to end.
func (p *Poller) Wait(ctx context.Context, q *state.Question) (*state.Question, error) {
	path := q.Path
	timeout := p.config(q.ProjectDir).HookTimeout
	end := func(to state.Status, by string) error {
		_, err := p.Close(path, to, by, nil)
		p.Send(ctx)
		return cmp.Or(err, errEnded)
	}
	q, err := p.watch(ctx, q, watching{
		begin: func(ctx context.Context) (cannot bool) {
			p.keepPosting(ctx, path)
			debug.FreeOSMemory() // a waiting hook should be small
			q, err := state.LoadQuestion(path)
			switch {
			case err != nil || ctx.Err() != nil:
			case posted(q):
				p.tellRead(ctx, q)
				p.Lead(ctx, q)
			default:
				return true
			}
			return false
		},
		over:  func(q *state.Question) bool { return q.Status != state.Pending },
		until: p.now().Add(timeout - min(timeout/10, 30*time.Second)), // Claude Code would kill us at the timeout itself
		each: func(q *state.Question) error {
			if Gone(q) {
				return end(state.Cancelled, "claude_gone")
			}
			if p.now().Sub(q.AskedAt) >= state.MaxAge {
				return end(state.Expired, "age")
			}
			return nil
		},
	})
	switch {
	case errors.Is(err, errEnded):
		return q, nil
	case errors.Is(err, errTimeUp):
		if q.MessageSent && !p.daemonWaits(q) {
			p.put(note(q, "gave up", "[Not read] No hook waits for a reply to this question any longer: answer it in the terminal."))
		}
		return q, ErrGaveUp
	}
	return q, err
}

// look reads the question and judges what came in; passive, only where nobody else does.
func (p *Poller) look(ctx context.Context, path string, passive bool) (*state.Question, error) {
	q, err := state.LoadQuestion(path)
	if err != nil {
		return nil, err
	}
	if !q.Unread() || passive && state.HasWaiter(q) {
		return q, nil
	}
	if q, err = p.Judge(path); err == nil {
		p.goSafely("send", func() { p.Send(ctx) })
	}
	return q, err
}

// takeByHand takes a reply from user-input-queue/{session_id}.txt or {session name}.txt, where a person or a script can
// put one when Chat is out of reach. Renaming it decides which of several waiters has it; it goes when the reply is in
// the question's file.
//
// It reports whether one is there that is too young: it may not be written to its end.
func (p *Poller) takeByHand(q *state.Question) (soon bool) {
	folder := filepath.Join(stateDirOf(q), "user-input-queue")
	mine := filepath.Join(folder, "."+filepath.Base(q.Path)+".taken")
	b, err := os.ReadFile(mine) // of an earlier waiter of this question, that was killed
	for _, name := range []string{q.SessionID, q.SessionName} {
		if err == nil || name == "" || filepath.Base(name) != name {
			continue
		}
		path := filepath.Join(folder, name+".txt")
		if info, serr := os.Stat(path); serr == nil && p.now().Sub(info.ModTime()).Abs() < stillWritten {
			return true
		}
		if b, err = os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == "" {
			err = os.ErrNotExist // it is being written
		}
		if err == nil {
			err = os.Rename(path, mine)
		}
	}
	if err != nil {
		return false
	}
	sum := sha256.Sum256(b)
	name := "local/" + hex.EncodeToString(sum[:8])
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Reply(name) != nil {
			return state.ErrUnchanged
		}
		q.Replies = append(q.Replies, state.Reply{MessageName: name, Sender: Local, Text: string(b), CreateTime: p.now().UTC()})
		return nil
	}); err == nil {
		os.Remove(mine)
	}
	return false
}

// stillWritten is how young a reply put there by hand may be when it is left to be finished.
const stillWritten = 300 * time.Millisecond
