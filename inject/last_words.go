package inject

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// LastWritten returns when a session's transcript was written last. It is zero if there
// is none.
func LastWritten(transcript string) time.Time {
	info, err := os.Stat(transcript)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// maxLastWordsBytes is how much of a transcript's end LastWords reads, in bytes.
const maxLastWordsBytes = 64 << 10

// LastWords returns the last text in a session's transcript that a person or Claude
// wrote. It is "" if the last 64 KiB hold none, or if the transcript cannot be read. It
// passes over lines of subagents, results of tools, and what Claude Code itself wrote.
func LastWords(transcript string) (text string, isOfPerson bool) {
	end, _, _ := TranscriptEnd(transcript, maxLastWordsBytes)
	for _, line := range slices.Backward(bytes.Split(end, []byte("\n"))) {
		mayHaveText := bytes.Contains(line, []byte(`"assistant"`)) ||
			bytes.Contains(line, []byte(`"user"`))
		if !mayHaveText {
			continue
		}
		if text, isOfPerson = wordsOfLine(line); text != "" {
			return text, isOfPerson
		}
	}
	return "", false
}

// wordsOfLine returns the text that a person or Claude wrote in a line of a transcript;
// "" for none.
func wordsOfLine(line []byte) (text string, isOfPerson bool) {
	var entry transcriptLine
	_ = json.Unmarshal(line, &entry) // a member of another type is left out
	isKnown := entry.Type == "user" || entry.Type == "assistant"
	if !isKnown || entry.IsMeta || entry.IsSidechain || entry.IsCompactSummary || entry.isOfProgram() {
		return "", false
	}
	text, blocks := entry.content()
	for _, block := range blocks {
		if block.isWords() {
			text = block.Text
		}
	}
	text = strings.TrimSpace(StripPasteTags(text))
	isOfPerson = entry.Type == "user"
	if isOfPerson && isWrittenByClaudeCode(text) {
		return "", false
	}
	return text, isOfPerson
}

// isWrittenByClaudeCode reports whether a text in a person's place is one of Claude
// Code's own: a command and its output, an interruption, or a task's notification.
func isWrittenByClaudeCode(text string) bool {
	return slices.ContainsFunc([]string{
		"[Request interrupted by user", "<task-notification>", "<command-", "<local-command-",
		"<bash-", "<system-reminder>",
	}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
