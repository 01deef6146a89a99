package migrate

import (
	"fmt"
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
	if c.dash != "" {
		s += fmt.Sprintf("%s%s%d.%02d", c.dash, c.dollar, c.high/100, c.high%100)
	}
	return s + c.unit + c.tail
}

// totals takes the cost of the row gone off the total below it, where the total is the sum of the rows above it: then the
// new one is known too. Another total is for a person.
func (m *markdown) totals(body []row, gone int) {
	for t := gone + 1; t < len(body); t++ {
		if !strings.Contains(strings.ToLower(body[t].cells[0].words), "total") {
			continue
		}
		for col := 1; col < len(body[t].cells); col++ {
			if !money().MatchString(body[t].cells[col].words) {
				continue
			}
			if less, ok := lessBy(body[:t], gone, col, body[t].cells[col].words); ok {
				c := body[t].cells[col]
				tail := c.words[len(amountWords(c.words)):]
				m.replace(c.start, c.end, less.String()+tail, "the total without the relay's cost")
			} else {
				m.see(body[t].line, "a total that the relay's cost may be part of")
			}
		}
		return
	}
}

// amountWords is an amount's cell without the remark behind it.
func amountWords(s string) string {
	if i := strings.Index(s, " ("); i >= 0 && !strings.HasPrefix(s, "(") {
		return s[:i]
	}
	return s
}

func lessBy(body []row, gone, col int, total string) (cost, bool) {
	sum, ok := readCost(total)
	if !ok {
		return cost{}, false
	}
	low, high := 0, 0
	for i, r := range body {
		if col >= len(r.cells) {
			return cost{}, false
		}
		c, ok := readCost(r.cells[col].words)
		if !ok || c.unit != sum.unit {
			return cost{}, false
		}
		if low, high = low+c.low, high+c.high; i == gone {
			sum.low, sum.high = sum.low-c.low, sum.high-c.high
		}
	}
	return sum, low == sum.low+costOf(body[gone], col).low && high == sum.high+costOf(body[gone], col).high
}

func costOf(r row, col int) cost {
	c, _ := readCost(r.cells[col].words)
	return c
}
