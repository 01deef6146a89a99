package wake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gchat-hooks/inject"
)

const (
	critical    = 80 // percent
	statusLines = 5  // the last lines of a pane that a status line is looked for in
)

var (
	percent      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[^0-9.])([0-9]{1,3})(?:\.[0-9]+)? ?%`) })
	aboutContext = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(context|ctx)\b`) })
	leftBefore   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(left|remaining|until auto-compact)\b[^0-9]*$`)
	})
	leftAfter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^ *(of )?(the )?(context )?(left|remaining)\b`) })
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
// line the last counts, or the first after the word. What Claude Code calls left is what is not used.
func (s sight) contextUsed() (used int, ok bool) {
	named := false
	for _, l := range s.status() {
		at := 0
		word := aboutContext().FindStringIndex(l)
		if word != nil {
			at = word[1]
		} else if named {
			continue
		}
		found := percent().FindAllStringSubmatchIndex(l[at:], -1)
		if len(found) == 0 && word != nil {
			at = 0
			found = percent().FindAllStringSubmatchIndex(l, -1) // "47% of context"
		}
		if len(found) == 0 {
			continue
		}
		n := found[len(found)-1]
		if word != nil {
			n = found[0]
		}
		number, err := strconv.Atoi(l[at+n[2] : at+n[3]])
		if err != nil || number > 100 {
			continue
		}
		if leftBefore().MatchString(l[at:at+n[2]]) && word != nil || leftAfter().MatchString(l[at+n[1]:]) {
			number = 100 - number
		}
		used, ok, named = number, true, named || word != nil
	}
	return used, ok
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
