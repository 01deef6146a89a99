package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// lastWordsBytes is how much of a transcript's end is read for Claude's last words at most. What follows them is mostly a
// few lines, but one line can be a picture of ten megabytes.
const lastWordsBytes = 64 << 20

// LastWords is the last that Claude said in a transcript's last turn: all text blocks of that message, a line each. "" when
// Claude said nothing since the person's last prompt. last says that nothing of the conversation follows: at a turn's end
// the words are not there yet otherwise. However long the transcript is, only its end is read. subagent says that the
// transcript is a subagent's own, all of whose lines are marked as such. Errors are those of opening and reading.
func LastWords(path string, subagent bool) (said string, last bool, err error) {
	f, size, err := openTranscript(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	for long := int64(128 << 10); ; long *= 8 {
		begin := max(0, size-min(long, lastWordsBytes))
		tail := make([]byte, size-begin)
		n, err := f.ReadAt(tail, begin)
		if err != nil && !errors.Is(err, io.EOF) { // it may have become shorter
			return "", false, err
		}
		if tail = tail[:n]; begin > 0 { // most probably in the middle of a line
			_, tail, _ = bytes.Cut(tail, []byte("\n"))
		}
		s := speech{subagent: subagent}
		if s.readBack(tail) || begin == 0 || long >= lastWordsBytes {
			return strings.Join(s.texts, "\n"), s.lasts, nil
		}
	}
}

// speech is a message of Claude's, gathered from a transcript's end.
type speech struct {
	subagent bool
	message  words // its id
	texts    []string
	followed bool // by something else of the conversation
	lasts    bool // nothing follows it
}

// readBack goes through the lines from the last to the first, and says whether the message was found whole, or that there
// is none.
func (s *speech) readBack(tail []byte) (done bool) {
	for len(tail) > 0 {
		line := tail[bytes.LastIndexByte(tail, '\n')+1:]
		tail = tail[:max(0, len(tail)-len(line)-1)]
		says, prompts := bytes.Contains(line, []byte(`"assistant"`)), bytes.Contains(line, []byte(`"user"`))
		if result := prompts && bytes.Contains(line, []byte(`"tool_result"`)); !says && (!prompts || result) { // most bytes need no parser
			s.followed = s.followed || result
			continue
		}
		e, blocks, ok := readEntry(line)
		switch {
		case !ok || e.IsMeta || e.IsSidechain && !s.subagent:
		case e.Type == "assistant":
			if done = s.add(e, blocks); done {
				return true
			}
		case e.Type == "user":
			prompt, ok := promptOf(line, e, blocks)
			if !ok || strings.HasPrefix(prompt, "<command-") || strings.HasPrefix(prompt, "<local-command-") { // a slash command
				continue
			}
			if len(s.texts) == 0 {
				s.readMisplaced(e.UUID, tail)
			}
			return true
		}
	}
	return false
}

// add takes a line of the message along; done says that the line is of the one before it.
func (s *speech) add(e entry, blocks []block) (done bool) {
	if len(s.texts) > 0 && (e.Message.ID == "" || e.Message.ID != s.message) {
		return true
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) > 0 && len(s.texts) == 0 {
		s.lasts = !s.followed
	}
	s.followed = true
	s.message, s.texts = e.Message.ID, append(texts, s.texts...)
	return false
}

// readMisplaced looks for what Claude said to a prompt before the prompt itself, where 2.1.45 sometimes writes it.
func (s *speech) readMisplaced(prompt words, before []byte) {
	if prompt == "" {
		return
	}
	after := map[words]bool{prompt: true}
	lines := bytes.Split(bytes.TrimSpace(before), []byte("\n"))
	var found []entry
	var said [][]block
	for _, line := range lines[max(0, len(lines)-outOfPlace):] {
		e, blocks, ok := readEntry(line)
		if !ok || !after[e.Parent] {
			continue
		}
		if after[e.UUID] = true; e.Type == "assistant" && !e.IsMeta && (s.subagent || !e.IsSidechain) {
			found, said = append(found, e), append(said, blocks)
		}
	}
	for i, e := range slices.Backward(found) {
		if s.add(e, said[i]) {
			return
		}
	}
}

// promptOf is what the person typed, as far as a line of a transcript is a prompt of the person's, and not one that Claude
// Code makes up.
func promptOf(line []byte, e entry, blocks []block) (text string, ok bool) {
	var p promptEntry
	if e.Type != "user" || e.IsMeta || json.Unmarshal(line, &p) != nil {
		return "", false
	}
	if text = string(p.Message.Content); len(blocks) > 0 {
		if blocks[0].Type == "tool_result" {
			return "", false
		}
		text = blocks[0].Text
	}
	if p.Origin.Kind != "" && p.Origin.Kind != "human" {
		return "", false
	}
	text = strings.TrimSpace(text)
	return text, !strings.HasPrefix(text, "[Request interrupted by user") && !strings.HasPrefix(text, "<task-notification>")
}
