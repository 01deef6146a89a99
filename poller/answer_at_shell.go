package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// shellReply begins the names of replies that were given at a shell: they are answered there, not in the thread.
	shellReply = "shell/"
	// judgedSoon is how long a reply at a shell is left to the process that waits for it. One that lives takes milliseconds.
	judgedSoon = 5 * time.Second
)

// NotUsed says why a reply at a shell did not become the answer, in the words that the thread would have for it.
type NotUsed struct {
	Why     string
	Verdict state.Verdict // Late, Kept, or Unread when no process delivers it
}

func (e *NotUsed) Error() string { return e.Why }

// AnswerAtShell gives a question a reply as the inbox does: it is written into the question's file, where the process that
// waits judges it, in its order among the others. Where none is, it is judged here. By is who typed it, for the thread. It
// returns the question as it then stands; *NotUsed when the reply is not the answer. The caller has the outbox sent.
func (p *Poller) AnswerAtShell(ctx context.Context, q *state.Question, text, by string) (*state.Question, error) {
	name := shellReply + uuid.NewString()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := state.Watch(ctx, q.Path)
	q, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if !q.Answerable() {
			return &NotUsed{lateText(q), state.Late}
		}
		if !makeRoom(q) {
			return errors.New("the question's file holds no more replies")
		}
		q.Replies = append(q.Replies, state.Reply{
			MessageName: name, Sender: Local, DisplayName: by, Text: text, CreateTime: p.now().UTC(),
		})
		return nil
	})
	if err != nil {
		return q, fmt.Errorf("answer question: %w", err)
	}
	for end := p.now().Add(judgedSoon); q.Reply(name).Verdict == state.Unread && p.waitsOrSoon(q) && p.now().Before(end); {
		waitFor(ctx, changed, 100*time.Millisecond)
		if q, err = state.LoadQuestion(q.Path); err != nil {
			return q, fmt.Errorf("answer question: %w", err)
		}
		if q.Reply(name) == nil || ctx.Err() != nil {
			break
		}
	}
	if r := q.Reply(name); r != nil && r.Verdict == state.Unread {
		if q, err = p.judgeHere(q.Path, name); err != nil {
			return q, err
		}
	}
	return q, p.outcome(q, name)
}

func waitFor(ctx context.Context, changed <-chan struct{}, atMost time.Duration) {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-t.C:
	}
}

// waitsOrSoon says whether a process is there that judges the replies to the question, or is just starting.
func (p *Poller) waitsOrSoon(q *state.Question) bool {
	young := p.now().Sub(q.AskedAt).Abs() < graceForHook && (q.Mode == state.Native || q.Mode == state.Hold)
	return q.Status.Open() && (young || p.daemonWaits(q)) || state.HasWaiter(q)
}

// judgeHere judges a reply that no other process judges: none waits, or it is stopped. Older ones go first where they
// are known to be of people who may answer; about the others the session's own processes know better.
func (p *Poller) judgeHere(path, name string) (*state.Question, error) {
	return state.UpdateQuestion(path, func(q *state.Question) error {
		mine := q.Reply(name)
		if mine == nil || mine.Verdict != state.Unread {
			return state.ErrUnchanged // it was judged just now
		}
		if q.Mode != state.Deny && !p.waitsOrSoon(q) {
			q.Replies = slices.DeleteFunc(q.Replies, func(r state.Reply) bool { return r.MessageName == name })
			return nil
		}
		cfg := p.config(q.ProjectDir)
		p.judgeUnread(cfg, q, func(r *state.Reply) bool { return allowed(cfg, r) })
		return nil
	})
}

// outcome is what became of the reply.
func (p *Poller) outcome(q *state.Question, name string) error {
	r := q.Reply(name)
	switch {
	case r == nil:
		return &NotUsed{nobodyDelivers(q), state.Unread}
	case r.Verdict == state.Used:
		return nil
	case r.Verdict == state.Kept:
		_, missing, _ := gchat.ParseReply("", q.Questions, q.Partial)
		return &NotUsed{missingText(missing), state.Kept}
	case r.Verdict == state.Late:
		return &NotUsed{lateText(q), state.Late}
	case r.Verdict == state.Unread:
		return errors.New("the reply is written down, and was not looked at yet")
	}
	if _, _, none := gchat.ParseReply(r.Text, q.Questions, q.Partial); none != nil {
		return &NotUsed{noOptionText(q, none), r.Verdict}
	}
	return &NotUsed{"[Not used] There is nothing in it that could be an answer.", r.Verdict}
}

// nobodyDelivers says what is missing for an answer to reach Claude.
func nobodyDelivers(q *state.Question) string {
	how := "."
	if typable(q) {
		how = ", or start the daemon, which types it (`gchat-hooks poller install`)."
	}
	return "[Not used] Nobody waits for a reply to this question: answer it in the terminal" + how
}

// fromShell says whether a reply was typed at a shell.
func fromShell(r *state.Reply) bool {
	return r.Sender == Local && strings.HasPrefix(r.MessageName, shellReply)
}
