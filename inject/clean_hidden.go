package inject

import (
	"strings"
	"unicode"
)

const (
	joiner    = '\u200d' // makes one picture of several: 👩‍💻
	nonJoiner = '\u200c' // keeps letters apart that would join, in Persian and in India
	blackFlag = '\U0001f3f4'
	tagEnd    = '\U000e007f'
)

// withoutHidden drops joiners, variation selectors and tags where they join and vary nothing: there they could carry a
// text that no person sees.
func withoutHidden(text string, removed bool) (string, bool) {
	if strings.IndexFunc(text, hidden) < 0 {
		return text, removed
	}
	runes := []rune(text)
	var out []rune
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		if !hidden(r) {
			out = append(out, r)
			continue
		}
		var before, after rune
		if len(out) > 0 {
			before = out[len(out)-1]
		}
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		if tag(r) {
			if n := flagTags(runes[i:]); n > 0 && before == blackFlag {
				out = append(out, runes[i:i+n]...)
				i += n - 1
				continue
			}
		} else if belongs(r, before, after) {
			out = append(out, r)
			continue
		}
		removed = true
	}
	return string(out), removed
}

func hidden(r rune) bool {
	return r == joiner || r == nonJoiner || shape(r) || idealVariant(r) || tag(r)
}

func shape(r rune) bool        { return r >= '\ufe00' && r <= '\ufe0f' } // 15 and 16: as text, as a picture
func idealVariant(r rune) bool { return r >= 0xe0100 && r <= 0xe01ef }   // a Chinese character as a name writes it
func tag(r rune) bool          { return r >= 0xe0000 && r <= 0xe007f }

// belongs says whether a hidden character does something between these two.
func belongs(r, before, after rune) bool {
	switch {
	case shape(r):
		return before > ' ' && !hidden(before) // also after a digit: 1️⃣
	case idealVariant(r):
		return unicode.Is(unicode.Han, before)
	}
	joins := func(r rune) bool { return r > 0x7f && !unicode.IsSpace(r) && !hidden(r) }
	return (joins(before) || shape(before)) && joins(after)
}

// flagTags is the length of the tags that make a black flag England's, Scotland's or Wales': five letters and an end; a
// region's code may have up to six.
func flagTags(runes []rune) int {
	for n, r := range runes[:min(len(runes), 7)] {
		if r == tagEnd && n > 2 {
			return n + 1
		}
		if r == tagEnd || !tag(r) || r < 0xe0030 || r > 0xe007a {
			return 0
		}
	}
	return 0
}
