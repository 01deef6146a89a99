package inject

import (
	"regexp"
	"strings"
	"sync"
)

var (
	chipPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ ([☐☒✔]) (\S.*)$`) })
	tabsPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^← .* →$|^←  ?[☐☒✔].*$`) })
)

// readHead reads what is above the rows: a rule, the tabs or the chip, and the question. Where the pane is too small,
// the upper part of it is not on the screen, and the rest begins at the screen's top.
func (s *Screen) readHead(lines []line, width int) string {
	for len(lines) > 0 && lines[len(lines)-1].blank() {
		lines = lines[:len(lines)-1]
	}
	top := len(lines) - 1
	for top >= 0 && !lines[top].rule() {
		top--
	}
	whole := top >= 0
	if whole && lines[top].width() != width {
		return "no dialog of Claude Code's"
	}
	lines = lines[top+1:]
	gap := false // a blank line at the screen's top: the question begins below it
	for len(lines) > 0 && lines[0].blank() {
		lines, gap = lines[1:], true
	}
	titled := len(lines) > 0 && s.readTitle(lines[0])
	if titled {
		lines = lines[1:]
	}
	if whole && !titled {
		return "a menu I do not know: " + cutText(joined(lines), 60)
	}
	text, barred := questionText(lines)
	s.Question = text
	// Only behind the bar a blank line is never the question's own.
	s.Cut = !titled && !(gap && barred) || s.Question == ""
	if whole && s.Question == "" {
		return "a dialog of Claude Code's that is half drawn"
	}
	return ""
}

// readTitle reads the line under the dialog's rule: the tabs, or the chip of a single question.
func (s *Screen) readTitle(l line) bool {
	if m := chipPattern().FindStringSubmatch(l.text); m != nil {
		s.Header = strings.TrimSpace(m[2])
		return true
	}
	if !tabsPattern().MatchString(l.text) {
		return false
	}
	s.readTabs(l)
	return len(s.Tabs) > 0
}

// readTabs reads "←  ☒ DB  ☐ Features  ✔ Submit  →". The current one has a background.
func (s *Screen) readTabs(l line) {
	var tab *Tab
	end := func() {
		if tab != nil {
			tab.Title = strings.TrimSpace(tab.Title)
			tab.Submit = tab.Submit && tab.Title == "Submit"
		}
		tab = nil
	}
	for i, c := range l.cells {
		box := c.text == "☐" || c.text == "☒" || c.text == "✔"
		if next := i + 1; box && next < len(l.cells) && l.cells[next].blank() && (i == 0 || l.cells[i-1].blank()) {
			end()
			s.Tabs = append(s.Tabs, Tab{Answered: c.text == "☒", Submit: c.text == "✔", Current: c.ink.bg != "" || c.ink.inverse})
			tab = &s.Tabs[len(s.Tabs)-1]
			continue
		}
		if tab != nil && c.text != "→" {
			tab.Title += c.text
		}
	}
	end()
	if n := len(s.Tabs); n > 0 && !s.Tabs[n-1].Submit {
		s.Tabs = nil // cut, or something else
	}
}

// questionText takes away the bar that 2.1.329 draws before a question of several lines.
func questionText(lines []line) (text string, barred bool) {
	for _, l := range lines {
		if l.blank() {
			continue
		}
		if barred = l.at(0) == "│"; !barred {
			break
		}
	}
	var own []line
	for _, l := range lines {
		if barred {
			l = l.from(1)
		}
		own = append(own, l)
	}
	return joined(own), barred
}
