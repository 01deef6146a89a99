package gchat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SplitText makes messages of a text that may be too long for one: header, a blank line, text. When there are several,
// each header ends with its number, as in "[Done] name (2/3)", and without a header each begins with a line "(2/3)". They
// are at most max bytes long (no less than 256) and are cut between paragraphs, else between lines, else between
// characters. A code block that is cut is closed and opened again; a link "<url|label>" is not cut. The pieces of text
// in them, without such fences, make up the text, which is neutral already. There is no message when there is nothing to
// say.
func SplitText(header, text string, max int) []string {
	return splitBelow(header, "\n\n", text, max)
}

// splitBelow is SplitText with another distance between header and text.
func splitBelow(header, distance, text string, limit int) []string {
	limit = max(limit, 256)
	header = head(header, limit/2)
	switch {
	case header == "" && text == "":
		return nil
	case header == "" && len(text) <= limit:
		return []string{text}
	case text == "":
		return []string{header}
	case header != "" && len(header)+len(distance)+len(text) <= limit:
		return []string{header + distance + text}
	}
	if header == "" {
		distance = "\n"
	} else {
		header += " "
	}
	const fences = len(fence+"\n") * 2
	for digits := 1; ; digits++ {
		taken := len(header) + len("(/)") + 2*digits + len(distance) + fences
		if pieces := pieces(text, limit-taken); len(strconv.Itoa(len(pieces))) <= digits {
			return numbered(header, distance, pieces)
		}
	}
}

// numbered puts headers above the pieces and mends the code blocks that were cut.
func numbered(header, distance string, pieces []string) (parts []string) {
	open := false
	for i, piece := range pieces {
		if open {
			piece = fence + "\n" + piece
		}
		if open = strings.Count(piece, fence)%2 == 1; open {
			if !strings.HasSuffix(piece, "\n") {
				piece += "\n"
			}
			piece += fence
		}
		parts = append(parts, fmt.Sprintf("%s(%d/%d)%s%s", header, i+1, len(pieces), distance, piece))
	}
	return parts
}

// pieces cuts a text into pieces of at most room bytes. Together they are the text.
func pieces(text string, room int) (out []string) {
	open := false // the piece begins in a code block
	for len(text) > room {
		n := cutAt(text, room, open)
		open = open != (strings.Count(text[:n], fence)%2 == 1)
		out = append(out, text[:n])
		text = text[n:]
	}
	return append(out, text)
}

// cutAt finds where to cut a text that is longer than room.
func cutAt(text string, room int, open bool) int {
	paragraph, whole := 0, 0
	for at := 0; ; {
		end := strings.IndexByte(text[at:room], '\n')
		if end < 0 {
			break
		}
		l := text[at : at+end]
		fences := strings.Count(l, fence)
		open = open != (fences%2 == 1)
		blank := strings.TrimSpace(l) == ""
		at += end + 1
		switch {
		case !open && blank:
			paragraph = at
		case open && fences > 0, open && strings.HasPrefix(text[at:], fence):
			// the block would be empty in one of the messages
		default:
			whole = at
		}
	}
	switch {
	case paragraph > 0:
		return paragraph
	case whole > 0:
		return whole
	}
	return cutInLine(text, room)
}

// cutInLine cuts at a space near room, or between two characters as a reader sees them.
func cutInLine(text string, room int) int {
	const near = 200 // bytes
	n := len(head(text, room))
	if space := strings.LastIndexAny(text[max(0, n-near):n], " \t"); space >= 0 {
		n = max(0, n-near) + space + 1
	}
	for range 32 {
		before, size := utf8.DecodeLastRuneInString(text[:n])
		after, _ := utf8.DecodeRuneInString(text[n:])
		if !oneCharacter(before, after) {
			break
		}
		n -= size
	}
	for n > 0 && text[n-1] == '`' && text[n] == '`' {
		n--
	}
	if start := strings.LastIndexByte(text[:n], '<'); start >= 0 && strings.HasPrefix(text[start:], "<http") {
		if end := strings.IndexAny(text[start:], ">\n"); end >= 0 && start+end >= n && text[start+end] == '>' {
			n = start
		}
	}
	if n > 0 {
		return n
	}
	if n = len(head(text, room)); n > 0 {
		return n
	}
	return room // not UTF-8
}

func oneCharacter(before, after rune) bool {
	return before == joiner || after == joiner || after == nonJoiner || unicode.In(after, unicode.M, unicode.Variation_Selector) ||
		after >= 0x1F3FB && after <= 0x1F3FF // colours of skin
}
