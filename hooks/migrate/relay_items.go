package migrate

import (
	"strings"
)

var listItem = lazy(`^([ \t>]*)(?:[-*+]|(\d+)[.)])([ \t]+)(?:\[[ xX]\] )?`)

// items takes away the items of lists that are about the relay alone: "3. Spawn `s3-communicator`".
func (m *markdown) items() {
	for i := range m.lines {
		mark := listItem().FindStringSubmatch(m.words(i))
		if mark == nil || m.kinds[i] != prose || !names(m.words(i)) {
			continue
		}
		end := m.itemEnd(i, mark[1])
		sentence := i + 1
		for sentence < end && !m.blank(sentence) && !listItem().MatchString(m.words(sentence)) {
			sentence++
		}
		own := m.lines[i].start + len(mark[0])
		ss := m.sentences(own, max(own, m.lines[sentence-1].end))
		if !itemAboutRelay(m.between(i, sentence)[len(mark[0]):]) && !allGo(ss) {
			if known(ss) {
				m.speak(ss)
			}
			continue
		}
		words := m.between(i, end)
		switch {
		case m.taken(m.lines[i].start, m.lines[end-1].end):
		case otherAgents(words) && !(allGo(ss) && sentence == end), sendName().MatchString(words), strings.Contains(words, "```"), settled().MatchString(words):
			m.see(i, "an item about the relay that has other things in it")
		case m.cut(i, end, "the item about the relay goes"):
			if money().MatchString(words) {
				m.seeTotal(i)
			}
		}
	}
}

// itemEnd is the line behind the item at line i: what is indented deeper belongs to it, and what goes on without a blank line.
func (m *markdown) itemEnd(i int, indent string) int {
	end := i + 1
	for j := i + 1; j < len(m.lines) && m.kinds[j] != heading; j++ {
		if m.blank(j) {
			continue
		}
		goesOn := m.kinds[j] == prose && m.kinds[j-1] == prose && !m.blank(j-1) && !listItem().MatchString(m.words(j))
		if !goesOn && !deeper(m.words(j), indent) {
			break
		}
		end = j + 1
	}
	return end
}

func deeper(words, indent string) bool {
	rest, ok := strings.CutPrefix(words, indent)
	return ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t"))
}

// seeTotal lists the total of a list that lost a cost, unless it is known and changed: what it is made of only a person knows.
// Lines that were searched before are not searched again, since a file may have many such lists and one total, or none.
func (m *markdown) seeTotal(i int) {
	j := i + 1
	if m.noTotal.start <= j && j <= m.noTotal.end {
		j = m.noTotal.end
	} else {
		m.noTotal.start = j
	}
	for ; j < len(m.lines) && m.kinds[j] != heading; j++ {
		if money().MatchString(m.words(j)) && strings.Contains(strings.ToLower(m.words(j)), "total") && !m.taken(m.lines[j].start, m.lines[j].end) {
			m.see(j, "a total that the relay's cost was part of")
			break
		}
	}
	m.noTotal.end = j
}
