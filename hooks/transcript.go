package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// tailBytes is how much of a transcript's end is read for what Claude waits for. Transcripts reach hundreds of megabytes.
const tailBytes = 512 << 10

// entry is a line of a transcript, as far as we read it. Claude Code calls the format its own affair and changes it: what
// is not understood is passed over.
type entry struct {
	Type        string `json:"type"`
	IsSidechain bool   `json:"isSidechain"` // a subagent's, in versions that write them into the same file
	IsMeta      bool   `json:"isMeta"`
	IsSummary   bool   `json:"isCompactSummary"` // of the conversation before a compaction
	Origin      struct {
		Kind string `json:"kind"` // human, task-notification
	} `json:"origin"`
	UUID      words `json:"uuid"`
	Timestamp words `json:"timestamp"` // RFC 3339
	Message   struct {
		ID      words           `json:"id"` // the same in all lines of one message
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// block is a part of a message.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

// readEntry reads a line; ok is false for what is no entry. A member of another type than ours is left out: Unmarshal
// goes on after it.
func readEntry(line []byte) (e entry, blocks []block, ok bool) {
	_ = json.Unmarshal(line, &e)
	if e.Type == "" {
		return e, nil, false
	}
	_ = json.Unmarshal(e.Message.Content, &blocks) // content can be plain text
	return e, blocks, true
}

// openTranscript opens a session's transcript, which another program names: a plain file, by its absolute path.
func openTranscript(path string) (f *os.File, size int64, err error) {
	if !filepath.IsAbs(path) || !strings.HasSuffix(path, ".jsonl") {
		return nil, 0, fmt.Errorf("open %s: not a transcript: no absolute path that ends in .jsonl", filepath.Base(path))
	}
	if f, err = state.OpenPlain(path, os.O_RDONLY); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// tailOf reads the last lines of a transcript.
func tailOf(path string) ([]byte, error) {
	f, size, err := openTranscript(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return lastLines(f, size, tailBytes)
}

// lastLines reads the lines at a file's end, at most so many bytes.
func lastLines(f *os.File, size, most int64) ([]byte, error) {
	begin := max(0, size-most)
	tail := make([]byte, size-begin)
	n, err := f.ReadAt(tail, begin)
	if err != nil && !errors.Is(err, io.EOF) { // it may have become shorter
		return nil, err
	}
	if tail = tail[:n]; begin > 0 { // most probably in the middle of a line
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return tail, nil
}

// pendingIn are the last calls, at most three, that have no result: of Claude's last message, since a model goes on only when it
// has all results, and later than what the person said last, since a call before that was broken off. Later by their times:
// 2.1.197 now and then writes a prompt behind the call that it led to.
func pendingIn(tail []byte) (calls []toolCall) {
	message := words("")
	for line := range bytes.Lines(tail) {
		e, blocks, ok := readEntry(line)
		if !ok {
			continue
		}
		if e.Type == "assistant" && !e.IsSidechain && e.Message.ID != "" && e.Message.ID != message {
			message, calls = e.Message.ID, nil
		}
		results := 0
		for _, b := range blocks {
			switch {
			case e.Type == "user" && b.Type == "tool_result":
				results++
				calls = slices.DeleteFunc(calls, func(c toolCall) bool { return c.ID == b.ToolUseID })
			case e.Type == "assistant" && b.Type == "tool_use" && b.ID != "":
				calls = append(calls, toolCall{b.ID, b.Name, b.Input, e.Timestamp})
			}
		}
		if e.Type == "user" && results == 0 && !e.IsMeta && !e.IsSidechain {
			calls = slices.DeleteFunc(calls, func(c toolCall) bool { return c.at <= e.Timestamp })
		}
	}
	return calls[max(0, len(calls)-3):]
}

// toolCall is a tool_use of a transcript.
type toolCall struct {
	ID    string
	Name  string
	Input json.RawMessage
	at    words // RFC 3339, UTC
}

// mainInput names the member of a tool's input that says what is going to happen.
var mainInput = map[string]string{
	"Bash": "command", "Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "WebFetch": "url", "WebSearch": "query", "ExitPlanMode": "plan",
}

// text tells a person, in Markdown, what Claude wants to do.
func (c toolCall) text() string {
	name := plain(flat(c.Name, 100))
	what := shorten(c.what(), shownBytes, 2*shownLines)
	if what == "" {
		return name
	}
	if shown := code(what); strings.HasPrefix(shown, "\n") {
		return name + ":" + shown
	}
	return name + ": " + code(what)
}

func (c toolCall) what() string {
	if c.Name == askTool {
		var in askInput
		if json.Unmarshal(c.Input, &in) == nil && len(in.Questions) > 0 {
			var texts []string
			for _, q := range in.Questions {
				texts = append(texts, flat(q.Question, shownBytes))
			}
			return strings.Join(texts, "\n")
		}
	}
	if name := mainInput[c.Name]; name != "" {
		var in map[string]words
		if json.Unmarshal(c.Input, &in) == nil && in[name] != "" {
			return string(in[name])
		}
	}
	var b bytes.Buffer
	if json.Compact(&b, c.Input) != nil || b.String() == "{}" || b.String() == "null" {
		return ""
	}
	return b.String()
}

// endBytes is how much of a transcript's end is read for Claude's last words: what follows them is mostly a few lines.
const endBytes = 4 << 20

// said is Claude's last words, as far as a transcript was read.
type said struct {
	text    string // all text blocks of the message, a line each; "" for none
	last    bool   // nothing of the conversation follows: at a turn's end the words are not there yet otherwise
	message words  // its id
}

// LastWords is the last that Claude said in a transcript; "" where something of the conversation follows. However long that is,
// only its end is read. Errors are those of opening and reading.
func LastWords(path string) (string, error) {
	f, size, err := openTranscript(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	tail, err := lastLines(f, size, endBytes)
	s := said{}
	for line := range bytes.Lines(tail) {
		s.read(line)
	}
	if !s.last {
		return "", err
	}
	return s.text, err
}

// read takes a further line along.
func (s *said) read(line []byte) {
	if !bytes.Contains(line, []byte(`"assistant"`)) && !mayPrompt(line) { // most bytes need no parser
		s.last = s.last && !bytes.Contains(line, []byte(`"tool_result"`))
		return
	}
	e, blocks, ok := readEntry(line)
	switch {
	case !ok || e.IsMeta || e.IsSidechain:
	case e.Type == "assistant":
		s.add(e, blocks)
	case e.Type == "user":
		prompt, ok := promptOf(e, blocks)
		slash := strings.HasPrefix(prompt, "<command-") || strings.HasPrefix(prompt, "<local-command-")
		if ok && !slash && !strings.HasPrefix(prompt, "<bash-") { // no command for Claude Code, or for the shell
			s.last = false
		}
	}
}

// add takes a line of Claude's along. Each line of a message has some of its blocks, and results can stand between them.
func (s *said) add(e entry, blocks []block) {
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
		}
	}
	if s.last = len(texts) > 0; !s.last {
		return
	}
	if e.Message.ID == "" || e.Message.ID != s.message {
		s.message, s.text = e.Message.ID, ""
	}
	s.text = strings.Join(append(nonEmpty(s.text), texts...), "\n")
}

// mayPrompt says whether a line may be a prompt, before it is parsed.
func mayPrompt(line []byte) bool {
	return bytes.Contains(line, []byte(`"user"`)) && !bytes.Contains(line, []byte(`"tool_result"`))
}

// promptOf is what the person typed, as far as a line of a transcript is a prompt of the person's, and not one that Claude
// Code makes up.
func promptOf(e entry, blocks []block) (text string, ok bool) {
	if e.Type != "user" || e.IsMeta || e.IsSummary || e.Origin.Kind != "" && e.Origin.Kind != "human" {
		return "", false
	}
	if len(blocks) == 0 {
		_ = json.Unmarshal(e.Message.Content, &text)
	} else if text = blocks[0].Text; blocks[0].Type == "tool_result" {
		return "", false
	}
	text = strings.TrimSpace(text)
	return text, !strings.HasPrefix(text, "[Request interrupted by user") && !strings.HasPrefix(text, "<task-notification>")
}
