package gchat

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"gchat-hooks/state"
)

// choices reads replies to one question. People answer on a phone, tired: a number in any of its forms, the beginning
// of a label, a choice with a remark. Whatever is not surely a choice stays their own words: Claude understands those,
// while a choice read into them would be acted upon.
type choices struct {
	state.Prompt
	norm    []string // labels as they are compared, by option; "" cannot be chosen
	limit   int      // bytes; no choice is written longer than that
	ownsOth bool     // a label begins with "other:", so the word is no prefix here
}

func newChoices(p state.Prompt) *choices {
	c := &choices{Prompt: p, limit: 256}
	for _, o := range p.Options {
		n := normal(o.Label)
		c.norm = append(c.norm, n)
		c.limit += 2*len(o.Label) + 16
		c.ownsOth = c.ownsOth || strings.HasPrefix(n, "OTHER:")
	}
	return c
}

var (
	otherPrefix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^other[\s\pZ]*[:：]`) })
	otherInList = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)[\s\pZ,;，；、]+(?:and[\s\pZ]+)?other[\s\pZ]*[:：]`)
	})
	// A hyphen needs space around it ("2-3 days"), a colon after it ("1:30"). A newline is one too, see remark.
	separator = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)[\t\pZ]+-{1,3}[\s\pZ]+|[\t\pZ]+–[\s\pZ]+|[\t\pZ]*—[\s\pZ]*|[\t\pZ]*:[\s\pZ]+|[\t\pZ]*：[\s\pZ]*|[,，][\s\pZ]*but\b|\n`)
	})
)

// parse gives the answer that the text means. The text is clean and trimmed; the answer is empty only if the text is.
func (c *choices) parse(text string) state.Answer {
	if at := otherPrefix().FindStringIndex(text); at != nil && !c.ownsOth {
		if own := strings.TrimSpace(text[at[1]:]); !blank(own) {
			return state.Answer{Text: own}
		}
	}
	if picked, _ := c.pick(text); picked != nil {
		return state.Answer{Labels: c.labels(picked)}
	}
	if c.MultiSelect && !c.ownsOth {
		if at := otherInList().FindStringIndex(text[:min(len(text), c.limit)]); at != nil {
			if picked, _ := c.pick(text[:at[0]]); picked != nil {
				own := strings.TrimSpace(text[at[1]:])
				if blank(own) {
					own = ""
				}
				return state.Answer{Labels: c.labels(picked), Text: own}
			}
		}
	}
	if picked, remark := c.remark(text); picked != nil {
		return state.Answer{Labels: c.labels(picked), Notes: remark}
	}
	return state.Answer{Text: text}
}

// remark splits a choice from what was said about it. Of several separators the last that leaves a choice before it
// counts, because labels contain separators as well. On a line of its own the choice must be written in full.
func (c *choices) remark(text string) (picked []int, remark string) {
	seps := separator().FindAllStringIndex(text[:min(len(text), c.limit)], 32)
	for _, at := range slices.Backward(seps) {
		head, sep, rest := text[:at[0]], text[at[0]:at[1]], text[at[1]:]
		if (sep == "—" || sep == "：") && endsInDigit(head) && startsWithDigit(rest) {
			continue // "2—3 days", "1：30"
		}
		if n := len(sep); n > 3 && strings.EqualFold(sep[n-3:], "but") {
			rest = text[at[1]-3:]
		}
		rest = strings.TrimSpace(rest)
		if blank(rest) {
			continue
		}
		picked, exact := c.pick(head)
		if picked == nil || !exact && (sep == "\n" || c.goesOn(picked[0], head, sep)) {
			continue
		}
		return picked, rest
	}
	return nil, ""
}

// goesOn says that the label has that separator there itself: "Blue - red" is no remark on "Blue - green".
func (c *choices) goesOn(option int, head, sep string) bool {
	rest, ok := strings.CutPrefix(c.norm[option], normal(head))
	sep = normal(plainDigits(sep))
	return ok && (sep == ":" && strings.HasPrefix(rest, ":") || sep[:1] == "-" && strings.HasPrefix(rest, " -"))
}

// pick reads the whole text as a choice: by number, by label, or, in a multi-select, as a list. It gives indexes into
// Options, nil if the text is none; exact is false when a beginning of a label was enough.
func (c *choices) pick(text string) (picked []int, exact bool) {
	text = strings.TrimSpace(text)
	if len(c.Options) == 0 || text == "" || len(text) > c.limit {
		return nil, false
	}
	n, bare, isNumber := number(text)
	if i, ok := c.byNumber(n); ok && bare {
		return []int{i}, true
	}
	if i := c.exactly(text); i >= 0 {
		return []int{i}, true
	}
	if isNumber { // "5" is no beginning of "50"
		if i, ok := c.byNumber(n); ok {
			return []int{i}, true
		}
		return nil, false
	}
	if i := c.beginning(text); i >= 0 {
		return []int{i}, false
	}
	if !c.MultiSelect {
		return nil, false
	}
	if picked := c.numbers(text); picked != nil {
		return picked, true
	}
	return c.list(text)
}

// byNumber gives the option that people call n, counting from 1.
func (c *choices) byNumber(n int) (int, bool) {
	return n - 1, n >= 1 && n <= len(c.norm) && c.norm[n-1] != ""
}

// exactly gives the option of that label, the first of equal ones, or -1.
func (c *choices) exactly(text string) int {
	if len(text) > c.limit {
		return -1
	}
	if n := normal(text); n != "" {
		return slices.Index(c.norm, n)
	}
	return -1
}

// complete are words that say everything by themselves: "no" must not choose "Node.js".
var complete = map[string]bool{"NO": true, "YES": true, "OK": true, "ALL": true, "BOTH": true, "NONE": true, "STOP": true, "WAIT": true}

// beginning gives the only option whose label begins with the text, or -1.
func (c *choices) beginning(text string) int {
	n := normal(text)
	if strings.IndexFunc(n, func(r rune) bool { return !unicode.IsPunct(r) && !unicode.IsSpace(r) }) < 0 {
		return -1
	}
	found := -1
	for i, label := range c.norm {
		rest, ok := strings.CutPrefix(label, n)
		if !ok || complete[n] && startsWithLetter(rest) {
			continue
		}
		if found >= 0 && c.norm[found] != label {
			return -1
		}
		if found < 0 {
			found = i
		}
	}
	return found
}

// numbers reads "1,3", "1 3", "1 and 3", "options 1 & 3". All must be in range.
func (c *choices) numbers(text string) (picked []int) {
	words := strings.FieldsFunc(plainDigits(text), func(r rune) bool {
		return strings.ContainsRune(",;、&+", r) || unicode.IsSpace(r)
	})
	for i, w := range words {
		inner := i > 0 && i < len(words)-1
		if lower := strings.ToLower(w); lower == "and" && inner || (lower == "option" || lower == "options") && i < len(words)-1 {
			continue
		}
		n, _, _ := number(w)
		at, ok := c.byNumber(n)
		if !ok {
			return nil
		}
		picked = append(picked, at)
	}
	return picked
}

// list reads "auth, search" and "Auth and 2". Every piece must be a choice. A label that contains a comma itself is
// found when it is written in full.
func (c *choices) list(text string) (picked []int, exact bool) {
	var cuts [][2]int // where the pieces are
	from := 0
	for i, r := range text + "," {
		if strings.ContainsRune(",;，；、\n", r) {
			cuts = append(cuts, [2]int{from, i})
			from = i + len(string(r))
		}
	}
	if len(cuts) > 2*len(c.Options)+8 {
		return nil, false
	}
	exact = true
next:
	for i := 0; i < len(cuts); i++ {
		for j := min(len(cuts)-1, i+8); j > i; j-- {
			if at := c.exactly(text[cuts[i][0]:cuts[j][1]]); at >= 0 {
				picked = append(picked, at)
				i = j
				continue next
			}
		}
		for _, piece := range c.ands(text[cuts[i][0]:cuts[i][1]]) {
			at, full := c.one(piece)
			if at < 0 {
				return nil, false
			}
			picked, exact = append(picked, at), exact && full
		}
	}
	return picked, exact
}

var and = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(?:^|[\s\pZ])and[\s\pZ]+`) })

// ands splits a piece of a list at "and", unless the word belongs to a label. An empty piece gives none.
func (c *choices) ands(piece string) []string {
	if piece = strings.TrimSpace(piece); piece == "" {
		return nil
	}
	if at, _ := c.one(piece); at >= 0 {
		return []string{piece}
	}
	return slices.DeleteFunc(and().Split(piece, len(c.Options)+2), func(s string) bool { return s == "" })
}

// one reads a piece of a list, or gives -1.
func (c *choices) one(piece string) (at int, exact bool) {
	n, _, isNumber := number(piece)
	if i, ok := c.byNumber(n); ok {
		return i, true
	}
	if i := c.exactly(piece); i >= 0 || isNumber {
		return i, true
	}
	return c.beginning(piece), false
}

// labels gives the labels of the options, each once, in their order.
func (c *choices) labels(picked []int) []string {
	picked = slices.Clone(picked)
	slices.Sort(picked)
	var out []string
	seen := map[string]bool{}
	for _, i := range picked {
		if l := c.Options[i].Label; !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}
