package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	UUID        words  `json:"uuid"`
	Parent      words  `json:"parentUuid"` // the entry that this one follows
	Timestamp   words  `json:"timestamp"`  // RFC 3339
	Message     struct {
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
	IsError   bool            `json:"is_error"`
	Content   words           `json:"content"`
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

// pendingIn looks from the end back to where Claude's last message begins, since a model goes on only when it has all
// results; or to what the person said last: a call before that has no result because it was broken off.
func pendingIn(tail []byte) (calls []toolCall) {
	done := map[string]bool{}
	last := words("")
	for len(tail) > 0 && len(calls) < 3 {
		line := tail[bytes.LastIndexByte(tail, '\n')+1:]
		tail = tail[:max(0, len(tail)-len(line)-1)]
		e, blocks, ok := readEntry(line)
		if !ok {
			continue
		}
		if e.Type == "assistant" && !e.IsSidechain && e.Message.ID != "" {
			if last != "" && last != e.Message.ID {
				break
			}
			last = e.Message.ID
		}
		results := 0
		for _, b := range slices.Backward(blocks) {
			switch {
			case e.Type == "user" && b.Type == "tool_result":
				done[b.ToolUseID] = true
				results++
			case e.Type == "assistant" && b.Type == "tool_use" && b.ID != "" && !done[b.ID]:
				done[b.ID] = true
				calls = append(calls, toolCall{ID: b.ID, Name: b.Name, Input: b.Input})
			}
		}
		if e.Type == "user" && results == 0 && !e.IsMeta && !e.IsSidechain {
			break
		}
	}
	calls = calls[:min(3, len(calls))]
	slices.Reverse(calls)
	return calls
}

// toolCall is a tool_use of a transcript.
type toolCall struct {
	ID    string
	Name  string
	Input json.RawMessage
}

// mainInput names the member of a tool's input that says what is going to happen.
var mainInput = map[string]string{
	"Bash": "command", "Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "WebFetch": "url", "WebSearch": "query", "ExitPlanMode": "plan",
}

// plainName is a tool's name that no renderer takes for markup; an MCP tool's (mcp__server__tool) is none.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]+$`) })

// text tells a person, in Markdown, what Claude wants to do.
func (c toolCall) text() string {
	name := flat(c.Name, 100)
	if !plainName().MatchString(name) {
		name = code(name)
	}
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
			return questionLines(in)
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

func questionLines(in askInput) string {
	var lines []string
	for _, q := range in.Questions {
		lines = append(lines, flat(q.Question, shownBytes))
		for i, o := range q.Options {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, flat(o.Label, shownBytes)))
		}
	}
	return strings.Join(lines, "\n")
}
