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

// NoOption is a number that none of a question's options has. Question is an index.
type NoOption struct{ Question, Number int }

// ParseReply adds to the partial answers what a person's reply says, by index into
// questions. Partial stays as it is. Where an answer is a number without an option, none
// says so, and the answer holds that number as the person's own words.
func ParseReply(
	text string, questions []state.SubQuestion, partial map[int]state.Answer,
) (answers map[int]state.Answer, none *NoOption) {
	answers = map[int]state.Answer{}
	maps.Copy(answers, partial)
	r := newReply(text, questions, partial)
	for _, part := range r.parts() {
		a, number := r.questions[part.question].answer(part.text)
		if a.IsEmpty() {
			continue
		}
		a.Notes = strings.TrimSpace(a.Notes + "\n" + part.remark)
		answers[part.question] = a
		if number != nil && none == nil {
			none = &NoOption{part.question, *number}
		}
	}
	return answers, none
}

// VerdictAskedHow is what ReadDecline gives of a reply that only asks what to write.
const AskedHow = "how"

var (
	chatForm = state.LazyPattern(`(?is)^(?:(chat[\s\pZ]+about[\s\pZ]+this)\b|(chat)` +
		`(?:[\t\pZ]*[:：\n]|[\t\pZ]+[-–—]{1,3}[\t\pZ]))[\s\pZ:：,;.!–—-]*(.*)$`)
	ourCommand = state.LazyPattern(
		`(?i)^/(?:screen|status|stop|mute|ask|help|sessions|new)(?:[\s\pZ]|$)`)
	noAnswers = map[string]string{
		"CHAT": state.DeclinedChat, "CHAT ABOUT THIS": state.DeclinedChat,
		"SKIP": state.DeclinedSkip, "CANCEL": state.DeclinedSkip, "HELP": AskedHow, "": AskedHow,
	}
)

// OurCommand says whether a text is a command of ours, which counts in every thread of a
// session.
func OurCommand(text string) bool { return ourCommand().MatchString(strings.TrimSpace(text)) }

// ReadDecline says how a reply turns a question down: state.DeclinedChat, with the words
// behind it, state.DeclinedSkip, or VerdictAskedHow. It is "" for an answer, and where an
// option of a prompt without an answer reads so.
func ReadDecline(text string, q *state.Question) (how, words string) {
	text = strings.TrimSpace(state.Clean(state.ForAgent, text))
	word := text
	if m := chatForm().FindStringSubmatch(text); m != nil {
		word, words = m[1]+m[2], m[3]
	}
	how = noAnswers[normal(strings.TrimRight(word, ".!?"))]
	if OurCommand(text) {
		how = AskedHow
	}
	for _, i := range Unanswered(q.SubQuestions, q.PartialAnswers) {
		if picked, _ := newChoices(q.SubQuestions[i]).choice(word); picked != nil {
			return "", ""
		}
	}
	return how, words
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
	text      string
	questions []*choices
	open      []int
}

func newReply(text string, questions []state.SubQuestion, partial map[int]state.Answer) *reply {
	r := &reply{
		text: strings.TrimSpace(state.Clean(state.ForAgent, text)),
		open: Unanswered(questions, partial),
	}
	for _, p := range questions {
		r.questions = append(r.questions, newChoices(p))
	}
	return r
}

type part struct {
	question     int
	text, remark string
}

// parts says which text of the reply belongs to which question.
func (r *reply) parts() []part {
	var whole []part
	if r.text == "" {
		return nil
	}
	if len(r.open) > 0 {
		whole = []part{{question: r.open[0], text: r.text}}
		if r.questions[r.open[0]].label(r.text) > 0 || otherPrefix().MatchString(r.text) {
			// a label may look like any form below
			return whole
		}
	}
	if strings.ContainsAny(r.text, "QqＱｑ") {
		if parts := r.named(); parts != nil {
			return parts
		}
	}
	if len(r.questions) == 1 {
		return whole
	}
	if parts := r.inOrder("\n"); parts != nil {
		return parts
	}
	if parts := r.inOrder(";；"); parts != nil {
		return parts
	}
	return whole
}

// questionMark is "Q2:" with what phones make of it. A full stop or a hyphen needs a
// space behind it: "Q1-2 next year" and "Q1.5" are words. The first group is empty at the
// start of a line, and missing inside one.
var questionMark = state.LazyPattern(
	`(?m)(?:(^)|[\t\pZ,;，；])[\t\pZ]*[QqＱｑ][\t\pZ]*([0-9０-９])[\t\pZ]*(?:[:：=)）]|[.–—-][\t\pZ])`,
)

// named cuts "Q1: 2 ⏎ Q2: text" and "Q1: 2, Q2: 1". Inside a line a question ends only
// where a choice stands before the next: in "Q1: see what I said on Q2: never" the second
// Q is part of the words. What stands before the first Q is a remark on the first answer.
// It returns nil when the reply names no question, and when it says nothing but names.
func (r *reply) named() (parts []part) {
	from, intro := 0, ""
	for _, m := range questionMark().FindAllStringSubmatchIndex(r.text, 64) {
		n, _ := strconv.Atoi(plainDigits.Replace(r.text[m[4]:m[5]]))
		if n < 1 || n > len(r.questions) {
			continue
		}
		last := len(parts) - 1
		before := strings.TrimSpace(r.text[from:m[0]])
		if inLine := m[2] < 0; inLine &&
			(last < 0 || r.questions[parts[last].question].pick(before, true) == nil) {
			continue
		}
		if last < 0 {
			intro = before
		} else {
			parts[last].text = before
		}
		from = m[1]
		parts = append(parts, part{question: n - 1, text: strings.TrimSpace(r.text[from:])})
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

// inOrder cuts the reply into answers for all questions, or for those that are open, in
// their order: a line for each, or so many with semicolons between them. `other:` takes
// everything that follows. It returns nil unless each piece is a choice or `other:`.
func (r *reply) inOrder(separators string) (parts []part) {
	var texts []string
	for rest := r.text; rest != ""; {
		text, after := rest, ""
		if at := strings.IndexAny(rest, separators); at >= 0 && !otherPrefix().MatchString(rest) {
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
		!all && (len(texts) > len(r.open) || separators == "\n" && len(texts) < len(r.open)) {
		return nil
	}
	for i, text := range texts {
		question := i
		if !all {
			question = r.open[i]
		}
		if picked, _ := r.questions[question].choice(text); picked == nil &&
			!otherPrefix().MatchString(text) {
			return nil
		}
		parts = append(parts, part{question: question, text: text})
	}
	return parts
}

type choices struct {
	state.SubQuestion
	labels     []string // as they are compared
	longest    int      // bytes; no choice is written longer than that
	labelFirst bool     // a number that is a label is that one
}

func newChoices(p state.SubQuestion) *choices {
	c := &choices{SubQuestion: p, longest: 256}
	for _, o := range p.Options {
		c.labels = append(c.labels, normal(o.Label))
		c.longest += 2*len(o.Label) + 16
	}
	return c
}

var (
	otherPrefix = state.LazyPattern(`(?i)^other[\s\pZ]*[:：]`)
	otherInList = state.LazyPattern(`(?i)[\s\pZ,;，；、]+(?:and[\s\pZ]+)?other[\s\pZ]*[:：]`)
	// A hyphen needs space around it ("2-3 days"). Phones make longer dashes of two.
	remarkDash = state.LazyPattern(`[\t\pZ]+[-–—]{1,3}[\t\pZ]+`)
)

// answer is what the text says. It is empty only if the text is. None is a number in it
// without an option: the text then counts as the person's own words.
func (c *choices) answer(text string) (a state.Answer, none *int) {
	if text == "" {
		return a, nil
	}
	picked, a := c.choice(text)
	for _, n := range picked {
		if !c.has(n) {
			return state.Answer{Text: text}, &n
		}
	}
	if picked != nil {
		a.Labels = chosen(c.SubQuestion, picked)
		return a, nil
	}
	own := strings.TrimSpace(otherPrefix().ReplaceAllString(text, ""))
	return state.Answer{Text: cmp.Or(own, text)}, nil
}

// choice reads the numbers of the options that the text chooses, with the own words or
// the remark behind them. It returns nil when the text is no choice. Of several dashes
// the last with a choice before it counts, since labels have dashes too.
func (c *choices) choice(text string) (picked []int, a state.Answer) {
	if picked := c.pick(text, true); picked != nil {
		return picked, a
	}
	if at := otherInList().FindStringIndex(head(text, c.longest)); at != nil && c.MultiSelect {
		if picked := c.pick(text[:at[0]], true); picked != nil {
			return picked, state.Answer{Text: strings.TrimSpace(text[at[1]:])}
		}
	}
	dashes := remarkDash().FindAllStringIndex(head(text, c.longest), 32)
	for _, at := range slices.Backward(dashes) {
		if picked := c.pick(text[:at[0]], false); picked != nil {
			return picked, state.Answer{Notes: strings.TrimSpace(text[at[1]:])}
		}
	}
	return nil, a
}

var listSeparator = state.LazyPattern(`(?i)[\s\pZ,;，；、\x{20E3}]+(?:(?:and|&|\+)[\s\pZ]+)?`)

// pick reads the whole text as one option or, where several may be chosen, as a list of
// them: "1,3", "1 3", "auth, search and 2". Each time it takes the longest start of the
// text that is one option: labels contain commas and "and" as well.
func (c *choices) pick(text string, beginnings bool) (picked []int) {
	text = strings.TrimSpace(text)
	if len(c.Options) == 0 || len(text) > c.longest {
		return nil
	}
next:
	for text != "" {
		var ends [][]int
		if c.MultiSelect {
			ends = listSeparator().FindAllStringIndex(text, 16)
		}
		for _, end := range slices.Backward(append(ends, []int{len(text), len(text)})) {
			if n := c.one(text[:end[0]], beginnings); n >= 0 {
				picked, text = append(picked, n), text[end[1]:]
				continue next
			}
		}
		return nil
	}
	return picked
}

// one gives the number of the one option that the text names, counted from 1, or -1. A
// number needs no option: "9" is 9.
func (c *choices) one(text string, beginnings bool) int {
	n, bare := number(text)
	l := c.label(text)
	if bare && c.has(n) && !(c.labelFirst && l > 0) {
		return n
	}
	if l > 0 {
		return l
	}
	if n < 0 && beginnings {
		return c.beginning(text)
	}
	return n
}

func (c *choices) has(n int) bool { return n >= 1 && n <= len(c.labels) && c.labels[n-1] != "" }

func (c *choices) label(text string) int {
	if len(text) > c.longest {
		return 0
	}
	text = normal(text)
	n := slices.Index(c.labels, text)
	if n < 0 {
		n = slices.Index(c.labels, strings.TrimRight(text, "!.")) // "MySQL!"
	}
	if n < 0 || c.labels[n] == "" {
		return 0
	}
	return n + 1
}

// saidAlone are longer words that say everything by themselves: "sure" chooses no
// "Surefire", "all" no "All at once".
var saidAlone = strings.Fields(
	"ALL AND ANY BOTH BUT COOL FINE FOR GOOD GREAT HOW LET MAYBE NAH NEW NICE NONE NOPE NOT NOW OFF " +
		"OKAY OLD ONE OUT RIGHT STOP SURE THANKS THAT THE THIS TRY TWO USE WAIT WELL WHAT WHO WHY YEAH YEP YES YOU YUP",
)

func (c *choices) beginning(text string) int {
	const leastBeginning = 3 // letters: "do", "go" and "no" choose no Docker, Google or Node.js
	text = normal(text)
	letters := 0
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			letters++
		}
	}
	if letters < leastBeginning || slices.Contains(saidAlone, text) {
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

func chosen(p state.SubQuestion, numbers []int) (labels []string) {
	for i, o := range p.Options {
		if slices.Contains(numbers, i+1) && !slices.Contains(labels, o.Label) {
			labels = append(labels, o.Label)
		}
	}
	return labels
}

var numberForm = state.LazyPattern(
	`^(?i:options?[\s\pZ]*)?#?[\s\pZ]*\(?[\s\pZ]*(\d{1,9})[\s\pZ]*[.)]?$`,
)

// number reads the forms in which phones give a number: "2", "2.", "(2)", "#2", "option
// 2", "２", "2️⃣". It gives -1 for anything else. Bare is a number without any decoration.
func number(text string) (n int, bare bool) {
	if len(text) > 200 {
		return -1, false
	}
	text = strings.TrimSpace(plainDigits.Replace(text))
	m := numberForm().FindStringSubmatch(text)
	if m == nil {
		return -1, false
	}
	n, _ = strconv.Atoi(m[1])
	return n, text == m[1]
}

// plainDigits gives the full-width characters of a number as ASCII, and ends a keycap
// emoji with a space: "1️⃣3️⃣" is two numbers.
var plainDigits = strings.NewReplacer(
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

// Decompose turns a value of Claude Code's answers map ("Auth, Search, something else")
// back into an answer. Labels may contain ", " themselves: the longest one that fits is
// taken, each once, and the rest are the person's own words. Remarks are not in the
// value.
func Decompose(p state.SubQuestion, value string) state.Answer {
	var numbers []int
	for left := value + ", "; ; {
		best, behind := 0, ""
		for i, o := range p.Options {
			rest, ok := strings.CutPrefix(left, o.Label+", ")
			// A comma without anything behind it is none of ours.
			ok = ok && o.Label != "" && rest != ", " && !slices.Contains(numbers, i+1)
			if ok && (p.MultiSelect || rest == "") &&
				(best == 0 || len(o.Label) > len(p.Options[best-1].Label)) {
				best, behind = i+1, rest
			}
		}
		if best == 0 {
			return state.Answer{Labels: chosen(p, numbers), Text: strings.TrimSuffix(left, ", ")}
		}
		numbers, left = append(numbers, best), behind
	}
}
