// Package judge says who may answer a question, and what a reply means. It reads and
// writes nothing.
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

// PostTimeSlack is how far a reply may seem older than its question when the question's
// time is only known from the HTTP answer, which counts whole seconds.
const PostTimeSlack = 2 * time.Second

// ShellReplyPrefix begins the names of replies that were given with gchat-hooks answer,
// which tells their sender what became of them.
const ShellReplyPrefix = "shell/"

// IsFromShell says whether a reply was typed at a shell.
func IsFromShell(r *state.Reply) bool {
	return r.Sender == state.LocalSender && strings.HasPrefix(r.MessageName, ShellReplyPrefix)
}

// RestrictChoices has a permission or a plan be decided on the terms that its record and
// the person's configuration leave.
func RestrictChoices(cfg *config.Config, q *state.Question) {
	if !q.IsAnswerable() || len(q.SubQuestions) == 0 {
		return
	}
	access := cfg.AccessToQuestion(q)
	q.IsTerminalOnly = !access.CanAllow
	if !access.CanShow {
		q.ReduceToTitle()
	}
	if len(cfg.NeverRemote) > 0 && !slices.Equal(cfg.NeverRemote, q.NeverRemote) {
		// its rules were not held against these
		offered := q.SubQuestions[0].Options
		q.SubQuestions[0].Options = slices.DeleteFunc(
			slices.Clone(offered),
			func(o state.Option) bool {
				return o.Label == state.LabelAlways || o.Label == state.LabelApproveAuto
			},
		)
	}
}

// judgement is one reply to a question, and what it is judged by.
type judgement struct {
	cfg      *config.Config
	question *state.Question
	reply    *state.Reply
	text     string // of the reply, as Claude may read it
	now      time.Time
}

// JudgeReply gives a reply its verdict, has the question follow it, and notes what the
// thread is owed for it. The first case that holds decides: when and by whom it was said,
// whether the question still takes a reply, and only then what it says.
func JudgeReply(cfg *config.Config, q *state.Question, r *state.Reply, now time.Time) {
	j := &judgement{cfg, q, r, state.Clean(state.ForAgent, r.Text), now}
	switch {
	case j.isEarly():
		j.rejectEarly()
	case !CanAnswer(cfg, q, r):
		j.refuse()
	case j.asksToSendRest():
		r.Verdict = state.VerdictUsed
		j.oweNote(state.NoteSendUnsent, "")
	case !q.IsAnswerable():
		j.rejectLate()
	case j.isBlank():
		r.Verdict = state.VerdictIgnored
		if r.Sender != state.LocalSender {
			j.oweNote(state.NoteNoText, "")
		}
	case r.IsUnsure:
		j.askBack(state.NoteUnclear, wording.WhichQuestionText)
	case !q.Mode.Traits().Asks:
		setAnswer(q, r, j.text, nil, now)
	case r.Choice == "" && wording.AsksForTerminal(q, j.text):
		r.Verdict = state.VerdictIgnored // the note that it stands there answers it
		q.MarkWantedInTerminal(now)      // it is a reply to what is hidden, and may be the second
	default:
		j.applyText()
	}
}

// oweNote notes what the thread is to be told of the reply. A reply from the shell is
// answered there.
func (j *judgement) oweNote(about, seen string) {
	if !IsFromShell(j.reply) {
		j.question.OwedNotes = append(
			j.question.OwedNotes,
			state.OwedNote{About: about, ReplyMessage: j.reply.MessageName, Text: seen},
		)
	}
}

// askBack has the person say it again.
func (j *judgement) askBack(about, seen string) {
	j.reply.Verdict = state.VerdictAskedBack
	j.oweNote(about, seen)
}

func (j *judgement) isBlank() bool { return strings.TrimSpace(j.text) == "" }

// isEarly reports whether the reply was said in Chat before its question stood there. A
// session takes words at any time.
func (j *judgement) isEarly() bool {
	postedAt := j.question.PostedAt
	if postedAt == nil || j.reply.Sender == state.LocalSender || j.question.Kind.Traits().IsPrompt {
		return false
	}
	return j.reply.CreatedAt.Before(postedAt.Add(-PostTimeSlack))
}

// rejectEarly asks for a decision once more. Its person may have seen the first of
// several messages, with which the thread began.
func (j *judgement) rejectEarly() {
	j.reply.Verdict = state.VerdictIgnored
	if j.question.Kind.Traits().Decides && j.question.IsAnswerable() &&
		CanAnswer(j.cfg, j.question, j.reply) {
		j.askBack(state.NoteUnclear, wording.TooEarlyHint)
	}
}

// refuse turns a reply away whose sender may not answer. Each sender is told so once.
func (j *judgement) refuse() {
	isNotified := hasVerdict(j.question, state.VerdictRefused, j.reply.Sender)
	j.reply.Verdict = state.VerdictRefused
	switch {
	case j.reply.Sender == state.LocalSender: // any program of this user may have written it
	case j.isBlank(), !j.question.Mode.Traits().Asks:
		j.reply.Verdict = state.VerdictIgnored
	case !isNotified:
		j.oweNote(state.NoteRefused, j.whyRefused())
	}
}

// whyRefused is the Seen of the note that tells a sender so; "" where nobody named them.
func (j *judgement) whyRefused() string {
	isAllowed := j.cfg.CanAnswer(j.reply.Sender, j.reply.SenderEmail)
	switch {
	case !isAllowed && config.IsListed(j.cfg.AllowedUsers, j.reply.Sender, j.reply.SenderEmail):
		return wording.NotInPolicy
	case isAllowed && j.question.Kind.Traits().IsPersonal:
		return wording.NotApprover
	case len(j.cfg.AllowedUsers) == 0:
		return wording.NobodyAllowed
	}
	return ""
}

// asksToSendRest reports whether an approver wants Claude to have what did not reach it.
func (j *judgement) asksToSendRest() bool {
	isSend := strings.EqualFold(strings.Trim(j.text, " \t\n.!"), "send")
	canSend := j.question.AcceptsPrompts && j.question.UnsentAnswers() != ""
	return isSend && canSend && j.cfg.CanApprove(j.reply.Sender, j.reply.SenderEmail)
}

// rejectLate tells that the question takes no reply. A no still ends a yes for a while,
// and then its thread hears of that end instead.
func (j *judgement) rejectLate() {
	j.reply.Verdict = state.VerdictLate
	j.recordDenial()
	if j.question.LastDenialAt.IsZero() || !j.question.HasActiveGrant() {
		j.oweNote(state.NoteLate, "")
	}
}

// readDecline is how a reply turns the question down, with the words beside it; "" where
// it does not. Where another button was tapped, such words are an answer.
func (j *judgement) readDecline() (decline, remark string) {
	if j.question.Kind.Traits().IsPersonal {
		return "", ""
	}
	decline, remark = wording.ReadDecline(j.text, j.question)
	if j.reply.Choice != "" && j.reply.Choice != decline {
		return "", ""
	}
	return decline, remark
}

// applyText does what a reply says. What a person leaves to the terminal stays open
// there. In deny mode no dialog stands there: Claude is told.
func (j *judgement) applyText() {
	q := j.question
	decline, remark := j.readDecline()
	switch {
	case decline == "":
		j.applyAnswer()
		return
	case decline == wording.AskedForHelp:
		j.reply.Verdict = state.VerdictAskedHow
		j.oweNote(state.NoteUnclear, "")
		return
	case decline == state.DeclinedSkip && !q.Mode.Traits().HasMarker:
		j.reply.Verdict = state.VerdictUsed
		if q.IsDialogDrawn() {
			q.HandedOverAt = new(j.now.UTC())
			q.OweNote(state.NoteHandedOver, "")
		}
		q.MarkWantedInTerminal(j.now) // what is hidden is drawn when no key is under way
	default:
		setAnswer(q, j.reply, j.text, q.PartialAnswers, j.now)
	}
	q.Declined, q.DeclinedText = decline, remark
}

// applyAnswer has the question answered, or a part of it, or asks back.
func (j *judgement) applyAnswer() {
	text, grantTime := j.text, time.Duration(0)
	if j.allowsGrant() {
		grantTime = wording.ReadTimedYes(j.text)
	}
	if grantTime > 0 {
		text = "yes"
	}
	answers, noteAbout := j.readAnswer(text)
	if noteAbout != "" {
		hint := ""
		if noteAbout == state.NoteUnclear && !j.question.IsTerminalOnly && j.allowsGrant() {
			hint = wording.TimedYesHint
		}
		j.askBack(noteAbout, hint)
		return
	}
	if j.reply.HasAttachment {
		j.oweNote(state.NoteAttached, "")
	}
	if len(wording.Unanswered(j.question.SubQuestions, answers)) > 0 {
		j.reply.Verdict, j.question.PartialAnswers = state.VerdictKept, answers
		// also of one from the shell: the thread shows what is still missing
		j.question.OweNote(state.NoteKept, j.reply.MessageName)
		return
	}
	setAnswer(j.question, j.reply, j.text, answers, j.now)
	j.recordDenial()
	if grantTime > 0 {
		addGrant(j.question, grantTime, j.now)
	}
}

// allowsGrant reports whether a yes to the question may be for a while.
func (j *judgement) allowsGrant() bool {
	// its process, which alone the yes is for
	isKnown := j.question.ClaudePID > 1 && j.question.ClaudeStart != ""
	return j.cfg.AllowsTimedYes && j.question.Kind == state.KindPermission &&
		j.reply.Choice == "" &&
		isKnown
}

// readAnswer is what a tap or these words answer, with what was answered before; or the
// note that asks for another reply.
func (j *judgement) readAnswer(text string) (answers map[int]state.Answer, noteAbout string) {
	q, traits := j.question, j.question.Kind.Traits()
	switch {
	case j.reply.Choice != "":
		answers, _, noteAbout = wording.ReadTap(
			q,
			&wording.Tap{Choice: j.reply.Choice, Inputs: j.reply.Inputs},
		)
		if noteAbout == "" && len(answers) == 0 { // its card has no such button
			noteAbout = state.NoteUnclear
		}
		if noteAbout != "" {
			return nil, noteAbout
		}
		for i, a := range q.PartialAnswers {
			if answers[i].IsEmpty() {
				answers[i] = a
			}
		}
		return answers, ""
	case traits.IsPersonal: // what is unclear is asked back each time: nothing is guessed
		a, noteAbout := wording.ParseDecision(text, q)
		return map[int]state.Answer{0: a}, noteAbout
	}
	answers, noOption := wording.ParseReply(text, q.SubQuestions, q.PartialAnswers)
	if noOption != nil && !hasVerdict(q, state.VerdictAskedBack, "") {
		// the second such number is taken as the person's own words
		return nil, state.NoteUnclear
	}
	return answers, ""
}

// hasVerdict says whether a reply of that sender, "" for any, had that verdict.
func hasVerdict(q *state.Question, verdict state.Verdict, sender string) bool {
	return slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict == verdict && (sender == "" || r.Sender == sender)
	})
}

// setAnswer makes a reply the question's answer. Answers are keyed by the raw question
// text.
func setAnswer(
	q *state.Question,
	r *state.Reply,
	text string,
	answers map[int]state.Answer,
	now time.Time,
) {
	if q.MoveTo(state.Answered, now) != nil {
		r.Verdict = state.VerdictLate
		return
	}
	r.Verdict = state.VerdictUsed
	q.Answers, q.Notes, q.PartialAnswers = map[string]string{}, map[string]string{}, nil
	q.Declined, q.DeclinedText = "", ""
	for i, subQuestion := range q.SubQuestions {
		a := answers[i]
		q.Answers[subQuestion.Question] = a.Value()
		if a.Notes != "" {
			q.Notes[subQuestion.Question] = a.Notes
		}
	}
	q.Response, q.ResponseType = new(
		strings.TrimSpace(text),
	), new(
		wording.ResponseType(q.SubQuestions, answers),
	)
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
}

// CanAnswer decides who may answer. It fails closed: without names, no sender of Chat's
// may. A question is for the senders that the configuration names, and, since only the
// session's owner can write into the state folder, for a reply that was put there. Chat's
// API cannot say Local: gchat.Message has no sender that is not users/ID. What Claude may
// do, and what it does next, approvers say: those of now, and of when it was asked, where
// the list then had a name. No reply that came otherwise than through Chat says it.
func CanAnswer(cfg *config.Config, q *state.Question, r *state.Reply) bool {
	if !q.Kind.Traits().IsPersonal {
		return r.Sender == state.LocalSender || cfg.CanAnswer(r.Sender, r.SenderEmail)
	}
	couldThen := q.Approvers == nil || len(*q.Approvers) == 0 ||
		config.IsListed(*q.Approvers, r.Sender, r.SenderEmail)
	return couldThen && r.Sender != state.LocalSender && cfg.CanApprove(r.Sender, r.SenderEmail)
}

// addGrant notes the yes for a while that a permission was answered with, in the same
// write. It is given at a whole millisecond, as records have the times that it is
// compared with: a no of the same millisecond must not look earlier.
func addGrant(q *state.Question, duration time.Duration, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	q.Grant = &state.Grant{QuestionID: q.QuestionID, GrantedAt: at, EndsAt: at.Add(duration)}
	q.OweNote(state.NoteGranted, q.AnsweredMessage)
}

// recordDenial notes when a no was said, also one that comes too late to decide: it ends
// a yes for a while. A tap has the words of its button.
func (j *judgement) recordDenial() {
	if !j.question.Kind.Traits().Decides {
		return
	}
	a, _ := wording.ParseDecision(j.text, j.question)
	if len(a.Labels) == 1 && state.IsRefusal(a.Labels[0]) {
		j.question.LastDenialAt = j.now.UTC().Round(0)
	}
}

// IsGrantOver says whether the yes for a while that was given to a permission has ended
// for good: its time is up, its session began anew, or its person may decide no more.
func IsGrantOver(
	cfg *config.Config,
	granting *state.Question,
	session *state.Session,
	now time.Time,
) bool {
	grant, reply := granting.Grant, granting.FindReply(granting.AnsweredMessage)
	isRemoved := reply == nil ||
		!cfg.HasUnreadFile &&
			!(cfg.AllowsTimedYes && cfg.CanApprove(reply.Sender, reply.SenderEmail))
	return isRemoved || now.Before(grant.GrantedAt) || !now.Before(grant.EndsAt) ||
		session.StartedAt.After(grant.GrantedAt)
}

// ErrNotCovered says that a yes for a while does not cover a permission: it was given
// later, to another process, or by a person who was no approver then or could not say yes
// to this one.
var ErrNotCovered = errors.New("the yes for a while does not cover this")

// AnswerByGrant answers a permission by a yes for a while that is not over. The error is
// ErrNotCovered.
func AnswerByGrant(cfg *config.Config, q, granting *state.Question, now time.Time) error {
	RestrictChoices(cfg, q)
	reply, grant := *granting.FindReply(granting.AnsweredMessage), *granting.Grant
	a, unclear := wording.ParseDecision("yes", q)
	isSameProcess := q.ClaudePID > 1 && q.ClaudePID == granting.ClaudePID && q.ClaudeStart != "" &&
		q.ClaudeStart == granting.ClaudeStart
	if unclear != "" || !isSameProcess || cfg.HasUnreadFile || q.Kind != state.KindPermission ||
		!q.AskedAt.After(grant.GrantedAt) ||
		q.Approvers == nil ||
		!config.IsListed(*q.Approvers, reply.Sender, reply.SenderEmail) ||
		!q.IsAnswerable() {
		return ErrNotCovered
	}
	setAnswer(
		q,
		&reply,
		"yes, by the grant of "+granting.DescribeGrant(),
		map[int]state.Answer{0: a},
		now,
	)
	q.Grant = &grant
	return nil
}

// ApplyTimeoutPolicy does what the timeout policy of deny mode says. Nothing is chosen in
// the person's place where there may be a reply; what the person did answer stays.
func ApplyTimeoutPolicy(q *state.Question, hasUnread bool) {
	if q.TimeoutPolicy != state.TimeoutRecommended || hasUnread || !q.Mode.Traits().HasMarker {
		return
	}
	q.Answers = map[string]string{}
	for i, subQuestion := range q.SubQuestions {
		a := q.PartialAnswers[i]
		if a.IsEmpty() {
			a = recommendedAnswer(subQuestion)
		}
		if !a.IsEmpty() {
			q.Answers[subQuestion.Question] = a.Value()
		}
	}
	q.ResolvedBy = "policy"
}

// recommendedAnswer is the answer that Claude itself recommends: the options that say so,
// else the first. A question with a single choice gets one.
func recommendedAnswer(subQuestion state.SubQuestion) (a state.Answer) {
	for _, o := range subQuestion.Options {
		text := strings.ToLower(o.Label + " " + o.Description)
		isRecommended := strings.Contains(text, "(recommended)") ||
			strings.Contains(text, "[recommended]")
		if isRecommended && (subQuestion.MultiSelect || a.IsEmpty()) {
			a.Labels = append(a.Labels, o.Label)
		}
	}
	if len(a.Labels) == 0 && len(subQuestion.Options) > 0 {
		a.Labels = []string{subQuestion.Options[0].Label}
	}
	return a
}
