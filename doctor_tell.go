package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"gchat-hooks/state"
)

// tell prints the findings, one line each, or as an object whose keys stay.
func (d doctor) tell(project string, found []state.Finding) error {
	count := map[state.Level]int{state.LevelOK: 0, state.LevelWarn: 0, state.LevelFail: 0, state.LevelSkip: 0}
	wide := 0
	for _, f := range found {
		count[f.Level]++
		wide = max(wide, len(f.ID))
	}
	if d.asJSON {
		e := json.NewEncoder(d.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Project  string              `json:"project"`
			ExitCode int                 `json:"exit_code"`
			Counts   map[state.Level]int `json:"counts"`
			Findings []state.Finding     `json:"findings"`
		}{project, exitOf(found), count, found})
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(d.out, "%s  %-*s  %s\n", d.paint(f.Level), wide, f.ID, sentence(f)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(d.out, "\n%d ok, %d warn, %d fail, %d skip\n", count[state.LevelOK], count[state.LevelWarn], count[state.LevelFail], count[state.LevelSkip])
	return err
}

// sentence is a finding in a line: what there is, what it means, what mends it.
func sentence(f state.Finding) string {
	s := f.What
	switch {
	case f.Fixed != "":
		s += " – fixed: " + f.Fixed
	case f.Level == state.LevelWarn || f.Level == state.LevelFail:
		s += " – " + f.Means + " → " + f.Mend
	}
	return s
}

var colours = map[state.Level]string{state.LevelOK: "32", state.LevelWarn: "33", state.LevelFail: "31;1", state.LevelSkip: "2"}

// paint is a level in four columns.
func (d doctor) paint(l state.Level) string {
	word := fmt.Sprintf("%-4s", l)
	if !d.colour {
		return word
	}
	return "\x1b[" + colours[l] + "m" + word + "\x1b[0m"
}

// printable is text in one line that no terminal obeys: paths, and words of Chat, come from elsewhere.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
