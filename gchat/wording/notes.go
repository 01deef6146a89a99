package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// fixedNotes holds the notes that have the same text for every question.
var fixedNotes = map[string]string{
	state.NoteSendUnsent: "[Kept] Claude gets your answer with the next instruction.",
	state.NoteNoWaiter: "[Not read] Please answer in the terminal. " +
		"No hook waits for a reply to this question.",
	state.NoteDryRun: "[Not used] The poller runs with --dry-run: nothing is typed. " +
		"Reply again after the dry run.",
}

// noteWriters holds the functions that write the other notes. They return "" if there is
// nothing to say.
var noteWriters = map[string]func(q *state.Question, owed state.OwedNote) string{
	state.NoteClosed: func(q *state.Question, _ state.OwedNote) string {
		return closingText(q)
	},
	state.NoteHandedOver: func(q *state.Question, _ state.OwedNote) string {
		return handedOverText(q)
	},
	state.NoteFullText: func(q *state.Question, _ state.OwedNote) string {
		return unclearText(q, nil)
	},
	state.NoteGranted: func(q *state.Question, _ state.OwedNote) string {
		return GrantText(q, nil, false)
	},
	state.NoteReminder: func(q *state.Question, owed state.OwedNote) string {
		return "[Reminder] " + safeField(q.SessionName) + "\n\nStill open after " + owed.Text +
			": " + shortDescription(q)
	},
	state.NoteUnread: func(_ *state.Question, owed state.OwedNote) string {
		return "[Not read] Please answer in the terminal. Replies here cannot be read yet: " +
			safeClause(owed.Text) + "."
	},
	state.NoteNoText: func(_ *state.Question, owed state.OwedNote) string {
		return noTextText + unreadFilesText(owed)
	},
	state.NoteAttached: func(_ *state.Question, owed state.OwedNote) string {
		if owed.Text == "" {
			return "[Words only] The attachment was not read. Claude gets only the text."
		}
		return "[Words only] Claude gets your words." + unreadFilesText(owed)
	},
	state.NoteSent:      sentText,
	state.NoteRefused:   refusedText,
	state.NoteLate:      lateText,
	state.NoteUnclear:   askedBackText,
	state.NoteKept:      keptText,
	state.NoteLater:     laterText,
	state.NoteStillKept: stillKeptText,
	state.NoteNotTyped:  notTypedText,
}

// NoteTexts returns the messages of a note for a question's thread; mostly that is one.
// It returns none if there is nothing to say. Foreign text in them is neutral: it has no
// effect in Chat.
func NoteTexts(q *state.Question, owed state.OwedNote) []string {
	if owed.About == state.NoteFullText && q.ShownText != "" {
		return splitMessage("[More] "+toolCallText(q), "\n", codeBlock(q.ShownText), MaxText)
	}
	text := fixedNotes[owed.About]
	if write := noteWriters[owed.About]; write != nil {
		text = write(q, owed)
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

const noTextText = "[Not used] There is no text in that message, and no choice. " +
	"Please reply in words, or choose an option."

// unreadFilesText says which attached files were not read, and why; "" for none.
func unreadFilesText(owed state.OwedNote) string {
	if owed.Text == "" {
		return ""
	}
	return " Not read: " + safeClause(owed.Text) + "."
}

// UnfetchedText is the note for a message of files alone, none of which was fetched.
func UnfetchedText(problems string) string {
	return "[Not used] There are no words in that message." +
		unreadFilesText(state.OwedNote{Text: problems})
}

// sentText says that Claude Code was given the answer, and has not confirmed it yet.
func sentText(q *state.Question, _ state.OwedNote) string {
	if q.Kind.Traits().IsPrompt || q.Declined != "" {
		return "[Sent] Sent to Claude."
	}
	return "[Sent] Sent to Claude: " + answersLine(q) + "."
}

// laterText says when Claude reads a reply if no hook waits for it.
func laterText(q *state.Question, _ state.OwedNote) string {
	if q.Kind.Traits().IsPrompt {
		return "[Kept] The session does not run in tmux, so Claude gets this when its turn ends. " +
			"If Claude is idle, type any prompt in the terminal: your message follows."
	}
	return "[Kept] Claude reads your reply with its next step. " +
		"A session that has ended reads it when it is resumed."
}

// GrantText says until when a yes such as "yes 30m" allows permissions, or, if isOver,
// that it has ended. Below, it lists the permissions that the yes allowed, newest first.
// In allowed, the oldest is first.
func GrantText(q *state.Question, allowed []*state.Question, isOver bool) string {
	session, grant := safeField(q.SessionName), safeField(q.DescribeGrant())
	text := "[Allowed] " + session + "\n\nPermissions of this session are allowed by " + grant +
		" (two hours at most), except plans and what only the terminal can allow. " +
		"To end it, reply no here, or write /ask in the session's thread."
	if isOver {
		text = "[Asks again] " + session + "\n\nThe yes of " + grant + " has ended."
	}
	for _, q := range slices.Backward(allowed) {
		text += "\n• " + shortDescription(q)
	}
	return Cut(text, MaxText) // the audit log has the complete list
}

// The values of OwedNote.Text for a NoteRefused: why the reply is refused. With "", the
// person is not among the allowed users.
const (
	NobodyAllowed = "nobody"    // the list of allowed users is empty
	NotApprover   = "approvers" // the person may answer questions, but no permissions and plans
	NotInPolicy   = "policy"    // a policy does not allow the person to answer
)

// TooEarlyHint is the OwedNote.Text of a NoteUnclear about a reply that was written when
// only some of a plan's messages were in the thread.
const TooEarlyHint = "You wrote that before the whole question was here."

// WhichQuestionText is the OwedNote.Text of a NoteUnclear about a reply that may be for
// another question in its thread. It is the whole text of the note.
const WhichQuestionText = "[Not used] Several questions wait in this thread. " +
	"Quote the message that you answer."

// TimedYesHint is the OwedNote.Text of a NoteUnclear if a yes may be given for a while.
const TimedYesHint = `"yes 30m" allows for a while.`

// NobodyWaitsText returns the note about a message in the thread of a session's reports
// if no process waits for a reply there. isRunning says that the session has not ended.
func NobodyWaitsText(s *state.Session, isRunning bool) string {
	if !isRunning {
		return "[Not read] This session has ended. " + resumeText(s) + "."
	}
	if s.AcceptsCommands {
		return "[Not read] Claude did not get this. Answer a question in its own thread. " +
			"Write /help to see what works in this thread."
	}
	text := "[Not read] This session is not waiting for a reply. To write to it, use its terminal"
	if s.TmuxSession != "" {
		text += " (tmux session " + safeClause(s.TmuxSession) + ")"
	}
	return text + "."
}

// DialogOverText follows a report about a dialog in the terminal, once that dialog is
// closed.
const DialogOverText = "[Gone on] The terminal no longer waits for this."

// WatchOverText takes the place of what a watched session did, once the turn is over.
const WatchOverText = "[Watch] Claude's turn is over."

// UnservedText is the note about a message for another environment if no poller runs in
// that environment.
const UnservedText = "[Not read] Claude did not get this: the gchat-hooks that serves this " +
	"thread is not running, or its machine sleeps. Please answer in the terminal, or write " +
	"again once that session is active again."

// DialogOpenText is the note about a reply to a dialog in the terminal that Chat cannot
// answer.
const DialogOpenText = "[Not used] Only the terminal can answer this. Please answer it there."

// SessionReplacedText returns the note about a message to a session if its Claude Code
// now runs another session.
func SessionReplacedText(s *state.Session) string {
	return "[Not read] Another session now runs in that terminal. " + resumeText(s) + "."
}

// resumeText returns the command that continues a session: with its ID, in its project's
// folder.
func resumeText(s *state.Session) string {
	return "To continue it: `" + safeClause(state.ResumeCommand(s.ProjectDir, s.ID)) + "`"
}

// WithResumeHint returns why a session was not started, and the command with which the
// person can continue it in a terminal. The command is left out if there is no transcript
// to continue from.
func WithResumeHint(s *state.Session, why string) string {
	if s.TranscriptPath == "" {
		return why
	}
	return why + ". " + resumeText(s)
}

// NotStartedText returns the note that says why the session that a person wrote to was
// not started.
func NotStartedText(why string) string {
	return "[Not started] " + strings.ToUpper(why[:1]) + why[1:] + "."
}

// StartedText returns the note that says where a session runs that was started for a
// person's message.
func StartedText(s *state.Session) string {
	socket := safeClause(state.QuoteForShell(s.TmuxSocket))
	session := safeClause(state.QuoteForShell(s.TmuxSession))
	return "[Started] It runs in tmux: `tmux -S " + socket + " attach -t " + session +
		"`. Your message is typed when it is ready."
}

// IsNewCommand reports whether a text is a /new command, which starts a session.
func IsNewCommand(text string) bool {
	fields := strings.Fields(text)
	return len(fields) > 0 && strings.EqualFold(fields[0], "/new")
}

// IsSessionsCommand reports whether a text is /sessions, which lists the sessions.
func IsSessionsCommand(text string) bool {
	fields := strings.Fields(text)
	return len(fields) > 0 && strings.EqualFold(fields[0], "/sessions")
}

// NameMachineText returns the note that asks on which machine to start a new session. It
// is needed because several machines may receive the message.
func NameMachineText() string {
	machine := safeField(state.MachineName())
	return "[Not used] Start with the name of a machine: `/new " + machine + " PROJECT words`."
}

// NewSessionText returns the first message in the thread of a session that a person
// started with text.
func NewSessionText(s *state.Session, text string) string {
	return "[New session] " + safeField(s.Name) + " on " + safeField(state.MachineName()) + "\n\n" +
		neutralise(Cut(text, maxCardText))
}

// closingText says how a question ended. It returns "" while the question is open, and if
// another question of its session replaced it.
func closingText(q *state.Question) string {
	if q.Status.IsOpen() || q.ResolvedBy == state.EndedReplaced {
		return ""
	}
	return wordingOf(q.Kind).closingText(q)
}

func decisionClosingText(q *state.Question) string {
	if q.Status != state.Resolved {
		return "[Cancelled] " + safeField(q.SessionName) + "\n\n" + shortDescription(q) + "\n\n" +
			closeReason(q)
	}
	return decidedText(q)
}

func questionClosingText(q *state.Question) string {
	switch {
	case q.Status == state.TimedOut, q.ResolvedBy == state.EndedAway:
		return timedOutText(q)
	case q.Status != state.Resolved:
		return listQuestions("[Cancelled] ", q, closeReason(q), noLines)
	case q.Declined != "" && q.ResolvedBy != "terminal":
		return listQuestions("[Cancelled] ", q, declinedText(q), noLines)
	}
	return answeredText(q)
}

// handedOverText says that only the terminal can answer an open question. It returns ""
// for any other question.
func handedOverText(q *state.Question) string {
	if q.HandedOverAt == nil || !q.Status.IsOpen() {
		return ""
	}
	text := "[In the terminal] " + safeField(q.SessionName) + "\n\n" + shortDescription(q) +
		"\n\n" + inTerminalText(q)
	if len(q.PartialAnswers) > 0 || q.DeclinedText != "" {
		text += " Your answer here is not used."
	}
	return text
}

// inTerminalText says since when only the terminal can answer a question.
func inTerminalText(q *state.Question) string {
	if q.UnsupportedClaude != "" {
		return "Claude Code " + SafeLine(q.UnsupportedClaude) + " does not take this answer from " +
			"here: answer it in the terminal. gchat-hooks doctor says more."
	}
	return "In the terminal since " + q.HandedOverAt.Local().Format("15:04") + ": answer it there."
}

// declinedText says what Claude was told about a question that a person turned down.
func declinedText(q *state.Question) string {
	switch {
	case q.Declined == state.DeclinedSkip:
		return "Claude was told that you skipped it."
	case q.Typing != nil && !q.IsPrinted && q.DeclinedText != "":
		return "Chosen in the terminal: \"Chat about this\". " +
			"That choice takes no text, so Claude did not get your words."
	}
	return "Claude was told that you want to talk about it first."
}

func nextClosingText(q *state.Question) string {
	answerText, outcome := q.Decision()
	switch {
	case q.Status == state.Resolved && q.HasSentNote:
		return ""
	case q.Status == state.Resolved && strings.HasPrefix(answerText, "/"):
		return strings.TrimSpace("[Sent] " + safeClause(answerText) + ". " + SafeLine(outcome))
	case q.Status == state.Resolved && q.Typing != nil && q.Typing.LastKey == state.KeyQueued:
		return "[Sent] Queued. Claude reads it after this step."
	case q.Status == state.Resolved:
		return "[Sent] Sent to Claude."
	case q.ResolvedBy == "prompt" && q.AnsweredMessage == "":
		return "[Answered] " + safeField(q.SessionName) + "\n\nYou went on in the terminal."
	}
	return "[Cancelled] " + safeField(q.SessionName) + "\n\n" + closeReason(q)
}

// listQuestions returns a note that lists all subquestions. linesFor returns the lines
// below the subquestion with that index. The note ends with ending, unless that is "".
func listQuestions(
	prefix string,
	q *state.Question,
	ending string,
	linesFor func(index int) []string,
) string {
	lines := []string{prefix + safeField(q.SessionName)}
	for i, subQuestion := range q.SubQuestions {
		lines = append(lines, "", "Question: "+safeQuote(subQuestion.Question))
		lines = append(lines, linesFor(i)...)
	}
	if ending != "" {
		lines = append(lines, "", ending)
	}
	text := strings.Join(lines, "\n")
	if limit := MaxText - len("‹"); len(text) > limit {
		text = neutralise(Cut(text, limit))
	}
	return text
}

// noLines is a linesFor for listQuestions that adds no lines.
func noLines(int) []string { return nil }

// safeQuote makes foreign text of several lines safe for a note. It keeps enough of the
// text to recognise it.
func safeQuote(text string) string { return SafeBlock(Truncate(text, 2000)) }

func answeredText(q *state.Question) string {
	return listQuestions("[Answered] ", q, answeredWhereText(q), func(i int) (lines []string) {
		subQuestion := q.SubQuestions[i]
		answer := ParseAnswerValue(subQuestion, q.Answers[subQuestion.Question])
		if len(answer.Labels) > 0 {
			lines = append(lines, "Selected: "+SafeLine(strings.Join(answer.Labels, ", ")))
		} else if answer.Text == "" {
			lines = append(lines, "Selected: (nothing)")
		}
		if answer.Text != "" {
			ownText := neutraliseLastAngle(safeQuote(answer.Text))
			lines = append(lines, `Custom response: "`+ownText+`"`)
		}
		if notes := q.Notes[subQuestion.Question]; notes != "" {
			lines = append(lines, "Note: "+safeQuote(notes))
		}
		return lines
	})
}

// timedOutText says what happens after no reply came in time. For each subquestion it
// shows the person's answer, or what the timeout policy or the terminal chose instead.
func timedOutText(q *state.Question) string {
	outcome := "Nobody replied in time. Claude goes on without an answer; a reply still reaches it."
	chosenPrefix := "Chosen by the timeout policy, not by you: "
	switch {
	case q.ResolvedBy == state.EndedAway:
		outcome, chosenPrefix = awayText(q), "Selected in the terminal: "
	case q.ResolvedBy == "policy":
		outcome = "Nobody replied in time."
	case q.TimeoutPolicy == state.TimeoutAskTerminal:
		outcome = "Nobody replied in time. Claude is told to ask again, in the terminal."
	}
	return listQuestions("[Timeout] ", q, outcome, func(i int) []string {
		subQuestion := q.SubQuestions[i]
		if earlier := q.PartialAnswers[i]; !earlier.IsEmpty() {
			earlierText := strings.ReplaceAll(earlier.Value(), "\n", ", ")
			return []string{"Your answer: " + SafeLine(earlierText)}
		}
		chosen := ParseAnswerValue(subQuestion, q.Answers[subQuestion.Question])
		if len(chosen.Labels) > 0 {
			return []string{chosenPrefix + SafeLine(strings.Join(chosen.Labels, ", "))}
		}
		return nil
	})
}

// awayText says that Claude Code went on by itself, and what happens to the answers that
// the person had given so far.
func awayText(q *state.Question) string {
	text := "Claude Code went on without an answer."
	if q.AwayAfter > 0 {
		text = fmt.Sprintf("Claude Code went on after %.0f s", q.AwayAfter.Seconds()) +
			" without an answer."
	}
	switch {
	case q.AnsweredMessage != "":
		text += " Your reply did not reach Claude."
	case q.UnsentAnswers() != "" && q.AcceptsPrompts:
		text += " Your answer did not reach Claude. " +
			`Reply "send": Claude gets it with the next instruction.`
	case q.UnsentAnswers() != "":
		text += " Your answer did not reach Claude."
	}
	return text
}

// answersLine returns the answers to all subquestions in one line.
func answersLine(q *state.Question) string {
	var values []string
	for _, subQuestion := range q.SubQuestions {
		values = append(values, cmp.Or(safeClause(q.Answers[subQuestion.Question]), "(nothing)"))
	}
	return Cut(strings.Join(values, "; "), 1000)
}

// answeredWhereText says where a question was answered, or returns "" if that was in
// Chat.
func answeredWhereText(q *state.Question) string {
	switch {
	case q.ResolvedBy == "terminal" && q.AnsweredMessage != "":
		return "Answered in the terminal; the reply in this thread did not count."
	case q.ResolvedBy == "terminal":
		return "Answered in the terminal."
	case q.AnsweredBy == state.LocalSender:
		return "Answered " + placeOutsideChat(q.AnsweredMessage) + "."
	}
	return ""
}

// placeOutsideChat says where a reply came from that is no message in Chat: from the
// command, or from a file that another program wrote. It names no person, since Claude
// can run the command, too.
func placeOutsideChat(message string) string {
	if strings.HasPrefix(message, "local/") {
		return "in a file"
	}
	return "with gchat-hooks answer"
}

var closeReasons = map[string]string{
	state.EndedDismissed: "Dismissed in the terminal.",
	"stop":               "Closed in the terminal without choosing an answer.",
	"prompt":             "Closed in the terminal: a new prompt was given.",
	state.EndedUnseen: "Claude went on, or was interrupted. " +
		"Whether this was allowed in the terminal is not known.",
	"session_end": "The session ended.",
	"cleared":     "The conversation was cleared.",
	"unposted": "Claude Code runs without a terminal, and went on: " +
		"this was not in the thread in time.",
	"claude_gone": "The session is gone: Claude Code has ended.",
	"tmux_gone":   "The session is gone: its tmux session has ended.",
	"screen":      "The question is no longer on the session's screen.",
	"not_typed":   "Your instruction was typed three times, but Claude did not accept it.",
	"agent_end":   "The agent that asked has ended.",
	"superseded":  "Another session now runs in its terminal.",
	"age":         "24 hours have passed.",
	state.EndedDialogGone: "Its dialog in the terminal is closed. " +
		"No hook reported what was answered there. " +
		"After an update of the plugin, run /reload-plugins in that terminal.",
	state.EndedAway: "Claude Code went on without an answer.",
}

func closeReason(q *state.Question) string {
	why := cmp.Or(closeReasons[q.ResolvedBy], "It was closed.")
	if q.HasUnreadReply() || q.AnsweredMessage != "" && !q.IsPrinted {
		why += " Your reply came too late to reach Claude."
	}
	return why
}

// refusedText is the note about a reply of a person who may not answer. It names the
// configuration file first: the poller reads that again, while the environment of a
// running session does not change.
func refusedText(q *state.Question, owed state.OwedNote) string {
	r := q.FindReply(owed.ReplyMessage)
	if r == nil {
		return ""
	}
	who := cmp.Or(safeClause(r.DisplayName), "You")
	why, setting := who+" may not answer.", "allowed_users"
	afterwards := ", or to GCHAT_ALLOWED_USERS before the session starts, and reply again."
	switch owed.Text {
	case NotInPolicy:
		return "[Not used] " + who +
			" may not answer: a policy of this machine, or of its hub, does not allow it."
	case NobodyAllowed:
		why = "Nobody may answer yet."
	case NotApprover:
		why, setting = who+" may not answer this: only approvers may.", "approvers"
		afterwards = ". It counts for what Claude asks next."
	}
	return "[Not used] " + why + ` To change that, add "` + safeClause(r.Sender) + `" to "` +
		setting + `" in ~/.config/gchat-hooks/config.json` + afterwards
}

func lateText(q *state.Question, _ state.OwedNote) string {
	switch {
	case q.HandedOverAt != nil && q.Status.IsOpen():
		return "[Not used] " + inTerminalText(q)
	case q.Declined != "" && q.AnsweredMessage != "" && q.ResolvedBy != "terminal":
		return "[Not used] This question was already turned down."
	case q.Status == state.Answered || q.Status == state.Resolved:
		return "[Not used] This question was already answered."
	case q.Status == state.TimedOut:
		return "[Not used] Nobody replied in time. The terminal shows what happened next."
	}
	return "[Not used] This question is over. " + closeReason(q)
}

// askedBackText is the note about a reply that the person has to write again.
func askedBackText(q *state.Question, owed state.OwedNote) string {
	if owed.Text == WhichQuestionText {
		return WhichQuestionText
	}
	return strings.TrimSpace(unclearText(q, q.FindReply(owed.ReplyMessage)) + " " + owed.Text)
}

// unclearText is the note about a reply that is no valid answer, such as a number without
// an option.
func unclearText(q *state.Question, r *state.Reply) string {
	return wordingOf(q.Kind).unclearText(q, r)
}

func decisionUnclearText(q *state.Question, _ *state.Reply) string {
	return "[Not used] That is not a yes or a no. " + HowToDecide(q)
}

func instructionUnclearText(*state.Question, *state.Reply) string {
	return "[Not used] An instruction must not begin with !, /, # or a lone accent mark. " +
		"No word may begin with @ (Claude Code would read that file without asking). " +
		"It must not be just a word that ends Claude Code (exit, quit, :q, :wq). " +
		"Please send it again, in other words."
}

func questionUnclearText(q *state.Question, r *state.Reply) string {
	var unknown *UnknownOption
	if r != nil {
		if decline, _ := ReadDecline(r.Text, q); decline == AskedForHelp {
			return helpText(q)
		}
		_, unknown = ParseReply(r.Text, q.SubQuestions, q.PartialAnswers)
	}
	if unknown == nil { // meanwhile another reply answered that subquestion
		return "[Not used] There is no such option."
	}
	prefix := ""
	if len(q.SubQuestions) > 1 {
		prefix = fmt.Sprintf("Q%d: ", unknown.Question+1)
	}
	return fmt.Sprintf("[Not used] %sThere is no option %d. "+
		"Reply with a number from 1 to %d, or with `%[1]sother: %[2]d`.",
		prefix, unknown.Number, len(q.SubQuestions[unknown.Question].Options))
}

// helpText says what a person may reply to a question.
func helpText(q *state.Question) string {
	return "[Not used] " + howToReply(q.SubQuestions) + "\n" +
		"`chat` tells Claude that you want to talk about it first. " +
		"`skip` leaves it to the terminal; in deny mode, Claude is told that you skip it.\n" +
		"`other: text` makes any text your answer."
}

// keptText says which subquestions have an answer so far, and which have none.
func keptText(q *state.Question, owed state.OwedNote) string {
	var missing []string
	counted := ""
	for i := range q.SubQuestions {
		a := q.PartialAnswers[i]
		if a.IsEmpty() {
			missing = append(missing, fmt.Sprintf("Q%d", i+1))
			continue
		}
		answerText := safeClause(strings.TrimSuffix(a.Value()+" - "+a.Notes, " - "))
		counted += fmt.Sprintf("Q%d: %s. ", i+1, answerText)
	}
	if len(missing) == 0 || q.Status != state.Pending {
		return ""
	}
	text := "[Kept] "
	r := q.FindReply(owed.ReplyMessage)
	if r != nil && r.Sender == state.LocalSender { // the thread does not show the reply
		text += "A part was answered " + placeOutsideChat(r.MessageName) + ". "
	}
	text += counted + "Still missing: " + strings.Join(missing, ", ")
	return text + fmt.Sprintf(`. Reply with, for example, "%s: 1".`, missing[0])
}

// Reasons in notes why a person's message is not typed yet.
const (
	DraftInBox  = "someone is typing in the terminal; your message is typed when the box is empty"
	ClaudeWorks = "Claude is working"
)

// EmptyBoxHint says what to do if there is text in the input box of the terminal.
const EmptyBoxHint = "Clear that box (Ctrl-U), or send its text (Enter): " +
	"then messages from here are typed."

// stillKeptText says why a message is still kept after a long time, and what the person
// can do about it.
func stillKeptText(_ *state.Question, owed state.OwedNote) string {
	text := "[Kept] Claude does not have your message yet: " + safeClause(owed.Text) + ". "
	switch owed.Text {
	case "":
		return "[Kept] Claude does not have your message yet, and gets it when its turn ends. " +
			"If Claude is idle, type any prompt in the terminal: your message follows."
	case DraftInBox:
		return text + EmptyBoxHint
	case ClaudeWorks:
		return text + "/stop interrupts it."
	}
	return text + "/screen shows the terminal."
}

// notTypedText says that an answer or a prompt was not typed, or only in part, and what
// the person has to do.
func notTypedText(q *state.Question, owed state.OwedNote) string {
	isDirty := q.Typing != nil && q.Typing.Result == "dirty"
	switch {
	case isDirty && q.Kind.Traits().IsPrompt:
		return "[Look] Please check the terminal: " +
			safeClause(cmp.Or(owed.Text, q.Typing.Why)) + "."
	case q.Kind.Traits().IsPrompt:
		reason := safeClause(owed.Text)
		if !strings.Contains(reason, "your message is typed") {
			reason += "; your message is typed as soon as possible"
		}
		return "[Kept] " + strings.ToUpper(reason[:1]) + reason[1:] + "."
	case !isDirty:
		return "[Waiting] Your answer is not in the terminal yet: " + safeClause(owed.Text) +
			". gchat-hooks keeps trying until the question is closed."
	}
	return "[Look] Please finish the dialog in the terminal. Your answer was only partly typed: " +
		safeClause(cmp.Or(owed.Text, q.Typing.Why)) + "."
}

// safeClause makes foreign text safe as a part of one of our sentences. It removes a "<"
// at its end, which could open something together with our next character.
func safeClause(text string) string {
	return strings.TrimRight(SafeLine(Truncate(text, 1000)), ". <")
}
