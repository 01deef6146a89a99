// Package wording is what people read, and what they mean by what they write or tap: the
// text and the card of a question, a permission, a plan or a report, the notes in a
// thread, and the grammar of replies. It knows no chat: gchat brings its words to Google.
package wording

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

// QuestionTexts are the messages that put a question of any kind to the people of a
// space; mostly it is one. They are the same for the same question, whenever they are
// asked for. How to reply and the thread key always stand at the end.
func QuestionTexts(q *state.Question) []string { return questionTexts(q, mostPreview) }

// questionTexts shows so many bytes of a preview, instead of mostPreview.
func questionTexts(q *state.Question, preview int) []string {
	header, text, how := pieces(q, shownLine, preview)
	parts := split(header, "\n\n", text, MaxText-len(how))
	parts[len(parts)-1] += how
	return parts
}

// pieces are what the messages of a question are made of: its header, which stands above
// each, what is asked, and how to reply. Of a permission, so many bytes of a line are
// shown; of a question, so many of a preview. Claude's words are neutral in them, as are
// a model's.
func pieces(q *state.Question, line, preview int) (header, text, how string) {
	header, text, how = mannerOf(q.Kind).pieces(q, line, preview)
	how = "\n\n" + how
	if !q.Kind.Traits().IsPrompt { // which is asked in its session's thread
		how += "\nThread key: " + field(q.ThreadKey)
	}
	return header, text, how
}

func nextPieces(q *state.Question, _, _ int) (header, text, how string) {
	if q.TmuxPane == "" {
		how = state.OutsideTmuxWarning + "\n"
	}
	header = "[Waiting for you] " + sessionOf(q) + machineOf(q, inHeader)
	return header, longText(q), how + "Reply with the next instruction."
}

func planPieces(q *state.Question, _, _ int) (header, text, how string) {
	return decisionHeader(q), longText(q), HowToDecide(q)
}

func permissionPieces(q *state.Question, line, _ int) (header, text, how string) {
	return decisionHeader(
			q,
		), permissionText(
			q,
			line,
		), alwaysAllows(
			q,
			"always",
			"`",
		) + HowToDecide(
			q,
		)
}

func questionPieces(q *state.Question, _, preview int) (header, text, how string) {
	text = questionText(q, preview)
	if len(text) > mostAsked {
		text = inert(Cut(text, mostAsked))
	}
	header = "[AskUserQuestion] Session: " + sessionOf(q) + machineOf(q, inHeader)
	return header, text, howToReply(q.SubQuestions)
}

func sessionOf(q *state.Question) string {
	return field(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID))
}

// machineOf says which machine asks, behind these words; "" where the record does not
// tell.
func machineOf(q *state.Question, words string) string {
	if q.Machine == "" {
		return ""
	}
	return words + field(q.Machine)
}

// What a machine stands behind: in the header of a message, and in that of a card.
const inHeader, inCard = "\nMachine: ", " · "

// OfAnotherMachine says whether a message's header names a machine, and not this one.
func OfAnotherMachine(text string) bool {
	here := machineOf(&state.Question{Machine: state.MachineName()}, inHeader)
	return strings.Contains(text, inHeader) && !strings.Contains(text+"\n", here+"\n")
}

// CardOfAnotherMachine says whether the subtitle of a card of ours names another machine.
func CardOfAnotherMachine(subtitle string) bool {
	return !strings.HasSuffix(
		subtitle,
		machineOf(&state.Question{Machine: state.MachineName()}, inCard),
	)
}

func questionText(q *state.Question, preview int) string {
	var prompts []string
	most := preview / max(len(q.SubQuestions), 1)
	for i, p := range q.SubQuestions {
		header, options := Line(p.Header), "\nOptions:"
		if len(q.SubQuestions) > 1 {
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
			option := fmt.Sprintf("%d. %s\n%s", i+1, optionText(o), previewText(o, most))
			lines = append(lines, strings.TrimSpace(option))
		}
		prompts = append(prompts, strings.Join(lines, "\n"))
	}
	return strings.Join(prompts, "\n\n---\n\n")
}

func optionText(o state.Option) string {
	label, about := Line(o.Label), Line(o.Description)
	if about == "" {
		return label
	}
	return label + " — " + about
}

// mostPreview is how much of an option's preview is shown where one question is asked, in
// bytes; of several, each has a part of it. Claude gives four options at most, so that a
// message has room.
const mostPreview = 3000

// previewText is the beginning of an option's preview as a code block; "" where it has
// none. Each line is indented: none of them passes for an option, or for a line of ours.
func previewText(o state.Option, most int) string {
	text := strings.Trim(state.Clean(state.ForChat, o.Preview), "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return block("  " + strings.ReplaceAll(Cut(text, most), "\n", "\n  "))
}

// worded is the text of a prompt, in a model's words where it was worded.
func worded(q *state.Question, prompt int) string {
	if prompt < len(q.Wording) && strings.TrimSpace(q.Wording[prompt]) != "" {
		return q.Wording[prompt]
	}
	return q.SubQuestions[prompt].Question
}

func howToReply(prompts []state.SubQuestion) string {
	if len(prompts) > 1 {
		lines := []string{"Reply with answers in order, each on its own line:"}
		for i := range min(len(prompts), 20) { // Claude asks four at most
			lines = append(lines, fmt.Sprintf("Q%d: <answer>", i+1))
		}
		return strings.Join(lines, "\n")
	}
	n := 0
	if len(prompts) == 1 {
		n = len(prompts[0].Options)
	}
	switch { // the example must be a reply that can be given
	case n == 0:
		return "Reply with your answer."
	case prompts[0].MultiSelect && n > 1:
		return fmt.Sprintf(
			`Reply with comma-separated numbers (e.g., "1,%d") or type a custom response.`,
			min(n, 3),
		)
	}
	return fmt.Sprintf(
		`Reply with the option number (e.g., "%d") or type a custom response.`,
		min(n, 2),
	)
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

// Brief is the beginning of a text, in at most so many bytes and "…" where something was
// cut off.
func Brief(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return head(text, most) + "…"
}

// ends are the beginning and the end of a longer text, so many bytes of both: what a
// command does may stand at its end.
func ends(text string, most int) string {
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

// longestField bounds what a message has beside its text, in bytes: the header stands
// above each part.
const longestField = 1000

// field is a line of a header or a note, without a code block in it, which could reach
// over the text below.
func field(s string) string {
	if s == "" {
		return ""
	}
	return noFence.Replace(Line(Brief(s, longestField)))
}

// split makes messages of a neutral text that may be too long for one: header, distance,
// text. When there are several, each header ends with its number, as in "[Done] name
// (2/3)", and without a header each begins with a line "(2/3)". They are at most limit
// bytes long (no less than 256) and are cut between paragraphs, else between lines, else
// between words. A code block that is cut is closed and opened again. There is no message
// when there is nothing to say.
func split(header, distance, text string, limit int) []string {
	limit = max(limit, 256)
	if len(header) > limit/2 {
		header = head(header, limit/2)
	}
	whole := header + distance + text
	if header == "" || text == "" {
		whole = header + text
	}
	switch {
	case whole == "":
		return nil
	case text == "" || len(whole) <= limit:
		return []string{whole}
	}
	if header == "" {
		distance = "\n"
	} else {
		header += " "
	}
	room := limit - len(header) - len("(99999/99999)") - len(distance) - 2*len(fence+"\n")
	var parts []string
	open := false // the part begins in a code block
	for text != "" {
		n := len(text)
		if n > room {
			n = cutAt(text, room, open)
		}
		part := text[:n]
		text = text[n:]
		if open {
			part = fence + "\n" + part
		} else {
			part = disarm(part) // a line that is cut may go on with any of its words
		}
		open = strings.Count(part, fence)%2 == 1
		if open {
			part = strings.TrimSuffix(part, "\n") + "\n" + fence
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		parts[i] = fmt.Sprintf("%s(%d/%d)%s%s", header, i+1, len(parts), distance, part)
	}
	return parts
}

// cutAt finds where to cut a text that is longer than room: behind a paragraph, a line or
// a space near its end.
func cutAt(text string, room int, open bool) int {
	paragraph, whole := 0, 0
	for at := 0; ; {
		l, _, more := strings.Cut(text[at:room], "\n")
		if !more {
			break
		}
		fences := strings.Count(l, fence)
		open = open != (fences%2 == 1)
		at += len(l) + 1
		if !open && strings.TrimSpace(l) == "" {
			paragraph = at
		} else if !open || fences == 0 && !strings.HasPrefix(text[at:], fence) {
			// else the block would be empty in a message
			whole = at
		}
	}
	if at := cmp.Or(paragraph, whole); at > 0 {
		return at
	}
	const near = 200 // bytes; else between two characters
	n := len(head(text, room))
	if space := strings.LastIndexAny(text[max(0, n-near):n], " \t"); space >= 0 {
		n = max(0, n-near) + space + 1
	}
	return n
}
