package judge

import (
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// MaxReplies is how many replies a question's file keeps. A thread in which people chat
// for hours must not fill the disk.
const MaxReplies = 200

// AddReply adds a reply to its question, and reports whether it did. Of a stranger's
// replies it keeps one.
func AddReply(q *state.Question, r state.Reply, isStranger bool) bool {
	isSameReply := func(existing state.Reply) bool {
		// Another program read the same reply first, and wrote it into the file.
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

// ChangesReply reports whether an edit or a deletion of a message changes its reply in
// a question. It counts only until the reply is judged.
func ChangesReply(q *state.Question, in *state.Incoming) bool {
	r := q.FindReply(in.ReplyName())
	if r == nil || in.IsTap() || r.Verdict != state.VerdictUnread {
		return false
	}
	return in.IsRevoked || r.Text != in.Text && in.Sender == r.Sender
}

// ReviseReply applies an edit or a deletion of a message to its reply in a question. It
// reports whether the reply changed.
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

// MakeRoom makes room for one more reply, and reports whether there is room. It removes
// the oldest reply that is no answer. Of a stranger's replies it keeps one.
func MakeRoom(q *state.Question, sender string, isStranger bool) bool {
	isFromStranger := func(r state.Reply) bool {
		isKept := r.Verdict == state.VerdictUnread || r.Verdict == state.VerdictRefused
		return r.Sender == sender && isKept
	}
	if isStranger && slices.ContainsFunc(q.Replies, isFromStranger) {
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

// IsAmbiguous reports whether a message may be for another question in its thread. In a
// space without threads, all questions share one.
func IsAmbiguous(q *state.Question, threadQuestions []*state.Question, in *state.Incoming) bool {
	isQuoted := in.QuotedMessage != "" && in.QuotedMessage == q.MessageName
	return !isQuoted && slices.ContainsFunc(threadQuestions, func(other *state.Question) bool {
		isOpen := other.Status == state.Pending || other.IsAnswerable() ||
			other.ResolvedAt != nil && other.ResolvedAt.After(in.LocalCreatedAt)
		return isOpen && other.ThreadKey != q.ThreadKey && other.IsMessageSent &&
			other.Mode.Traits().Asks
	})
}

// HasPostTime reports whether a question's file has the creation time of its message,
// in milliseconds.
func HasPostTime(q *state.Question, m gchat.Message) bool {
	return q.PostedAt != nil && q.PostedAt.Equal(m.CreateTime.Truncate(time.Millisecond))
}
