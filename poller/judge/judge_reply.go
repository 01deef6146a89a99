// Package judge decides who may answer a question, and what a reply means. It reads and
// writes no files.
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

// PostTimeSlack is how much older than its question a reply may seem. The question's
// time may come from the HTTP response, which has whole seconds.
const PostTimeSlack = 2 * time.Second

// ShellReplyPrefix begins the names of replies from the command `gchat-hooks answer`.
// That command tells its user what happened to the reply.
const ShellReplyPrefix = "shell/"

// IsFromShell reports whether a reply was given with `gchat-hooks answer`.
func IsFromShell(r *state.Reply) bool {
	return r.Sender == state.LocalSender && strings.HasPrefix(r.MessageName, ShellReplyPrefix)
}

// RestrictChoices limits what a reply to a permission or a plan can choose, by the
// question's record and the person's configuration.
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
		// The question's permission rules were not checked against this never_remote
		// list.
		offered := slices.Clone(q.SubQuestions[0].Options)
		q.SubQuestions[0].Options = slices.DeleteFunc(offered, func(o state.Option) bool {
			return o.Label == state.LabelAlways || o.Label == state.LabelApproveAuto
		})
	}
}

// judgement is one reply to a question, and what it is judged by.
type judgement struct {
	cfg      *config.Config
	question *state.Question
	reply    *state.Reply
	text     string // the reply's text, made safe for Claude
	// files are the lines about the reply's files, which its meaning does not depend on
	files string
	now   time.Time
}

// JudgeReply gives a reply its verdict, changes the question accordingly, and adds the
// notes that the thread is owed. The first case that holds decides: first when and by
// whom the reply was written, then whether the question still takes a reply, and only
// then what the reply says.
func JudgeReply(cfg *config.Config, q *state.Question, r *state.Reply, now time.Time) {
	j := &judgement{
		cfg: cfg, question: q, reply: r, now: now,
		text:  state.Clean(state.ForAgent, r.Text),
		files: state.FileLines(r.Files),
	}
	if j.isBlank() && !q.Kind.Traits().AsksForValues {
		j.text, j.files = j.files, ""
	}
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
			j.oweNote(state.NoteNoText, state.FileProblems(r.Files))
		}
	case r.IsUnsure:
		j.askBack(state.NoteUnclear, wording.WhichQuestionText)
	case !q.Mode.Traits().Asks:
		setAnswer(q, r, j.textWithFiles(), nil, now)
	case r.Choice == "" && wording.AsksForTerminal(q, j.text):
		r.Verdict = state.VerdictIgnored // the note that the question is in the terminal suffices
		// The dialog is hidden, and this may be the second such reply.
		q.MarkWantedInTerminal(now)
	default:
		j.applyText()
	}
}

// oweNote adds a note about the reply to what the thread is owed. A reply from the
// shell gets none: `gchat-hooks answer` prints the result.
func (j *judgement) oweNote(about, text string) {
	if IsFromShell(j.reply) {
		return
	}
	j.question.OwedNotes = append(j.question.OwedNotes, state.OwedNote{
		About:        about,
		ReplyMessage: j.reply.MessageName,
		Text:         text,
	})
}

// askBack asks the person to reply again.
func (j *judgement) askBack(about, text string) {
	j.reply.Verdict = state.VerdictAskedBack
	j.oweNote(about, text)
}

func (j *judgement) isBlank() bool { return strings.TrimSpace(j.text) == "" }

// isEarly reports whether the reply was written in Chat before its question was posted.
// A prompt is never early: a session takes messages at any time.
func (j *judgement) isEarly() bool {
	postedAt, isFromChat := j.question.PostedAt, j.reply.Sender != state.LocalSender
	return postedAt != nil && isFromChat && !j.question.Kind.Traits().IsPrompt &&
		j.reply.CreatedAt.Before(postedAt.Add(-PostTimeSlack))
}

// rejectEarly ignores an early reply. For a permission or a plan it asks again: the
// person may have seen only the first of several messages that the question was posted
// in.
func (j *judgement) rejectEarly() {
	j.reply.Verdict = state.VerdictIgnored
	isDecision := j.question.Kind.Traits().Decides && j.question.IsAnswerable()
	if isDecision && CanAnswer(j.cfg, j.question, j.reply) {
		j.askBack(state.NoteUnclear, wording.TooEarlyHint)
	}
}

// refuse rejects a reply whose sender may not answer. Each sender gets one note.
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

// whyRefused returns the reason for the note about a refused reply, or "" if the sender
// is on no list.
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

// asksToSendRest reports whether an approver replied "send" so that Claude gets an
// answer that did not reach it.
func (j *judgement) asksToSendRest() bool {
	isSend := strings.EqualFold(strings.Trim(j.text, " \t\n.!"), "send")
	canSend := j.question.AcceptsPrompts && j.question.UnsentAnswers() != ""
	return isSend && canSend && j.cfg.CanApprove(j.reply.Sender, j.reply.SenderEmail)
}

// rejectLate rejects a reply to a question that takes none. A no still ends a yes for a
// while; the thread then gets the note about that end instead.
func (j *judgement) rejectLate() {
	j.reply.Verdict = state.VerdictLate
	j.recordDenial()
	if j.question.LastDenialAt.IsZero() || !j.question.HasActiveGrant() {
		j.oweNote(state.NoteLate, "")
	}
}

// readDecline returns how a reply declines the question, and the remark with it.
// decline is "" if the reply does not decline. After a tap on another button, words
// that decline are part of the answer.
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

// applyText does what a reply says. A question that a person leaves to the terminal
// stays open there. In deny mode there is no dialog in the terminal, so Claude is told
// instead.
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
		q.MarkWantedInTerminal(j.now) // a hidden dialog is drawn when nobody is typing
	default:
		setAnswer(q, j.reply, j.textWithFiles(), q.PartialAnswers, j.now)
		remark = strings.TrimSpace(remark + "\n" + j.files)
	}
	j.oweFilesNote(false)
	q.Declined, q.DeclinedText = decline, remark
}

// applyAnswer answers the question, or a part of it, or asks the person to reply again.
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
	j.oweFilesNote(!j.addFiles(answers))
	if len(wording.Unanswered(j.question.SubQuestions, answers)) > 0 {
		j.reply.Verdict, j.question.PartialAnswers = state.VerdictKept, answers
		// A reply from the shell gets this note, too: the thread shows what is still
		// missing.
		j.question.OweNote(state.NoteKept, j.reply.MessageName)
		return
	}
	setAnswer(j.question, j.reply, j.textWithFiles(), answers, j.now)
	j.recordDenial()
	if grantTime > 0 {
		addGrant(j.question, grantTime, j.now)
	}
}

// textWithFiles returns the reply's text with the lines about its files.
func (j *judgement) textWithFiles() string { return strings.TrimSpace(j.text + "\n" + j.files) }

// addFiles adds the lines about the reply's files to the first answer that the reply
// gives. It reports whether Claude is told of them: a yes and a form's values have no
// place for them.
func (j *judgement) addFiles(answers map[int]state.Answer) (isTold bool) {
	if j.files == "" {
		return true
	}
	traits := j.question.Kind.Traits()
	for i := range j.question.SubQuestions {
		a, hasAnswer := answers[i]
		earlier, wasAnswered := j.question.PartialAnswers[i]
		isSame := wasAnswered && a.Value() == earlier.Value() && a.Notes == earlier.Notes
		isYes := traits.Decides && !(len(a.Labels) == 1 && state.IsRefusal(a.Labels[0]))
		if !hasAnswer || isSame || isYes || traits.AsksForValues {
			continue
		}
		if len(a.Labels) == 0 {
			a.Text = strings.TrimSpace(a.Text + "\n" + j.files)
		} else {
			a.Notes = strings.TrimSpace(a.Notes + "\n" + j.files)
		}
		answers[i] = a
		return true
	}
	return false
}

// oweFilesNote owes the note about files that Claude is not told of. isLost says that
// this is so for the files that were fetched, too.
func (j *judgement) oweFilesNote(isLost bool) {
	problem := state.FileProblems(j.reply.Files)
	switch {
	case isLost:
		j.oweNote(state.NoteAttached, "files go only with words for Claude: "+
			"a no, an answer, or a message in the session's thread")
	case problem != "", j.reply.HasAttachment && len(j.reply.Files) == 0:
		j.oweNote(state.NoteAttached, problem)
	}
}

// allowsGrant reports whether a yes to the question can be a yes for a while.
func (j *judgement) allowsGrant() bool {
	// The yes covers only this Claude Code process, so the process must be known.
	isProcessKnown := j.question.ClaudePID > 1 && j.question.ClaudeStart != ""
	return j.cfg.AllowsTimedYes && isProcessKnown &&
		j.question.Kind == state.KindPermission && j.reply.Choice == ""
}

// readAnswer returns the answers that a tap or a text gives, together with the earlier
// partial answers. If it cannot read them, it returns which note asks for another
// reply.
func (j *judgement) readAnswer(text string) (answers map[int]state.Answer, noteAbout string) {
	q, traits := j.question, j.question.Kind.Traits()
	switch {
	case j.reply.Choice != "":
		tap := &wording.Tap{Choice: j.reply.Choice, Inputs: j.reply.Inputs}
		answers, _, noteAbout = wording.ReadTap(q, tap)
		if noteAbout == "" && len(answers) == 0 { // the card has no such button
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
	case traits.IsPersonal: // never guess: ask back each time
		a, noteAbout := wording.ParseDecision(text, q)
		return map[int]state.Answer{0: a}, noteAbout
	}
	answers, noOption := wording.ParseReply(text, q.SubQuestions, q.PartialAnswers)
	if noOption != nil && !hasVerdict(q, state.VerdictAskedBack, "") {
		// A second number that is no option counts as the person's own text.
		return nil, state.NoteUnclear
	}
	return answers, ""
}

// hasVerdict reports whether a reply of that sender has that verdict. The sender ""
// means any.
func hasVerdict(q *state.Question, verdict state.Verdict, sender string) bool {
	return slices.ContainsFunc(q.Replies, func(r state.Reply) bool {
		return r.Verdict == verdict && (sender == "" || r.Sender == sender)
	})
}

// setAnswer makes a reply the question's answer. The answers are keyed by the raw text
// of the sub-question.
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
	q.Response = new(strings.TrimSpace(text))
	q.ResponseType = new(wording.ResponseType(q.SubQuestions, answers))
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
}

// CanAnswer decides whether the sender of a reply may answer. It fails closed: without
// configured names, nobody in Chat may.
//
// Other questions can be answered by the senders that the configuration names, and by a
// reply file, since only the session's owner can write into the state folder. Chat
// cannot forge LocalSender: a gchat.Message has no sender that is not users/ID.
//
// What Claude may do and what it does next (a personal question) is for approvers
// alone. The sender must be an approver at this time, and must have been one when it
// was asked, if the list had a name then. Only a reply through Chat counts.
func CanAnswer(cfg *config.Config, q *state.Question, r *state.Reply) bool {
	if !q.Kind.Traits().IsPersonal {
		return r.Sender == state.LocalSender || cfg.CanAnswer(r.Sender, r.SenderEmail)
	}
	wasApprover := q.Approvers == nil || len(*q.Approvers) == 0 ||
		config.IsListed(*q.Approvers, r.Sender, r.SenderEmail)
	return wasApprover && r.Sender != state.LocalSender && cfg.CanApprove(r.Sender, r.SenderEmail)
}

// addGrant adds the yes for a while that a permission was answered with, in the write
// of that answer. Its time is a whole millisecond, like the times in records that it is
// compared with: a no in the same millisecond must not look earlier.
func addGrant(q *state.Question, duration time.Duration, now time.Time) {
	at := now.UTC().Truncate(time.Millisecond)
	q.Grant = &state.Grant{QuestionID: q.QuestionID, GrantedAt: at, EndsAt: at.Add(duration)}
	q.OweNote(state.NoteGranted, q.AnsweredMessage)
}

// recordDenial records when a person said no, even too late to decide the question: a
// no ends a yes for a while. A tap has its button's text.
func (j *judgement) recordDenial() {
	if !j.question.Kind.Traits().Decides {
		return
	}
	a, _ := wording.ParseDecision(j.text, j.question)
	if len(a.Labels) == 1 && state.IsRefusal(a.Labels[0]) {
		j.question.LastDenialAt = j.now.UTC().Round(0)
	}
}

// IsGrantOver reports whether a yes for a while has ended for good: its time is up, its
// session started again, or the person who gave it has lost the right to decide.
func IsGrantOver(
	cfg *config.Config,
	granting *state.Question,
	session *state.Session,
	now time.Time,
) bool {
	grant, reply := granting.Grant, granting.FindReply(granting.AnsweredMessage)
	mayGrant := func() bool {
		return cfg.AllowsTimedYes && cfg.CanApprove(reply.Sender, reply.SenderEmail)
	}
	isRemoved := reply == nil || !cfg.HasUnreadFile && !mayGrant()
	isOutOfTime := now.Before(grant.GrantedAt) || !now.Before(grant.EndsAt)
	return isRemoved || isOutOfTime || session.StartedAt.After(grant.GrantedAt)
}

// ErrNotCovered means that a yes for a while does not cover a permission. The yes was
// given after the permission was asked or to another process, or the person was no
// approver at that time or could not say yes to this permission.
var ErrNotCovered = errors.New("the yes for a while does not cover this")

// AnswerByGrant answers a permission by a yes for a while that is not over. It fails
// with ErrNotCovered.
func AnswerByGrant(cfg *config.Config, q, granting *state.Question, now time.Time) error {
	RestrictChoices(cfg, q)
	reply, grant := *granting.FindReply(granting.AnsweredMessage), *granting.Grant
	a, unclear := wording.ParseDecision("yes", q)
	isSameProcess := q.ClaudePID > 1 && q.ClaudePID == granting.ClaudePID && q.ClaudeStart != "" &&
		q.ClaudeStart == granting.ClaudeStart
	isCovered := q.Kind == state.KindPermission && q.IsAnswerable() && isSameProcess &&
		q.AskedAt.After(grant.GrantedAt)
	wasApprover := q.Approvers != nil &&
		config.IsListed(*q.Approvers, reply.Sender, reply.SenderEmail)
	if !isCovered || !wasApprover || unclear != "" || cfg.HasUnreadFile {
		return ErrNotCovered
	}
	text := "yes, by the grant of " + granting.DescribeGrant()
	setAnswer(q, &reply, text, map[int]state.Answer{0: a}, now)
	q.Grant = &grant
	return nil
}

// ApplyTimeoutPolicy applies the timeout policy of deny mode. It chooses nothing for
// the person while a reply may be unread. What the person did answer stays.
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

// recommendedAnswer returns the answer that Claude recommends: the options that say so,
// else the first option. A question with a single choice gets one option.
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
