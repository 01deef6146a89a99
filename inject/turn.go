package inject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Turn is what a session's transcript says about the current turn or, if Claude is idle,
// about the last one. A field about which the transcript says nothing is zero.
type Turn struct {
	// StartedAt is when its prompt came; zero if the part that was read does not reach
	// back to it. CallCount is then unknown as well.
	StartedAt time.Time
	CallCount int        // tool calls of Claude's own, not of its subagents
	Calls     []ToolCall // the last calls, the oldest first; at most maxTurnCalls
	Words     string     // Claude's last text, in one line of at most maxTurnWords bytes
	// ContextTokens is how much Claude's last message had before it and added.
	ContextTokens int
}

// ToolCall is a tool call, as far as people may see it in passing: no command and no
// text of it.
type ToolCall struct {
	Name string
	File string // the base name of the file that it is about; "" for none
}

// String returns the call as one line.
func (c ToolCall) String() string {
	return strings.TrimSuffix(c.Name+" "+c.File, " ")
}

const (
	maxTurnCalls = 5
	maxTurnWords = 300
	maxCallName  = 60 // bytes of a tool's name, and of a file's
	// maxTurnBytes is how much of a transcript's end is read for a turn. firstTurnBytes
	// is the first try: most turns are short.
	maxTurnBytes   = 4 << 20
	firstTurnBytes = 64 << 10
	// ProgressBytes is how much is read to show what Claude does at the moment.
	ProgressBytes = 256 << 10
)

// ReadWholeTurn reads the last turn of a transcript. It reads more and more of the
// transcript's end until it has the turn's beginning, but no more than maxTurnBytes.
func ReadWholeTurn(transcript string) Turn {
	for limit := int64(firstTurnBytes); ; limit *= 8 {
		turn, isWhole := ReadTurn(transcript, limit)
		if isWhole || !turn.StartedAt.IsZero() || limit >= maxTurnBytes {
			return turn
		}
	}
}

// ReadTurn reads the last turn of a transcript, as far as the last limit bytes have it.
// isWhole means that there is no more to read.
func ReadTurn(transcript string, limit int64) (turn Turn, isWhole bool) {
	lines, isWhole, err := TranscriptEnd(transcript, limit)
	if err != nil {
		return Turn{}, true
	}
	r := turnReader{}
	for line := range bytes.Lines(lines) {
		r.readLine(line)
	}
	if r.turn.StartedAt.IsZero() {
		r.turn.CallCount = 0
	}
	r.turn.Words = shortLine(r.turn.Words, maxTurnWords)
	for _, b := range r.calls {
		r.turn.Calls = append(r.turn.Calls, newToolCall(b))
	}
	return r.turn, isWhole
}

// turnReader reads a transcript line by line, the oldest first.
type turnReader struct {
	turn  Turn           // with Claude's last text as it is, and without its calls
	calls []messageBlock // the turn's last calls
	// isOver is set after the line that ends a turn. The next message of a user begins
	// another one, even if no person wrote it: a hook may have woken the session.
	isOver bool
}

// transcriptLine is a line of a transcript, as far as a turn or its words are read from
// it. Its members are those of 2.1.197 and 2.1.332.
type transcriptLine struct {
	Type             string
	Subtype          string
	IsSidechain      bool
	IsMeta           bool
	IsCompactSummary bool
	Timestamp        json.RawMessage
	Origin           struct{ Kind string }
	Message          struct {
		Model   string
		Content json.RawMessage
		Usage   struct {
			Input        int `json:"input_tokens"`
			CacheWritten int `json:"cache_creation_input_tokens"`
			CacheRead    int `json:"cache_read_input_tokens"`
			Output       int `json:"output_tokens"`
		}
	}
}

// isOfProgram reports whether a program wrote the line in a person's place.
func (l transcriptLine) isOfProgram() bool {
	return l.Origin.Kind != "" && l.Origin.Kind != "human"
}

// content returns what the line's message has: a text, or blocks.
func (l transcriptLine) content() (text string, blocks []messageBlock) {
	if json.Unmarshal(l.Message.Content, &text) != nil {
		_ = json.Unmarshal(l.Message.Content, &blocks)
	}
	return text, blocks
}

// messageBlock is a block of a message.
type messageBlock struct {
	Type  string
	Text  string
	Name  string
	Input json.RawMessage
}

// isWords reports whether a block is a text.
func (b messageBlock) isWords() bool {
	return b.Type == "text" && strings.TrimSpace(b.Text) != ""
}

func (r *turnReader) readLine(line []byte) {
	has := func(text string) bool { return bytes.Contains(line, []byte(text)) }
	isPrompt := has(`"user"`) && !has(`"tool_result"`)
	if !isPrompt && !has(`"assistant"`) && !has(`"turn_duration"`) {
		return // most bytes need no parser
	}
	var entry transcriptLine
	_ = json.Unmarshal(line, &entry) // a member of another type is left out
	if entry.IsSidechain {
		return
	}
	text, blocks := entry.content()
	switch {
	case entry.Type == "system" && entry.Subtype == "turn_duration":
		r.isOver = true
	case entry.Type == "user" && r.beginsTurn(entry, text, blocks):
		r.turn, r.calls, r.isOver = Turn{}, nil, false
		_ = json.Unmarshal(entry.Timestamp, &r.turn.StartedAt)
	case entry.Type == "assistant" && entry.Message.Model != "<synthetic>":
		r.addMessage(entry, blocks)
	}
}

// beginsTurn reports whether a line of type user is the prompt of a turn.
func (r *turnReader) beginsTurn(entry transcriptLine, text string, blocks []messageBlock) bool {
	if len(blocks) > 0 {
		text = blocks[0].Text
	}
	text = strings.TrimSpace(text)
	switch {
	case len(blocks) > 0 && blocks[0].Type == "tool_result", text == "":
		return false
	case strings.HasPrefix(text, "[Request interrupted by user"),
		strings.HasPrefix(text, "<local-command-"), strings.HasPrefix(text, "<bash-"):
		return false
	case r.isOver:
		return true
	}
	return !entry.isOfProgram() && !entry.IsMeta && !entry.IsCompactSummary &&
		!strings.HasPrefix(text, "<task-notification>")
}

// addMessage adds a line of Claude's. Each line of a message has one or more of its
// blocks, and the usage of the whole message.
func (r *turnReader) addMessage(entry transcriptLine, blocks []messageBlock) {
	usage := entry.Message.Usage
	tokens := usage.Input + usage.CacheWritten + usage.CacheRead + usage.Output
	r.turn.ContextTokens = cmp.Or(max(tokens, 0), r.turn.ContextTokens)
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use" && b.Name != "":
			r.turn.CallCount++
			r.calls = append(r.calls, b)
			r.calls = r.calls[max(0, len(r.calls)-maxTurnCalls):]
		case b.isWords():
			r.turn.Words = b.Text
		}
	}
}

func newToolCall(b messageBlock) ToolCall {
	var input struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
	}
	_ = json.Unmarshal(b.Input, &input) // other tools have other input
	call := ToolCall{Name: shortLine(b.Name, maxCallName)}
	if path := cmp.Or(input.File, input.Notebook); path != "" {
		call.File = shortLine(filepath.Base(path), maxCallName)
	}
	return call
}

// shortLine returns the beginning of a foreign text as one line, with its keys masked.
func shortLine(text string, limit int) string {
	line := state.OneLine(state.MaskKeys(text))
	if len(line) <= limit {
		return line
	}
	return strings.TrimSpace(strings.ToValidUTF8(line[:limit], "")) + "…"
}

// IsWorking reports whether a session's Claude Code works on a turn, by its own file of
// the session (2.1.197 and 2.1.332). known is false if the file does not tell.
func IsWorking(session *state.Session) (isWorking, known bool) {
	file, known := sessionFileOf(session.TranscriptPath, session.ID, session.ClaudePID)
	isBusy := slices.Contains([]string{"busy", statusWaiting}, file.Status)
	return isBusy && !HasEnded(session.ClaudePID, session.ClaudeStart), known
}
