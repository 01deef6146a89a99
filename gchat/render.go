package gchat

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"gchat-hooks/state"
)

// MaxText is the longest text of a message that Chat takes, in bytes.
const MaxText = 32000

// QuestionText is the message that puts a question to the people of a space: as a model worded it, where that keeps the
// question, else in our own layout. It is the same for the same question, whenever it is asked for. Claude's words are
// neutralised, and shortened where the message would be longer than MaxText; how to reply and the thread key always stand
// at its end.
func QuestionText(q *state.Question) string {
	if q.Formatted != "" { // it may have been edited since it was checked
		if text, err := wordedText(q); err == nil {
			return text
		}
	}
	return fit(func(d *draft) {
		d.questionHead(q)
		one := len(q.Questions) == 1
		d.each(q.Questions, func(i int, p state.Prompt) {
			if i > 0 {
				d.add("\n---\n")
			}
			head, options := d.line(p.Header), "Options:"
			if !one {
				head = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, head))
			}
			if !one && p.MultiSelect {
				options = "Options (choose one or more):"
			}
			d.add("\n")
			d.lines(head, d.block(p.Question))
			d.options(options, p.Options)
		})
		d.add("\n")
		if d.cut {
			d.add("(Cut to fit: the whole question is in the terminal.)\n")
		}
		d.questionTail(q)
	})
}

func (d *draft) questionHead(q *state.Question) {
	d.add("[AskUserQuestion] Session: ", d.line(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID)), "\n")
}

func (d *draft) questionTail(q *state.Question) {
	d.add(howToReply(q.Questions, d.prompts), "\n")
	d.add(strings.TrimSpace("Thread key: " + Line(head(q.ThreadKey, 256))))
}

func howToReply(prompts []state.Prompt, shown int) string {
	if len(prompts) > 1 {
		lines := []string{"Reply with answers in order, each on its own line:"}
		for i := range min(len(prompts), shown) {
			lines = append(lines, fmt.Sprintf("Q%d: <answer>", i+1))
		}
		return strings.Join(lines, "\n")
	}
	n, multi := 0, false
	for _, p := range prompts {
		n, multi = len(p.Options), p.MultiSelect
	}
	switch { // the example must be a reply that can be given
	case n == 0:
		return "Reply with your answer."
	case multi && n > 2:
		return `Reply with comma-separated numbers (e.g., "1,3") or type a custom response.`
	case multi && n == 2:
		return `Reply with comma-separated numbers (e.g., "1,2") or type a custom response.`
	case n == 1:
		return `Reply with the option number (e.g., "1") or type a custom response.`
	}
	return `Reply with the option number (e.g., "2") or type a custom response.`
}

// AnsweredText says in the thread what was answered. Answers are by index into prompts. Where is how, if not by a reply in
// this thread: "in the terminal".
func AnsweredText(sessionName string, prompts []state.Prompt, answers []state.Answer, where string) string {
	return fit(func(d *draft) {
		d.add("[Answered] ", d.line(sessionName), "\n")
		d.each(prompts, func(i int, p state.Prompt) {
			d.add("\n")
			d.lines("Question: " + d.block(p.Question))
			var a state.Answer
			if i < len(answers) {
				a = answers[i]
			}
			var labels []string
			for _, l := range a.Labels[:min(len(a.Labels), d.choices)] {
				labels = append(labels, closed(d.line(l)))
			}
			if len(labels) < len(a.Labels) {
				labels = append(labels, "…")
			}
			switch {
			case a.Empty():
				d.lines("Selected: (nothing)")
			case len(a.Labels) > 0:
				d.lines("Selected: " + strings.Join(labels, ", "))
			}
			if a.Text != "" {
				d.lines(`Custom response: "` + closed(d.block(a.Text)) + `"`)
			}
			if a.Notes != "" {
				d.lines("Note: " + d.block(a.Notes))
			}
		})
		if where != "" {
			d.add("\nAnswered ", Line(head(where, 256)), ".\n")
		}
	})
}

// closed makes neutral text ready to be followed by something else than a space.
func closed(s string) string {
	if before, ok := strings.CutSuffix(s, "<"); ok {
		return before + "‹"
	}
	return s
}

// CancelledText says in the thread that nobody needs to answer any more, and why.
func CancelledText(sessionName string, prompts []state.Prompt, why string) string {
	return fit(func(d *draft) {
		d.add("[Cancelled] ", d.line(sessionName), "\n")
		if len(prompts) > 0 {
			d.add("\n")
		}
		d.each(prompts, func(_ int, p state.Prompt) {
			d.lines("Question: " + d.block(p.Question))
		})
		if why := d.block(why); why != "" {
			d.add("\n", why)
		}
	})
}

// Cut shortens text to at most max bytes, at a rune border, and says so at its end.
func Cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	note := func(n int) string { return fmt.Sprintf("… (cut, %d more bytes)", n) }
	kept := head(text, max-len(note(len(text))))
	if kept == "" {
		return head(text, max) // no room for a note beside text
	}
	return kept + note(len(text)-len(kept))
}

// head gives at most n bytes from the start of s, at a rune border.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for i := n; i > n-utf8.UTFMax && i >= 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // not UTF-8
}
