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
	"syscall"
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

// openRegular opens a file that another program names. It neither waits (a FIFO does) nor follows a link at its end, and
// takes nothing but a regular file.
func openRegular(path string) (f *os.File, size int64, err error) {
	if !filepath.IsAbs(path) {
		return nil, 0, fmt.Errorf("open %s: not an absolute path", filepath.Base(path))
	}
	if f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file", filepath.Base(path))
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// filesIn names at most so many entries of a folder; what is no folder has none.
func filesIn(dir string, most int) []string {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(most)
	return names
}

var errNoTranscript = errors.New("not a transcript: its name does not end in .jsonl")

// openTranscript opens a session's transcript.
func openTranscript(path string) (*os.File, int64, error) {
	if !strings.HasSuffix(path, ".jsonl") {
		return nil, 0, errNoTranscript
	}
	return openRegular(path)
}

// pendingCalls are the last tool calls of a transcript that have no result yet, at most three.
func pendingCalls(path string) ([]toolCall, error) {
	tail, err := tailOf(path)
	return pendingIn(tail), err
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

// pendingIn are the last calls, at most three, that have no result: of Claude's last message, since a model goes on only when it has
// all results, and later than what the person said last, since a call before that was broken off. Later by their times: 2.1.197 now
// and then writes a prompt behind the call that it led to.
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
