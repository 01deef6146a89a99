package gchat

import "strings"

// CodeBlock is Markdown that shows text as it stands: a fenced block, whose fence is longer than any in the text.
func CodeBlock(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + text + "\n" + fence
}
