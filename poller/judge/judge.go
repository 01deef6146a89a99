// Package judge says who may answer a question, and what a reply means. It reads and writes nothing.
package judge

import (
	"errors"
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
	return r.Sender == state.LocalSender && strings.HasPrefix(r.MessageName, ShellReply)
}

// Tighten has a permission or a plan be decided on the terms that its record and the person's configuration leave.
func Tighten(cfg *config.Config, q *state.Question) {
	if !q.IsAnswerable() || len(q.SubQuestions) == 0 {
		return
	}
	terms := cfg.AccessToQuestion(q)
	q.IsTerminalOnly = !terms.CanAllow
	if !terms.CanShow {
		q.ReduceToTitle()
	}
	if len(cfg.NeverRemote) > 0 && !slices.Equal(cfg.NeverRemote, q.NeverRemote) { // its rules were not held against these
		offered := q.SubQuestions[0].Options
		q.SubQuestions[0].Options = slices.DeleteFunc(slices.Clone(offered), func(o state.Option) bool {
			return o.Label == state.LabelAlways || o.Label == state.LabelApproveAuto
		})
	}
}

// judgement is one reply to a question, and what it is judged by.
type judgement struct {
	cfg  *config.Config
	q    *state.Question
	r    *state.Reply
	text string // of the reply, as Claude may read it
	now  time.Time
}

// Reply gives a reply its verdict, has the question follow it, and notes what the thread is
// owed for it. The first case that holds decides: when and by whom it was said, whether the
// question still takes a reply, and only then what it says.
func Reply(cfg *config.Config, q *state.Question, r *state.Reply, now time.Time) {
	j := &judgement{cfg, q, r, state.Clean(state.ForAgent, r.Text), now}
	switch {
	case j.isEarly():
		j.answerEarly()
	case !MayAnswer(cfg, q, r):
		j.refuse()
	case j.sendsRest():
		r.Verdict = state.VerdictUsed
		j.owe(state.NoteSendUnsent, "")
	case !q.IsAnswerable():
		j.answerLate()
	case j.isBlank():
		r.Verdict = state.VerdictIgnored
		if r.Sender != state.LocalSender {
			j.owe(state.NoteNoText, "")
		}
	case r.IsUnsure:
		j.askBack(state.NoteUnclear, wording.WhichOne)
	case !q.Mode.Traits().Asks:
		claim(q, r, j.text, nil, now)
	case r.Choice == "" && wording.ToTerminal(q, j.text):
		r.Verdict = state.VerdictIgnored // the note that it stands there answers it
		q.MarkWantedInTerminal(now)      // it is a reply to what is hidden, and may be the second
	default:
		j.takeWords()
	}
}

// owe notes what the thread is to be told of the reply. A reply from the shell is answered there.
func (j *judgement) owe(about, seen string) {
	if !FromShell(j.r) {
		j.q.OwedNotes = append(j.q.OwedNotes, state.OwedNote{About: about, ReplyMessage: j.r.MessageName, Text: seen})
	}
}

// askBack has the person say it again.
func (j *judgement) askBack(about, seen string) {
	j.r.Verdict = state.VerdictAskedBack
	j.owe(about, seen)
}

func (j *judgement) isBlank() bool { return strings.TrimSpace(j.text) == "" }

// isEarly reports whether the reply was said in Chat before its question stood there. A session
// takes words at any time.
func (j *judgement) isEarly() bool {
	posted := j.q.PostedAt
	if posted == nil || j.r.Sender == state.LocalSender || j.q.Kind.Traits().IsPrompt {
		return false
	}
	return j.r.CreatedAt.Before(posted.Add(-DateSlack))
}

// answerEarly asks for a decision once more. Its person may have seen the first of several
// messages, with which the thread began.
func (j *judgement) answerEarly() {
	j.r.Verdict = state.VerdictIgnored
	if j.q.Kind.Traits().Decides && j.q.IsAnswerable() && MayAnswer(j.cfg, j.q, j.r) {
		j.askBack(state.NoteUnclear, wording.TooEarly)
	}
}

// refuse turns a reply away whose sender may not answer. Each sender is told so once.
func (j *judgement) refuse() {
	wasTold := judged(j.q, state.VerdictRefused, j.r.Sender)
	j.r.Verdict = state.VerdictRefused
	switch {
	case j.r.Sender == state.LocalSender: // any program of this user may have written it
	case j.isBlank(), !j.q.Mode.Traits().Asks:
		j.r.Verdict = state.VerdictIgnored
	case !wasTold:
		j.owe(state.NoteRefused, j.whyRefused())
	}
}

// whyRefused is the Seen of the note that tells a sender so; "" where nobody named them.
func (j *judgement) whyRefused() string {
	allowed := j.cfg.CanAnswer(j.r.Sender, j.r.SenderEmail)
	switch {
	case !allowed && config.IsListed(j.cfg.AllowedUsers, j.r.Sender, j.r.SenderEmail):
		return wording.NotOfPolicy
	case allowed && j.q.Kind.Traits().IsPersonal:
		return wording.NotApprover
	case len(j.cfg.AllowedUsers) == 0:
		return wording.NobodyAllowed
	}
	return ""
}

// sendsRest reports whether an approver wants Claude to have what did not reach it.
func (j *judgement) sendsRest() bool {
	isSend := strings.EqualFold(strings.Trim(j.text, " \t\n.!"), "send")
	canSend := j.q.AcceptsPrompts && j.q.UnsentAnswers() != ""
	return isSend && canSend && j.cfg.CanApprove(j.r.Sender, j.r.SenderEmail)
}

// answerLate tells that the question takes no reply. A no still ends a yes for a while, and
// then its thread hears of that end instead.
func (j *judgement) answerLate() {
	j.r.Verdict = state.VerdictLate
	j.noteNo()
	if j.q.LastDenialAt.IsZero() || !j.q.HasActiveGrant() {
		j.owe(state.NoteLate, "")
	}
}

// readDecline is how a reply turns the question down, with the words beside it; "" where it does
// not. Where another button was tapped, such words are an answer.
func (j *judgement) readDecline() (how, words string) {
	if j.q.Kind.Traits().IsPersonal {
		return "", ""
	}
	how, words = wording.ReadDecline(j.text, j.q)
	if j.r.Choice != "" && j.r.Choice != how {
		return "", ""
	}
	return how, words
}

// takeWords does what a reply says. What a person leaves to the terminal stays open there. In
// deny mode no dialog stands there: Claude is told.
func (j *judgement) takeWords() {
	q := j.q
	how, words := j.readDecline()
	switch {
	case how == "":
		j.takeAnswer()
		return
	case how == wording.AskedHow:
		j.r.Verdict = state.VerdictAskedHow
		j.owe(state.NoteUnclear, "")
		return
	case how == state.DeclinedSkip && !q.Mode.Traits().HasMarker:
		j.r.Verdict = state.VerdictUsed
		if q.IsDialogDrawn() {
			q.HandedOverAt = new(j.now.UTC())
			q.OweNote(state.NoteHandedOver, "")
		}
		q.MarkWantedInTerminal(j.now) // what is hidden is drawn when no key is under way
	default:
		claim(q, j.r, j.text, q.PartialAnswers, j.now)
	}
	q.Declined, q.DeclinedText = how, words
}

// takeAnswer has the question answered, or a part of it, or asks back.
func (j *judgement) takeAnswer() {
	words, long := j.text, time.Duration(0)
	if j.takesTimedYes() {
		long = wording.TimedYes(j.text)
	}
	if long > 0 {
		words = "yes"
	}
	answers, about := j.readAnswer(words)
	if about != "" {
		hint := ""
		if about == state.NoteUnclear && !j.q.IsTerminalOnly && j.takesTimedYes() {
			hint = wording.TimedHint
		}
		j.askBack(about, hint)
		return
	}
	if j.r.HasAttachment {
		j.owe(state.NoteAttached, "")
	}
	if len(wording.Unanswered(j.q.SubQuestions, answers)) > 0 {
		j.r.Verdict, j.q.PartialAnswers = state.VerdictKept, answers
		j.q.OweNote(state.NoteKept, j.r.MessageName) // also of one from the shell: the thread shows what is still missing
		return
	}
	claim(j.q, j.r, j.text, answers, j.now)
	j.noteNo()
	if long > 0 {
		grant(j.q, long, j.now)
	}
}

// takesTimedYes reports whether a yes to the question may be for a while.
func (j *judgement) takesTimedYes() bool {
	isKnown := j.q.ClaudePID > 1 && j.q.ClaudeStart != "" // its process, which alone the yes is for
	return j.cfg.AllowsTimedYes && j.q.Kind == state.KindPermission && j.r.Choice == "" && isKnown
}

// readAnswer is what a tap or these words answer, with what was answered before; or the note
// that asks for another reply.
func (j *judgement) readAnswer(words string) (answers map[int]state.Answer, about string) {
	q, row := j.q, j.q.Kind.Traits()
	switch {
	case j.r.Choice != "":
		answers, _, about = wording.ReadTap(q, &wording.Tap{Choice: j.r.Choice, Inputs: j.r.Inputs})
		if about == "" && len(answers) == 0 { // its card has no such button
			about = state.NoteUnclear
		}
		if about != "" {
			return nil, about
		}
		for i, a := range q.PartialAnswers {
			if answers[i].IsEmpty() {
				answers[i] = a
			}
		}
		return answers, ""
	case row.IsPersonal: // what is unclear is asked back each time: nothing is guessed
		a, about := wording.ParseDecision(words, q)
		return map[int]state.Answer{0: a}, about
	}
	answers, none := wording.ParseReply(words, q.SubQuestions, q.PartialAnswers)
	if none != nil && !judged(q, state.VerdictAskedBack, "") { // the second such number is taken as the person's own words
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
	if q.MoveTo(state.Answered, now) != nil {
		r.Verdict = state.VerdictLate
		return
	}
	r.Verdict = state.VerdictUsed
	q.Answers, q.Notes, q.PartialAnswers = map[string]string{}, map[string]string{}, nil
	q.Declined, q.DeclinedText = "", ""
	for i, prompt := range q.SubQuestions {
		a := answers[i]
		q.Answers[prompt.Question] = a.Value()
		if a.Notes != "" {
			q.Notes[prompt.Question] = a.Notes
		}
	}
	q.Response, q.ResponseType = new(strings.TrimSpace(text)), new(wording.ResponseType(q.SubQuestions, answers))
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
}

// MayAnswer decides who may answer. It fails closed: without names, no sender of Chat's may. A question is for the senders that
// the configuration names, and, since only the session's owner can write into the state folder, for a reply that was put there.
// Chat's API cannot say Local: gchat.Message has no sender that is not users/ID. What Claude may do, and what it does next,
// approvers say: those of now, and of when it was asked, where the list then had a name. No reply that came otherwise than
// through Chat says it.
func MayAnswer(cfg *config.Config, q *state.Question, r *state.Reply) bool {
	if !q.Kind.Traits().IsPersonal {
		return r.Sender == state.LocalSender || cfg.CanAnswer(r.Sender, r.SenderEmail)
	}
	then := q.Approvers == nil || len(*q.Approvers) == 0 || config.IsListed(*q.Approvers, r.Sender, r.SenderEmail)
	return then && r.Sender != state.LocalSender && cfg.CanApprove(r.Sender, r.SenderEmail)
}

// grant notes the yes for a while that a permission was answered with, in the same write. It is given at a whole millisecond, as
// records have the times that it is compared with: a no of the same millisecond must not look earlier.
func grant(q *state.Question, long time.Duration, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	q.Grant = &state.Grant{QuestionID: q.QuestionID, GrantedAt: at, EndsAt: at.Add(long)}
	q.OweNote(state.NoteGranted, q.AnsweredMessage)
}

// noteNo notes when a no was said, also one that comes too late to decide: it ends a yes for a
// while. A tap has the words of its button.
func (j *judgement) noteNo() {
	if !j.q.Kind.Traits().Decides {
		return
	}
	a, _ := wording.ParseDecision(j.text, j.q)
	if len(a.Labels) == 1 && state.IsRefusal(a.Labels[0]) {
		j.q.LastDenialAt = j.now.UTC().Round(0)
	}
}

// GrantOver says whether the yes for a while that was given to a permission has ended for good: its time is up, its session began
// anew, or its person may decide no more.
func GrantOver(cfg *config.Config, given *state.Question, one *state.Session, now time.Time) bool {
	g, by := given.Grant, given.FindReply(given.AnsweredMessage)
	removed := by == nil || !cfg.HasUnreadFile && !(cfg.AllowsTimedYes && cfg.CanApprove(by.Sender, by.SenderEmail))
	return removed || now.Before(g.GrantedAt) || !now.Before(g.EndsAt) || one.StartedAt.After(g.GrantedAt)
}

// ErrNotCovered says that a yes for a while does not cover a permission: it was given later, to another process, or by a person
// who was no approver then or could not say yes to this one.
var ErrNotCovered = errors.New("the yes for a while does not cover this")

// ByGrant answers a permission by a yes for a while that is not over. The error is ErrNotCovered.
func ByGrant(cfg *config.Config, q, given *state.Question, now time.Time) error {
	Tighten(cfg, q)
	by, g := *given.FindReply(given.AnsweredMessage), *given.Grant
	a, unclear := wording.ParseDecision("yes", q)
	same := q.ClaudePID > 1 && q.ClaudePID == given.ClaudePID && q.ClaudeStart != "" && q.ClaudeStart == given.ClaudeStart
	if unclear != "" || !same || cfg.HasUnreadFile || q.Kind != state.KindPermission || !q.AskedAt.After(g.GrantedAt) || q.Approvers == nil ||
		!config.IsListed(*q.Approvers, by.Sender, by.SenderEmail) || !q.IsAnswerable() {
		return ErrNotCovered
	}
	claim(q, &by, "yes, by the grant of "+given.DescribeGrant(), map[int]state.Answer{0: a}, now)
	q.Grant = &g
	return nil
}

// TimeOut does what the timeout policy of deny mode says. Nothing is chosen in the person's place where there may be a reply;
// what the person did answer stays.
func TimeOut(q *state.Question, unread bool) {
	if q.TimeoutPolicy != state.TimeoutRecommended || unread || !q.Mode.Traits().HasMarker {
		return
	}
	q.Answers = map[string]string{}
	for i, prompt := range q.SubQuestions {
		a := q.PartialAnswers[i]
		if a.IsEmpty() {
			a = recommended(prompt)
		}
		if !a.IsEmpty() {
			q.Answers[prompt.Question] = a.Value()
		}
	}
	q.ResolvedBy = "policy"
}

// recommended is the answer that Claude itself recommends: the options that say so, else the first. A question with a single
// choice gets one.
func recommended(prompt state.SubQuestion) (a state.Answer) {
	for _, o := range prompt.Options {
		says := strings.ToLower(o.Label + " " + o.Description)
		recommends := strings.Contains(says, "(recommended)") || strings.Contains(says, "[recommended]")
		if recommends && (prompt.MultiSelect || a.IsEmpty()) {
			a.Labels = append(a.Labels, o.Label)
		}
	}
	if len(a.Labels) == 0 && len(prompt.Options) > 0 {
		a.Labels = []string{prompt.Options[0].Label}
	}
	return a
}
