package hooks

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// What is shown of long words: enough to know what they are about on a phone.
const (
	shownBytes = 600
	shownLines = 8
)

// shorten gives the beginning of s, and "…" where something is missing. It closes a code block that the cut leaves open.
func shorten(s string, bytes, lines int) string {
	s = strings.TrimSpace(s)
	kept := s
	if parts := strings.SplitN(kept, "\n", lines+1); len(parts) > lines {
		kept = strings.Join(parts[:lines], "\n")
	}
	if len(kept) > bytes {
		kept = strings.ToValidUTF8(kept[:bytes], "")
	}
	if len(kept) == len(s) {
		return s
	}
	kept = strings.TrimSpace(kept) + "…"
	if strings.Count(kept, "```")%2 == 1 {
		kept += "\n```"
	}
	return kept
}

func flat(s string, bytes int) string {
	return shorten(oneLine(s), bytes, 1)
}

// code shows foreign text behind a colon as it stands, with no markup in it: as a code span, or as a block where a span cannot
// hold it.
func code(s string) string {
	if !strings.ContainsAny(s, "`\n\r\u2028\u2029") {
		return " `" + s + "`"
	}
	return "\n```\n" + strings.ReplaceAll(s, "```", "'''") + "\n```"
}

// markup is what some renderer could take for markup; an underscore between letters or digits emphasises nothing.
var markup = state.Pattern("[`*~<>|&\\\\\\[\\]]|(^|[^0-9A-Za-z])_|_($|[^0-9A-Za-z])")

// noMarkup makes foreign text safe within a line of Markdown: a code span where a renderer could take any of it for markup.
func noMarkup(line string) string {
	if markup().MatchString(line) {
		return "`" + strings.ReplaceAll(line, "`", "'") + "`"
	}
	return line
}

// What a session or a script is told of a question in deny mode begins with one of these: agents' instructions name them.
const (
	replyPrefix   = "GCHAT_RESPONSE: "
	timeoutPrefix = "GCHAT_TIMEOUT: "
)

// ReplyLine is the one line that gchat-wait prints: what the person typed.
func ReplyLine(typed string) string { return replyPrefix + oneLine(typed) }

// TimeoutLine is the one line that gchat-wait prints after waiting that long in vain: for a policy that chose, with its
// choice. q may be nil.
func TimeoutLine(waited time.Duration, q *state.Question) string {
	line := timeoutPrefix + "No response in " + state.InWords(waited)
	if did := outcome(q); did != "" {
		line += ". " + oneLine(did)
	}
	return line
}

// outcome is what the timeout policy made of a question; "" when it left it.
func outcome(q *state.Question) string {
	switch {
	case q == nil || q.Status != state.TimedOut:
		return ""
	case q.ResolvedBy == "policy":
		return "The timeout policy chose, not the user: " + pairs(q, func(i int) bool { return q.Partial[i].Empty() }) + "."
	case q.TimeoutPolicy == state.AskTerminal:
		return "Ask again with AskUserQuestion, in the same words: the question is then shown in the terminal."
	}
	return ""
}

// declineText is what Claude is told of a question that a person turned down. For a chat it is what
// "Chat about this" in the terminal says (2.1.197, 2.1.332), and what the person wrote.
func declineText(q *state.Question) string {
	text := "The user skipped these questions and gave no answer. " +
		"Go on without one, as carefully as they demand.\n\n"
	if q.Declined == state.DeclinedChat {
		text = "The user wants to clarify these questions.\n" +
			"    This means they may have additional information, context or questions for you.\n" +
			"    Take their response into account and then reformulate the questions if appropriate.\n" +
			"    Start by asking them what they would like to clarify.\n\n    "
	}
	text += "Questions asked:"
	for _, p := range q.Questions {
		answer := cmp.Or(labelled("Answer: ", q.Answers[p.Question]), "(No answer provided)")
		text += "\n- \"" + p.Question + "\"\n  " + answer + labelled("\n  User notes: ", q.Notes[p.Question])
	}
	return text + labelled("\n\nThe user wrote: ", q.DeclinedWords)
}

// labelled is a text behind its label; "" for none.
func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + text
}

// replyText wakes a session with a person's answer.
func replyText(q *state.Question) string {
	if q.Declined != "" {
		return replyPrefix + declineText(q) + "\n\n" + endOf(q)
	}
	what, these := "question", "this answer"
	if len(q.Questions) > 1 {
		what, these = "questions", "these answers"
	}
	return fmt.Sprintf("%sThe user has answered your %s %s: %s. You can now continue with %s in mind. %s",
		replyPrefix, what, q.AnsweredFrom(), pairs(q, func(int) bool { return true }), these, endOf(q))
}

// instructionText wakes a session with what the person told it.
func instructionText(q *state.Question, words string) string {
	if q.Kind == state.Said {
		return replyPrefix + "The user wrote this " + q.AnsweredFrom() + " while you were working: " + words
	}
	return replyPrefix + "The user replied to your last message " + q.AnsweredFrom() +
		", and this is the next instruction: " + words
}

// endOf ends what a session is woken with. No other text of ours has it, so that a transcript tells whether that arrived.
func endOf(q *state.Question) string {
	if q.Status == state.TimedOut {
		return "(unanswered question " + q.QuestionID + ")"
	}
	if q.Declined != "" {
		return "(turned down question " + q.QuestionID + ")"
	}
	return "(answered question " + q.QuestionID + ")"
}

// timeoutText wakes a session whose question had no reply; unread says that there may be a reply, which cannot be read.
func timeoutText(q *state.Question, unread bool) string {
	waited := config.DefaultReplyTimeout
	if q.TimesOutAt != nil {
		waited = q.TimesOutAt.Sub(q.AskedAt)
	}
	text := timeoutPrefix + "No response in " + state.InWords(waited) + "."
	if unread {
		chat := state.ChatName(q.Chat)
		text += " " + strings.ToUpper(chat[:1]) + chat[1:] + " cannot be read at present: the user may have replied."
	}
	if did := outcome(q); did != "" {
		text += " " + did
	} else {
		text += " Go on without an answer, as carefully as the question demands; a later reply still comes to you."
	}
	for i, p := range q.Questions {
		if a := q.Partial[i]; !a.Empty() {
			text += fmt.Sprintf("\nThe user did answer: %q=%q", p.Question, a.Value())
		} else {
			text += fmt.Sprintf("\nThe question was: %q", p.Question)
		}
	}
	return text + " " + endOf(q)
}

// pairs are some of the questions with their answers and remarks, as Claude Code words them itself.
func pairs(q *state.Question, which func(i int) bool) string {
	var parts []string
	for i, p := range q.Questions {
		if !which(i) {
			continue
		}
		pair := fmt.Sprintf("\"%s\"=\"%s\"", p.Question, q.Answers[p.Question])
		if n := q.Notes[p.Question]; n != "" {
			pair += " notes: " + n
		}
		parts = append(parts, pair)
	}
	return strings.Join(parts, ", ")
}
