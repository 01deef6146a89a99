package migrate

import "strconv"

var itemNumber = lazy(`^([ \t>]*)(\d+)[.)][ \t]`)

// numberedItem is an item of a numbered list: its line, its indentation, its number and where that stands in the line.
type numberedItem struct {
	line       int
	indent     string
	number     int
	start, end int
}

// renumberLists lets numbered lists that lost items count on without holes. It runs when everything is cut that goes: two
// items of one list may go, each by another rule.
func (m *markdown) renumberLists() {
	if len(m.edits) == 0 {
		return
	}
	seen := map[int]bool{}
	for i := range m.lines {
		if _, ok := m.numberedItem(i); ok && !seen[i] {
			m.renumber(m.numberedList(i, seen))
		}
	}
}

func (m *markdown) numberedItem(i int) (it numberedItem, ok bool) {
	at := itemNumber().FindStringSubmatchIndex(m.words(i))
	if at == nil || m.kinds[i] != prose {
		return it, false
	}
	words := m.words(i)
	n, err := strconv.Atoi(words[at[4]:at[5]])
	return numberedItem{i, words[:at[3]], n, at[4], at[5]}, err == nil
}

// numberedList collects the items of the list that begins at line i. Blank lines and what is indented deeper belong to it,
// a heading, a table or another list at its level ends it. So do other words at its level, unless they go on the line above
// or stand between two items that count on: models write a list's code blocks without indenting them.
func (m *markdown) numberedList(i int, seen map[int]bool) []numberedItem {
	first, _ := m.numberedItem(i)
	list := []numberedItem{first}
	seen[i] = true
	for j := i + 1; j < len(m.lines) && m.kinds[j] != heading && m.kinds[j] != table; j++ {
		if m.blank(j) || m.kinds[j] != prose || deeper(m.words(j), first.indent) {
			continue
		}
		it, ok := m.numberedItem(j)
		switch {
		case ok && it.indent == first.indent && it.number == list[len(list)-1].number+1:
			list = append(list, it)
			seen[j] = true
		case ok || listItem().MatchString(m.words(j)), m.blank(j - 1):
			return list
		}
	}
	return list
}

// renumber lets the items that are left count on from the first number, where any has gone.
func (m *markdown) renumber(list []numberedItem) {
	next := list[0].number
	for _, it := range list {
		start := m.lines[it.line].start
		if m.taken(start+it.start, start+it.end) {
			continue // the item goes
		}
		if next != it.number {
			m.replace(start+it.start, start+it.end, strconv.Itoa(next), "")
		}
		next++
	}
}
