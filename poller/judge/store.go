package judge

import (
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// MostReplies is how many replies one question's file keeps: a thread that is chatted in for hours must not fill the disk.
const MostReplies = 200

// Add puts a reply into its question; of a stranger the first one. It reports whether that
// was news.
func Add(q *state.Question, r state.Reply, stranger bool) bool {
	usedInFile := func(is state.Reply) bool { // the very reply, which another program read first
		return is.Sender == state.LocalSender && (is.Verdict == state.VerdictUsed || is.Verdict == state.VerdictKept) &&
			strings.TrimSpace(is.Text) == strings.TrimSpace(r.Text) &&
			is.CreatedAt.Sub(r.CreatedAt).Abs() < time.Second
	}
	isKnown := q.FindReply(r.MessageName) != nil || r.Choice == "" && slices.ContainsFunc(q.Replies, usedInFile)
	if isKnown || r.Sender == "" || !MakeRoom(q, r.Sender, stranger) {
		return false
	}
	q.Replies = append(q.Replies, r)
	return true
}

// Revises says whether a message, as it stands now, changes its reply in a question: an edit
// or a deletion counts until the reply is judged.
func Revises(q *state.Question, in *state.Incoming) bool {
	r := q.FindReply(in.ReplyName())
	if r == nil || in.IsTap() || r.Verdict != state.VerdictUnread {
		return false
	}
	return in.IsRevoked || r.Text != in.Text && in.Sender == r.Sender
}

// Revise has the reply of a message say what that says now, and reports whether it did not.
func Revise(q *state.Question, in *state.Incoming) (isRevised bool) {
	r := q.FindReply(in.ReplyName())
	switch {
	case !Revises(q, in):
		return false
	case in.IsRevoked:
		r.Verdict = state.VerdictIgnored
	default:
		r.Text = in.Text
	}
	return true
}

// MakeRoom says whether there is room for one more reply: the oldest that was no answer goes. Of a stranger one is enough.
func MakeRoom(q *state.Question, sender string, stranger bool) bool {
	if stranger && slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Sender == sender && (r.Verdict == state.VerdictUnread || r.Verdict == state.VerdictRefused)
	}) {
		return false
	}
	if len(q.Replies) < MostReplies {
		return true
	}
	i := slices.IndexFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict != state.VerdictUnread && r.Verdict != state.VerdictUsed && r.Verdict != state.VerdictKept
	})
	if i >= 0 {
		q.Replies = slices.Delete(q.Replies, i, i+1)
	}
	return i >= 0
}

// Unsure says whether what a person said then may be for another question of its thread: a space without threads has all in one.
func Unsure(q *state.Question, inThread []*state.Question, in *state.Incoming) bool {
	isQuoted := in.QuotedMessage != "" && in.QuotedMessage == q.MessageName
	return !isQuoted && slices.ContainsFunc(inThread, func(o *state.Question) bool {
		open := o.Status == state.Pending || o.IsAnswerable() || o.ResolvedAt != nil && o.ResolvedAt.After(in.LocalCreatedAt)
		return open && o.ThreadKey != q.ThreadKey && o.IsMessageSent && o.Mode.Traits().Asks
	})
}

// Dated says whether a question's file has when its message came, in milliseconds.
func Dated(q *state.Question, m gchat.Message) bool {
	return q.PostedAt != nil && q.PostedAt.Equal(m.CreateTime.Truncate(time.Millisecond))
}
