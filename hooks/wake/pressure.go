package wake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"gchat-hooks/inject"
)

const (
	critical    = 80 // percent
	statusLines = 5  // the last lines of a pane that a status line is looked for in
)

var (
	percent = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`)
	})
	aboutContext = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:context|ctx|until auto-?compact)\b`)
	})
	leftBefore = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(?:left|remaining|until auto-?compact)\b[^0-9]*$`)
	})
	leftAfter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\)? *(?:of )?(?:the )?(?:context |ctx )?(?:left|remaining|until auto-?compact)\b`)
	})
	// between are what status lines put between one part and the next.
	between = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[|│┃║·•∙\x{E0B0}-\x{E0BF}]|[,;] | [-–—/] | {3,}`)
	})
	// wordsNumber and numbersWord are what stands between the word and its own number, or a number and its own word.
	wordsNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[^\pL0-9]|\b(?i:left|until|auto|compact|remaining|used|usage|window|size|` +
			`is|at|now|low|full|of|the|tokens?|[0-9.]+[km]?)\b)*$`)
	})
	numbersWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\)? *(?:of )?(?:the |your )?(?:left )?$`)
	})
)

// pressure is how full Claude's context is, by the status line: "47% [OK]", "[WARNING]" from the threshold on, "[CRITICAL]"
// from 80; "unknown" where none says it.
func (s sight) pressure(threshold int) string {
	used, ok := s.contextUsed()
	level := "OK"
	switch {
	case !ok:
		return "unknown"
	case used >= critical:
		level = "CRITICAL"
	case used >= threshold:
		level = "WARNING"
	}
	return fmt.Sprintf("%d%% [%s]", used, level)
}

// contextUsed reads the percentage. A line that names the context goes before one that does not; of several numbers in a
// line the word's own counts, or else the last. What Claude Code calls left is what is not used.
func (s sight) contextUsed() (used int, ok bool) {
	named := false
	for _, l := range s.status() {
		word := aboutContext().FindStringIndex(l)
		if word == nil && named {
			continue
		}
		numbers := percent().FindAllStringSubmatchIndex(l, -1)
		if len(numbers) == 0 {
			continue
		}
		n, from := numbers[len(numbers)-1], 0
		if word != nil {
			n, from = wordsOwn(l, numbers)
		}
		number, err := strconv.Atoi(l[n[2]:n[3]])
		if err != nil || number > 100 {
			continue
		}
		if word != nil && leftBefore().MatchString(l[min(from, n[2]):n[2]]) || leftAfter().MatchString(l[n[1]:]) {
			number = 100 - number
		}
		used, ok, named = number, true, named || word != nil
	}
	return used, ok
}

// wordsOwn is the number that a line's word for the context means, and where that word begins: "47% ctx | 5h 90%" and
// "5h 90% | ctx 47%" say the same. One in the word's own part of the line goes before others; after the word before one before
// it, but where the line reads the other way round.
func wordsOwn(l string, numbers [][]int) (n []int, from int) {
	start := 0
	for _, cut := range append(between().FindAllStringIndex(l, -1), []int{len(l), len(l)}) {
		var own [][]int
		for _, n := range numbers {
			if n[2] >= start && n[3] <= cut[0] {
				own = append(own, n)
			}
		}
		if word := aboutContext().FindStringIndex(l[start:cut[0]]); word != nil && len(own) > 0 {
			return beside(l, start, start+word[0], start+word[1], own), start + word[0]
		}
		start = cut[1]
	}
	word := aboutContext().FindStringIndex(l)
	return beside(l, 0, word[0], word[1], numbers), word[0]
}

// beside is the one of some numbers that belongs to the word which stands from..to in the part of l that begins at start.
func beside(l string, start, from, to int, numbers [][]int) []int {
	var before, after []int
	for _, n := range numbers {
		switch {
		case n[3] <= from:
			before = n
		case after == nil:
			after = n
		}
	}
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	}
	numberFirst := !strings.ContainsFunc(l[start:numbers[0][2]], unicode.IsLetter) // what comes after has a word of its own
	if numbersWord().MatchString(l[before[1]:from]) && (numberFirst || !wordsNumber().MatchString(l[to:after[2]])) {
		return before
	}
	return after
}

// status are the lines where a status line stands: below the input box, else the pane's last ones. A dialog has none.
func (s sight) status() []string {
	switch inject.ReadScreen(s.screen).Kind {
	case inject.Question, inject.Review, inject.Permission:
		return nil
	case inject.Prompt, inject.Draft:
		for i := len(s.raw) - 1; i >= 0; i-- {
			if isRule(s.raw[i]) {
				return s.raw[i+1:]
			}
		}
	}
	var last []string
	for _, l := range s.raw {
		if strings.TrimSpace(l) != "" {
			last = append(last, l)
		}
	}
	return last[max(0, len(last)-statusLines):]
}
