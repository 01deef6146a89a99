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

// People answer on a phone, tired. This is what their replies may say:
//
//	2, #2, 2), option 2         the option with that number
//	Rolling deployment, roll    a label, or a clear beginning of one
//	1,3 or auth and search      several of them, where several may be chosen
//	2 - but keep the footer     a number, a list or a whole label, and a remark on it
//	other: 2                    the person's own words, to the end of the reply
//	Q2: 1                       the answer to one of several questions; each may stand on its line
//	2 ⏎ 1,3 or 2; 1,3           answers in order, where each of them is one of the above
//	chat, chat: words           no answer: Claude is told that the person wants to talk first
//	skip, cancel                no answer: it is left to the terminal
//	?, help, /status            nothing: it is asked back with what to write
//
// Anything else is the person's own words for the first question that is open, uncut:
// Claude understands words, while a choice that is read into them would be acted upon.

// UnknownOption is a number that none of a question's options has. Question is an index.
type UnknownOption struct{ Question, Number int }

// ParseReply adds to the partial answers what a person's reply says, by index into
// questions. Partial stays as it is. Where an answer is a number without an option, none
// says so, and the answer holds that number as the person's own words.
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

// AskedForHelp is what ReadDecline gives of a reply that only asks what to write.
const AskedForHelp = "how"

var (
	chatPattern = state.LazyPattern(`(?is)^(?:(chat[\s\pZ]+about[\s\pZ]+this)\b|(chat)` +
		`(?:[\t\pZ]*[:：\n]|[\t\pZ]+[-–—]{1,3}[\t\pZ]))[\s\pZ:：,;.!–—-]*(.*)$`)
	ownCommandPattern = state.LazyPattern(
		`(?i)^/(?:screen|status|stop|mute|ask|help|sessions|new)(?:[\s\pZ]|$)`)
	declineWords = map[string]string{
		"CHAT": state.DeclinedChat, "CHAT ABOUT THIS": state.DeclinedChat,
		"SKIP": state.DeclinedSkip, "CANCEL": state.DeclinedSkip, "HELP": AskedForHelp, "": AskedForHelp,
	}
)

// IsOwnCommand says whether a text is a command of ours, which counts in every thread of
// a session.
func IsOwnCommand(text string) bool {
	return ownCommandPattern().MatchString(strings.TrimSpace(text))
}

// ReadDecline says how a reply turns a question down: state.DeclinedChat, with the words
// behind it, state.DeclinedSkip, or AskedForHelp. It is "" for an answer, and where an
// option of a prompt without an answer reads so.
func ReadDecline(text string, q *state.Question) (decline, words string) {
	text = strings.TrimSpace(state.Clean(state.ForAgent, text))
	phrase := text
	if m := chatPattern().FindStringSubmatch(text); m != nil {
		phrase, words = m[1]+m[2], m[3]
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
	return decline, words
}

// Unanswered are the questions without an answer, by index.
func Unanswered(questions []state.SubQuestion, answers map[int]state.Answer) (missing []int) {
	for i := range questions {
		if answers[i].IsEmpty() {
			missing = append(missing, i)
		}
	}
	return missing
}

// reply is one message. Open are the questions that had no answer before it.
type reply struct {
	text          string
	questions     []*optionMatcher
	openQuestions []int
}

func newReply(text string, questions []state.SubQuestion, partial map[int]state.Answer) *reply {
	r := &reply{
		text:          strings.TrimSpace(state.Clean(state.ForAgent, text)),
		openQuestions: Unanswered(questions, partial),
	}
	for _, p := range questions {
		r.questions = append(r.questions, newOptionMatcher(p))
	}
	return r
}

type part struct {
	question     int
	text, remark string
}

// parts says which text of the reply belongs to which question.
func (r *reply) parts() []part {
	var wholeText []part
	if r.text == "" {
		return nil
	}
	if len(r.openQuestions) > 0 {
		wholeText = []part{{question: r.openQuestions[0], text: r.text}}
		if r.questions[r.openQuestions[0]].matchLabel(r.text) > 0 ||
			otherPrefixPattern().MatchString(r.text) {
			// a label may look like any form below
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
	if parts := r.orderedParts("\n"); parts != nil {
		return parts
	}
	if parts := r.orderedParts(";；"); parts != nil {
		return parts
	}
	return wholeText
}

// questionLabelPattern is "Q2:" with what phones make of it. A full stop or a hyphen
// needs a space behind it: "Q1-2 next year" and "Q1.5" are words. The first group is
// empty at the start of a line, and missing inside one.
var questionLabelPattern = state.LazyPattern(
	`(?m)(?:(^)|[\t\pZ,;，；])[\t\pZ]*[QqＱｑ][\t\pZ]*([0-9０-９])[\t\pZ]*(?:[:：=)）]|[.–—-][\t\pZ])`,
)

// namedParts cuts "Q1: 2 ⏎ Q2: text" and "Q1: 2, Q2: 1". Inside a line a question ends
// only where a choice stands before the next: in "Q1: see what I said on Q2: never" the
// second Q is part of the words. What stands before the first Q is a remark on the first
// answer. It returns nil when the reply names no question, and when it says nothing but
// names.
func (r *reply) namedParts() (parts []part) {
	start, intro := 0, ""
	for _, m := range questionLabelPattern().FindAllStringSubmatchIndex(r.text, 64) {
		n, _ := strconv.Atoi(digitReplacer.Replace(r.text[m[4]:m[5]]))
		if n < 1 || n > len(r.questions) {
			continue
		}
		lastPart := len(parts) - 1
		before := strings.TrimSpace(r.text[start:m[0]])
		if inLine := m[2] < 0; inLine &&
			(lastPart < 0 || r.questions[parts[lastPart].question].pickOptions(before, true) == nil) {
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
		return parts // the message's own lines for the answers, sent back empty
	}
	return nil
}

// orderedParts cuts the reply into answers for all questions, or for those that are open,
// in their order: a line for each, or so many with semicolons between them. `other:`
// takes everything that follows. It returns nil unless each piece is a choice or
// `other:`.
func (r *reply) orderedParts(separators string) (parts []part) {
	var texts []string
	for rest := r.text; rest != ""; {
		text, after := rest, ""
		if at := strings.IndexAny(rest, separators); at >= 0 &&
			!otherPrefixPattern().MatchString(rest) {
			_, size := utf8.DecodeRuneInString(rest[at:])
			text, after = rest[:at], rest[at+size:]
		}
		texts, rest = append(texts, strings.TrimSpace(text)), strings.TrimSpace(after)
		if len(texts) > len(r.questions) {
			return nil
		}
	}
	all := len(texts) == len(r.questions)
	if len(texts) < 2 ||
		!all &&
			(len(texts) > len(r.openQuestions) || separators == "\n" && len(texts) < len(r.openQuestions)) {
		return nil
	}
	for i, text := range texts {
		question := i
		if !all {
			question = r.openQuestions[i]
		}
		if picked, _ := r.questions[question].readChoice(text); picked == nil &&
			!otherPrefixPattern().MatchString(text) {
			return nil
		}
		parts = append(parts, part{question: question, text: text})
	}
	return parts
}

type optionMatcher struct {
	state.SubQuestion
	labels        []string // as they are compared
	maxLength     int      // bytes; no choice is written longer than that
	prefersLabels bool     // a number that is a label is that one
}

func newOptionMatcher(p state.SubQuestion) *optionMatcher {
	c := &optionMatcher{SubQuestion: p, maxLength: 256}
	for _, o := range p.Options {
		c.labels = append(c.labels, normalise(o.Label))
		c.maxLength += 2*len(o.Label) + 16
	}
	return c
}

var (
	otherPrefixPattern = state.LazyPattern(`(?i)^other[\s\pZ]*[:：]`)
	otherInListPattern = state.LazyPattern(`(?i)[\s\pZ,;，；、]+(?:and[\s\pZ]+)?other[\s\pZ]*[:：]`)
	// A hyphen needs space around it ("2-3 days"). Phones make longer dashes of two.
	remarkDashPattern = state.LazyPattern(`[\t\pZ]+[-–—]{1,3}[\t\pZ]+`)
)

// readAnswer is what the text says. It is empty only if the text is. None is a number in
// it without an option: the text then counts as the person's own words.
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

// readChoice reads the numbers of the options that the text chooses, with the own words
// or the remark behind them. It returns nil when the text is no choice. Of several dashes
// the last with a choice before it counts, since labels have dashes too.
func (c *optionMatcher) readChoice(text string) (picked []int, a state.Answer) {
	if picked := c.pickOptions(text, true); picked != nil {
		return picked, a
	}
	if at := otherInListPattern().FindStringIndex(firstBytes(text, c.maxLength)); at != nil &&
		c.MultiSelect {
		if picked := c.pickOptions(text[:at[0]], true); picked != nil {
			return picked, state.Answer{Text: strings.TrimSpace(text[at[1]:])}
		}
	}
	dashes := remarkDashPattern().FindAllStringIndex(firstBytes(text, c.maxLength), 32)
	for _, at := range slices.Backward(dashes) {
		if picked := c.pickOptions(text[:at[0]], false); picked != nil {
			return picked, state.Answer{Notes: strings.TrimSpace(text[at[1]:])}
		}
	}
	return nil, a
}

var listSeparatorPattern = state.LazyPattern(`(?i)[\s\pZ,;，；、\x{20E3}]+(?:(?:and|&|\+)[\s\pZ]+)?`)

// pickOptions reads the whole text as one option or, where several may be chosen, as a
// list of them: "1,3", "1 3", "auth, search and 2". Each time it takes the longest start
// of the text that is one option: labels contain commas and "and" as well.
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

// pickOne gives the number of the one option that the text names, counted from 1, or -1.
// A number needs no option: "9" is 9.
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

func (c *optionMatcher) hasOption(n int) bool {
	return n >= 1 && n <= len(c.labels) && c.labels[n-1] != ""
}

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

// standaloneWords are longer words that say everything by themselves: "sure" chooses no
// "Surefire", "all" no "All at once".
var standaloneWords = strings.Fields(
	"ALL AND ANY BOTH BUT COOL FINE FOR GOOD GREAT HOW LET MAYBE NAH NEW NICE NONE NOPE NOT NOW OFF " +
		"OKAY OLD ONE OUT RIGHT STOP SURE THANKS THAT THE THIS TRY TWO USE WAIT WELL WHAT WHO WHY YEAH YEP YES YOU YUP",
)

func (c *optionMatcher) matchBeginning(text string) int {
	const leastBeginning = 3 // letters: "do", "go" and "no" choose no Docker, Google or Node.js
	text = normalise(text)
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			letters++
		}
	}
	if letters < leastBeginning || slices.Contains(standaloneWords, text) {
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

func chosenLabels(subQuestion state.SubQuestion, numbers []int) (labels []string) {
	for i, o := range subQuestion.Options {
		if slices.Contains(numbers, i+1) && !slices.Contains(labels, o.Label) {
			labels = append(labels, o.Label)
		}
	}
	return labels
}

var numberPattern = state.LazyPattern(
	`^(?i:options?[\s\pZ]*)?#?[\s\pZ]*\(?[\s\pZ]*(\d{1,9})[\s\pZ]*[.)]?$`,
)

// readNumber reads the forms in which phones give a number: "2", "2.", "(2)", "#2",
// "option 2", "２", "2️⃣". It gives -1 for anything else. Bare is a number without any
// decoration.
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

// digitReplacer gives the full-width characters of a number as ASCII, and ends a keycap
// emoji with a space: "1️⃣3️⃣" is two numbers.
var digitReplacer = strings.NewReplacer(
	"０",
	"0",
	"１",
	"1",
	"２",
	"2",
	"３",
	"3",
	"４",
	"4",
	"５",
	"5",
	"６",
	"6",
	"７",
	"7",
	"８",
	"8",
	"９",
	"9",
	"＃",
	"#",
	"（",
	"(",
	"）",
	")",
	"．",
	".",
	"。",
	".",
	"\uFE0F",
	"",
	"\u20E3",
	" ",
)

// ResponseType names the kind of an answered call, as the question's file has it:
// single_select, multi_select, custom_text or multi_question; "" when nothing is
// answered.
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

// ParseAnswerValue turns a value of Claude Code's answers map ("Auth, Search, something
// else") back into an answer. Labels may contain ", " themselves: the longest one that
// fits is taken, each once, and the rest are the person's own words. Remarks are not in
// the value.
func ParseAnswerValue(subQuestion state.SubQuestion, value string) state.Answer {
	var numbers []int
	for remaining := value + ", "; ; {
		best, bestRest := 0, ""
		for i, o := range subQuestion.Options {
			rest, ok := strings.CutPrefix(remaining, o.Label+", ")
			// A comma without anything behind it is none of ours.
			ok = ok && o.Label != "" && rest != ", " && !slices.Contains(numbers, i+1)
			if ok && (subQuestion.MultiSelect || rest == "") &&
				(best == 0 || len(o.Label) > len(subQuestion.Options[best-1].Label)) {
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
