package judge

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// replyFrom returns a reply that a person wrote at noon.
func replyFrom(sender, name, text string) state.Reply {
	return state.Reply{MessageName: name, Sender: sender, Text: text, CreatedAt: noon}
}

// A stranger's many messages keep no other reply out: one of each sender is kept.
func TestAddReply_StrangerKeepsOne(t *testing.T) {
	q := &state.Question{}
	for n := range 400 {
		AddReply(q, replyFrom(fmt.Sprint("users/", 5+n%3), fmt.Sprint(n), "hi"), true)
	}
	kit.Equalf(t, AddReply(q, replyFrom("users/1", "right", "yes"), false), true,
		"another reply is added")
	kit.Equalf(t, len(q.Replies), 4, "replies")
}

// Another program may read a reply in Chat first, and write it into the file. It is one
// reply, even if the poller reads it in Chat, too.
func TestAddReply_SameFromOtherProgram(t *testing.T) {
	q := &state.Question{Replies: []state.Reply{{
		MessageName: "local/x", Sender: state.LocalSender, DisplayName: "poll.py",
		Text: "2", CreatedAt: noon, Verdict: state.VerdictUsed,
	}}}
	for _, c := range []struct {
		name, text string
		after      time.Duration
		isAdded    bool
	}{
		{"the same", "2\n", 400 * time.Millisecond, false},
		{"later", "2", time.Minute, true},
		{"another text", "3", 0, true},
	} {
		r := replyFrom("users/1", c.name, c.text)
		r.CreatedAt = noon.Add(c.after)
		kit.Equalf(t, AddReply(q, r, false), c.isAdded, "%s: added", c.name)
	}
}

// A reply that is edited before it is judged counts in its newest form.
func TestAddReply_RevisedUntilJudged(t *testing.T) {
	const unread, used = state.VerdictUnread, state.VerdictUsed
	for name, c := range map[string]struct {
		verdict state.Verdict
		now     state.Incoming
		want    state.Reply
	}{
		"edited": {unread, state.Incoming{Text: "2"}, state.Reply{Text: "2"}},
		"deleted": {
			unread, state.Incoming{IsRevoked: true},
			state.Reply{Text: "1", Verdict: state.VerdictIgnored},
		},
		"as it was": {unread, state.Incoming{Text: "1"}, state.Reply{Text: "1"}},
		"edited too late": {
			used, state.Incoming{Text: "2"}, state.Reply{Text: "1", Verdict: used},
		},
		"deleted too late": {
			used, state.Incoming{IsRevoked: true}, state.Reply{Text: "1", Verdict: used},
		},
		"another sender's": {
			unread, state.Incoming{Text: "2", Sender: "users/2"}, state.Reply{Text: "1"},
		},
	} {
		r := replyFrom("users/1", "M", "1")
		r.Verdict = c.verdict
		q := &state.Question{Replies: []state.Reply{r}}
		c.now.MessageName, c.now.Sender = "M", cmp.Or(c.now.Sender, "users/1")
		ReviseReply(q, &c.now)
		r.Text, r.Verdict = c.want.Text, c.want.Verdict
		kit.Equalf(t, q.Replies, []state.Reply{r}, "%s: the replies", name)
	}
}

func TestAddReply_KeepsTheLatest(t *testing.T) {
	q := &state.Question{}
	for n := range MaxReplies + 100 {
		AddReply(q, replyFrom("users/1", fmt.Sprint(n), "chat"), false)
		q.Replies[len(q.Replies)-1].Verdict = state.VerdictLate
	}
	kit.Equalf(t, len(q.Replies), MaxReplies, "replies")
	kit.Equalf(t, q.Replies[0].MessageName, "100", "the first")
}
