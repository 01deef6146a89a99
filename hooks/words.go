package hooks

import (
	"bytes"
	"encoding/json"
	"strings"
)

// words is text in an event or a transcript. What is no text in some version comes as its JSON: a notice in odd words
// is better than none.
type words string

// UnmarshalJSON takes any value.
func (w *words) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil { // null too
		*w = words(s)
		return nil
	}
	var flat bytes.Buffer
	if err := json.Compact(&flat, b); err != nil {
		return err
	}
	*w = words(flat.String())
	return nil
}

// What is shown of long words: enough to know what they are about on a phone.
const (
	shownBytes = 600
	shownLines = 8
)

// shorten gives the beginning of s, and "…" where something is missing. A code block that the cut leaves open is
// closed.
func shorten(s string, bytes, lines int) string {
	s = strings.TrimSpace(s)
	kept := s
	if parts := strings.SplitN(kept, "\n", lines+1); len(parts) > lines {
		kept = strings.Join(parts[:lines], "\n")
	}
	if len(kept) > bytes {
		kept = strings.ToValidUTF8(kept[:bytes], "")
	}
	if len(kept) == len(s) {
		return s
	}
	kept = strings.TrimSpace(kept) + "…"
	if strings.Count(kept, "```")%2 == 1 {
		kept += "\n```"
	}
	return kept
}

// flat makes one line of s, at most so many bytes.
func flat(s string, bytes int) string {
	return shorten(strings.Join(strings.Fields(s), " "), bytes, 1)
}

// code shows foreign text as it stands: as a code span, or as a block where a span cannot hold it. Nothing in it is
// taken for markup then.
func code(s string) string {
	if !strings.ContainsAny(s, "`\n\r\u2028\u2029") {
		return "`" + s + "`"
	}
	return "\n```\n" + strings.ReplaceAll(s, "```", "'''") + "\n```"
}

// plain makes foreign text safe to stand within a line of Markdown: as it is when no renderer could take any of it for
// markup, else as a code span.
func plain(line string) string {
	for i, r := range line {
		if strings.ContainsRune("`*~<>[]|&\\", r) || r == '_' && !inWord(line, i) {
			return "`" + strings.ReplaceAll(line, "`", "'") + "`"
		}
	}
	return line
}

// inWord says whether the underscore at i stands between letters or digits, where it emphasises nothing.
func inWord(s string, i int) bool {
	word := func(i int) bool {
		return i >= 0 && i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9')
	}
	return word(i-1) && word(i+1)
}
