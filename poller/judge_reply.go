package poller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// dateSlack is how far a reply may seem older than its question when the question's time is only known from the HTTP
// answer, which counts whole seconds.
const dateSlack = 2 * time.Second

// Judge looks at the replies that the inbox wrote into a question's file, oldest first, and decides what becomes of
// each: the first good one of an allowed person is claimed as the answer. It returns the question as it then stands.
// The caller sends the outbox.
func (p *Poller) Judge(path string) (*state.Question, error) {
	return state.UpdateQuestion(path, func(q *state.Question) error {
		cfg := p.config(q.ProjectDir)
		if !q.Unread() {
			return state.ErrUnchanged
		}
		if len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0 {
			return state.ErrUnchanged // the file that says who may answer does not parse: they are judged when it does
		}
		// While the allowlist cannot be read, judge only senders who are surely on it.
		which := func(r *state.Reply) bool { return !cfg.AllowedUnknown || allowed(cfg, r) }
		if !slices.ContainsFunc(q.Replies, func(r state.Reply) bool { return r.Verdict == state.Unread && which(&r) }) {
			return state.ErrUnchanged
		}
		p.judgeUnread(cfg, q, which)
		return nil
	})
}

// judgeUnread judges those of the unread replies that which names, oldest first. The caller holds the question's lock.
func (p *Poller) judgeUnread(cfg *state.Config, q *state.Question, which func(*state.Reply) bool) {
	var order []*state.Reply
	for i := range q.Replies {
		if r := &q.Replies[i]; r.Verdict == state.Unread && which(r) {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b *state.Reply) int { return a.CreateTime.Compare(b.CreateTime) })
	for _, r := range order {
		if m := p.judge(cfg, q, r); q.MessageSent {
			p.put(m) // before the question's file says that the thread was told
		}
		p.Log.Info().Str("question", q.QuestionID).Str("message", r.MessageName).Str("sender", r.Sender).
			Str("verdict", string(r.Verdict)).Msg("reply")
	}
}

// judge decides about one reply and returns what the thread is told of it, nil for nothing. A refusal, an "already
// answered" and that there is no text are said once in a thread: the outbox sends a note of one id once.
func (p *Poller) judge(cfg *state.Config, q *state.Question, r *state.Reply) *state.Outgoing {
	text := gchat.CleanReply(r.Text)
	switch {
	case r.Sender != Local && q.PostedAt != nil && r.CreateTime.Before(q.PostedAt.Add(-dateSlack)):
		r.Verdict = state.Ignored
		return nil
	case takenByAnother(q, r):
		r.Verdict = state.Ignored
		return nil
	case strings.TrimSpace(text) == "":
		r.Verdict = state.Ignored
		if r.Sender == Local || !allowed(cfg, r) || !q.Answerable() {
			return nil
		}
		return note(q, "no text", "[Not used] There is no text in that message, and an attachment is no answer: "+
			"reply in words, or with an option's number.")
	case !allowed(cfg, r):
		r.Verdict = state.Refused
		return note(q, "refused", refusedText(r, len(cfg.AllowedUsers) == 0))
	case !q.Answerable():
		r.Verdict = state.Late
		if fromShell(r) {
			return nil
		}
		return note(q, "late", lateText(q))
	}
	answers, missing, none := gchat.ParseReply(text, q.Questions, q.Partial)
	if none != nil && !askedBack(q) {
		r.Verdict = state.AskedBack
		if fromShell(r) {
			return nil
		}
		return note(q, "no option", noOptionText(q, none))
	}
	if len(missing) > 0 {
		r.Verdict, q.Partial = state.Kept, answers
		said := missingText(missing)
		if fromShell(r) { // the thread does not see what was said
			said = strings.Replace(said, "[Kept] ", "[Kept] A part was answered "+atShell(r.DisplayName)+". ", 1)
		}
		return note(q, "kept "+r.MessageName, said)
	}
	r.Verdict = state.Used
	if err := claim(q, r, text, answers, p.now()); err != nil {
		p.Log.Error().Err(err).Str("question", q.QuestionID).Msg("reply not claimed")
	}
	return nil
}

// takenByAnother says whether another program has found this message in the thread and written it into the question's file: the
// person said it once.
func takenByAnother(q *state.Question, r *state.Reply) bool {
	at := r.CreateTime.Truncate(time.Millisecond)
	return r.Sender != Local && slices.ContainsFunc(q.Replies, func(other state.Reply) bool {
		return other.Sender == Local && other.CreateTime.Truncate(time.Millisecond).Equal(at)
	})
}

// askedBack says whether a reply with a number that no option has was asked back. It happens once for a question: a second
// such number is taken as the person's own words.
func askedBack(q *state.Question) bool {
	return slices.ContainsFunc(q.Replies, func(r state.Reply) bool { return r.Verdict == state.AskedBack })
}

// claim makes a reply the question's answer. Answers are keyed by the raw question text.
func claim(q *state.Question, r *state.Reply, text string, answers map[int]state.Answer, now time.Time) error {
	if err := q.Move(state.Answered, now); err != nil {
		return fmt.Errorf("claim reply: %w", err)
	}
	q.Answers, q.Notes, q.Partial = map[string]string{}, nil, nil
	for i, prompt := range q.Questions {
		a := answers[i]
		q.Answers[prompt.Question] = a.Value()
		if a.Notes != "" {
			if q.Notes == nil {
				q.Notes = map[string]string{}
			}
			q.Notes[prompt.Question] = a.Notes
		}
	}
	kind := gchat.ResponseType(q.Questions, answers)
	q.Response, q.ResponseType = &text, &kind
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
	return nil
}

// Local is the sender of a reply that was put into user-input-queue/ by hand: who can write there owns the session. Chat's
// API cannot say it: gchat.Message has no sender that is not users/ID.
const Local = state.Local

// allowed decides who may answer: the senders that the project's configuration names. It fails closed: without
// names, no sender may.
func allowed(cfg *state.Config, r *state.Reply) bool {
	return r.Sender == Local || Named(cfg.AllowedUsers, r.Sender, r.SenderEmail)
}

// Named says whether an allowlist names a sender of Chat's: by users/ID, or by e-mail where Chat gives one.
func Named(users []string, sender, email string) bool {
	for _, u := range users {
		id := strings.TrimPrefix(u, "users/")
		if before, after, address := strings.Cut(id, "@"); address {
			if before != "" && after != "" && lowerASCII(id) == lowerASCII(email) {
				return true
			}
		} else if id != "" && id != u && u == sender {
			return true
		}
	}
	return false
}

// lowerASCII folds A to Z only: strings.EqualFold takes the Kelvin sign for a K, and another person may have that address.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
