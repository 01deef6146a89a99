package migrate

import "slices"

var (
	totalWord = lazy(`(?i)\btotals?\b`)
	// someAmount is an amount among other words.
	someAmount = lazy(`~?\$\d+(?:\.\d{2})?(?: ?[-–] ?\$?\d+(?:\.\d{2})?)?(?:(?:/| per )\w+)?`)
)

// mostSums bounds the tables of one file whose totals are looked for in all of it; the totals below the others are listed.
const mostSums = 10

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
	if m.sums++; m.sums > mostSums {
		return
	}
	if m.sums == 1 {
		m.findAmounts()
	}
	known := map[string]*cost{} // what each amount is without the rows gone; nil where it is not the table's sum
	for _, a := range m.amounts {
		for _, at := range a.places {
			words := m.words(a.line)[at[0]:at[1]]
			if _, ok := known[words]; !ok {
				known[words] = sumWithout(parts, less, words)
			}
		}
		m.proseTotal(a, known, len(parts), len(less))
	}
}

// amounts are those of one line, and where they stand in it.
type amounts struct {
	line   int
	places [][]int
}

func (m *markdown) findAmounts() {
	for i := range m.lines {
		words := m.words(i)
		if m.kinds[i] != prose || !money().MatchString(words) {
			continue
		}
		places := slices.DeleteFunc(someAmount().FindAllStringIndex(words, -1), func(at []int) bool {
			rest := words[at[1]:]
			return rest != "" && wordByte(rest[0]) || len(rest) > 1 && rest[0] == '.' && wordByte(rest[1])
		})
		if len(places) > 0 {
			m.amounts = append(m.amounts, amounts{i, places})
		}
	}
}

func (m *markdown) proseTotal(a amounts, known map[string]*cost, rows, gone int) {
	l, words := m.lines[a.line], m.words(a.line)
	found, others := false, false
	for _, at := range a.places {
		sum := known[words[at[0]:at[1]]]
		switch {
		case sum == nil:
			others = true
		case !totalWord().MatchString(words):
			m.see(a.line, "an amount that is the sum of a table which lost the relay's cost")
		default:
			found = m.replace(l.start+at[0], l.start+at[1], sum.String(), "the total without the relay's cost") || found
		}
	}
	if !found {
		return
	}
	if others {
		m.see(a.line, "another amount beside a total that the relay's cost was part of")
	}
	m.agentsBeside(a.line, rows, gone)
}

// sumWithout is lessBy for the first column whose sum it is; nil where there is none.
func sumWithout(parts []row, gone []int, total string) *cost {
	for col := range parts[0].cells {
		if less, ok := lessBy(parts, gone, col, total); ok {
			return &less
		}
	}
	return nil
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
