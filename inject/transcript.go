package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/state"
)

// OpenTranscript opens a session's transcript, which another program names: a plain file, by its absolute path. Errors
// are those of state.OpenPlain, and one for another path.
func OpenTranscript(path string) (*os.File, error) {
	if !filepath.IsAbs(path) || !strings.HasSuffix(path, ".jsonl") {
		return nil, fmt.Errorf("open %s: not a transcript: no absolute path that ends in .jsonl", filepath.Base(path))
	}
	f, _, err := state.OpenPlain(path, os.O_RDONLY)
	return f, err
}

// TranscriptEnd reads the last lines of a transcript, at most so many bytes; all says that it has no others.
func TranscriptEnd(path string, most int64) (lines []byte, all bool, err error) {
	f, err := OpenTranscript(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	begin := max(0, size-most)
	lines = make([]byte, size-begin)
	n, err := f.ReadAt(lines, begin)
	if err != nil && !errors.Is(err, io.EOF) { // it may have become shorter
		return nil, false, err
	}
	lines = lines[:n]
	if begin > 0 { // most probably in the middle of a line
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
	}
	return lines, begin == 0, nil
}

// pasted is how a longer paste stands in what Claude Code tells of a prompt (2.1.330).
var pasted = pattern(`(?s)^\s*<pasted_content id="(\w+)">\n?(.*?)\n?</pasted_content[^>]*>\s*$`)

// Unpasted is a prompt as it was typed.
func Unpasted(prompt string) string { return pasted().ReplaceAllString(prompt, "$2") }

// Queued says whether Claude Code took typed words since then, by the session's transcript: into its queue, while it worked, or,
// where that counts, as a prompt. 2.1.197 tells no hook of the queue, and hooks may be switched off. Of a long transcript the end
// is read.
func Queued(transcript, words string, since time.Time, orPrompt bool) bool {
	end, _, _ := TranscriptEnd(transcript, 1<<20)
	for line := range bytes.Lines(end) {
		var is struct {
			Type, Operation, Content string
			Timestamp                time.Time
			Message                  struct{ Content json.RawMessage }
		}
		if json.Unmarshal(line, &is) != nil || is.Timestamp.Before(since.Truncate(time.Millisecond)) {
			continue
		}
		prompt := orPrompt && is.Type == "user" && json.Unmarshal(is.Message.Content, &is.Content) == nil // a result is no text
		if (prompt || is.Type == "queue-operation" && is.Operation == "enqueue") && Same(Unpasted(is.Content), words) {
			return true
		}
	}
	return false
}
