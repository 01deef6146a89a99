package poller

import (
	"context"
	"maps"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// overlap is read again with every list: whether Chat's list is consistent at once is not documented.
	overlap = 30 * time.Second
	// clockSlack is how far before its asking a thread is read for the first time: three clocks are compared, this
	// machine's, that of Chat's HTTP answers and that of its messages.
	clockSlack = 10 * time.Minute
	// mostReplies is how many replies one question's file keeps with their words, and mostNames how many at all: a thread
	// that is chatted in for hours must not fill the disk.
	mostReplies, mostNames = 200, 5000
)

// list is one cycle: it lists the space once, hands each person's message to the question whose thread it is in, page
// by page, and then notes how far it read.
func (in *inbox) list(ctx context.Context, cfg *state.Config, qs []*state.Question) (err error) {
	if in.mark == nil {
		if in.mark, err = state.OpenInbox(in.user(), in.chat); err != nil {
			in.once(err, "inbox watermark")
		}
	}
	if err = in.connect(ctx, cfg); err != nil {
		return err
	}
	mark := *in.mark
	mark.Covered = maps.Clone(in.mark.Covered)
	start := mark.Resume.Add(-time.Millisecond)
	if mark.Resume.IsZero() {
		mark.From = since(&mark, qs)
		start = mark.From
	}
	newest, threads := mark.Watermark, map[string]string{}
	for _, q := range qs {
		threads[q.QuestionID] = q.ThreadName
	}
	done, err := in.reader.Since(ctx, in.space, start, func(page []gchat.Message) {
		byThread := map[string][]gchat.Message{}
		for _, m := range page {
			byThread[m.ThreadName] = append(byThread[m.ThreadName], m)
			if m.CreateTime.After(newest) {
				newest = m.CreateTime
			}
			if m.CreateTime.After(mark.Resume) {
				mark.Resume = m.CreateTime
			}
		}
		for _, q := range qs {
			thread := threads[q.QuestionID]
			if thread == "" {
				thread = in.findThread(q, page)
				threads[q.QuestionID] = thread
			}
			if thread == "" {
				continue
			}
			if derr := in.deliver(ctx, q, thread, meant(q, qs, threads, byThread[thread])); derr != nil {
				in.once(derr, "replies not written down")
				threads[q.QuestionID] = "" // not covered: its thread is read again
			}
		}
	})
	if done {
		mark.Resume, mark.Watermark = time.Time{}, newest
		covered := map[string]bool{}
		for _, q := range qs {
			if threads[q.QuestionID] != "" && (mark.Covered[q.QuestionID] || !begins(q).Before(mark.From)) {
				covered[q.QuestionID] = true
			}
		}
		mark.Covered = covered
	}
	if !mark.Equal(in.mark) {
		if serr := mark.Save(); serr != nil {
			in.once(serr, "inbox watermark")
		}
	}
	in.mark = &mark
	return err
}

// connect prepares reading.
func (in *inbox) connect(ctx context.Context, cfg *state.Config) (err error) {
	if in.reader != nil {
		return nil
	}
	in.reader, err = in.newReader(ctx, cfg)
	return err
}

// newReader reads where a configuration leads to, with its credentials as they are now.
func (p *Poller) newReader(ctx context.Context, cfg *state.Config) (*gchat.Reader, error) {
	endpoint := cfg.APIEndpoint
	if hook, err := p.webhook(ctx, cfg); err == nil {
		endpoint = p.endpoint(cfg, hook)
	}
	return gchat.NewReader(ctx, endpoint, cfg.CredentialsFile)
}

// over says whether a question can have no answer any more, so that the reader of its space judges the replies.
func over(q *state.Question) bool { return q.Closed() && !q.Answerable() }

// begins is from when on the messages of a question's thread have to be read.
func begins(q *state.Question) time.Time {
	t := q.AskedAt
	if q.PostedAt != nil && q.PostedAt.Before(t) {
		t = *q.PostedAt
	}
	return t.Add(-clockSlack)
}

// since is where a list begins: at the watermark, or further back for a question whose thread was never read.
func since(mark *state.Inbox, qs []*state.Question) time.Time {
	from := mark.Watermark
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	for _, q := range qs {
		if !q.Answerable() && q.Status != state.Answered || mark.Covered[q.QuestionID] && !mark.Watermark.IsZero() {
			continue
		}
		if t := begins(q); from.IsZero() || t.Before(from) {
			from = t
		}
	}
	return from
}

// findThread finds the thread of a question whose send was never answered: by the id that we gave its message, by the
// thread's key, or by its very text, which ends in that key.
func (in *inbox) findThread(q *state.Question, ms []gchat.Message) string {
	id, text := messageID("question", q.QuestionID), ""
	for _, m := range ms {
		if m.Human || m.ThreadName == "" {
			continue
		}
		if text == "" {
			text = gchat.QuestionText(q)
		}
		if m.ClientID == id || m.ThreadKey != "" && m.ThreadKey == q.ThreadKey || m.Text == text {
			if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
				q.ThreadName, q.MessageName = m.ThreadName, m.Name
				t := m.CreateTime
				q.PostedAt = &t
				return nil
			}); err != nil {
				return ""
			}
			return m.ThreadName
		}
	}
	return ""
}

// deliver writes people's messages into the file of the question that they belong to. The process that waits for that
// question judges them. A closed one has no waiter, so it is done here; where an open one has none, its thread is told.
func (in *inbox) deliver(ctx context.Context, q *state.Question, thread string, ms []gchat.Message) error {
	fresh := slices.DeleteFunc(slices.Clone(ms), func(m gchat.Message) bool {
		return !m.Human || m.Deleted || m.Sender == "" || q.Reply(m.Name) != nil
	})
	var born time.Time
	for _, m := range ms {
		if m.Name == q.MessageName {
			born = m.CreateTime.Truncate(time.Millisecond) // as the question's file has it
		}
	}
	seen := *q
	seen.Replies = slices.Clone(q.Replies) // of a scan, which others share
	revised := slices.ContainsFunc(ms, func(m gchat.Message) bool { return revise(&seen, m) })
	orphans := q.Unread() && (over(q) || in.unheard(q) && !in.now().Before(q.AskedAt.Add(graceForReply)))
	if len(fresh) == 0 && !orphans && !revised && (born.IsZero() || q.PostedAt != nil && q.PostedAt.Equal(born)) {
		return nil
	}
	after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		changed := false
		if !born.IsZero() && (q.PostedAt == nil || !q.PostedAt.Equal(born)) {
			q.PostedAt, changed = &born, true
		}
		for _, m := range fresh {
			if q.Reply(m.Name) == nil && makeRoom(q) {
				changed = true
				q.Replies = append(q.Replies, replyOf(m, gchat.Cut(m.Text, gchat.MaxText)))
			}
		}
		for _, m := range ms {
			changed = revise(q, m) || changed
		}
		if !changed {
			return state.ErrUnchanged
		}
		return nil
	})
	switch {
	case err != nil || !after.Unread():
		return err
	case over(after):
		if _, err := in.Judge(q.Path); err != nil {
			return err
		}
	case after.Mode == state.Deny && !state.HasWaiter(after):
		in.tellKept(after)
	case in.unheard(after):
		in.tellUnheard(after)
	default:
		return nil
	}
	in.goSafely("send", func() { in.Send(ctx) })
	return nil
}

// replyOf is a person's message as a reply with this text.
func replyOf(m gchat.Message, text string) state.Reply {
	return state.Reply{
		MessageName: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName,
		Text: text, CreateTime: m.CreateTime,
	}
}

// revise copies a message's edit or deletion into its reply, as long as the reply has not been judged. It reports whether
// there was one.
func revise(q *state.Question, m gchat.Message) bool {
	r := q.Reply(m.Name)
	text := gchat.Cut(m.Text, gchat.MaxText)
	switch {
	case r == nil || r.Verdict != state.Unread || !m.Deleted && (r.Text == text || m.Sender != r.Sender):
		return false
	case m.Deleted:
		r.Verdict = state.Ignored
	default:
		r.Text = text
	}
	return true
}

// makeRoom says whether there is room for one more reply. When there are many, the words of the oldest that was no answer
// go, but its name stays: the list shows the message again for a while, and it must not pass for a new one.
func makeRoom(q *state.Question) bool {
	spent := func(r state.Reply) bool {
		return r.Verdict != state.Unread && r.Verdict != state.Used && r.Verdict != state.Kept
	}
	if len(q.Replies) >= mostReplies {
		if i := slices.IndexFunc(q.Replies, func(r state.Reply) bool { return spent(r) && r.Text != "" }); i >= 0 {
			q.Replies[i].Text = ""
		}
	}
	if len(q.Replies) >= mostNames {
		if i := slices.IndexFunc(q.Replies, spent); i >= 0 {
			q.Replies = slices.Delete(q.Replies, i, i+1)
		}
	}
	return len(q.Replies) < mostNames
}

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
