package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	money = lazy(`\$\d`)
	// amount is all that a cell says, but for a remark in brackets: "~$0.20-$0.50/day (Haiku)".
	amount = lazy(`^([*_]*)(~?)\$(\d+)(?:\.(\d{2}))?(?:( ?[-–] ?)(\$?)(\d+)(?:\.(\d{2}))?)?((?:/| per )\w+)?([*_]*)(?: \([^()]*\))?$`)
)

// cost is an amount, or a range of them, in cents.
type cost struct {
	low, high          int
	wrap, about, dash  string
	dollar, unit, tail string
}

func readCost(s string) (c cost, ok bool) {
	m := amount().FindStringSubmatch(s)
	if m == nil {
		return cost{}, false
	}
	cents := func(whole, part string) int {
		n, err := strconv.Atoi(whole + (part + "00")[:2])
		if err != nil || n > 1<<40 {
			ok = false
		}
		return n
	}
	ok = true
	c = cost{wrap: m[1], about: m[2], dash: m[5], dollar: m[6], unit: m[9], tail: m[10]}
	c.low = cents(m[3], m[4])
	if c.high = c.low; c.dash != "" {
		c.high = cents(m[7], m[8])
	}
	return c, ok
}

func (c cost) String() string {
	s := fmt.Sprintf("%s%s$%d.%02d", c.wrap, c.about, c.low/100, c.low%100)
	if c.low != c.high {
		s += fmt.Sprintf("%s%s%d.%02d", c.dash, c.dollar, c.high/100, c.high%100)
	}
	return s + c.unit + c.tail
}

// totals takes the costs of the rows gone off the totals below them, where a total is the sum of the rows above it: then the
// new one is known too. Another total is for a person.
func (m *markdown) totals(body []row, gone []int) {
	for t, r := range body {
		if slices.Contains(gone, t) || !slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.words), "total") }) {
			continue
		}
		for col, c := range r.cells {
			if !money().MatchString(c.words) {
				continue
			}
			if less, ok := lessBy(body[:t], gone, col, c.words); ok {
				tail := c.words[len(amountWords(c.words)):]
				m.replace(c.start, c.end, less.String()+tail, "the total without the relay's cost")
			} else {
				m.see(r.line, "a total that the relay's cost may be part of")
			}
		}
	}
}

// amountWords is an amount's cell without the remark behind it.
func amountWords(s string) string {
	if i := strings.Index(s, " ("); i >= 0 && !strings.HasPrefix(s, "(") {
		return s[:i]
	}
	return s
}

// lessBy gives the total without the rows gone; ok is false unless it was the sum of body, which holds them all and others.
func lessBy(body []row, gone []int, col int, total string) (less cost, ok bool) {
	less, ok = readCost(total)
	low, high := less.low, less.high
	for i, r := range body {
		if col >= len(r.cells) {
			return cost{}, false
		}
		c, isCost := readCost(r.cells[col].words)
		ok = ok && isCost && c.unit == less.unit
		if low, high = low-c.low, high-c.high; slices.Contains(gone, i) {
			less.low, less.high = less.low-c.low, less.high-c.high
		}
	}
	return less, ok && low == 0 && high == 0 && less.high > 0 && gone[len(gone)-1] < len(body)
}
