package inject

import (
	"fmt"
	"strings"
)

// printScreen formats a screen so that a person can compare it with what was drawn.
func printScreen(s Screen) string {
	var b strings.Builder
	shows := string(s.Shows)
	if shows == "" {
		shows = "unknown: " + s.Why
	}
	fmt.Fprintln(&b, shows+printFlags(s))
	if s.Draft != "" {
		fmt.Fprintf(&b, "draft    %q\n", s.Draft)
	}
	if s.Tabs != nil {
		b.WriteString("tabs    ")
		for _, t := range s.Tabs {
			mark := "☐"
			switch {
			case t.Submit:
				mark = "✔"
			case t.Answered:
				mark = "☒"
			}
			fmt.Fprintf(&b, " %s %s", mark, t.Title)
		}
		b.WriteString("\n")
	}
	if s.Shows == Question || s.Question != "" {
		fmt.Fprintf(&b, "question %q\n", s.Question)
	}
	for _, r := range s.Rows {
		fmt.Fprintln(&b, strings.TrimRight(printRow(s, r), " "))
	}
	if s.Answers != "" {
		fmt.Fprintf(&b, "answers  %q\n", s.Answers)
	}
	return b.String()
}

func printFlags(s Screen) string {
	text := ""
	for _, f := range []struct {
		name string
		set  bool
	}{{"busy", s.Busy}, {"multi", s.MultiSelect}, {"preview", s.HasPreview}, {"cut", s.IsCut},
		{"above", s.HasRowsAbove}, {"below", s.HasRowsBelow}} {
		if f.set {
			text += " " + f.name
		}
	}
	return text
}

func printRow(s Screen, r Row) string {
	cursor := " "
	if r.Cursor {
		cursor = "❯"
	}
	number := "  "
	if r.Number != 0 {
		number = fmt.Sprintf("%d.", r.Number)
	}
	tick := ""
	if s.MultiSelect && (r.Role == OptionRow || r.Role == OtherRow) {
		tick = "[ ] "
		if r.Ticked {
			tick = "[✔] "
		}
	}
	text := r.Label
	if r.Text != "" {
		text = fmt.Sprintf("typed %q", r.Text)
	}
	if r.Role != OtherRow && strings.HasSuffix(r.Label, "…") {
		text += " (cut)"
	}
	return fmt.Sprintf("%s %s %-6s %s%s", cursor, number, r.Role, tick, text)
}
