package wording

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// People often reply on a phone, and in a hurry. These are the forms of a reply:
//
//	2, #2, 2), option 2       the option with that number
//	Rolling deployment, roll  a label, or the start of one that no other label has
//	1,3 or auth and search    several options, if several may be chosen
//	2 - but keep the footer   a number, a list or a whole label, and a remark
//	other: 2                  text of the person's own, up to the end of the reply
//	Q2: 1                     the answer to the second of several subquestions
//	2 ⏎ 1,3 or 2; 1,3         answers in order, if each has one of the forms above
//	chat, chat: text          no answer: the person wants to talk about it first
//	skip, cancel              no answer: the terminal is to answer it
//	?, help, /status          no answer: the person is told how to reply
//
// Any other reply is the person's own text, complete, as the answer to the first
// subquestion without an answer. A choice is never guessed from such a text: Claude
// understands the text, but would act on a wrong choice.

// UnknownOption is a number in a reply without an option. Question is the subquestion's
// index.
type UnknownOption struct{ Question, Number int }

// ParseReply reads a reply to a question and returns its answers, by index into
// questions, together with those of partial, which it does not change. If an answer is a
// number without an option, the answer holds its text as the person's own, and unknown is
// the first such number.
func ParseReply(
	text string, questions []state.SubQuestion, partial map[int]state.Answer,
) (answers map[int]state.Answer, unknown *UnknownOption) {
	answers = map[int]state.Answer{}
	maps.Copy(answers, partial)
	r := newReply(text, questions, partial)
	for _, part := range r.parts() {
		answer, number := r.questions[part.question].readAnswer(part.text)
		if answer.IsEmpty() {
			continue
		}
		answer.Notes = strings.TrimSpace(answer.Notes + "\n" + part.remark)
		answers[part.question] = answer
		if number != nil && unknown == nil {
			unknown = &UnknownOption{part.question, *number}
		}
	}
	return answers, unknown
}

// AskedForHelp is what ReadDecline returns for a reply that only asks how to reply.
const AskedForHelp = "how"

var (
	chatPattern = state.LazyPattern(`(?is)^(?:(chat[\s\pZ]+about[\s\pZ]+this)\b|(chat)` +
		`(?:[\t\pZ]*[:：\n]|[\t\pZ]+[-–—]{1,3}[\t\pZ]))[\s\pZ:：,;.!–—-]*(.*)$`)
	ownCommandPattern = state.LazyPattern(
		`(?i)^/(?:screen|status|stop|mute|watch|ask|help|sessions|new)(?:[\s\pZ]|$)`)
	declineWords = map[string]string{
		"CHAT":            state.DeclinedChat,
		"CHAT ABOUT THIS": state.DeclinedChat,
		"SKIP":            state.DeclinedSkip,
		"CANCEL":          state.DeclinedSkip,
		"HELP":            AskedForHelp,
		"":                AskedForHelp,
	}
)

// IsOwnCommand reports whether a text is one of our own commands, such as /status. A
// person can use them in each of a session's threads.
func IsOwnCommand(text string) bool {
	return ownCommandPattern().MatchString(strings.TrimSpace(text))
}

// ReadDecline returns how a reply turns a question down: state.DeclinedChat, with the
// person's own text, state.DeclinedSkip, or AskedForHelp. It returns "" for an answer. A
// reply that chooses an option of a subquestion without an answer is an answer.
func ReadDecline(text string, q *state.Question) (decline, ownText string) {
	text = strings.TrimSpace(state.Clean(state.ForAgent, text))
	phrase := text
	if m := chatPattern().FindStringSubmatch(text); m != nil {
		phrase, ownText = m[1]+m[2], m[3]
	}
	decline = declineWords[normalise(strings.TrimRight(phrase, ".!?"))]
	if IsOwnCommand(text) {
		decline = AskedForHelp
	}
	for _, i := range Unanswered(q.SubQuestions, q.PartialAnswers) {
		if picked, _ := newOptionMatcher(q.SubQuestions[i]).readChoice(phrase); picked != nil {
			return "", ""
		}
	}
	return decline, ownText
}

// Unanswered returns the indexes of the questions without an answer.
func Unanswered(questions []state.SubQuestion, answers map[int]state.Answer) (missing []int) {
	for i := range questions {
		if answers[i].IsEmpty() {
			missing = append(missing, i)
		}
	}
	return missing
}

// reply is a person's reply to a question with one or several subquestions.
type reply struct {
	text          string
	questions     []*optionMatcher // one for each subquestion
	openQuestions []int            // indexes of those without an answer before this reply
}

func newReply(text string, questions []state.SubQuestion, partial map[int]state.Answer) *reply {
	r := &reply{
		text:          strings.TrimSpace(state.Clean(state.ForAgent, text)),
		openQuestions: Unanswered(questions, partial),
	}
	for _, question := range questions {
		r.questions = append(r.questions, newOptionMatcher(question))
	}
	return r
}

// part is the part of a reply that answers one subquestion.
type part struct {
	question     int // the subquestion's index
	text, remark string
}

// parts splits the reply into the parts for each subquestion.
func (r *reply) parts() []part {
	var wholeText []part
	if r.text == "" {
		return nil
	}
	if len(r.openQuestions) > 0 {
		first := r.openQuestions[0]
		wholeText = []part{{question: first, text: r.text}}
		// a label may look like any of the forms below, so it has precedence
		if r.questions[first].matchLabel(r.text) > 0 || otherPrefixPattern().MatchString(r.text) {
			return wholeText
		}
	}
	if strings.ContainsAny(r.text, "QqＱｑ") {
		if parts := r.namedParts(); parts != nil {
			return parts
		}
	}
	if len(r.questions) == 1 {
		return wholeText
	}
	for _, separators := range []string{"\n", ";；"} {
		if parts := r.orderedParts(separators); parts != nil {
			return parts
		}
	}
	return wholeText
}

// questionLabelPattern matches "Q2:" and its variants from phones. A full stop or a
// hyphen only counts before a space: "Q1-2 next year" and "Q1.5" are plain text. The
// first group is empty at the start of a line, and does not take part in a match inside a
// line.
var questionLabelPattern = state.LazyPattern(`(?m)(?:(^)|[\t\pZ,;，；])[\t\pZ]*` +
	`[QqＱｑ][\t\pZ]*([0-9０-９])[\t\pZ]*(?:[:：=)）]|[.–—-][\t\pZ])`)

// namedParts splits replies such as "Q1: 2 ⏎ Q2: text" and "Q1: 2, Q2: 1". Inside a line,
// a label begins the next part only if the text before it is a choice: in "Q1: see what I
// said on Q2: never", "Q2:" belongs to the text. The text before the first label is a
// remark on the first answer. namedParts returns nil if the reply has no label, or
// nothing but labels.
func (r *reply) namedParts() (parts []part) {
	start, intro := 0, ""
	for _, m := range questionLabelPattern().FindAllStringSubmatchIndex(r.text, 64) {
		n, _ := strconv.Atoi(digitReplacer.Replace(r.text[m[4]:m[5]]))
		if n < 1 || n > len(r.questions) {
			continue
		}
		lastPart := len(parts) - 1
		before := strings.TrimSpace(r.text[start:m[0]])
		isLabel := m[2] >= 0 // it begins a line
		if !isLabel && lastPart >= 0 {
			isLabel = r.questions[parts[lastPart].question].pickOptions(before, true) != nil
		}
		if !isLabel {
			continue
		}
		if lastPart < 0 {
			intro = before
		} else {
			parts[lastPart].text = before
		}
		start = m[1]
		parts = append(parts, part{question: n - 1, text: strings.TrimSpace(r.text[start:])})
	}
	first := slices.IndexFunc(parts, func(p part) bool { return p.text != "" })
	if first >= 0 {
		parts[first].remark = intro
		return parts
	}
	if intro == "" && len(r.questions) > 1 {
		return parts // the question's own lines "Q1: …", sent back without answers
	}
	return nil
}

// orderedParts splits the reply at any of the separators into answers for all
// subquestions, or for those without an answer, in their order. Everything after "other:"
// is one answer. It returns nil unless each answer is a choice or begins with "other:".
func (r *reply) orderedParts(separators string) (parts []part) {
	var texts []string
	for rest := r.text; rest != ""; {
		text, after := rest, ""
		at := strings.IndexAny(rest, separators)
		if at >= 0 && !otherPrefixPattern().MatchString(rest) {
			_, size := utf8.DecodeRuneInString(rest[at:])
			text, after = rest[:at], rest[at+size:]
		}
		texts, rest = append(texts, strings.TrimSpace(text)), strings.TrimSpace(after)
		if len(texts) > len(r.questions) {
			return nil
		}
	}
	answersAll := len(texts) == len(r.questions)
	// with fewer lines than open subquestions, the reply is one text of several lines
	hasTooFewLines := separators == "\n" && len(texts) < len(r.openQuestions)
	isMismatch := len(texts) > len(r.openQuestions) || hasTooFewLines
	if len(texts) < 2 || !answersAll && isMismatch {
		return nil
	}
	for i, text := range texts {
		question := i
		if !answersAll {
			question = r.openQuestions[i]
		}
		picked, _ := r.questions[question].readChoice(text)
		if picked == nil && !otherPrefixPattern().MatchString(text) {
			return nil
		}
		parts = append(parts, part{question: question, text: text})
	}
	return parts
}

// optionMatcher finds the options of a subquestion that a text chooses.
type optionMatcher struct {
	state.SubQuestion
	labels        []string // normalised, in the order of the options
	maxLength     int      // bytes; a longer text is not a choice
	prefersLabels bool     // if a number is also a label, it means the option of that label
}

func newOptionMatcher(subQuestion state.SubQuestion) *optionMatcher {
	c := &optionMatcher{SubQuestion: subQuestion, maxLength: 256}
	for _, o := range subQuestion.Options {
		c.labels = append(c.labels, normalise(o.Label))
		c.maxLength += 2*len(o.Label) + 16
	}
	return c
}

var (
	otherPrefixPattern = state.LazyPattern(`(?i)^other[\s\pZ]*[:：]`)
	otherInListPattern = state.LazyPattern(`(?i)[\s\pZ,;，；、]+(?:and[\s\pZ]+)?other[\s\pZ]*[:：]`)
	// remarkDashPattern matches the dash before a remark. It needs space on both sides:
	// "2-3 days" is no remark. Phones turn two hyphens into a longer dash.
	remarkDashPattern = state.LazyPattern(`[\t\pZ]+[-–—]{1,3}[\t\pZ]+`)
)

// readAnswer returns the answer that a text gives. Only an empty text gives an empty
// answer. If the text chooses a number without an option, the whole text counts as the
// person's own, and unknown is that number.
func (c *optionMatcher) readAnswer(text string) (a state.Answer, unknown *int) {
	if text == "" {
		return a, nil
	}
	picked, a := c.readChoice(text)
	for _, n := range picked {
		if !c.hasOption(n) {
			return state.Answer{Text: text}, &n
		}
	}
	if picked != nil {
		a.Labels = chosenLabels(c.SubQuestion, picked)
		return a, nil
	}
	ownText := strings.TrimSpace(otherPrefixPattern().ReplaceAllString(text, ""))
	return state.Answer{Text: cmp.Or(ownText, text)}, nil
}

// readChoice returns the numbers of the options that a text chooses. The answer holds the
// person's own text or the remark that follows them. picked is nil if the text is not a
// choice. A label may contain dashes, so the remark begins after the last dash that has a
// choice before it.
func (c *optionMatcher) readChoice(text string) (picked []int, a state.Answer) {
	if picked := c.pickOptions(text, true); picked != nil {
		return picked, a
	}
	start := firstBytes(text, c.maxLength)
	if at := otherInListPattern().FindStringIndex(start); at != nil && c.MultiSelect {
		if picked := c.pickOptions(text[:at[0]], true); picked != nil {
			return picked, state.Answer{Text: strings.TrimSpace(text[at[1]:])}
		}
	}
	dashes := remarkDashPattern().FindAllStringIndex(start, 32)
	for _, at := range slices.Backward(dashes) {
		if picked := c.pickOptions(text[:at[0]], false); picked != nil {
			return picked, state.Answer{Notes: strings.TrimSpace(text[at[1]:])}
		}
	}
	return nil, a
}

var listSeparatorPattern = state.LazyPattern(`(?i)[\s\pZ,;，；、\x{20E3}]+(?:(?:and|&|\+)[\s\pZ]+)?`)

// pickOptions reads the whole text as one option or, if several may be chosen, as a list
// of options: "1,3", "1 3", "auth, search and 2". It looks for the longest start of the
// text that is an option, since labels may contain commas and "and", and then reads the
// rest in the same way. allowBeginnings says that the start of a label counts as well.
func (c *optionMatcher) pickOptions(text string, allowBeginnings bool) (picked []int) {
	text = strings.TrimSpace(text)
	if len(c.Options) == 0 || len(text) > c.maxLength {
		return nil
	}
next:
	for text != "" {
		var ends [][]int
		if c.MultiSelect {
			ends = listSeparatorPattern().FindAllStringIndex(text, 16)
		}
		for _, end := range slices.Backward(append(ends, []int{len(text), len(text)})) {
			if n := c.pickOne(text[:end[0]], allowBeginnings); n >= 0 {
				picked, text = append(picked, n), text[end[1]:]
				continue next
			}
		}
		return nil
	}
	return picked
}

// pickOne returns the number of the option that a text names, counted from 1, or -1. For
// a number without an option it returns that number.
func (c *optionMatcher) pickOne(text string, allowBeginnings bool) int {
	n, isBare := readNumber(text)
	labelNumber := c.matchLabel(text)
	if isBare && c.hasOption(n) && !(c.prefersLabels && labelNumber > 0) {
		return n
	}
	if labelNumber > 0 {
		return labelNumber
	}
	if n < 0 && allowBeginnings {
		return c.matchBeginning(text)
	}
	return n
}

// hasOption reports whether an option has that number, and a label that people can see.
func (c *optionMatcher) hasOption(n int) bool {
	return n >= 1 && n <= len(c.labels) && c.labels[n-1] != ""
}

// matchLabel returns the number of the option with that label, or 0.
func (c *optionMatcher) matchLabel(text string) int {
	if len(text) > c.maxLength {
		return 0
	}
	text = normalise(text)
	n := slices.Index(c.labels, text)
	if n < 0 {
		n = slices.Index(c.labels, strings.TrimRight(text, "!.")) // "MySQL!"
	}
	if n < 0 || c.labels[n] == "" {
		return 0
	}
	return n + 1
}

// standaloneWords are words of three letters or more that a person may write without
// meaning the start of a label: "sure" does not choose "Surefire", nor "all" "All at
// once".
var standaloneWords = strings.Fields(`
	ALL AND ANY BOTH BUT COOL FINE FOR GOOD GREAT HOW LET MAYBE NAH NEW NICE NONE NOPE NOT
	NOW OFF OKAY OLD ONE OUT RIGHT STOP SURE THANKS THAT THE THIS TRY TWO USE WAIT WELL
	WHAT WHO WHY YEAH YEP YES YOU YUP`)

// matchBeginning returns the number of the option whose label begins with text, or -1 if
// there is none, or if several different labels begin so.
func (c *optionMatcher) matchBeginning(text string) int {
	// in letters and digits; "do", "go" and "no" must not choose Docker, Google or
	// Node.js
	const minLetters = 3
	text = normalise(text)
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			letters++
		}
	}
	if letters < minLetters || slices.Contains(standaloneWords, text) {
		return -1
	}
	found := -1
	for i, label := range c.labels {
		switch {
		case !strings.HasPrefix(label, text):
		case found < 0:
			found = i + 1
		case c.labels[found-1] != label:
			return -1
		}
	}
	return found
}

// chosenLabels returns the labels of the options with these numbers, each once, in the
// options' order.
func chosenLabels(subQuestion state.SubQuestion, numbers []int) (labels []string) {
	for i, o := range subQuestion.Options {
		if slices.Contains(numbers, i+1) && !slices.Contains(labels, o.Label) {
			labels = append(labels, o.Label)
		}
	}
	return labels
}

var numberPattern = state.LazyPattern(
	`^(?i:options?[\s\pZ]*)?#?[\s\pZ]*\(?[\s\pZ]*(\d{1,9})[\s\pZ]*[.)]?$`)

// readNumber reads a number in any form that people write on a phone: "2", "2.", "(2)",
// "#2", "option 2", "２", "2️⃣". It returns -1 for any other text. isBare says that there
// is nothing but digits.
func readNumber(text string) (n int, isBare bool) {
	if len(text) > 200 {
		return -1, false
	}
	text = strings.TrimSpace(digitReplacer.Replace(text))
	m := numberPattern().FindStringSubmatch(text)
	if m == nil {
		return -1, false
	}
	n, _ = strconv.Atoi(m[1])
	return n, text == m[1]
}

// digitReplacer replaces full-width characters of a number with ASCII. It puts a space
// after a keycap emoji, so that "1️⃣3️⃣" is two numbers.
var digitReplacer = strings.NewReplacer(
	"０", "0", "１", "1", "２", "2", "３", "3", "４", "4",
	"５", "5", "６", "6", "７", "7", "８", "8", "９", "9",
	"＃", "#", "（", "(", "）", ")", "．", ".", "。", ".",
	"\uFE0F", "", "\u20E3", " ",
)

// ResponseType returns the response_type of a question's file: single_select,
// multi_select, custom_text or multi_question, or "" without any answer.
func ResponseType(questions []state.SubQuestion, answers map[int]state.Answer) string {
	switch {
	case len(answers) == 0:
		return ""
	case len(questions) > 1:
		return "multi_question"
	case len(answers[0].Labels) == 0:
		return "custom_text"
	case questions[0].MultiSelect:
		return "multi_select"
	}
	return "single_select"
}

// ParseAnswerValue turns a value of Claude Code's answers map, such as "Auth, Search,
// something else", back into an answer. Labels may contain ", ", so it looks for the
// longest label that the value begins with, and then reads the rest in the same way. Each
// label counts once. What is left is the person's own text. The value holds no remarks.
func ParseAnswerValue(subQuestion state.SubQuestion, value string) state.Answer {
	var numbers []int
	for remaining := value + ", "; ; {
		best, bestRest := 0, ""
		for i, o := range subQuestion.Options {
			rest, isMatch := strings.CutPrefix(remaining, o.Label+", ")
			// a comma at the end of the value belongs to the person's own text
			isMatch = isMatch && o.Label != "" && rest != ", " && !slices.Contains(numbers, i+1)
			isAllowed := subQuestion.MultiSelect || rest == ""
			isLonger := best == 0 || len(o.Label) > len(subQuestion.Options[best-1].Label)
			if isMatch && isAllowed && isLonger {
				best, bestRest = i+1, rest
			}
		}
		if best == 0 {
			return state.Answer{
				Labels: chosenLabels(subQuestion, numbers),
				Text:   strings.TrimSuffix(remaining, ", "),
			}
		}
		numbers, remaining = append(numbers, best), bestRest
	}
}
