package migrate

import "strings"

var (
	// opener says when something is to be done, in front of what it is: "At session start, ".
	opener = lazy(`(?i)^(?:(?:first|then|next|finally|always),?|(?:at|on|upon|after|before|during|when|whenever|once|as soon as)\b[^,.;:!?]{0,60},)\s+`)
	// leadsOn are the words above a code block that do not say whose it is.
	leadsOn = lazy(`(?i)^(?:(?:spawn|launch|start|create|use|run|call|do)\s+(?:it|this|so|as follows|like this|the (?:relay|agent|call|command|following))(?:\s+(?:call|command|agent|with|like this|as follows|at|in|on|for|session|start|once|the|background|first|a|task))*|(?:for )?example|like this|as follows|(?:the )?(?:spawn |task )?(?:call|command))$`)
)

// leadIn gives the first line of the paragraph, or the item, that only leads to the code block f, which goes; f's own when
// none does. A paragraph that leads there and says something else too stays, with nothing under it, and is listed.
func (m *markdown) leadIn(f *fence) int {
	last := f.open - 1
	for last >= 0 && m.blank(last) {
		last--
	}
	if last < 0 || m.kinds[last] != prose {
		return f.open
	}
	first := last
	for first > 0 && !listItem().MatchString(m.words(first)) && m.kinds[first-1] == prose && !m.blank(first-1) {
		first--
	}
	words := strings.TrimRight(m.between(first, last+1), " \t\r\n*_")
	item := listItem().FindStringSubmatch(words)
	if item != nil {
		words = words[len(item[0]):]
	}
	words, leads := strings.CutSuffix(strings.Join(strings.Fields(words), " "), ":")
	words = strings.Trim(words, "*_")
	switch {
	case !leads || m.taken(m.lines[first].start, m.lines[last].end):
		return f.open
	case leadsToRelay(words) && (item == nil || !m.goesOnBelow(f, item[1])):
		return first
	}
	m.see(last, "leads to a code block about the relay, which goes")
	return f.open
}

// goesOnBelow says whether an item with this indentation has more below the code block.
func (m *markdown) goesOnBelow(f *fence, indent string) bool {
	next := f.shut + 1
	for next < len(m.lines) && m.blank(next) {
		next++
	}
	return deeper(m.words(next), indent)
}

// leadsToRelay says so of the words before the colon: "Spawn s3-communicator at session start".
func leadsToRelay(words string) bool {
	words = opener().ReplaceAllString(words, "")
	return leadsOn().MatchString(words) || itemAboutRelay(words) && !otherAgents(words)
}
