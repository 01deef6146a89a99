package judge

import (
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// timed is how long a yes to a permission is meant to last; 0 where it is for that alone, or may not be given for longer.
func timed(cfg *config.Config, q *state.Question, r *state.Reply, text string) time.Duration {
	if !cfg.TimedYes || q.Kind != state.AskedPermission || r.Choice != "" || q.ClaudePID <= 1 || q.ClaudeStart == "" {
		return 0
	}
	return gchat.TimedYes(text)
}

// grant notes the yes for a while that a permission was answered with, in the same write. It is given at a whole millisecond, as
// records have the times that it is compared with: a no of the same millisecond must not look earlier.
func grant(q *state.Question, long time.Duration, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	q.Grant = &state.Grant{Question: q.QuestionID, At: at, Until: at.Add(long)}
	q.Owe(state.NoteGranted, q.AnsweredMessage)
}

// noteNo notes when a no was said, also one that comes too late to decide: it ends a yes for a while. A tap has the words of its
// button.
func noteNo(q *state.Question, text string, now time.Time) {
	if !q.Kind.Row().Decides {
		return
	}
	if a, _ := gchat.ParseDecision(text, q); len(a.Labels) == 1 && state.Refuses(a.Labels[0]) {
		q.NoAt = now.UTC().Round(0)
	}
}

// GrantOver says whether the yes for a while that was given to a permission has ended for good: its time is up, its session began
// anew, or its person may decide no more.
func GrantOver(cfg *config.Config, given *state.Question, one *state.Session, now time.Time) bool {
	g, by := given.Grant, given.Reply(given.AnsweredMessage)
	removed := by == nil || !cfg.Unread && !(cfg.TimedYes && cfg.Approves(by.Sender, by.SenderEmail))
	return removed || now.Before(g.At) || !now.Before(g.Until) || one.StartedAt.After(g.At)
}

// ByGrant answers a permission by a yes for a while that is not over. It is state.ErrUnchanged where that does not cover it: it
// was given later, to another process, or by a person who was no approver then or could not say yes to this one.
func ByGrant(cfg *config.Config, q, given *state.Question, now time.Time) error {
	Tighten(cfg, q)
	by, g := *given.Reply(given.AnsweredMessage), *given.Grant
	a, unclear := gchat.ParseDecision("yes", q)
	same := q.ClaudePID > 1 && q.ClaudePID == given.ClaudePID && q.ClaudeStart != "" && q.ClaudeStart == given.ClaudeStart
	if unclear != "" || !same || cfg.Unread || q.Kind != state.AskedPermission || !q.AskedAt.After(g.At) || q.Approvers == nil ||
		!config.Named(*q.Approvers, by.Sender, by.SenderEmail) || q.Status != state.Pending {
		return state.ErrUnchanged
	}
	claim(q, &by, "yes, by the grant of "+given.GrantedBy(), map[int]state.Answer{0: a}, now)
	q.Grant = &g
	return nil
}
