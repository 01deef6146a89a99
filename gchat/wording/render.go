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

// maxQuestionText is how much of a question is shown, in bytes: as much as of a plan.
const maxQuestionText = 200 << 10

// QuestionTexts are the messages that put a question of any kind to the people of a
// space; mostly it is one. They are the same for the same question, whenever they are
// asked for. How to reply and the thread key always stand at the end.
func QuestionTexts(q *state.Question) []string { return questionTexts(q, maxPreviewBytes) }

// questionTexts shows so many bytes of a preview, instead of maxPreviewBytes.
func questionTexts(q *state.Question, previewLimit int) []string {
	header, text, instructions := messageParts(q, maxLineBytes, previewLimit)
	parts := splitMessage(header, "\n\n", text, MaxText-len(instructions))
	parts[len(parts)-1] += instructions
	return parts
}

// messageParts are what the messages of a question are made of: its header, which stands
// above each, what is asked, and how to reply. Of a permission, so many bytes of a line
// are shown; of a question, so many of a preview. Claude's words are neutral in them, as
// are a model's.
func messageParts(
	q *state.Question,
	lineLimit, previewLimit int,
) (header, text, instructions string) {
	header, text, instructions = wordingOf(q.Kind).parts(q, lineLimit, previewLimit)
	instructions = "\n\n" + instructions
	if !q.Kind.Traits().IsPrompt { // which is asked in its session's thread
		instructions += "\nThread key: " + safeField(q.ThreadKey)
	}
	return header, text, instructions
}

func nextParts(q *state.Question, _, _ int) (header, text, instructions string) {
	if q.TmuxPane == "" {
		instructions = state.OutsideTmuxWarning + "\n"
	}
	header = "[Waiting for you] " + sessionName(q) + machineText(q, machineInHeader)
	return header, longText(q), instructions + "Reply with the next instruction."
}

func planParts(q *state.Question, _, _ int) (header, text, instructions string) {
	return decisionHeader(q), longText(q), HowToDecide(q)
}

func permissionParts(q *state.Question, lineLimit, _ int) (header, text, instructions string) {
	instructions = alwaysAllowsLine(q, "always", "`") + HowToDecide(q)
	return decisionHeader(q), permissionText(q, lineLimit), instructions
}

func questionParts(q *state.Question, _, previewLimit int) (header, text, instructions string) {
	text = questionText(q, previewLimit)
	if len(text) > maxQuestionText {
		text = neutralise(Cut(text, maxQuestionText))
	}
	header = "[AskUserQuestion] Session: " + sessionName(q) + machineText(q, machineInHeader)
	return header, text, howToReply(q.SubQuestions)
}

func sessionName(q *state.Question) string {
	return safeField(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID))
}

// machineText says which machine asks, behind these words; "" where the record does not
// tell.
func machineText(q *state.Question, prefix string) string {
	if q.Machine == "" {
		return ""
	}
	return prefix + safeField(q.Machine)
}

// What a machine stands behind: in the header of a message, and in that of a card.
const machineInHeader, machineInCard = "\nMachine: ", " · "

// NamesAnotherMachine says whether a message's header names a machine, and not this one.
func NamesAnotherMachine(text string) bool {
	thisMachine := machineText(&state.Question{Machine: state.MachineName()}, machineInHeader)
	return strings.Contains(text, machineInHeader) && !strings.Contains(text+"\n", thisMachine+"\n")
}

// CardNamesAnotherMachine says whether the subtitle of a card of ours names another
// machine.
func CardNamesAnotherMachine(subtitle string) bool {
	return !strings.HasSuffix(
		subtitle,
		machineText(&state.Question{Machine: state.MachineName()}, machineInCard),
	)
}

func questionText(q *state.Question, previewLimit int) string {
	var texts []string
	optionLimit := previewLimit / max(len(q.SubQuestions), 1)
	for i, subQuestion := range q.SubQuestions {
		header, options := SafeLine(subQuestion.Header), "\nOptions:"
		if len(q.SubQuestions) > 1 {
			header = strings.TrimSpace(fmt.Sprintf("Q%d. %s", i+1, header))
			if subQuestion.MultiSelect {
				options = "\nOptions (choose one or more):"
			}
		}
		lines := []string{header, SafeBlock(questionWording(q, i)), options}
		if header == "" {
			lines = lines[1:]
		}
		if len(subQuestion.Options) == 0 {
			lines = lines[:len(lines)-1]
		}
		for i, o := range subQuestion.Options {
			option := fmt.Sprintf("%d. %s\n%s", i+1, optionText(o), previewText(o, optionLimit))
			lines = append(lines, strings.TrimSpace(option))
		}
		texts = append(texts, strings.Join(lines, "\n"))
	}
	return strings.Join(texts, "\n\n---\n\n")
}

func optionText(o state.Option) string {
	label, description := SafeLine(o.Label), SafeLine(o.Description)
	if description == "" {
		return label
	}
	return label + " — " + description
}

// maxPreviewBytes is how much of an option's preview is shown where one question is
// asked, in bytes; of several, each has a part of it. Claude gives four options at most,
// so that a message has room.
const maxPreviewBytes = 3000

// previewText is the beginning of an option's preview as a code block; "" where it has
// none. Each line is indented: none of them passes for an option, or for a line of ours.
func previewText(o state.Option, limit int) string {
	text := strings.Trim(state.Clean(state.ForChat, o.Preview), "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return codeBlock("  " + strings.ReplaceAll(Cut(text, limit), "\n", "\n  "))
}

// questionWording is the text of a prompt, in a model's words where it was worded.
func questionWording(q *state.Question, index int) string {
	if index < len(q.Wording) && strings.TrimSpace(q.Wording[index]) != "" {
		return q.Wording[index]
	}
	return q.SubQuestions[index].Question
}

func howToReply(questions []state.SubQuestion) string {
	if len(questions) > 1 {
		lines := []string{"Reply with answers in order, each on its own line:"}
		for i := range min(len(questions), 20) { // Claude asks four at most
			lines = append(lines, fmt.Sprintf("Q%d: <answer>", i+1))
		}
		return strings.Join(lines, "\n")
	}
	n := 0
	if len(questions) == 1 {
		n = len(questions[0].Options)
	}
	switch { // the example must be a reply that can be given
	case n == 0:
		return "Reply with your answer."
	case questions[0].MultiSelect && n > 1:
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
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	note := func(n int) string { return fmt.Sprintf("… (cut, %d more bytes)", n) }
	kept := firstBytes(text, limit-len(note(len(text))))
	if kept == "" {
		return firstBytes(text, limit) // no room for a note beside text
	}
	return kept + note(len(text)-len(kept))
}

// Truncate is the beginning of a text, in at most so many bytes and "…" where something
// was cut off.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return firstBytes(text, limit) + "…"
}

// startAndEnd are the beginning and the end of a longer text, so many bytes of both: what
// a command does may stand at its end.
func startAndEnd(text string, limit int) string {
	end := strings.ToValidUTF8(text[len(text)-limit/3:], "")
	return fmt.Sprintf("%s ⋯ %d bytes ⋯ %s", firstBytes(text, limit/3*2), len(text)-limit, end)
}

// firstBytes gives at most n bytes from the start of s, at a rune border.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}

// maxFieldBytes bounds what a message has beside its text, in bytes: the header stands
// above each part.
const maxFieldBytes = 1000

// safeField is a line of a header or a note, without a code block in it, which could
// reach over the text below.
func safeField(s string) string {
	if s == "" {
		return ""
	}
	return fenceReplacer.Replace(SafeLine(Truncate(s, maxFieldBytes)))
}

// splitMessage makes messages of a neutral text that may be too long for one: header,
// distance, text. When there are several, each header ends with its number, as in "[Done]
// name (2/3)", and without a header each begins with a line "(2/3)". They are at most
// limit bytes long (no less than 256) and are cut between paragraphs, else between lines,
// else between words. A code block that is cut is closed and opened again. There is no
// message when there is nothing to say.
func splitMessage(header, separator, text string, limit int) []string {
	limit = max(limit, 256)
	if len(header) > limit/2 {
		header = firstBytes(header, limit/2)
	}
	whole := header + separator + text
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
		separator = "\n"
	} else {
		header += " "
	}
	room := limit - len(header) - len("(99999/99999)") - len(separator) - 2*len(fence+"\n")
	var parts []string
	inCodeBlock := false // the part begins in a code block
	for text != "" {
		n := len(text)
		if n > room {
			n = findCut(text, room, inCodeBlock)
		}
		part := text[:n]
		text = text[n:]
		if inCodeBlock {
			part = fence + "\n" + part
		} else {
			part = disarm(part) // a line that is cut may go on with any of its words
		}
		inCodeBlock = strings.Count(part, fence)%2 == 1
		if inCodeBlock {
			part = strings.TrimSuffix(part, "\n") + "\n" + fence
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		parts[i] = fmt.Sprintf("%s(%d/%d)%s%s", header, i+1, len(parts), separator, part)
	}
	return parts
}

// findCut finds where to cut a text that is longer than room: behind a paragraph, a line
// or a space near its end.
func findCut(text string, room int, inCodeBlock bool) int {
	paragraphEnd, lineEnd := 0, 0
	for at := 0; ; {
		line, _, hasMore := strings.Cut(text[at:room], "\n")
		if !hasMore {
			break
		}
		fences := strings.Count(line, fence)
		inCodeBlock = inCodeBlock != (fences%2 == 1)
		at += len(line) + 1
		if !inCodeBlock && strings.TrimSpace(line) == "" {
			paragraphEnd = at
		} else if !inCodeBlock || fences == 0 && !strings.HasPrefix(text[at:], fence) {
			// else the block would be empty in a message
			lineEnd = at
		}
	}
	if at := cmp.Or(paragraphEnd, lineEnd); at > 0 {
		return at
	}
	const near = 200 // bytes; else between two characters
	n := len(firstBytes(text, room))
	if space := strings.LastIndexAny(text[max(0, n-near):n], " \t"); space >= 0 {
		n = max(0, n-near) + space + 1
	}
	return n
}
