package gchat

import (
	"slices"
	"strings"

	"gchat-hooks/state"
)

// Decompose turns a value of Claude Code's answers map ("Auth, Search, something else") back into an answer. Labels may
// contain ", " themselves: the longest one that fits is taken, each once, and what is left are the person's own words.
// Remarks are not in the value.
func Decompose(p state.Prompt, value string) state.Answer {
	var left []int // options, the longest label first
	for i, o := range p.Options {
		if o.Label != "" && (p.MultiSelect || o.Label == value) {
			left = append(left, i)
		}
	}
	slices.SortStableFunc(left, func(a, b int) int { return len(p.Options[b].Label) - len(p.Options[a].Label) })
	var picked []int
	for rest := value; rest != ""; value = rest {
		at := slices.IndexFunc(left, func(i int) (ok bool) {
			rest, ok = cutLabel(value, p.Options[i].Label)
			return ok
		})
		if at < 0 {
			break
		}
		picked, left = append(picked, left[at]), slices.Delete(left, at, at+1)
	}
	return state.Answer{Labels: newChoices(p).labels(picked), Text: value}
}

// cutLabel gives what follows the label and its comma. A comma without anything behind it is no comma of ours.
func cutLabel(value, label string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(value, label)
	if !ok || rest == "" {
		return "", ok
	}
	rest, ok = strings.CutPrefix(rest, ", ")
	return rest, ok && rest != ""
}
