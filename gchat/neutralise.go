package gchat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Chat text has no escape: a backslash or "&lt;" is shown as it stands. So text that others wrote is altered where it
// would act: "<users/all>" mentions everybody, "<url|label>" shows a false link, an odd ``` swallows the lines after it.

// Line makes foreign text safe to stand inside one line of a message. It has no newline and no outer whitespace.
func Line(s string) string {
	return inert(strings.Join(strings.Fields(visible(s)), " "))
}

// Block makes foreign text of several lines safe to stand in a message, from the start of a line. Lines after the first
// begin with two spaces, so that none of them can pass for one of ours ("[Answered] …", "Thread key: …", "4. …").
func Block(s string) string {
	lines := strings.Split(visible(s), "\n")
	kept := lines[:0]
	blank := 0
	for _, l := range lines {
		l = strings.TrimRightFunc(l, unicode.IsSpace)
		if l != "" {
			blank = 0
		} else if blank++; len(kept) == 0 || blank > 2 {
			continue
		}
		kept = append(kept, l)
	}
	kept = kept[:max(0, len(kept)-blankTail(kept))]
	if len(kept) == 0 {
		return ""
	}
	kept[0] = strings.TrimLeftFunc(kept[0], unicode.IsSpace)
	// All later lines move or none does: code keeps its shape, and text that is a block already stays as it is.
	if later := kept[1:]; !indented(later) {
		for i, l := range later {
			if l != "" {
				later[i] = "  " + l
			}
		}
	}
	return inert(strings.Join(kept, "\n"))
}

func blankTail(lines []string) (n int) {
	for n < len(lines) && lines[len(lines)-1-n] == "" {
		n++
	}
	return n
}

func indented(lines []string) bool {
	for _, l := range lines {
		if l != "" && !strings.HasPrefix(l, "  ") {
			return false
		}
	}
	return true
}

// CleanReply takes out of a person's message what no reader sees: control characters, and the invisible letters that
// survive a round trip through Chat and could carry words that only a model reads. The rest stays verbatim.
func CleanReply(s string) string {
	return fuse(dropInvisible(strings.ReplaceAll(s, "\r\n", "\n")))
}

// inert takes the power out of visible text.
func inert(s string) string {
	s = shut(s)
	if strings.Count(s, fence)%2 == 1 {
		i := strings.LastIndex(s, fence)
		s = s[:i] + "'''" + s[i+len(fence):]
	}
	return s
}

// shut changes "<" where it would open something. It stays where it can only mean "less than" or an arrow.
func shut(s string) string {
	if !strings.Contains(s, "<") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '<' && opens(s[i+1:]) {
			b.WriteString("‹")
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func opens(rest string) bool {
	r, size := utf8.DecodeRuneInString(rest)
	return size > 0 && r != '=' && r != '-' && !unicode.IsSpace(r)
}

// blank says that a reader would see nothing.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Variation_Selector, r)
	}) < 0
}

// normal gives text as labels are compared: as it is shown, without regard to case and to what phones do to
// quotes and dashes.
func normal(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '‘', '’', '‚', '‛', '′', '`':
			return '\''
		case '“', '”', '„', '‟', '″':
			return '"'
		case '‐', '‑', '‒', '–', '—', '―', '−':
			return '-'
		case '‹': // Line made it of "<", and people copy what they see
			return '<'
		}
		low := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			low = min(low, f)
		}
		return low
	}, Line(s))
}
