package gchat

import (
	"fmt"
	"strings"
)

// Together makes one text of several that waited, or several when one would be too long. A digest says how many they are.
func Together(texts []string, digest bool) []string {
	all := strings.Join(texts, "\n\n")
	if !digest {
		return []string{all}
	}
	header := fmt.Sprintf("[Digest] %d messages", len(texts))
	if len(texts) == 1 {
		header = "[Digest] 1 message"
	}
	return SplitText(header, all, MaxText)
}
