package gchat

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"gchat-hooks/state"
)

// MaxText is the longest text of a message that Chat takes, in bytes.
const MaxText = 32000

// QuestionText is the message that puts a question to the people of a space: its header, its text or a model's wording of
// that, its options and how to reply. It is the same for the same question, whenever it is asked for. Claude's words are
// neutralised, as are the model's, and shortened where the message would be longer than MaxText; how to reply and the
// thread key always stand at its end.
func QuestionText(q *state.Question) string {
	return fit(func(d *draft) {
		d.add("[AskUserQuestion] Session: ", d.line(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID)), "\n")
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
			text := p.Question
			if i < len(q.Wording) && !blank(q.Wording[i]) {
				text = q.Wording[i]
			}
			d.lines(head, d.block(text))
			d.options(options, p.Options)
		})
		d.add("\n")
		if d.cut {
			d.add("(Cut to fit: the whole question is in the terminal.)\n")
		}
		d.add(howToReply(q.Questions, d.prompts), "\n")
		d.add(strings.TrimSpace("Thread key: " + Line(head(q.ThreadKey, 256))))
	})
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

// CancelledText says in the thread that no answer is needed any more, and why.
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

// TimedOutText says in the thread that no reply came in time, what comes of it, and what the timeout policy chose in the
// person's place, where the person had not answered. Both are by index into prompts.
func TimedOutText(session string, prompts []state.Prompt, chosen []state.Answer, given map[int]state.Answer, what string) string {
	return fit(func(d *draft) {
		d.add("[Timeout] ", d.line(session), "\n")
		if len(prompts) > 0 {
			d.add("\n")
		}
		d.each(prompts, func(i int, p state.Prompt) {
			d.lines("Question: " + d.block(p.Question))
			shown := func(labels []string) string {
				var all []string
				for _, l := range labels {
					all = append(all, closed(d.line(l)))
				}
				return strings.Join(all, ", ")
			}
			if a := given[i]; !a.Empty() {
				d.lines("Your answer: " + shown(strings.Split(a.Value(), "\n")))
			} else if i < len(chosen) && len(chosen[i].Labels) > 0 {
				d.lines("Chosen by the timeout policy, not by you: " + shown(chosen[i].Labels))
			}
		})
		d.add("\n", d.block(what))
	})
}

// draft is a message being written under limits, which keep the work on hostile input as small as the message.
type draft struct {
	strings.Builder
	field   int  // bytes of a header, question, label or description
	choices int  // options of a question
	prompts int  // questions
	cut     bool // something did not fit the limits
}

// fit writes the message with ever lower limits until Chat takes it: first the fields get shorter, then there are
// fewer options, then fewer questions.
func fit(write func(*draft)) string {
	field, choices, prompts := MaxText, math.MaxInt, math.MaxInt
	for {
		d := &draft{field: field, choices: choices, prompts: prompts}
		write(d)
		switch {
		case d.Len() <= MaxText:
			return strings.TrimRight(d.String(), "\n")
		case field > 16:
			field /= 2
		case choices > 1:
			choices = min(choices, 1024) / 2
		case prompts > 1:
			prompts = min(prompts, 128) / 2
		default:
			return Cut(d.String(), MaxText)
		}
	}
}

// full says that this draft is lost already.
func (d *draft) full() bool { return d.Len() > MaxText }

func (d *draft) add(parts ...string) {
	for _, p := range parts {
		d.WriteString(p)
	}
}

// lines writes each text that is not empty on its own line.
func (d *draft) lines(texts ...string) {
	for _, t := range texts {
		if t != "" {
			d.add(t, "\n")
		}
	}
}

func (d *draft) line(s string) string  { return d.short(s, Line) }
func (d *draft) block(s string) string { return d.short(s, Block) }

// short neutralises last, because a cut can leave a fence open.
func (d *draft) short(s string, neutral func(string) string) string {
	if len(s) <= d.field {
		return neutral(s)
	}
	d.cut = true
	return neutral(head(s, d.field) + "…")
}

func (d *draft) each(prompts []state.Prompt, write func(int, state.Prompt)) {
	for i, p := range prompts {
		if i == d.prompts {
			d.cut = true
			d.add("\n… and ", strconv.Itoa(len(prompts)-i), " more questions\n")
		}
		if i >= d.prompts || d.full() {
			return
		}
		write(i, p)
	}
}

func (d *draft) options(title string, options []state.Option) {
	if len(options) > 0 {
		d.add("\n", title, "\n")
	}
	for i, o := range options {
		if i == d.choices {
			d.cut = true
			d.add("… and ", strconv.Itoa(len(options)-i), " more options\n")
		}
		if i >= d.choices || d.full() {
			return
		}
		text := d.line(o.Label)
		if about := d.line(o.Description); about != "" {
			text = strings.TrimSpace(text + " — " + about)
		}
		d.lines(strings.TrimSpace(fmt.Sprintf("%d. %s", i+1, text)))
	}
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
