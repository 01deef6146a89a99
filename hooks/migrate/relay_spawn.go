package migrate

import (
	"strings"
)

var assigned = lazy(`^[ \t>]*(?:\w+\s*=\s*)?(?:await\s+)?$`)

// sections takes whole sections away that are about the relay and nothing else: the instructions to spawn it.
func (m *markdown) sections() {
	for i := range m.lines {
		if m.level(i) < 2 || m.taken(m.lines[i].start, m.lines[i].end) {
			continue
		}
		title := headingLine().FindStringSubmatch(m.words(i))[2]
		if !aboutRelay(title) || otherAgents(title) {
			continue
		}
		end := m.sectionEnd(i)
		words := m.between(i, end)
		spawns := calls(words, spawnName())
		switch {
		case len(calls(words, sendName())) > 0:
			continue // how to send stays, with other commands
		case len(spawnName().FindAllString(words, -1)) > len(spawns), len(spawns) == 0 && otherAgents(words):
			m.see(i, "a section about the relay that has other things in it")
		case m.cut(i, end, "the section about the relay goes: "+shown(title)):
			m.renumberHeadings(i, end)
		}
	}
}

// spawns takes calls away that spawn the relay, with the comments above them, and a code block that is empty then.
func (m *markdown) spawns() {
	for _, c := range calls(m.src, spawnName()) {
		first, last := m.lineAt(c.start), m.lineAt(c.end-1)
		if m.taken(c.start, c.end) {
			continue
		}
		f := m.fenceAt(first)
		before, behind := m.src[m.lines[first].start:c.start], strings.TrimSpace(m.src[c.end:m.lines[last].end])
		if f == nil || f.shut <= last || !assigned().MatchString(before) || behind != "" && !strings.HasPrefix(behind, "#") {
			m.see(first, "spawns the relay, in the middle of something else")
			continue
		}
		for first-1 > f.open && comment(m.words(first-1)) && len(mentions(m.words(first-1))) > 0 {
			first--
		}
		if m.onlyBlanks(f.open+1, first) && m.onlyBlanks(last+1, f.shut) {
			first = m.leadIn(f)
			last = f.shut
		} else if first-1 == f.open && m.blank(last+1) {
			last++
		}
		m.cut(first, last+1, "the relay is no longer spawned")
	}
}

func comment(words string) bool {
	words = strings.TrimSpace(words)
	return strings.HasPrefix(words, "#") || strings.HasPrefix(words, "//")
}

func (m *markdown) onlyBlanks(first, last int) bool {
	return strings.TrimSpace(m.between(first, last)) == ""
}

var headingNumber = lazy(`^ {0,3}#{1,6}[ \t]+(?:[A-Za-z]+ )?(\d+)[.:)]`)

// renumberHeadings lets the headings that follow a cut one, at its level and under the same parent, count on without it.
func (m *markdown) renumberHeadings(first, end int) {
	at, ok := numbered(headingNumber(), m.words(first))
	if !ok {
		return
	}
	next := m.words(first)[at[0]:at[1]]
	for j := end; j < len(m.lines) && m.level(j) != 0 && m.level(j) == m.level(first); j = m.sectionEnd(j) {
		at, ok := numbered(headingNumber(), m.words(j))
		if !ok {
			return
		}
		now := m.words(j)[at[0]:at[1]]
		m.replace(m.lines[j].start+at[0], m.lines[j].start+at[1], next, "")
		next = now
	}
}
