// Package judge says who may answer a question, and what a reply means. It reads and writes nothing.
package judge

import (
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// DateSlack is how far a reply may seem older than its question when the question's time is only known from the HTTP
// answer, which counts whole seconds.
const DateSlack = 2 * time.Second

// ShellReply begins the names of replies that were given with gchat-hooks answer, which tells their sender what became of them.
const ShellReply = "shell/"

// FromShell says whether a reply was typed at a shell.
func FromShell(r *state.Reply) bool {
	return r.Sender == state.Local && strings.HasPrefix(r.MessageName, ShellReply)
}

// Tighten has a permission or a plan be decided on the terms that its record and the person's configuration leave.
func Tighten(cfg *config.Config, q *state.Question) {
	if !q.Answerable() || len(q.Questions) == 0 {
		return
	}
	terms := cfg.TermsOf(q)
	q.TerminalOnly = !terms.Allowed
	if !terms.Shown {
		q.TitleOnly()
	}
	if len(cfg.NeverRemote) > 0 && !slices.Equal(cfg.NeverRemote, q.NeverRemote) { // its rules were not held against these
		offered := q.Questions[0].Options
		q.Questions[0].Options = slices.DeleteFunc(slices.Clone(offered), func(o state.Option) bool {
			return o.Label == state.LabelAlways || o.Label == state.LabelApproveAuto
		})
	}
}

// Reply decides about one reply, and notes what the thread is owed for it. A reply from the shell is answered there.
func Reply(cfg *config.Config, q *state.Question, r *state.Reply, now time.Time) {
	text := state.Clean(state.ForAgent, r.Text)
	owe := func(about string) {
		if !FromShell(r) {
			q.Owe(about, r.MessageName)
		}
	}
	switch {
	case r.Sender != state.Local && !q.Kind.Row().Prompt && q.PostedAt != nil && r.CreateTime.Before(q.PostedAt.Add(-DateSlack)):
		r.Verdict = state.Ignored
		if q.Kind.Row().Decides && q.Answerable() && MayAnswer(cfg, q, r) { // its thread began with the first of its messages
			r.Verdict = state.AskedBack
			q.Owes = append(q.Owes, state.Owed{About: state.NoteUnclear, Reply: r.MessageName, Seen: wording.TooEarly})
		}
		return
	case r.Sender == state.Local && q.Kind.Row().Personal: // any program of this user writes one
		r.Verdict = state.Refused
		return
	case !MayAnswer(cfg, q, r):
		r.Verdict = state.Ignored
		if strings.TrimSpace(text) == "" || !q.Mode.Row().Asks {
			return
		}
		if !judged(q, state.Refused, r.Sender) { // it is said once to each sender
			owed := state.Owed{About: state.NoteRefused, Reply: r.MessageName}
			switch {
			case config.Named(cfg.AllowedUsers, r.Sender, r.SenderEmail) && !cfg.Allows(r.Sender, r.SenderEmail):
				owed.Seen = wording.NotOfPolicy
			case q.Kind.Row().Personal && cfg.Allows(r.Sender, r.SenderEmail):
				owed.Seen = wording.NotApprover
			case len(cfg.AllowedUsers) == 0:
				owed.Seen = wording.NobodyAllowed
			}
			q.Owes = append(q.Owes, owed)
		}
		r.Verdict = state.Refused
		return
	case q.TakesWords && q.Unsent() != "" && isSend(text) && cfg.Approves(r.Sender, r.SenderEmail):
		r.Verdict = state.Used
		owe(state.NoteSend)
		return
	case !q.Answerable():
		r.Verdict = state.Late
		if noteNo(q, text, now); q.NoAt.IsZero() || !q.Grants() { // of the end of a yes for a while its thread hears anyway
			owe(state.NoteLate)
		}
		return
	case strings.TrimSpace(text) == "":
		r.Verdict = state.Ignored
		if r.Sender != state.Local {
			owe(state.NoteNoText)
		}
		return
	case r.Unsure:
		r.Verdict = state.AskedBack
		q.Owes = append(q.Owes, state.Owed{About: state.NoteUnclear, Reply: r.MessageName, Seen: wording.WhichOne})
		return
	case !q.Mode.Row().Asks:
		claim(q, r, text, nil, now)
		return
	}
	if r.Choice == "" && wording.ToTerminal(q, text) {
		r.Verdict = state.Ignored // the note that it stands there answers it
		_ = q.WantInTerminal(now) // it is a reply to what is hidden, and may be the second
		return
	}
	if !q.Kind.Row().Personal && turnDown(q, r, text, now) {
		if r.Verdict == state.AskedHow {
			owe(state.NoteUnclear)
		}
		return
	}
	words, long := text, timed(cfg, q, r, text)
	if long > 0 {
		words = "yes"
	}
	answers, about := meaning(cfg, q, r, words)
	if about == "" && r.Attached {
		owe(state.NoteAttached)
	}
	switch {
	case about != "":
		r.Verdict = state.AskedBack
		owe(about)
		if n := len(q.Owes); n > 0 && about == state.NoteUnclear && !q.TerminalOnly && timed(cfg, q, r, "yes 1m") > 0 {
			q.Owes[n-1].Seen = wording.TimedHint
		}
	case len(wording.Unanswered(q.Questions, answers)) > 0:
		r.Verdict, q.Partial = state.Kept, answers
		q.Owe(state.NoteKept, r.MessageName) // also of one from the shell: the thread shows what is still missing
	default:
		claim(q, r, text, answers, now)
		noteNo(q, text, now)
		if long > 0 {
			grant(q, long, now)
		}
	}
}

// isSend reports whether a person wants Claude to have what did not reach it.
func isSend(text string) bool { return strings.EqualFold(strings.Trim(text, " \t\n.!"), "send") }

// turnDown does what a reply says that answers nothing, and reports whether it is such a reply. What
// a person leaves to the terminal stays open there. In deny mode no dialog stands there: Claude is
// told.
func turnDown(q *state.Question, r *state.Reply, text string, now time.Time) bool {
	how, words := wording.ReadDecline(text, q)
	switch {
	case how == "", r.Choice != "" && r.Choice != how: // another button, with such words beside it
		return false
	case how == wording.AskedHow:
		r.Verdict = state.AskedHow
		return true
	case how == state.DeclinedSkip && !q.Mode.Row().Marker:
		r.Verdict = state.Used
		if q.Drawn() {
			q.HandedOver = new(now.UTC())
			q.Owe(state.NoteHandedOver, "")
		}
		_ = q.WantInTerminal(now) // what is hidden is drawn when no key is under way
	default:
		claim(q, r, text, q.Partial, now)
	}
	q.Declined, q.DeclinedWords = how, words
	return true
}

// meaning is what a tap or a reply answers, with what was answered before; or the note that asks for another.
func meaning(cfg *config.Config, q *state.Question, r *state.Reply, text string) (answers map[int]state.Answer, about string) {
	if bare := strings.TrimSpace(text); q.Kind.Row().Said && wording.ClaudeCommand(bare, cfg.ClaudeCommands) {
		return map[int]state.Answer{0: {Text: bare}}, ""
	}
	if r.Choice != "" {
		answers, _, about = wording.ReadTap(q, &wording.Tap{Choice: r.Choice, Inputs: r.Inputs})
		for i, a := range q.Partial {
			if answers[i].Empty() && about == "" {
				answers[i] = a
			}
		}
		return answers, about
	}
	if q.Kind.Row().Personal { // what is unclear is asked back each time: nothing is guessed
		a, about := wording.ParseDecision(text, q)
		return map[int]state.Answer{0: a}, about
	}
	answers, none := wording.ParseReply(text, q.Questions, q.Partial)
	if none != nil && !judged(q, state.AskedBack, "") { // the second such number is taken as the person's own words
		return nil, state.NoteUnclear
	}
	return answers, ""
}

// judged says whether a reply of that sender, "" for any, had that verdict.
func judged(q *state.Question, verdict state.Verdict, sender string) bool {
	return slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict == verdict && (sender == "" || r.Sender == sender)
	})
}

// claim makes a reply the question's answer. Answers are keyed by the raw question text.
func claim(q *state.Question, r *state.Reply, text string, answers map[int]state.Answer, now time.Time) {
	if q.Move(state.Answered, now) != nil {
		r.Verdict = state.Late
		return
	}
	r.Verdict = state.Used
	q.Answers, q.Notes, q.Partial = map[string]string{}, map[string]string{}, nil
	q.Declined, q.DeclinedWords = "", ""
	for i, prompt := range q.Questions {
		a := answers[i]
		q.Answers[prompt.Question] = a.Value()
		if a.Notes != "" {
			q.Notes[prompt.Question] = a.Notes
		}
	}
	q.Response, q.ResponseType = new(strings.TrimSpace(text)), new(wording.ResponseType(q.Questions, answers))
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
}

// MayAnswer decides who may answer. It fails closed: without names, no sender of Chat's may. A question is for the senders that
// the configuration names, and, since only the session's owner can write into the state folder, for a reply that was put there.
// Chat's API cannot say Local: gchat.Message has no sender that is not users/ID. What Claude may do, and what it does next,
// approvers say: those of now, and of when it was asked, where the list then had a name. No reply that came otherwise than
// through Chat says it.
func MayAnswer(cfg *config.Config, q *state.Question, r *state.Reply) bool {
	if !q.Kind.Row().Personal {
		return r.Sender == state.Local || cfg.Allows(r.Sender, r.SenderEmail)
	}
	then := q.Approvers == nil || len(*q.Approvers) == 0 || config.Named(*q.Approvers, r.Sender, r.SenderEmail)
	return then && r.Sender != state.Local && cfg.Approves(r.Sender, r.SenderEmail)
}

// timed is how long a yes to a permission is meant to last; 0 where it is for that alone, or may not be given for longer.
func timed(cfg *config.Config, q *state.Question, r *state.Reply, text string) time.Duration {
	if !cfg.TimedYes || q.Kind != state.AskedPermission || r.Choice != "" || q.ClaudePID <= 1 || q.ClaudeStart == "" {
		return 0
	}
	return wording.TimedYes(text)
}

// grant notes the yes for a while that a permission was answered with, in the same write. It is given at a whole millisecond, as
// records have the times that it is compared with: a no of the same millisecond must not look earlier.
func grant(q *state.Question, long time.Duration, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	q.Grant = &state.Grant{Question: q.QuestionID, At: at, Until: at.Add(long)}
	q.Owe(state.NoteGranted, q.AnsweredMessage)
}

// noteNo notes when a no was said, also one that comes too late to decide: it ends a yes for a while. A tap has the words of its
// button.
func noteNo(q *state.Question, text string, now time.Time) {
	if !q.Kind.Row().Decides {
		return
	}
	if a, _ := wording.ParseDecision(text, q); len(a.Labels) == 1 && state.Refuses(a.Labels[0]) {
		q.NoAt = now.UTC().Round(0)
	}
}

// GrantOver says whether the yes for a while that was given to a permission has ended for good: its time is up, its session began
// anew, or its person may decide no more.
func GrantOver(cfg *config.Config, given *state.Question, one *state.Session, now time.Time) bool {
	g, by := given.Grant, given.Reply(given.AnsweredMessage)
	removed := by == nil || !cfg.Unread && !(cfg.TimedYes && cfg.Approves(by.Sender, by.SenderEmail))
	return removed || now.Before(g.At) || !now.Before(g.Until) || one.StartedAt.After(g.At)
}

// ByGrant answers a permission by a yes for a while that is not over. It is state.ErrUnchanged where that does not cover it: it
// was given later, to another process, or by a person who was no approver then or could not say yes to this one.
func ByGrant(cfg *config.Config, q, given *state.Question, now time.Time) error {
	Tighten(cfg, q)
	by, g := *given.Reply(given.AnsweredMessage), *given.Grant
	a, unclear := wording.ParseDecision("yes", q)
	same := q.ClaudePID > 1 && q.ClaudePID == given.ClaudePID && q.ClaudeStart != "" && q.ClaudeStart == given.ClaudeStart
	if unclear != "" || !same || cfg.Unread || q.Kind != state.AskedPermission || !q.AskedAt.After(g.At) || q.Approvers == nil ||
		!config.Named(*q.Approvers, by.Sender, by.SenderEmail) || !q.Answerable() {
		return state.ErrUnchanged
	}
	claim(q, &by, "yes, by the grant of "+given.GrantedBy(), map[int]state.Answer{0: a}, now)
	q.Grant = &g
	return nil
}

// TimeOut does what the timeout policy of deny mode says. Nothing is chosen in the person's place where there may be a reply;
// what the person did answer stays.
func TimeOut(q *state.Question, unread bool) {
	if q.TimeoutPolicy != state.Recommended || unread || !q.Mode.Row().Marker {
		return
	}
	q.Answers = map[string]string{}
	for i, prompt := range q.Questions {
		a := q.Partial[i]
		if a.Empty() {
			a = recommended(prompt)
		}
		if !a.Empty() {
			q.Answers[prompt.Question] = a.Value()
		}
	}
	q.ResolvedBy = "policy"
}

// recommended is the answer that Claude itself recommends: the options that say so, else the first. A question with a single
// choice gets one.
func recommended(prompt state.Prompt) (a state.Answer) {
	for _, o := range prompt.Options {
		says := strings.ToLower(o.Label + " " + o.Description)
		recommends := strings.Contains(says, "(recommended)") || strings.Contains(says, "[recommended]")
		if recommends && (prompt.MultiSelect || a.Empty()) {
			a.Labels = append(a.Labels, o.Label)
		}
	}
	if len(a.Labels) == 0 && len(prompt.Options) > 0 {
		a.Labels = []string{prompt.Options[0].Label}
	}
	return a
}
