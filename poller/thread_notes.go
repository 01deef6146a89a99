package poller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// note is a message of ours in a question's thread. What it is about makes its id: said twice, it is sent once.
func note(q *state.Question, about, text string) *state.Outgoing {
	return &state.Outgoing{
		MessageID: messageID("note", q.QuestionID, about), Chat: q.Chat, ThreadName: q.ThreadName, ThreadKey: q.ThreadKey,
		Parts: []string{text}, ProjectDir: q.ProjectDir, SessionID: q.ClaudeSession(), Kind: noteKind, Urgent: true,
	}
}

// noteKind marks notes in the outbox; no rule knows it.
const noteKind = "note"

// put writes a note down to be sent; nil is none. A note that cannot be written is logged: it is no reason to lose
// the question's own step.
func (p *Poller) put(m *state.Outgoing) {
	if m == nil {
		return
	}
	m.CreatedAt = p.now().UTC()
	if _, err := p.outbox().Put(m, state.MaxAge); err != nil {
		p.Log.Error().Err(err).Msg("note not written down")
	}
}

// Close moves a question to its end and writes down what its thread is told; the caller has it sent. It reports whether this
// call ended it: of two that end the same question, one does.
func (p *Poller) Close(path string, to state.Status, by string, also func(*state.Question)) (bool, error) {
	ended := false
	_, err := state.UpdateQuestion(path, func(q *state.Question) error {
		if err := q.Move(to, p.now()); err != nil {
			return state.ErrUnchanged
		}
		q.ResolvedBy = by
		if also != nil {
			also(q)
		}
		p.put(closingNote(q)) // before the file says "closed": after a crash in between it is put again, with the same id
		ended = true
		if !q.MessageSent && q.PostError != "" {
			p.noticeUnposted(q, q.PostError)
		}
		return nil
	})
	return ended && err == nil, err
}

// closingNote is what the thread of a closed question is told; nil when the question never got there.
func closingNote(q *state.Question) *state.Outgoing {
	if !q.MessageSent || q.Status.Open() {
		return nil
	}
	text := ""
	switch {
	case q.ResolvedBy == instead:
		return nil
	case q.Status == state.TimedOut:
		return timedOutNote(q)
	case q.Status == state.Resolved:
		answers := make([]state.Answer, len(q.Questions))
		for i, prompt := range q.Questions {
			answers[i] = gchat.Decompose(prompt, q.Answers[prompt.Question])
			answers[i].Notes = q.Notes[prompt.Question]
		}
		text = gchat.AnsweredText(q.SessionName, q.Questions, answers, answeredWhere(q))
	default:
		text = gchat.CancelledText(q.SessionName, q.Questions, closedWhy(q))
	}
	return note(q, "closed", text)
}

// answeredWhere is how a question was answered, if not by a reply in its thread.
func answeredWhere(q *state.Question) string {
	switch {
	case q.ResolvedBy == "terminal":
		return "in the terminal"
	case q.AnsweredBy == Local:
		return atShell(q.AnsweredByName)
	}
	return ""
}

// atShell says where a person answered who is no sender in Chat; by is the name, "" when that is not known.
func atShell(by string) string {
	if by = gchat.Line(gchat.Cut(by, 64)); by == "" {
		return "at a shell"
	}
	return "at a shell by " + by
}

func closedWhy(q *state.Question) string {
	why := map[string]string{
		"signal":      "Dismissed in the terminal.",
		"stop":        "Closed in the terminal without choosing an answer.",
		"prompt":      "Closed in the terminal: a new prompt was given.",
		"session_end": "The session ended.",
		"claude_gone": "The session is gone: Claude Code has ended.",
		"tmux_gone":   "The session is gone: its tmux session has ended.",
		"screen":      "The question is no longer on the session's screen.",
		"age":         "Nobody answered for 24 hours.",
	}[q.ResolvedBy]
	if why == "" {
		why = "It was closed."
	}
	if q.ResolvedBy == "age" && q.AnsweredMessage != "" {
		why = "24 hours have passed."
	}
	if q.ResolvedBy == "age" && q.Unread() {
		return "24 hours have passed. Your reply was not read any more."
	}
	if q.AnsweredMessage != "" {
		why += " Your reply did not reach Claude any more."
	}
	return why
}

// unwaitedText says that no process reads the replies to a question.
func unwaitedText(q *state.Question) string {
	if q.Mode == state.Inject {
		return "[Not read] The daemon that types the answer does not run: start it with `gchat-hooks poller install`, " +
			"or answer in the terminal."
	}
	return "[Not read] No hook waits for a reply to this question: answer it in the terminal."
}

// refusedText answers the first reply of a person who may not answer. It names the file first: a hook that waits reads it
// afresh, while its environment stays as it is.
func refusedText(r *state.Reply, nobodyAllowed bool) string {
	who := gchat.Line(r.Sender)
	if r.DisplayName != "" {
		who += " (" + gchat.Line(r.DisplayName) + ")"
	}
	why := who + " may not answer."
	if nobodyAllowed {
		why = "Nobody may answer yet."
	}
	return fmt.Sprintf("[Not used] %s To let %s answer, add \"%s\" to \"allowed_users\" in ~/.config/gchat-hooks/config.json, "+
		"or to GCHAT_ALLOWED_USERS before the session starts, and reply again.", why, who, gchat.Line(r.Sender))
}

// lateText answers the second reply to a question.
func lateText(q *state.Question) string {
	switch {
	case q.ResolvedBy == "terminal":
		return "[Not used] This question was already answered in the terminal."
	case q.Status == state.Answered || q.Status == state.Resolved:
		return "[Not used] This question was already answered."
	case q.Status == state.TimedOut && q.AskedAgain:
		return "[Not used] Nobody replied in time, and Claude asked again in the terminal."
	case q.Status == state.TimedOut:
		return "[Not used] Nobody replied in time, and the timeout policy chose the answer."
	}
	return "[Not used] This question is closed. " + closedWhy(q)
}

// noOptionText answers a reply whose number no option has.
func noOptionText(q *state.Question, none *gchat.NoOption) string {
	numbers := "1"
	switch n := len(q.Questions[none.Question].Options); {
	case n == 2:
		numbers = "1 or 2"
	case n > 2:
		numbers = fmt.Sprintf("1 to %d", n)
	}
	if len(q.Questions) == 1 {
		return fmt.Sprintf("[Not used] There is no option %d. Reply %s, or `other: %d`.", none.Number, numbers, none.Number)
	}
	return fmt.Sprintf("[Not used] Q%d has no option %d. Reply again, with %s for Q%d, or with `Q%d: other: %d`.",
		none.Question+1, none.Number, numbers, none.Question+1, none.Question+1, none.Number)
}

// missingText says which of several questions still want an answer.
func missingText(missing []int) string {
	var qs []string
	for _, i := range missing {
		qs = append(qs, fmt.Sprintf("Q%d", i+1))
	}
	return fmt.Sprintf("[Kept] Still missing: %s. Reply with, for example, \"%s: 1\".", strings.Join(qs, ", "), qs[0])
}

// NobodyWaits tells the thread of a question in deny mode, once, that nothing reads the replies to it, unless something does;
// the caller has the outbox sent.
func (p *Poller) NobodyWaits(q *state.Question) error {
	if !q.Denied || q.Unwaited || q.Status != state.Pending || p.now().Sub(q.AskedAt) < graceForHook {
		return nil
	}
	if state.HasWaiter(q) || state.DaemonRuns(stateDirOf(q), p.user()) {
		return nil
	}
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Unwaited || q.Status != state.Pending {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "unwaited", "[Not read] Nothing reads the replies to this question at present. "+
			"Claude can wait for one with `gchat-wait`, or give it the answer in the terminal."))
		return nil
	})
	return err
}

// unheard says whether a reply to a posted question is read by no process, and its thread does not know: its hook was killed, or
// none came.
func (p *Poller) unheard(q *state.Question) bool {
	return q.MessageSent && q.Status == state.Pending && q.Mode != state.Deny && !q.Unwaited && !p.waitsOrSoon(q) && !Gone(q)
}

// tellUnheard tells the thread of such a question so, once graceForReply has passed. It returns when to come again.
func (p *Poller) tellUnheard(q *state.Question) (again time.Time) {
	if at := q.AskedAt.Add(graceForReply); p.now().Before(at) {
		return sooner(at, p.now().Add(lookAround)) // a hook may come
	}
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if !p.unheard(q) {
			return state.ErrUnchanged
		}
		q.Unwaited = true
		p.put(note(q, "gave up", unwaitedText(q))) // a hook that ends by itself says the same
		return nil
	}); err != nil {
		p.Log.Error().Err(err).Str("question", q.QuestionID).Msg("thread not told that nobody waits")
	}
	return p.now().Add(time.Second)
}

// tellRead takes back what a thread was told while no process waited for a reply.
func (p *Poller) tellRead(ctx context.Context, q *state.Question) {
	if !q.Unwaited {
		return
	}
	p.put(note(q, "waited", "Replies to this question are read now."))
	p.Send(ctx)
}

// tellKept tells who replied to a question in deny mode without a waiter when the reply is read: the space's reader does not
// judge it, since only the session's own processes know for sure who may answer.
func (p *Poller) tellKept(q *state.Question) {
	if q.SessionEnded != nil || Gone(q) {
		p.put(note(q, "kept for later", "[Kept] The session has ended: it reads your reply when it is resumed."))
		return
	}
	p.put(note(q, "kept", "[Kept] Claude reads your reply with its next step."))
}
