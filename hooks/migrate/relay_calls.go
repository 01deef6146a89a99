package migrate

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

var (
	sendName   = lazy(`\bSendMessage\s*\(`)
	spawnName  = lazy(`\b(?:Task|Agent|Teammate|spawn_teammate|spawn_agent|spawnTeammate)\s*\(`)
	outerCall  = lazy(`(?m)^[ \t>]*(?:\w+\s*=\s*)?(?:await\s+)?\w+\s*\(`)
	shellWords = lazy(`^(?i)(?:bash|sh|shell|zsh|console)\b`)
	toRelay    = lazy("(?i)(?:\\bSendMessage to|\\bvia|\\bthrough|\\busing|\\bwith|\\bto)(?: the)? [`*]*s3-communicator[`*]*")
)

// isRelay says whether a call's arguments name the relay as who gets it, or who is to be spawned.
func (c *call) isRelay() bool {
	for _, key := range []string{"recipient", "to", "target_agent_id", "name", "agent_name", "teammate_name", "subagent_type", "agent"} {
		if a, ok := c.get(key); ok && a.literal && a.value == relay {
			return true
		}
	}
	return len(c.args) > 0 && c.args[0].key == "" && c.args[0].literal && c.args[0].value == relay
}

// mostCalls bounds the calls that are read in one file, since each may be read to its end in vain.
const mostCalls = 500

// calls gives the calls by that name in src that have the relay for their recipient or their name.
func calls(src string, name *regexp.Regexp) (found []*call) {
	for _, at := range name.FindAllStringIndex(src, mostCalls) {
		if c, err := parseCall(src, at[0], at[1]-1); err == nil && c.isRelay() {
			found = append(found, c)
		}
	}
	return found
}

// sendCalls turns messages to the relay into gchat-send commands.
func (m *markdown) sendCalls() {
	for i, at := range sendName().FindAllStringIndex(m.src, -1) {
		if m.taken(at[0], at[1]) {
			continue
		}
		line := m.lineAt(at[0])
		if i == mostCalls {
			m.see(line, "more SendMessage calls than instructions have: from here on none is read")
			break
		}
		c, err := parseCall(m.src, at[0], at[1]-1)
		if err != nil {
			if names(m.src[at[0]:min(at[0]+1000, len(m.src))]) {
				m.see(line, "a SendMessage call that cannot be read ("+err.Error()+")")
			}
			continue
		}
		if !names(m.src[c.start:c.end]) {
			continue
		}
		m.sendCall(c, line)
	}
	m.sendObjects()
}

func (m *markdown) sendCall(c *call, line int) {
	f, last := m.fenceAt(line), m.lineAt(c.end-1)
	if m.kinds[line] == frontMatter || f != nil && last >= f.shut || f == nil && last != line && m.kinds[line] != prose {
		m.see(line, "a SendMessage call to the relay in an odd place")
		return
	}
	command, kind, err := sendCommand(c)
	if err != nil {
		m.see(line, "a SendMessage call to the relay: "+err.Error())
		return
	}
	words := bashCall(command)
	if f != nil && shellWords().MatchString(f.info) {
		words = command
	}
	why := m.misfit(c, words)
	if why == "" {
		why = m.tooLong(c.start, words)
	}
	if why != "" {
		m.see(line, "a SendMessage call to the relay: "+why)
		return
	}
	if m.replace(c.start, c.end, words, "a message to the relay becomes gchat-send, "+kind) {
		m.wordsAbove(line)
	}
}

// misfit says why words cannot stand where the call stands: the place has quotes of its own.
func (m *markdown) misfit(c *call, words string) string {
	line := m.lineAt(c.start)
	f := m.fenceAt(line)
	if f == nil {
		l := m.lines[line]
		if strings.Count(m.src[l.start:c.start], "`")%2 == 1 && strings.Contains(words, "`") {
			return "its text has a backtick, and it stands in a code span"
		}
		if m.kinds[line] == table && strings.Contains(words, "|") {
			return "its text has a bar, and it stands in a table"
		}
		return ""
	}
	from, to := m.lines[max(f.open+1, m.lineAt(max(c.start-longestCall, 0)))].start, len(m.src)
	if f.shut < len(m.lines) {
		to = m.lines[f.shut].start
	}
	for _, at := range outerCall().FindAllStringIndex(m.src[from:c.end], -1) {
		if from+at[0] > c.start {
			break
		}
		outer, err := parseCall(m.src[:to], from+at[0], from+at[1]-1)
		if err != nil || outer.start > c.start || outer.end < c.end {
			continue
		}
		in := slices.IndexFunc(outer.strings, func(s span) bool { return s.start < c.start && c.end < s.end })
		if in >= 0 && (len(outer.strings[in].quote) == 1 || strings.Contains(words, outer.strings[in].quote)) {
			return "it stands within a quoted text"
		}
	}
	return ""
}

// wordsAbove lets what leads to a call that became gchat-send speak of gchat-send: the three lines above it, the line that
// introduces its code block, and its section's heading.
func (m *markdown) wordsAbove(line int) {
	lines := []int{line, line - 1, line - 2, line - 3}
	if f := m.fenceAt(line); f != nil {
		i := f.open - 1
		for i > 0 && m.blank(i) {
			i--
		}
		lines = append(lines, i)
	}
	for i := line; i >= 0; i-- {
		if m.kinds[i] == heading {
			lines = append(lines, i)
			break
		}
	}
	for _, i := range lines {
		if i < 0 {
			continue
		}
		l := m.lines[i]
		for _, at := range toRelay().FindAllStringIndex(m.src[l.start:l.end], -1) {
			m.replace(l.start+at[0], l.start+at[1], "via `gchat-send`", "the way is gchat-send")
		}
	}
}

// tooLong says why a command of several lines cannot stand there: behind other words or indented, its second line would
// no longer belong to it.
func (m *markdown) tooLong(at int, command string) string {
	line := m.lineAt(at)
	if strings.Contains(command, "\n") && (at != m.lines[line].start || strings.Contains(command, "```") || strings.Contains(command, "~~~")) {
		return "its text has several lines, and it stands behind other words or holds a code block"
	}
	return ""
}

// sendObjects turns messages to the relay that are written as a tool's JSON input. One that is a code block of its own
// becomes a command in a shell block; elsewhere a person has to see what the object is part of.
func (m *markdown) sendObjects() {
	for i := range m.fences {
		f := &m.fences[i]
		from, to := m.lines[f.open].next, len(m.src)
		if f.shut < len(m.lines) {
			to = m.lines[f.shut].start
		}
		body := m.src[from:to]
		open := skipSpace(body, 0)
		if !names(body) || open >= len(body) || body[open] != '{' || m.taken(from, to) {
			continue
		}
		line := m.lineAt(from + open)
		c, err := parseCall(m.src[:to], from+open, from+open)
		if err != nil || !c.isRelay() {
			continue
		}
		if strings.TrimSpace(m.src[c.end:to]) != "" || f.shut >= len(m.lines) {
			m.see(line, "a message to the relay among other things")
			continue
		}
		command, kind, err := sendCommand(c)
		if why := m.tooLong(c.start, command); err == nil && why != "" {
			err = errors.New(why)
		}
		if err != nil {
			m.see(line, "a message to the relay: "+err.Error())
			continue
		}
		if l := m.lines[f.open]; f.info != "" {
			at := strings.LastIndex(m.src[l.start:l.end], f.info)
			m.replace(l.start+at, l.start+at+len(f.info), "bash", "")
		}
		m.replace(c.start, c.end, command, "a message to the relay becomes gchat-send, "+kind)
		m.wordsAbove(f.open)
		for j := max(f.open-3, 0); j < f.open; j++ {
			if strings.Contains(m.words(j), "SendMessage") && !m.taken(m.lines[j].start, m.lines[j].end) {
				m.see(j, "speaks of SendMessage above what is a gchat-send command now")
			}
		}
	}
}
