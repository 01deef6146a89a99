package gchat

import (
	"strings"

	"gchat-hooks/state"
)

// ScreenText shows what a terminal shows in a code block below a neutral header: the last lines that fit one message. Nothing in
// it ends the block or mentions anybody.
func ScreenText(header, screen string) string {
	text := inBlock(strings.Trim(state.Clean(state.ForChat, screen), "\n"))
	room := MaxText - len(header) - len("\n"+block(""))
	for len(text) > room {
		_, rest, more := strings.Cut(text, "\n")
		if !more {
			text = head(text, room)
			break
		}
		text = rest
	}
	if strings.TrimSpace(text) == "" {
		return header + "\nThe terminal is empty."
	}
	return header + "\n" + block(text)
}
