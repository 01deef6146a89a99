package migrate

import "slices"

var (
	totalWord = lazy(`(?i)\btotals?\b`)
	// someAmount is an amount among other words.
	someAmount = lazy(`~?\$\d+(?:\.\d{2})?(?: ?[-–] ?\$?\d+(?:\.\d{2})?)?(?:(?:/| per )\w+)?`)
)

// proseTotals takes the cost of the rows gone off the totals that sentences and items tell, wherever they stand: one that is
// the sum of the table, as it was, is that table's. The same amount without the word may be another's, and is listed.
func (m *markdown) proseTotals(body []row, gone []int) {
	var parts []row
	var less []int
	for i, r := range body {
		if slices.ContainsFunc(r.cells, func(c cell) bool { return totalWord().MatchString(c.words) }) {
			continue
		}
		if slices.Contains(gone, i) {
			less = append(less, len(parts))
		}
		parts = append(parts, r)
	}
	if len(less) == 0 || len(less) == len(parts) {
		return
	}
	for i := range m.lines {
		if m.kinds[i] == prose && money().MatchString(m.words(i)) {
			m.proseTotal(i, parts, less)
		}
	}
}

func (m *markdown) proseTotal(i int, parts []row, gone []int) {
	l := m.lines[i]
	words := m.words(i)
	found, others := false, false
	for _, at := range someAmount().FindAllStringIndex(words, -1) {
		sum, ok := sumWithout(parts, gone, words[at[0]:at[1]])
		switch {
		case !ok || at[1] < len(words) && (wordByte(words[at[1]]) || words[at[1]] == '.' && at[1]+1 < len(words) && wordByte(words[at[1]+1])):
			others = true
		case !totalWord().MatchString(words):
			m.see(i, "an amount that is the sum of a table which lost the relay's cost")
		default:
			found = m.replace(l.start+at[0], l.start+at[1], sum.String(), "the total without the relay's cost") || found
		}
	}
	if !found {
		return
	}
	if others {
		m.see(i, "another amount beside a total that the relay's cost was part of")
	}
	m.agentsBeside(i, len(parts), len(gone))
}

// sumWithout is lessBy for the first column whose sum it is.
func sumWithout(parts []row, gone []int, total string) (cost, bool) {
	for col := range parts[0].cells {
		if less, ok := lessBy(parts, gone, col, total); ok {
			return less, true
		}
	}
	return cost{}, false
}

// agentsBeside lowers the number of agents beside a total, where it is that of the table's rows.
func (m *markdown) agentsBeside(i, rows, gone int) {
	l := m.lines[i]
	for _, at := range agentSum().FindAllStringSubmatchIndex(m.words(i), -1) {
		number, named := m.words(i)[at[2]:at[3]], m.words(i)[at[4]:at[5]]
		less, fits := oneLess(number, rows)
		if !fits || gone != 1 {
			m.see(i, "a number of agents beside a total that the relay's cost was part of")
			continue
		}
		m.replace(l.start+at[2], l.start+at[5], less+oneOrMore(named, rows-1), "one agent less")
	}
}
