package poller

import (
	"context"
	"errors"
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
	// mostReplies is what one question's file takes; a thread that is chatted in for hours must not fill the disk.
	mostReplies = 200
)

// inbox is the one loop of this machine that lists a space, for all open questions of all projects.
type inbox struct {
	*Poller
	space      string
	projectDir string // whose configuration it reads with

	scan    state.Scan
	reader  *gchat.Reader
	trouble trouble
	told    bool // the space was told that replies cannot be read
}

// Lead takes part in listing a space until ctx ends: it leads whenever nobody else does. projectDir says whose
// configuration to read with.
func (p *Poller) Lead(ctx context.Context, space, projectDir string) {
	in := &inbox{Poller: p, space: space, projectDir: projectDir}
	for ctx.Err() == nil {
		lock, err := state.LockLeader(p.user(), space)
		if err != nil {
			if !errors.Is(err, state.ErrLocked) {
				p.Log.Error().Err(err).Msg("leader lock")
			}
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		pause := in.lead(ctx)
		lock.Unlock() // so that a waiter with better credentials gets its turn
		sleep(ctx, pause)
	}
}

// lead lists once a cycle until ctx ends or reading fails for want of credentials; it returns how long to stand back.
func (in *inbox) lead(ctx context.Context) time.Duration {
	last, pause := time.Time{}, time.Duration(0)
	for ctx.Err() == nil {
		cfg := in.config(in.projectDir)
		qs := in.questions()
		youngest, open := time.Time{}, false
		for _, q := range qs {
			if q.Status == state.Pending && q.MessageSent {
				open = true
				if q.AskedAt.After(youngest) {
					youngest = q.AskedAt
				}
			}
		}
		every := cycle(max(in.now().Sub(youngest), 0), cfg.PollInterval)
		if open && in.now().Sub(last) >= max(every, pause) {
			err := in.list(ctx, cfg, qs)
			last, pause = in.now(), in.trouble.after(err)
			if err != nil && ctx.Err() == nil {
				in.report(ctx, err, qs)
				if gchat.AuthFailure(err) {
					in.reader = nil
					return pause
				}
			}
		}
		// A question that was just asked shortens the cycle, so look around more often than it says.
		sleep(ctx, min(lookAround, every))
	}
	return 0
}

// questions are those of this space, of all projects.
func (in *inbox) questions() []*state.Question {
	dirs, err := state.ProjectStates(in.user())
	if err != nil {
		in.Log.Error().Err(err).Msg("project registry")
	}
	qs, bad := in.scan.Questions(dirs)
	for _, err := range bad {
		in.Log.Error().Err(err).Msg("question set aside")
	}
	return slices.DeleteFunc(qs, func(q *state.Question) bool { return q.Space != in.space })
}

// list is one cycle: it lists the space once, hands each person's message to the question whose thread it is in, and
// then notes how far it read.
func (in *inbox) list(ctx context.Context, cfg *state.Config, qs []*state.Question) error {
	if in.reader == nil {
		endpoint := cfg.APIEndpoint
		if hook, err := in.webhook(ctx, cfg); err == nil {
			endpoint = in.endpoint(cfg, hook)
		}
		r, err := gchat.NewReader(ctx, endpoint, cfg.CredentialsFile)
		if err != nil {
			return err
		}
		in.reader = r
	}
	mark, err := state.OpenInbox(in.user(), in.space)
	if err != nil {
		in.Log.Error().Err(err).Msg("inbox watermark")
	}
	ms, err := in.reader.Since(ctx, in.space, since(mark, qs))
	if err != nil {
		return err
	}
	byThread := map[string][]gchat.Message{}
	newest := mark.Watermark
	for _, m := range ms {
		byThread[m.ThreadName] = append(byThread[m.ThreadName], m)
		if m.CreateTime.After(newest) {
			newest = m.CreateTime
		}
	}
	covered := map[string]bool{}
	for _, q := range qs {
		thread := q.ThreadName
		if thread == "" {
			thread = in.findThread(q, ms)
		}
		if thread == "" {
			continue
		}
		if err := in.deliver(ctx, q, thread, byThread[thread]); err != nil {
			in.Log.Error().Err(err).Str("question", q.QuestionID).Msg("replies not written down")
			continue // not covered: they are read again
		}
		covered[q.QuestionID] = true
	}
	if !newest.Equal(mark.Watermark) || len(covered) != len(mark.Covered) || !sameKeys(covered, mark.Covered) {
		mark.Watermark, mark.Covered = newest, covered
		if err := mark.Save(); err != nil {
			in.Log.Error().Err(err).Msg("inbox watermark")
		}
	}
	return nil
}

// since is where a list begins: at the watermark, or further back for a question whose thread was never read.
func since(mark *state.Inbox, qs []*state.Question) time.Time {
	from := mark.Watermark
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	for _, q := range qs {
		if mark.Covered[q.QuestionID] || !q.Status.Open() {
			continue
		}
		t := q.AskedAt
		if q.PostedAt != nil && q.PostedAt.Before(t) {
			t = *q.PostedAt
		}
		t = t.Add(-clockSlack)
		if from.IsZero() || t.Before(from) {
			from = t
		}
	}
	return from
}

// findThread finds the thread of a question whose send was never answered: by the id that we gave its message.
func (in *inbox) findThread(q *state.Question, ms []gchat.Message) string {
	id := messageID("question", q.QuestionID)
	for _, m := range ms {
		if m.ClientID == id || !m.Human && m.ThreadKey != "" && m.ThreadKey == q.ThreadKey {
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

// deliver writes people's messages into the file of the question that they belong to. Whoever waits for that question
// judges them; for a closed one nobody waits, so it is done here.
func (in *inbox) deliver(ctx context.Context, q *state.Question, thread string, ms []gchat.Message) error {
	fresh := slices.DeleteFunc(slices.Clone(ms), func(m gchat.Message) bool {
		return !m.Human || m.Deleted || m.Sender == "" || q.Reply(m.Name) != nil
	})
	var born time.Time
	for _, m := range ms {
		if m.Name == q.MessageName {
			born = m.CreateTime
		}
	}
	if len(fresh) == 0 && (born.IsZero() || q.PostedAt != nil && q.PostedAt.Equal(born)) {
		return nil
	}
	after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if !born.IsZero() {
			q.PostedAt = &born
		}
		for _, m := range fresh {
			if q.Reply(m.Name) != nil || len(q.Replies) >= mostReplies {
				continue
			}
			q.Replies = append(q.Replies, state.Reply{
				MessageName: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName,
				Text: m.Text, CreateTime: m.CreateTime,
			})
		}
		return nil
	})
	if err != nil || len(fresh) == 0 || after.Status == state.Pending {
		return err
	}
	if _, err := in.Judge(q.Path); err != nil {
		return err
	}
	in.goSafely("send", func() { in.Send(ctx) })
	return nil
}

// report says that reading fails: in the log each time, in the open threads once, when only a person can mend it.
func (in *inbox) report(ctx context.Context, err error, qs []*state.Question) {
	in.Log.Error().Str("error", in.Log.Clean(err.Error())).Str("hint", gchat.Hint(err)).Bool("degraded", in.trouble.degraded()).
		Msg("replies cannot be read")
	if in.told || !(errors.Is(err, gchat.ErrCredentials) || gchat.Permanent(err)) || !in.trouble.degraded() && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	in.told = true
	for _, q := range qs {
		if q.Status == state.Pending && q.MessageSent {
			in.put(note(q, "unread", "[Not read] Replies here cannot be read yet: "+in.Log.Clean(err.Error())+". Hint: "+gchat.Hint(err)+". Until then answer in the terminal."))
		}
	}
	in.Send(ctx)
}

func sameKeys(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return true
}
