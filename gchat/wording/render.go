// Package wording writes what people read, and reads what they write or tap: the texts
// and cards of questions, the texts of reports, the notes in a thread, and the grammar of
// replies. It contacts no chat; package gchat posts its texts to Google Chat.
package wording

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"gchat-hooks/state"
)

// MaxText is how many bytes a message's text may have in Chat.
const MaxText = 32000

// maxQuestionText is how many bytes of a question are shown: as many as of a plan.
const maxQuestionText = 200 << 10

// QuestionTexts returns the messages that ask a question of any kind; mostly that is one.
// It always returns the same texts for the same question. The last one ends with the
// instructions for a reply and the thread key.
func QuestionTexts(q *state.Question) []string { return questionTexts(q, maxPreviewBytes) }

// questionTexts is QuestionTexts with previewLimit in place of maxPreviewBytes.
func questionTexts(q *state.Question, previewLimit int) []string {
	header, text, instructions := messageParts(q, maxLineBytes, previewLimit)
	parts := splitMessage(header, "\n\n", text, MaxText-len(instructions))
	parts[len(parts)-1] += instructions
	return parts
}

// messageParts returns what the messages of a question are made of: the header above each
// message, the text that asks, and the instructions for a reply. lineLimit is how many
// bytes of a line a permission shows, and previewLimit how many bytes of a preview a
// question shows. Texts of Claude, or of a model that worded the question, are neutral.
func messageParts(
	q *state.Question,
	lineLimit, previewLimit int,
) (header, text, instructions string) {
	header, text, instructions = wordingOf(q.Kind).parts(q, lineLimit, previewLimit)
	instructions = "\n\n" + instructions
	// a prompt is asked for in its session's thread, so it has no thread key of its own
	if !q.Kind.Traits().IsPrompt {
		instructions += "\nThread key: " + safeField(q.ThreadKey)
	}
	return header, text, instructions
}

func nextParts(q *state.Question, _, _ int) (header, text, instructions string) {
	if q.TmuxPane == "" {
		instructions = state.OutsideTmuxWarning + "\n"
	}
	header = "[Waiting for you] " + sessionName(q) + machineText(q, machineInHeader)
	text = longText(q)
	if q.TurnFigures != "" {
		text = strings.TrimSpace(text + "\n\n" + safeField(q.TurnFigures))
	}
	return header, text, instructions + "Reply with the next instruction."
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
	if q.HandedOverAt != nil {
		return header, text, inTerminalText(q)
	}
	return header, text, howToReply(q.SubQuestions)
}

func sessionName(q *state.Question) string {
	return safeField(cmp.Or(q.SessionName, q.TmuxSession, q.SessionID))
}

// machineText returns the prefix and the name of the machine that asks, or "" if the
// record does not name it.
func machineText(q *state.Question, prefix string) string {
	if q.Machine == "" {
		return ""
	}
	return prefix + safeField(q.Machine)
}

// The prefixes of a machine's name, in a message's header and in a card's subtitle.
const machineInHeader, machineInCard = "\nMachine: ", " · "

// NamesAnotherMachine reports whether a message's header names a machine other than this
// one.
func NamesAnotherMachine(text string) bool {
	thisMachine := machineText(&state.Question{Machine: state.MachineName()}, machineInHeader)
	return strings.Contains(text, machineInHeader) && !strings.Contains(text+"\n", thisMachine+"\n")
}

// CardNamesAnotherMachine reports whether the subtitle of one of our cards names a
// machine other than this one.
func CardNamesAnotherMachine(subtitle string) bool {
	thisMachine := machineText(&state.Question{Machine: state.MachineName()}, machineInCard)
	return !strings.HasSuffix(subtitle, thisMachine)
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

// maxPreviewBytes is how many bytes of an option's preview are shown. Several
// subquestions share that number. Claude gives at most four options, so they all fit into
// one message.
const maxPreviewBytes = 3000

// previewText returns the start of an option's preview as a code block, or "" if it has
// no preview. Each line is indented, so that none can pass for an option or a line of
// ours.
func previewText(o state.Option, limit int) string {
	text := strings.Trim(state.Clean(state.ForChat, o.Preview), "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return codeBlock("  " + strings.ReplaceAll(Cut(text, limit), "\n", "\n  "))
}

// questionWording returns the text of a subquestion: the one that a model worded, if
// there is one, otherwise Claude's.
func questionWording(q *state.Question, index int) string {
	if index < len(q.Wording) && strings.TrimSpace(q.Wording[index]) != "" {
		return q.Wording[index]
	}
	return q.SubQuestions[index].Question
}

// howToReply returns the instructions for a reply to a question. Its examples are replies
// that this question accepts.
func howToReply(questions []state.SubQuestion) string {
	if len(questions) > 1 {
		lines := []string{"Reply with answers in order, each on its own line:"}
		for i := range min(len(questions), 20) { // Claude asks at most four
			lines = append(lines, fmt.Sprintf("Q%d: <answer>", i+1))
		}
		return strings.Join(lines, "\n")
	}
	n := 0
	if len(questions) == 1 {
		n = len(questions[0].Options)
	}
	switch {
	case n == 0:
		return "Reply with your answer."
	case questions[0].MultiSelect && n > 1:
		return fmt.Sprintf(`Reply with comma-separated numbers (e.g., "1,%d")`, min(n, 3)) +
			" or type a custom response."
	}
	return fmt.Sprintf(`Reply with the option number (e.g., "%d")`, min(n, 2)) +
		" or type a custom response."
}

// Cut shortens a text to at most limit bytes, between two characters. The end of the
// shortened text says how much is missing.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	note := func(n int) string { return fmt.Sprintf("… (cut, %d more bytes)", n) }
	kept := firstBytes(text, limit-len(note(len(text))))
	if kept == "" {
		return firstBytes(text, limit) // the note does not fit as well
	}
	return kept + note(len(text)-len(kept))
}

// Truncate returns at most limit bytes from the start of a text, followed by "…" if it
// cut something off.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return firstBytes(text, limit) + "…"
}

// startAndEnd returns the start and the end of a text that is longer than limit bytes,
// together about limit bytes. The end is shown because it may decide what a command does.
func startAndEnd(text string, limit int) string {
	end := strings.ToValidUTF8(text[len(text)-limit/3:], "")
	return fmt.Sprintf("%s ⋯ %d bytes ⋯ %s", firstBytes(text, limit/3*2), len(text)-limit, end)
}

// firstBytes returns at most n bytes from the start of s, and cuts no character in two.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}

// maxFieldBytes is how many bytes a name, a path or the like may have in a message. The
// header has several of them, and is repeated above each part of a long text.
const maxFieldBytes = 1000

// safeField makes foreign text safe for one line of a header or a note. It replaces ```,
// which could turn the text below into code.
func safeField(s string) string {
	return fenceReplacer.Replace(SafeLine(Truncate(s, maxFieldBytes)))
}

// splitMessage returns the messages for a neutral text that may be too long for one. Each
// message is the header, the separator and a part of the text, at most limit bytes long;
// a limit below 256 counts as 256. If there are several, each header ends with its
// number, as in "[Done] name (2/3)"; without a header, each message begins with a line
// "(2/3)". splitMessage cuts between paragraphs if possible, otherwise between lines,
// otherwise between words. It closes a code block that it cuts, and opens it again in the
// next message. Without header and text there is no message.
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
	inCodeBlock := false // whether the next part begins in a code block
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
			part = disarm(part) // after a cut inside a line, the part may begin with a tag
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

// findCut returns where to cut a text that is longer than room bytes: after the last
// paragraph that fits, otherwise after the last line, otherwise after a space near the
// end, otherwise between two characters.
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
		// a cut right after the opening or before the closing fence of a block would
		// leave one message with an empty block
		isInsideBlock := inCodeBlock && fences == 0 && !strings.HasPrefix(text[at:], fence)
		if !inCodeBlock && strings.TrimSpace(line) == "" {
			paragraphEnd = at
		} else if !inCodeBlock || isInsideBlock {
			lineEnd = at
		}
	}
	if at := cmp.Or(paragraphEnd, lineEnd); at > 0 {
		return at
	}
	const maxWord = 200 // bytes; findCut does not look further back for a space
	n := len(firstBytes(text, room))
	lookFrom := max(0, n-maxWord)
	if space := strings.LastIndexAny(text[lookFrom:n], " \t"); space >= 0 {
		return lookFrom + space + 1
	}
	return n
}
