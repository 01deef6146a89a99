package migrate

import (
	"slices"
	"strconv"
	"strings"
)

const oneAgent = "[`*_\"']*\\b(?:s3-[a-z]+(?:-[a-z]+)*|communicator|heartbeat|validator)\\b[`*_\"']*"

var (
	agentList = lazy(`(?i)` + oneAgent + `(?:(?:, and |,? & | ?\+ ?| ?/ ?|, ?| and )` + oneAgent + `)+`)
	agentItem = lazy(`(?i)` + oneAgent)
	agentSum  = lazy(`(?i)\b((?:all )?(?:\d+|two|three|four|five|six))((?: [a-z0-9-]+){0,2} (?:agent|teammate|member)s?)\b`)
	numerals  = []string{"zero", "one", "two", "three", "four", "five", "six"}
)

// lists takes the relay out of lists of agents and out of their number: "3 agents (communicator + heartbeat + validator)".
func (m *markdown) lists() {
	counted := false
	for i := range m.lines {
		if m.kinds[i] == frontMatter {
			continue
		}
		l := m.lines[i]
		for _, at := range agentList().FindAllStringIndex(m.src[l.start:l.end], -1) {
			start, end := l.start+at[0], l.start+at[1]
			if m.taken(start, end) || end < l.end && (m.src[end] == '/' || m.src[end] == '.' && end+1 < l.end && wordByte(m.src[end+1])) {
				continue // a path
			}
			words, before := withoutRelay(m.src[start:end])
			if before == 0 {
				continue
			}
			ok, found := m.fewer(i, at, before)
			if !ok {
				m.see(i, "a number of agents that does not fit its list")
				continue
			}
			counted = counted || found
			m.replace(start, end, words, "the relay is no longer in the list")
		}
	}
	if counted || len(m.edits) > 0 {
		m.seeCounts()
	}
}

// withoutRelay takes the relay out of a list; before is how many there were, 0 when it is not in it.
func withoutRelay(list string) (words string, before int) {
	items := agentItem().FindAllStringIndex(list, -1)
	at := slices.IndexFunc(items, func(it []int) bool {
		name := strings.ToLower(strings.Trim(list[it[0]:it[1]], "`*_\"'"))
		return name == relay || name == "communicator"
	})
	if at < 0 {
		return list, 0
	}
	gap := func(i int) string { return list[items[i][1]:items[i+1][0]] }
	var b strings.Builder
	left := slices.Delete(slices.Clone(items), at, at+1)
	for i, it := range left {
		b.WriteString(list[it[0]:it[1]])
		if i == len(left)-1 {
			break
		}
		sep := gap(i)
		if i == len(left)-2 { // the last separator stays the last: it may say "and"
			sep = gap(len(items) - 2)
		}
		if len(left) == 2 {
			sep = strings.Replace(sep, ", and ", " and ", 1)
		}
		b.WriteString(sep)
	}
	return b.String(), len(items)
}

// fewer lowers the number that stands before or behind a list on its line; ok is false when there is one that is another.
func (m *markdown) fewer(line int, list []int, before int) (ok, found bool) {
	l := m.lines[line]
	words := m.src[l.start:l.end]
	ok = true
	for _, at := range agentSum().FindAllStringSubmatchIndex(words, -1) {
		if at[1] <= list[0] && list[0]-at[1] > 40 || at[0] >= list[1] && at[0]-list[1] > 40 {
			continue
		}
		number, named := words[at[2]:at[3]], words[at[4]:at[5]]
		less, fits := oneLess(number, before)
		if !fits {
			ok = false
			continue
		}
		found = m.replace(l.start+at[2], l.start+at[5], less+oneOrMore(named, before-1), "one agent less") || found
	}
	return ok, found
}

// oneOrMore puts what n agents are called into the singular for one.
func oneOrMore(named string, n int) string {
	if n == 1 {
		return strings.TrimSuffix(named, "s")
	}
	return named
}

// oneLess writes n-1 as number, a figure or a word that says n, is written; "all 3" becomes "both".
func oneLess(number string, n int) (string, bool) {
	if all, rest, found := strings.Cut(number, " "); found {
		less, ok := oneLess(rest, n)
		switch {
		case ok && n == 3:
			return string(all[0]-'a'+'b') + "oth", true // "All" becomes "Both"
		case ok && n == 2:
			return "", false
		}
		return all + " " + less, ok
	}
	if number == strconv.Itoa(n) {
		return strconv.Itoa(n - 1), true
	}
	if n < 1 || n >= len(numerals) || !strings.EqualFold(number, numerals[n]) {
		return "", false
	}
	less := numerals[n-1]
	if number[0] < 'a' {
		less = strings.ToUpper(less[:1]) + less[1:]
	}
	return less, true
}

// seeCounts lists the numbers of agents in a file that has the relay no more.
func (m *markdown) seeCounts() {
	for i := range m.lines {
		l := m.lines[i]
		for _, at := range agentSum().FindAllStringIndex(m.src[l.start:l.end], -1) {
			if strings.Contains(strings.ToLower(m.src[l.start+at[0]:l.start+at[1]]), "persistent") && !m.taken(l.start+at[0], l.start+at[1]) {
				m.see(i, "a number of agents that may have counted the relay")
			}
		}
	}
}
