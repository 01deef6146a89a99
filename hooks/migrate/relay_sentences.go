package migrate

import (
	"slices"
	"strings"
)

const oneRelay = "(?:the )?(?:`s3-communicator`|\\*\\*s3-communicator\\*\\*|\\bs3-communicator)(?: (?:agent|teammate|relay)\\b)?"

var (
	sentenceEnd = lazy("[.!?][*_)\"'`]*[ \t\r\n]+")
	// dangles is how a sentence begins that needs the one before it.
	dangles  = lazy(`(?i)^[*_]*(?:it|its|this|that|these|they|there|then|otherwise|if (?:so|not)|else|both|so|but|and|also)\b`)
	messages = lazy(`(?i)\b(message|notify|inform|alert|tell)\s+` + oneRelay + `(\s+(?:that|about|how|what|if|of)\b)?`)
	theWay   = lazy(`(?i)\b(?:to|via|through|using|with|by)\s+` + oneRelay)
	using    = lazy(`(?i)\b(use)\s+` + oneRelay)
)

// spoken is a sentence and where it stands, without the blanks around it.
type spoken struct {
	start, end int
	fate       fate
}

// paragraphs takes away the sentences that are about the relay alone, and lets those that order to tell the user something
// speak of gchat-send. A paragraph with other sentences loses only whole lines: what is said in one line belongs together.
func (m *markdown) paragraphs() {
	for i := 0; i < len(m.lines); i++ {
		if m.kinds[i] != prose || m.blank(i) {
			continue
		}
		first := i
		for i+1 < len(m.lines) && m.kinds[i+1] == prose && !m.blank(i+1) && !listItem().MatchString(m.words(i+1)) {
			i++
		}
		last := i
		// An item has been looked at, and a quotation is another's.
		if words := m.between(first, last+1); listItem().MatchString(m.words(first)) || !names(words) || strings.HasPrefix(strings.TrimSpace(words), ">") {
			continue
		}
		ss := m.sentences(m.lines[first].start, m.lines[last].end)
		m.speak(ss)
	}
}

// sentences splits the words from start to end.
func (m *markdown) sentences(start, end int) (all []spoken) {
	words := m.src[start:end]
	from := len(words) - len(strings.TrimLeft(words, " \t"))
	add := func(to int) {
		s := strings.TrimRight(words[from:to], " \t\r\n")
		if s != "" {
			all = append(all, spoken{start + from, start + from + len(s), fateOf(s)})
		}
	}
	for _, at := range sentenceEnd().FindAllStringIndex(words, -1) {
		next := words[at[1]:]
		if next == "" || next[0] >= 'a' && next[0] <= 'z' && !strings.HasPrefix(next, "s3-") {
			continue // "e.g. this" is no end
		}
		add(at[1])
		from = at[1]
	}
	add(len(words))
	return all
}

// known says whether there is a sentence about the relay, and every one of them will not name it any longer.
func known(ss []spoken) bool {
	return slices.ContainsFunc(ss, func(s spoken) bool { return s.fate != silent }) && !slices.ContainsFunc(ss, func(s spoken) bool { return s.fate == stays || s.fate == silent })
}

func allGo(ss []spoken) bool {
	return len(ss) > 0 && !slices.ContainsFunc(ss, func(s spoken) bool { return s.fate != goes })
}

// speak changes the sentences of one paragraph.
func (m *markdown) speak(ss []spoken) {
	if len(ss) == 0 || m.taken(ss[0].start, ss[len(ss)-1].end) {
		return
	}
	all := known(ss)
	for i := 0; i < len(ss); i++ {
		if ss[i].fate != goes && ss[i].fate != swaps {
			continue
		}
		end := i + 1
		for ss[i].fate == goes && end < len(ss) && ss[end].fate == goes {
			end++
		}
		whole := m.wholeLines(ss, i, end)
		switch {
		case !all && !whole:
		case ss[i].fate == swaps:
			m.swap(ss[i])
		case end < len(ss) && dangles().MatchString(m.src[ss[end].start:ss[end].end]):
		case whole:
			m.cutSentences(ss[i].start, ss[end-1].end)
		case end < len(ss):
			m.replace(ss[i].start, ss[end].start, "", "the sentence about the relay goes")
		default:
			m.replace(ss[i-1].end, ss[end-1].end, "", "the sentence about the relay goes")
		}
		i = end - 1
	}
}

// wholeLines says whether the sentences from i to before end fill their lines.
func (m *markdown) wholeLines(ss []spoken, i, end int) bool {
	return (i == 0 || m.lineAt(ss[i-1].end-1) < m.lineAt(ss[i].start)) && (end == len(ss) || m.lineAt(ss[end-1].end-1) < m.lineAt(ss[end].start))
}

func (m *markdown) cutSentences(start, end int) {
	first, last := m.lineAt(start), m.lineAt(end-1)
	if m.cut(first, last+1, "the sentence about the relay goes") && money().MatchString(m.src[start:end]) {
		m.seeTotal(last)
	}
}

// swap lets an order to tell the user something by the relay speak of gchat-send.
func (m *markdown) swap(s spoken) {
	words := m.src[s.start:s.end]
	const why = "who told it to the relay uses gchat-send"
	if at := messages().FindStringSubmatchIndex(words); at != nil {
		verb, tail := words[at[2]:at[3]], ""
		if at[4] >= 0 {
			tail = words[at[4]:at[5]]
		}
		by := verb + " the user with `gchat-send`" + tail
		if tail == "" && strings.Contains(strings.ToLower(words), "the user") {
			if by = "use `gchat-send`"; verb[0] < 'a' {
				by = "U" + by[1:]
			}
		}
		m.replace(s.start+at[0], s.start+at[1], by, why)
		return
	}
	if at := using().FindStringSubmatchIndex(words); at != nil {
		m.replace(s.start+at[0], s.start+at[1], words[at[2]:at[3]]+" `gchat-send`", why)
		return
	}
	if at := theWay().FindStringIndex(words); at != nil {
		m.replace(s.start+at[0], s.start+at[1], "via `gchat-send`", why)
	}
}
