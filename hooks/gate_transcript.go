package hooks

import (
	"bytes"
	"encoding/json"
	"strings"
)

// refusedByPerson begins the result of a call that the person turned down in its dialog, with Esc or with "chat about this"
// (2.1.197, 2.1.329). A hook that denies a call leaves its own words there, before which newer versions put theirs.
const refusedByPerson = "The user doesn't want to proceed with this tool use."

// promptEntry is a line of a transcript as far as it tells a prompt of the person from one that Claude Code makes up.
type promptEntry struct {
	Origin struct {
		Kind string `json:"kind"` // human, task-notification
	} `json:"origin"`
	Summary bool `json:"isCompactSummary"` // of the conversation before a compaction
	Message struct {
		Content words `json:"content"`
	} `json:"message"`
}

// askedInTurn says whether a dialog with a question was put to the person since the last prompt that he typed. A turn that
// is longer than the tail counts as far as it is there.
func askedInTurn(tail []byte) bool {
	lines := bytes.Split(tail, []byte("\n"))
	begin := turnBegin(lines)
	asked := map[string]bool{}
	for _, line := range lines[begin:] {
		isCall := bytes.Contains(line, []byte(`"`+askTool+`"`))
		isResult := len(asked) > 0 && bytes.Contains(line, []byte(`"tool_result"`))
		if !isCall && !isResult { // most lines need no parser
			continue
		}
		e, blocks, ok := readEntry(line)
		if !ok || e.IsSidechain {
			continue
		}
		for _, b := range blocks {
			switch {
			case e.Type == "assistant" && b.Type == "tool_use" && b.Name == askTool && b.ID != "":
				asked[b.ID] = true
			case e.Type == "user" && b.Type == "tool_result" && asked[b.ToolUseID] && wasDrawn(e.Message.Content, b.ToolUseID):
				return true
			}
		}
	}
	return false
}

// turnBegin is the index of the last line that the person typed; 0 where there is none.
func turnBegin(lines [][]byte) int {
	for i := len(lines) - 1; i > 0; i-- {
		line := lines[i]
		if !bytes.Contains(line, []byte(`"user"`)) || bytes.Contains(line, []byte(`"tool_result"`)) {
			continue
		}
		if e, blocks, ok := readEntry(line); ok && !e.IsSidechain {
			if _, ok := promptOf(line, e, blocks); ok {
				return i
			}
		}
	}
	return 0
}

// wasDrawn says whether the result of a call in a message's content is that of a dialog: an answer, or its dismissal. Any
// other error means that there was no dialog.
func wasDrawn(content json.RawMessage, id string) bool {
	var blocks []struct {
		ToolUseID string `json:"tool_use_id"`
		IsError   bool   `json:"is_error"`
		Content   words  `json:"content"`
	}
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		if b.ToolUseID == id {
			return !b.IsError || strings.Contains(string(b.Content), refusedByPerson)
		}
	}
	return false
}
