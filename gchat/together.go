package gchat

import (
	"fmt"
	"strings"
)

// Together makes one text of several that waited.
func Together(texts []string) string { return strings.Join(texts, "\n\n") }

// Digest makes one text of what was held back, or several when one would be too long, and says how many messages it holds.
func Digest(texts []string, messages int) []string {
	header := fmt.Sprintf("[Digest] %d messages", messages)
	if messages == 1 {
		header = "[Digest] 1 message"
	}
	return SplitText(header, Together(texts), MaxText)
}
