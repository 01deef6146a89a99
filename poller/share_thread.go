package poller

import (
	"slices"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// meant are the messages of a thread without the replies that are another question's. Ours have a thread each; other programs
// may put several into one, and a reply answers one of them: the oldest that it can answer.
func meant(q *state.Question, all []*state.Question, threads map[string]string, ms []gchat.Message) []gchat.Message {
	var others []*state.Question
	for _, other := range all {
		if other.Path != q.Path && threads[other.QuestionID] == threads[q.QuestionID] {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return ms
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m gchat.Message) bool {
		return m.Human && q.Reply(m.Name) == nil && slices.ContainsFunc(others, func(other *state.Question) bool {
			return other.Reply(m.Name) != nil || goesBefore(other, q)
		})
	})
}

// goesBefore says which of two questions of one thread a reply is for.
func goesBefore(a, b *state.Question) bool {
	switch {
	case a.Answerable() != b.Answerable():
		return a.Answerable()
	case !a.AskedAt.Equal(b.AskedAt):
		return a.AskedAt.Before(b.AskedAt)
	}
	return a.Path < b.Path
}
