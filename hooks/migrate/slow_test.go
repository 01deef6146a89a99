package migrate

import (
	"strings"
	"testing"
	"time"
)

// A file that is made to be slow to read takes no more than a moment.
func TestSlowFile(t *testing.T) {
	for name, words := range map[string]string{
		"open calls":  strings.Repeat("SendMessage(", longestText/12-2),
		"open quotes": strings.Repeat("SendMessage('", longestText/13-2),
		"brackets":    "SendMessage(" + strings.Repeat("[", longestText-20),
		"calls":       "```\n" + strings.Repeat(sendA+"\n", mostMentions-1),
		"items":       "1. s3-communicator\n" + strings.Repeat("2. a\n", longestText/5-10),
		"fences":      strings.Repeat("```\n", longestText/4-1),
		"headings":    strings.Repeat("## s3-communicator\nx s3-validator\n", mostMentions-1),
		"table":       "| s3-communicator |\n|---|\n" + strings.Repeat("| a |\n", longestText/6-10),
		"tables":      strings.Repeat("| a | b |\n|---|---|\n| s3-communicator | $1 |\n| b | $1 |\n\n", mostMentions-2) + strings.Repeat("$3\n", longestText/3-60*mostMentions/3),
		"quotes.py":   strings.Repeat("'s3-communicator' in x\n", mostMentions-1),
	} {
		if !strings.HasSuffix(name, ".py") {
			name, words = name+".md", words+"s3-communicator"
		} else {
			name = ".claude/hooks/gate/communicator_checker.py"
		}
		dir := makeHarness(t, map[string]string{name: words})
		began := time.Now()
		find(t, dir)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s takes %v", name, took)
		} else {
			t.Logf("%s: %v", name, took)
		}
	}
}
