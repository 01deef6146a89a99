package gchat

import (
	"fmt"
	"strings"
)

// split makes messages of a neutral text that may be too long for one: header, distance, text. When there are several, each
// header ends with its number, as in "[Done] name (2/3)", and without a header each begins with a line "(2/3)". They are at
// most limit bytes long (no less than 256) and are cut between paragraphs, else between lines, else between words. A code
// block that is cut is closed and opened again. There is no message when there is nothing to say.
func split(header, distance, text string, limit int) []string {
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
	room := limit - len(header) - len("(99999/99999)") - len(distance) - 2*len(fence+"\n")
	var parts []string
	open := false // the part begins in a code block
	for text != "" {
		n := len(text)
		if n > room {
			n = cutAt(text, room, open)
		}
		part := text[:n]
		if text = text[n:]; open {
			part = fence + "\n" + part
		}
		if open = strings.Count(part, fence)%2 == 1; open {
			part = strings.TrimSuffix(part, "\n") + "\n" + fence
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		parts[i] = fmt.Sprintf("%s(%d/%d)%s%s", header, i+1, len(parts), distance, part)
	}
	return parts
}

// cutAt finds where to cut a text that is longer than room.
func cutAt(text string, room int, open bool) int {
	paragraph, whole := 0, 0
	for at := 0; ; {
		l, _, more := strings.Cut(text[at:room], "\n")
		if !more {
			break
		}
		fences := strings.Count(l, fence)
		open = open != (fences%2 == 1)
		at += len(l) + 1
		switch {
		case !open && strings.TrimSpace(l) == "":
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

// cutInLine cuts at a space near room, or between two characters.
func cutInLine(text string, room int) int {
	const near = 200 // bytes
	n := len(head(text, room))
	if space := strings.LastIndexAny(text[max(0, n-near):n], " \t"); space >= 0 {
		n = max(0, n-near) + space + 1
	}
	return n
}
