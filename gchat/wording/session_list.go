package wording

import (
	"fmt"
	"strings"

	"gchat-hooks/state"
)

// nameWaits returns what a person reads of n waits of a kind.
func nameWaits(kind string, n int) string {
	traits := state.Kind(kind).Traits()
	switch {
	case kind == "question":
		traits = state.KindQuestion.Traits()
	case kind == "terminal":
		traits.OneName, traits.ManyName = "a dialog in the terminal", "dialogs in the terminal"
	}
	switch {
	case traits.OneName == "": // a kind of a later release
		return fmt.Sprintf("%d more", n)
	case n == 1:
		return traits.OneName
	}
	return fmt.Sprintf("%d %s", n, traits.ManyName)
}

// CountWaits says what waits for a person: "2 questions, a plan". kinds has a word for
// each, in the order in which they are to be named. It is "" for none.
func CountWaits(kinds []string) string {
	counts, order := map[string]int{}, []string{}
	for _, kind := range kinds {
		if counts[kind] == 0 {
			order = append(order, kind)
		}
		counts[kind]++
	}
	var parts []string
	for _, kind := range order {
		parts = append(parts, nameWaits(kind, counts[kind]))
	}
	return strings.Join(parts, ", ")
}

// maxListedSessions is how many sessions one message lists.
const maxListedSessions = 20

// SessionLine is what the list of sessions says of one session.
type SessionLine struct {
	Name     string
	Project  string
	Activity string   // what Claude does; "" if it is not known
	Waits    []string // the kinds of what waits for a person
	Link     string   // to the session's thread; "" for none
}

// SessionListText lists the sessions of this machine for a person, the first 20 of them.
func SessionListText(lines []SessionLine) string {
	text := "[Sessions] " + safeField(state.MachineName())
	if len(lines) == 0 {
		return text + "\nNo session runs here."
	}
	for _, line := range lines[:min(maxListedSessions, len(lines))] {
		text += "\n• " + line.text()
	}
	if more := len(lines) - maxListedSessions; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

func (l SessionLine) text() string {
	parts := []string{neutraliseLastAngle(safeField(Truncate(l.Name, maxListedName)))}
	if !strings.HasPrefix(l.Name, l.Project) { // a name often begins with the project
		parts = append(parts, safeField(Truncate(l.Project, maxListedName)))
	}
	parts = append(parts, l.Activity, CountWaits(l.Waits), l.Link)
	var shown []string
	for _, part := range parts {
		if part != "" {
			shown = append(shown, part)
		}
	}
	return strings.Join(shown, " · ")
}

// maxListedName is how much of a name the list shows, in bytes.
const maxListedName = 80
