package wake

import (
	"strings"

	"gchat-hooks/inject"
)

// clean makes lines of a pane ready to be told: without boxes, hidden characters and blank lines.
func clean(lines []string) (kept []string) {
	for _, l := range lines {
		l, _ = inject.Clean(l)
		boxed := false
		l = strings.Map(func(r rune) rune {
			if r >= 0x2500 && r <= 0x259f { // box drawing and block elements
				boxed = true
				return ' '
			}
			return r
		}, l)
		if boxed { // what was a frame leaves blanks of no meaning
			l = strings.Join(strings.Fields(l), " ")
		}
		if l = strings.TrimRight(l, " "); l != "" {
			kept = append(kept, l)
		}
	}
	return kept
}

// delta are the lines that are new since the pane was last told of, in their order, and as many of the last ones besides
// that at least so many are told; at the first time (was is nil) only those.
func delta(was, is []string, least int) (told []string) {
	if was == nil && least > 0 {
		return is[max(0, len(is)-least):]
	}
	fresh := newIn(was, is)
	count := 0
	for _, n := range fresh {
		if n {
			count++
		}
	}
	for i := len(is) - 1; i >= 0 && count < least; i-- {
		if !fresh[i] {
			fresh[i] = true
			count++
		}
	}
	for i, l := range is {
		if fresh[i] {
			told = append(told, l)
		}
	}
	return told
}

// newIn says of each line whether it is none of a longest common subsequence with the lines before.
func newIn(was, is []string) []bool {
	longest := make([][]int, len(was)+1) // of the ends from there on
	for i := range longest {
		longest[i] = make([]int, len(is)+1)
	}
	for i := len(was) - 1; i >= 0; i-- {
		for j := len(is) - 1; j >= 0; j-- {
			if was[i] == is[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	fresh := make([]bool, len(is))
	i := 0
	for j := range is {
		for i < len(was) && was[i] != is[j] && longest[i+1][j] == longest[i][j] {
			i++
		}
		if i < len(was) && was[i] == is[j] {
			i++
		} else {
			fresh[j] = true
		}
	}
	return fresh
}
