package gchat

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// ParseReply adds to the partial answers what a person's reply says, by index into questions. Missing are the indexes
// that have no answer yet, in order. Partial stays as it is.
func ParseReply(text string, questions []state.Prompt, partial map[int]state.Answer) (answers map[int]state.Answer, missing []int) {
	answers = maps.Clone(partial)
	if answers == nil {
		answers = map[int]state.Answer{}
	}
	if text = strings.TrimSpace(CleanReply(text)); !blank(text) {
		r := &reply{open: unanswered(questions, partial)}
		for _, p := range questions {
			r.questions = append(r.questions, newChoices(p))
		}
		for i, a := range r.read(text) {
			if !a.Empty() {
				answers[i] = a
			}
		}
	}
	return answers, unanswered(questions, answers)
}

func unanswered(questions []state.Prompt, answers map[int]state.Answer) (missing []int) {
	for i := range questions {
		if answers[i].Empty() {
			missing = append(missing, i)
		}
	}
	return missing
}

// reply reads one message. Open are the questions that had no answer before it.
type reply struct {
	questions []*choices
	open      []int
}

func (r *reply) read(text string) map[int]state.Answer {
	whole := len(r.open) > 0 && r.questions[r.open[0]].exactly(text) >= 0 // a label may look like any form below
	if !whole {
		if answers, ok := r.named(text); ok {
			return answers
		}
		if to, pieces := r.inOrder(text); pieces != nil {
			answers := map[int]state.Answer{}
			for i, piece := range pieces {
				answers[to[i]] = r.parse(to[i], piece)
			}
			return answers
		}
	}
	if len(r.open) == 0 {
		return nil
	}
	return map[int]state.Answer{r.open[0]: r.parse(r.open[0], text)}
}

func (r *reply) parse(question int, piece string) state.Answer {
	if piece = strings.TrimSpace(piece); blank(piece) {
		return state.Answer{}
	}
	return r.questions[question].parse(piece)
}

var (
	qLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[\s\pZ]*[QqＱｑ][\t\pZ]*([0-9０-９]{1,9})[\t\pZ]*([:：.)）=–—-])`)
	})
	qInLine = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[\s\pZ,;，；]+([QqＱｑ][\t\pZ]*[0-9０-９]{1,9}[\t\pZ]*[:：=])`)
	})
)

// named reads "Q1: 2" lines. What stands before the first of them is a remark on the first answer. It is not ok when
// there is no such line, or when words would be lost because none of the lines says anything.
func (r *reply) named(text string) (answers map[int]state.Answer, ok bool) {
	var intro []string
	said := map[int][]string{} // lines by question; a later Q line replaces an earlier one
	var order []int
	at := -1
	for line := range strings.SplitSeq(text, "\n") {
		for {
			i, rest, isQ := r.qLine(line)
			if isQ {
				at = i
				order = append(order, i)
				said[i] = nil
				line = rest
			}
			next := r.nextInLine(at, isQ, line)
			if next < 0 {
				break
			}
			said[at] = append(said[at], strings.TrimRight(line[:next], ",;，； \t"))
			line = strings.TrimLeft(line[next:], ",;，； \t\u00a0\u3000")
		}
		if at < 0 {
			intro = append(intro, line)
		} else {
			said[at] = append(said[at], line)
		}
	}
	if at < 0 {
		return nil, false
	}
	answers = map[int]state.Answer{}
	first := -1
	for _, i := range order {
		if _, done := answers[i]; done {
			continue
		}
		if a := r.parse(i, strings.Join(said[i], "\n")); !a.Empty() {
			answers[i] = a
			if first < 0 {
				first = i
			}
		}
	}
	remark := strings.TrimSpace(strings.Join(intro, "\n"))
	if blank(remark) {
		return answers, first >= 0 || len(r.questions) > 1
	}
	if first < 0 {
		return nil, false
	}
	a := answers[first]
	a.Notes = strings.TrimPrefix(a.Notes+"\n"+remark, "\n")
	answers[first] = a
	return answers, true
}

// qLine splits "Q2: text". A number that sits tight behind "." or "-" must be a choice: "Q1-2 next year" and "Q3-Q4"
// are words.
func (r *reply) qLine(line string) (question int, rest string, ok bool) {
	if !strings.ContainsAny(line, "QqＱｑ") { // cheaper than the expression, for a megabyte of lines
		return 0, "", false
	}
	m := qLine().FindStringSubmatchIndex(line)
	if m == nil {
		return 0, "", false
	}
	n, _ := strconv.Atoi(plainDigits(line[m[2]:m[3]]))
	if n < 1 || n > len(r.questions) {
		return 0, "", false
	}
	sep, rest := line[m[4]:m[5]], line[m[1]:]
	if sep == "." || sep == "-" || sep == "–" || sep == "—" {
		if startsWithDigit(rest) || strings.HasPrefix(rest, "Q") || strings.HasPrefix(rest, "q") {
			if picked, _ := r.questions[n-1].pick(rest); picked == nil {
				return 0, "", false
			}
		}
	}
	return n - 1, rest, true
}

// nextInLine finds the next question in "Q1: 2, Q2: 1", or gives -1. Only a plain choice ends there: in "Q1: see what
// I said on Q2: never" the second Q is part of the words.
func (r *reply) nextInLine(question int, isQ bool, line string) int {
	if !isQ {
		return -1
	}
	m := qInLine().FindStringSubmatchIndex(line)
	if m == nil {
		return -1
	}
	if _, _, ok := r.qLine(line[m[2]:]); !ok {
		return -1
	}
	if picked, _ := r.questions[question].pick(line[:m[0]]); picked == nil {
		return -1
	}
	return m[0]
}

// inOrder splits a reply to several questions that names none of them: "1; 2,3; other: …", a line for each, or "2, 1".
// It gives no pieces when the reply is about one question only.
func (r *reply) inOrder(text string) (to []int, pieces []string) {
	if len(r.questions) < 2 {
		return nil, nil
	}
	byLine := r.lines(text)
	to, pieces = r.semicolons(text)
	switch {
	case byLine != nil && (pieces == nil || r.clear(r.open, byLine) >= r.clear(to, pieces)):
		return r.open, byLine
	case pieces != nil:
		return to, pieces
	}
	return r.open, r.commas(text)
}

// clear counts the pieces that are certainly an answer to their question. It decides between two ways to split.
func (r *reply) clear(to []int, pieces []string) (n int) {
	for i, piece := range pieces {
		piece = strings.TrimSpace(piece)
		if len(r.parse(to[i], piece).Labels) > 0 || otherPrefix().MatchString(piece) {
			n++
		}
	}
	return n
}

func (r *reply) semicolons(text string) (to []int, pieces []string) {
	pieces = strings.Split(strings.ReplaceAll(text, "；", ";"), ";")
	for {
		n := len(pieces)
		switch {
		case n < 2:
			return nil, nil
		case n == len(r.questions), n < len(r.questions) && len(r.open) == len(r.questions):
			for i := range n {
				to = append(to, i)
			}
			return to, pieces
		case n == len(r.open):
			return r.open, pieces
		case !blank(pieces[n-1]):
			return nil, nil
		}
		pieces = pieces[:n-1] // "1; 2;" says as much as "1; 2"
	}
}

// lines gives one line for each open question, without their numbers if they are a numbered list of choices.
func (r *reply) lines(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if !blank(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) != len(r.open) || len(lines) < 2 {
		return nil
	}
	var rests []string
	for i, line := range lines {
		m := listItem().FindStringSubmatch(line)
		if m == nil || m[1] != strconv.Itoa(r.open[i]+1) {
			return lines
		}
		if picked, _ := r.questions[r.open[i]].pick(m[2]); picked == nil {
			return lines
		}
		rests = append(rests, m[2])
	}
	return rests
}

var listItem = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(\d+)[.):][\s\pZ]+(.+)$`) })

// commas reads "2, 1" as the numbers of single-selects in order.
func (r *reply) commas(text string) []string {
	pieces := strings.Split(strings.NewReplacer("，", ",", "、", ",").Replace(text), ",")
	if len(pieces) != len(r.open) || len(pieces) < 2 {
		return nil
	}
	for i, piece := range pieces {
		c := r.questions[r.open[i]]
		n, _, _ := number(piece)
		if _, ok := c.byNumber(n); !ok || c.MultiSelect {
			return nil
		}
	}
	return pieces
}

// ResponseType names the kind of an answered call, as the question's file has it: single_select, multi_select,
// custom_text or multi_question; "" when nothing is answered.
func ResponseType(questions []state.Prompt, answers map[int]state.Answer) string {
	if len(unanswered(questions, answers)) == len(questions) {
		return ""
	}
	switch {
	case len(questions) > 1:
		return "multi_question"
	case len(answers[0].Labels) == 0:
		return "custom_text"
	case questions[0].MultiSelect:
		return "multi_select"
	}
	return "single_select"
}

func startsWithDigit(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsDigit(r)
}

func endsInDigit(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsDigit(r)
}

func startsWithLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}
