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

// mostAsked is how much of a question is shown, in bytes: as much as of a plan.
const mostAsked = 200 << 10

// QuestionTexts are the messages that put a question of any kind to the people of a space; mostly it is one. They are the same
// for the same question, whenever they are asked for. How to reply and the thread key always stand at the end.
func QuestionTexts(q *state.Question) []string {
	header, text, how := pieces(q, shownLine)
	parts := split(header, "\n\n", text, MaxText-len(how))
	parts[len(parts)-1] += how
	return parts
}

// pieces are what the messages of a question are made of: its header, which stands above each, what is asked, and how to reply.
// Of a permission, so many bytes of a line are shown. Claude's words are neutral in them, as are a model's.
func pieces(q *state.Question, line int) (header, text, how string) {
	key := "\nThread key: " + field(q.ThreadKey)
	how = "\n\n"
	switch m := q.Matter(); {
	case m.Prompt:
		return "[Waiting for you] " + sessionOf(q), longText(q), how + "Reply with the next instruction."
	case m.Long:
		return decisionHeader("Plan", q), longText(q), how + HowToDecide(q) + key
	case m.Decides:
		return decisionHeader("Permission", q), permissionText(q, line), how + alwaysAllows(q, "always") + HowToDecide(q) + key
	}
	text = inert(Cut(questionText(q), mostAsked))
	return "[AskUserQuestion] Session: " + sessionOf(q), text, how + howToReply(q.Questions) + key
}

func sessionOf(q *state.Question) string {
	return field(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID))
}

// questionText is what a question asks, with its options.
func questionText(q *state.Question) string {
	var prompts []string
	for i, p := range q.Questions {
		header, options := Line(p.Header), "\nOptions:"
		if len(q.Questions) > 1 {
			header = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, header))
			if p.MultiSelect {
				options = "\nOptions (choose one or more):"
			}
		}
		lines := []string{header, Block(worded(q, i)), options}
		if header == "" {
			lines = lines[1:]
		}
		if len(p.Options) == 0 {
			lines = lines[:len(lines)-1]
		}
		for i, o := range p.Options {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d. %s", i+1, optionText(o))))
		}
		prompts = append(prompts, strings.Join(lines, "\n"))
	}
	return strings.Join(prompts, "\n\n---\n\n")
}

// optionText is an option's label, with its description.
func optionText(o state.Option) string {
	label, about := Line(o.Label), Line(o.Description)
	if about == "" {
		return label
	}
	return label + " — " + about
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

// brief is the beginning of a text, so many bytes of it.
func brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return head(text, most) + "…"
}

// ends are the beginning and the end of a text, so many bytes of both: what a command does may stand at its end.
func ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := strings.ToValidUTF8(text[len(text)-most/3:], "")
	return fmt.Sprintf("%s ⋯ %d bytes ⋯ %s", head(text, most/3*2), len(text)-most, end)
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
