package judge

import (
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// MostReplies is how many replies one question's file keeps: a thread that is chatted in for hours must not fill the disk.
const MostReplies = 200

// Store copies a message into the file of its question; of a stranger the first one. It reports whether that was news.
func Store(q *state.Question, m gchat.Message, stranger bool) bool {
	if !m.Human && !m.Deleted {
		if m.Name != q.MessageName || Dated(q, m) {
			return false
		}
		born := m.CreateTime.Truncate(time.Millisecond)
		q.PostedAt = &born
		return true
	}
	text := wording.Cut(m.Text, wording.MaxText)
	usedInFile := func(r state.Reply) bool {
		return r.Sender == state.Local && (r.Verdict == state.Used || r.Verdict == state.Kept) &&
			strings.TrimSpace(r.Text) == strings.TrimSpace(text) && r.CreateTime.Sub(m.CreateTime).Abs() < time.Second
	}
	switch r := q.Reply(m.Name); {
	case r == nil && slices.ContainsFunc(q.Replies, usedInFile): // the very reply, which another program read first
		return false
	case r == nil && (m.Deleted || m.Sender == "" || !MakeRoom(q, m.Sender, stranger)):
		return false
	case r == nil:
		q.Replies = append(q.Replies, state.Reply{
			MessageName: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName,
			Text: text, CreateTime: m.CreateTime, Unsure: m.Unsure, Attached: m.Attached,
		})
	case r.Verdict != state.Unread || !m.Deleted && (r.Text == text || m.Sender != r.Sender):
		return false // an edit or a deletion counts until the reply is judged
	case m.Deleted:
		r.Verdict = state.Ignored
	default:
		r.Text = text
	}
	return true
}

// MakeRoom says whether there is room for one more reply: the oldest that was no answer goes. Of a stranger one is enough.
func MakeRoom(q *state.Question, sender string, stranger bool) bool {
	if stranger && slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Sender == sender && (r.Verdict == state.Unread || r.Verdict == state.Refused)
	}) {
		return false
	}
	if len(q.Replies) < MostReplies {
		return true
	}
	i := slices.IndexFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict != state.Unread && r.Verdict != state.Used && r.Verdict != state.Kept
	})
	if i >= 0 {
		q.Replies = slices.Delete(q.Replies, i, i+1)
	}
	return i >= 0
}

// Known says whether a message is in its question's file as it stands in the space, or counts no more as it stands there.
func Known(q *state.Question, m gchat.Message) bool {
	r := q.Reply(m.Name)
	return r != nil && (r.Verdict != state.Unread || r.Text == wording.Cut(m.Text, wording.MaxText) && !m.Deleted)
}

// Quotes says whether a person quotes a question's message.
func Quotes(m gchat.Message, q *state.Question) bool {
	return m.Human && m.Quotes != "" && m.Quotes == q.MessageName
}

// Unsure says whether what a person said then may be for another question of its thread: a space without threads has all in one.
func Unsure(q *state.Question, inThread []*state.Question, m gchat.Message, said time.Time) bool {
	return !Quotes(m, q) && slices.ContainsFunc(inThread, func(o *state.Question) bool {
		open := o.Status == state.Pending || o.Answerable() || o.ResolvedAt != nil && o.ResolvedAt.After(said)
		return open && o.ThreadKey != q.ThreadKey && o.MessageSent && o.Mode.Row().Asks && !o.Kind.Row().Said
	})
}

// Dated says whether a question's file has when its message came, in milliseconds.
func Dated(q *state.Question, m gchat.Message) bool {
	return q.PostedAt != nil && q.PostedAt.Equal(m.CreateTime.Truncate(time.Millisecond))
}
