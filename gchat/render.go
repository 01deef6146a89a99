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

// QuestionTexts are the messages that put a question of any kind to the people of a space; mostly it is one.
func QuestionTexts(q *state.Question) []string {
	switch m := q.Matter(); {
	case m.Decides && !m.Long:
		return []string{permissionText(q, shownLine)}
	case m.Long:
		header, text, how := longPieces(q)
		parts := split(header, "\n\n", text, MaxText-len(how))
		parts[len(parts)-1] += how
		return parts
	}
	return []string{QuestionText(q)}
}

// QuestionText is the message that puts a question to the people of a space: its header, its text or a model's wording of
// that, its options and how to reply. It is the same for the same question, whenever it is asked for. Claude's words are
// neutralised, as are the model's, and shortened where the message would be longer than MaxText; how to reply and the
// thread key always stand at its end.
func QuestionText(q *state.Question) string { return questionText(q, MaxText) }

func questionText(q *state.Question, limit int) string {
	last := howToReply(q.Questions) + "\n" + strings.TrimSpace("Thread key: "+Line(head(q.ThreadKey, 256)))
	return fit(limit, last, func(d *draft) {
		d.add("[AskUserQuestion] Session: ", d.line(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID)), "\n")
		one := len(q.Questions) == 1
		for i, p := range q.Questions {
			if d.full() {
				break
			}
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
			d.lines(head, d.block(worded(q, i)))
			d.options(options, p.Options)
		}
		d.add("\n")
	})
}

// worded is the text of a prompt, in a model's words where it was worded.
func worded(q *state.Question, prompt int) string {
	if prompt < len(q.Wording) && !blank(q.Wording[prompt]) {
		return q.Wording[prompt]
	}
	return q.Questions[prompt].Question
}

func howToReply(prompts []state.Prompt) string {
	const mostExplained = 20 // questions; Claude asks four at most
	if len(prompts) > 1 {
		lines := []string{"Reply with answers in order, each on its own line:"}
		for i := range min(len(prompts), mostExplained) {
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
	case multi && n > 1:
		return fmt.Sprintf(`Reply with comma-separated numbers (e.g., "1,%d") or type a custom response.`, min(n, 3))
	}
	return fmt.Sprintf(`Reply with the option number (e.g., "%d") or type a custom response.`, min(n, 2))
}

// draft is a message being written under a limit, which keeps the work on hostile input as small as the message.
type draft struct {
	strings.Builder
	field int  // bytes of a header, question, label or description
	cut   bool // something is longer
}

// tooLong says that something is cut.
const tooLong = "(Shortened: the whole question is too long for one message.)"

// fit writes the message with ever shorter fields until it is within the limit with what stands last.
func fit(limit int, last string, write func(*draft)) string {
	const shortest = 16
	for field := MaxText; ; field /= 2 {
		d := &draft{field: field}
		write(d)
		if d.cut && last != "" {
			d.add(tooLong, "\n")
		}
		switch {
		case d.Len()+len(last) <= limit:
			return strings.TrimRight(d.String()+last, "\n")
		case field <= shortest: // it has hundreds of fields
			return inert(Cut(d.String(), limit-len(last)-len("\n‹"))) + "\n" + last
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

// list is texts of one line each, as many as a message holds, with commas between them.
func (d *draft) list(texts []string) string {
	var shown []string
	for _, t := range texts[:min(len(texts), MaxText)] {
		shown = append(shown, closed(d.line(t)))
	}
	return strings.Join(shown, ", ")
}

// short neutralises last, because a cut can leave a fence open.
func (d *draft) short(s string, neutral func(string) string) string {
	if len(s) <= d.field {
		return neutral(s)
	}
	d.cut = true
	return neutral(head(s, d.field) + "…")
}

func (d *draft) options(title string, options []state.Option) {
	if len(options) > 0 {
		d.add("\n", title, "\n")
	}
	for i, o := range options {
		if d.full() {
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
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}
