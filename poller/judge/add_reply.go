package judge

import (
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// MaxReplies is how many replies one question's file keeps: a thread that is chatted in
// for hours must not fill the disk.
const MaxReplies = 200

// AddReply puts a reply into its question; of a stranger the first one. It reports
// whether that was news.
func AddReply(q *state.Question, r state.Reply, isStranger bool) bool {
	isSameReply := func(existing state.Reply) bool {
		// the very reply, which another program read first
		return existing.Sender == state.LocalSender &&
			(existing.Verdict == state.VerdictUsed || existing.Verdict == state.VerdictKept) &&
			strings.TrimSpace(existing.Text) == strings.TrimSpace(r.Text) &&
			existing.CreatedAt.Sub(r.CreatedAt).Abs() < time.Second
	}
	isKnown := q.FindReply(r.MessageName) != nil ||
		r.Choice == "" && slices.ContainsFunc(q.Replies, isSameReply)
	if isKnown || r.Sender == "" || !MakeRoom(q, r.Sender, isStranger) {
		return false
	}
	q.Replies = append(q.Replies, r)
	return true
}

// ChangesReply says whether a message, as it stands now, changes its reply in a question:
// an edit or a deletion counts until the reply is judged.
func ChangesReply(q *state.Question, in *state.Incoming) bool {
	r := q.FindReply(in.ReplyName())
	if r == nil || in.IsTap() || r.Verdict != state.VerdictUnread {
		return false
	}
	return in.IsRevoked || r.Text != in.Text && in.Sender == r.Sender
}

// ReviseReply has the reply of a message say what that says now, and reports whether it
// did not.
func ReviseReply(q *state.Question, in *state.Incoming) (isRevised bool) {
	r := q.FindReply(in.ReplyName())
	switch {
	case !ChangesReply(q, in):
		return false
	case in.IsRevoked:
		r.Verdict = state.VerdictIgnored
	default:
		r.Text = in.Text
	}
	return true
}

// MakeRoom says whether there is room for one more reply: the oldest that was no answer
// goes. Of a stranger one is enough.
func MakeRoom(q *state.Question, sender string, isStranger bool) bool {
	if isStranger && slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Sender == sender &&
			(r.Verdict == state.VerdictUnread || r.Verdict == state.VerdictRefused)
	}) {
		return false
	}
	if len(q.Replies) < MaxReplies {
		return true
	}
	i := slices.IndexFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict != state.VerdictUnread && r.Verdict != state.VerdictUsed &&
			r.Verdict != state.VerdictKept
	})
	if i >= 0 {
		q.Replies = slices.Delete(q.Replies, i, i+1)
	}
	return i >= 0
}

// IsAmbiguous says whether what a person said then may be for another question of its
// thread: a space without threads has all in one.
func IsAmbiguous(q *state.Question, threadQuestions []*state.Question, in *state.Incoming) bool {
	isQuoted := in.QuotedMessage != "" && in.QuotedMessage == q.MessageName
	return !isQuoted && slices.ContainsFunc(threadQuestions, func(other *state.Question) bool {
		isOpen := other.Status == state.Pending || other.IsAnswerable() ||
			other.ResolvedAt != nil && other.ResolvedAt.After(in.LocalCreatedAt)
		return isOpen && other.ThreadKey != q.ThreadKey && other.IsMessageSent &&
			other.Mode.Traits().Asks
	})
}

// HasPostTime says whether a question's file has when its message came, in milliseconds.
func HasPostTime(q *state.Question, m gchat.Message) bool {
	return q.PostedAt != nil && q.PostedAt.Equal(m.CreateTime.Truncate(time.Millisecond))
}
