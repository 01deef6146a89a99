package hooks

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// These bound what is shown of a long text: on a phone, enough to know what it is about.
const (
	maxTextBytes = 600
	maxTextLines = 8
)

// shorten returns the beginning of s, with "…" if something is left out. It closes a code
// block that the cut leaves open.
func shorten(s string, maxBytes, maxLines int) string {
	s = strings.TrimSpace(s)
	short := s
	if parts := strings.SplitN(short, "\n", maxLines+1); len(parts) > maxLines {
		short = strings.Join(parts[:maxLines], "\n")
	}
	if len(short) > maxBytes {
		short = strings.ToValidUTF8(short[:maxBytes], "")
	}
	if len(short) == len(s) {
		return s
	}
	short = strings.TrimSpace(short) + "…"
	if strings.Count(short, "```")%2 == 1 {
		short += "\n```"
	}
	return short
}

func shortenToLine(s string, maxBytes int) string {
	return shorten(oneLine(s), maxBytes, 1)
}

// markdownCode returns foreign text without markup, to follow a colon: as a code span, or
// as a block if a span cannot hold it.
func markdownCode(s string) string {
	if !strings.ContainsAny(s, "`\n\r\u2028\u2029") {
		return " `" + s + "`"
	}
	return "\n```\n" + strings.ReplaceAll(s, "```", "'''") + "\n```"
}

// markupPattern matches what a renderer could take for markup. An underscore between
// letters or digits is no emphasis.
var markupPattern = state.LazyPattern("[`*~<>|&\\\\\\[\\]]|(^|[^0-9A-Za-z])_|_($|[^0-9A-Za-z])")

// escapeMarkdown makes foreign text safe within a line of Markdown. If a renderer could
// take any of it for markup, it becomes a code span.
func escapeMarkdown(line string) string {
	if markupPattern().MatchString(line) {
		return "`" + strings.ReplaceAll(line, "`", "'") + "`"
	}
	return line
}

// Each text that a session or a script gets about a deny-mode question begins with one of
// these prefixes. Agents' instructions name them.
const (
	replyPrefix   = "GCHAT_RESPONSE: "
	timeoutPrefix = "GCHAT_TIMEOUT: "
)

// ReplyLine is the line that gchat-wait prints for a reply: what the person typed.
func ReplyLine(reply string) string { return replyPrefix + oneLine(reply) }

// TimeoutLine is the line that gchat-wait prints after it waited in vain. If the timeout
// policy answered the question, the line has its answers. q may be nil.
func TimeoutLine(waited time.Duration, q *state.Question) string {
	line := timeoutPrefix + "No response in " + state.DescribeDuration(waited)
	if outcome := policyOutcome(q); outcome != "" {
		line += ". " + oneLine(outcome)
	}
	return line
}

// policyOutcome says what the timeout policy did with a question; "" if it left the
// question open.
func policyOutcome(q *state.Question) string {
	switch {
	case q == nil || q.Status != state.TimedOut:
		return ""
	case q.ResolvedBy == "policy":
		isChosen := func(i int) bool { return q.PartialAnswers[i].IsEmpty() }
		return "The timeout policy chose, not the user: " + answerPairs(q, isChosen) + "."
	case q.TimeoutPolicy == state.TimeoutAskTerminal:
		return "Ask again with AskUserQuestion, in the same words: " +
			"the question is then shown in the terminal."
	}
	return ""
}

// declineText is what Claude is given for a question that a person turned down. If the
// person wants to talk about it, that is the text of "Chat about this" in the terminal
// (2.1.197, 2.1.332) and what the person wrote.
func declineText(q *state.Question) string {
	text := "The user skipped these questions and gave no answer. " +
		"Go on without one, as carefully as the questions demand.\n\n"
	if q.Declined == state.DeclinedChat {
		text = "The user wants to clarify these questions.\n" +
			"    This means they may have additional information, context or questions for you.\n" +
			"    Take their response into account and then reformulate the questions if appropriate.\n" +
			"    Start by asking them what they would like to clarify.\n\n    "
	}
	text += "Questions asked:"
	for _, p := range q.SubQuestions {
		answer := cmp.Or(withLabel("Answer: ", q.Answers[p.Question]), "(No answer provided)")
		notes := withLabel("\n  User notes: ", q.Notes[p.Question])
		text += "\n- \"" + p.Question + "\"\n  " + answer + notes
	}
	return text + withLabel("\n\nThe user wrote: ", q.DeclinedText)
}

// withLabel returns a text behind its label; "" if there is no text.
func withLabel(label, text string) string {
	if text == "" {
		return ""
	}
	return label + text
}

// answerText is the text that wakes a session with a person's answer.
func answerText(q *state.Question) string {
	if q.Declined != "" {
		return replyPrefix + declineText(q) + "\n\n" + deliveryMark(q)
	}
	subject, theseAnswers := "question", "this answer"
	if len(q.SubQuestions) > 1 {
		subject, theseAnswers = "questions", "these answers"
	}
	return fmt.Sprintf("%sThe user has answered your %s %s: %s. "+
		"You can now continue with %s in mind. %s",
		replyPrefix, subject, q.AnsweredWhere(), answerPairs(q, func(int) bool { return true }),
		theseAnswers, deliveryMark(q))
}

// promptText is the text that wakes a session with a person's prompt.
func promptText(q *state.Question, prompt string) string {
	text := "The user replied to your last message " + q.AnsweredWhere() +
		", and this is the next instruction: "
	if q.Kind == state.KindPrompt {
		text = "The user wrote this " + q.AnsweredWhere() + " while you were working: "
	}
	return replyPrefix + text + prompt + "\n\n" + deliveryMark(q)
}

// deliveryMark ends the text that wakes a session. No other text of ours has it, so the
// transcript shows whether that text arrived.
func deliveryMark(q *state.Question) string {
	if q.Status == state.TimedOut {
		return "(unanswered question " + q.QuestionID + ")"
	}
	if q.Declined != "" {
		return "(turned down question " + q.QuestionID + ")"
	}
	if q.Kind.Traits().IsPrompt {
		return "(message " + q.QuestionID + ")"
	}
	return "(answered question " + q.QuestionID + ")"
}

// timeoutText is the text that wakes a session whose question had no reply. With
// mayHaveReply it says that a reply may exist that cannot be read.
func timeoutText(q *state.Question, mayHaveReply bool) string {
	waited := config.DefaultReplyTimeout
	if q.TimesOutAt != nil {
		waited = q.TimesOutAt.Sub(q.AskedAt)
	}
	text := timeoutPrefix + "No response in " + state.DescribeDuration(waited) + "."
	if mayHaveReply {
		chat := state.ChatName(q.Chat)
		text += " " + strings.ToUpper(chat[:1]) + chat[1:] +
			" cannot be read at present: the user may have replied."
	}
	if outcome := policyOutcome(q); outcome != "" {
		text += " " + outcome
	} else {
		text += " Go on without an answer, as carefully as the question demands; " +
			"a later reply still comes to you."
	}
	for i, p := range q.SubQuestions {
		if a := q.PartialAnswers[i]; !a.IsEmpty() {
			text += fmt.Sprintf("\nThe user did answer: %q=%q", p.Question, a.Value())
		} else {
			text += fmt.Sprintf("\nThe question was: %q", p.Question)
		}
	}
	return text + " " + deliveryMark(q)
}

// answerPairs lists some of the questions with their answers and remarks, in Claude
// Code's own form.
func answerPairs(q *state.Question, isIncluded func(i int) bool) string {
	var parts []string
	for i, p := range q.SubQuestions {
		if !isIncluded(i) {
			continue
		}
		pair := fmt.Sprintf("\"%s\"=\"%s\"", p.Question, q.Answers[p.Question])
		if note := q.Notes[p.Question]; note != "" {
			pair += " notes: " + note
		}
		parts = append(parts, pair)
	}
	return strings.Join(parts, ", ")
}
