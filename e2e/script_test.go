package e2e

import "encoding/json"

// A turn is what the model says in one reply.
type turn []block

// A block is one content block of a reply: text, or a tool_use.
type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"` // made up by the stand-in when empty
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

func textBlock(text string) block { return block{Type: "text", Text: text} }

// emptyBlock is a reply that never comes.
var emptyBlock = block{Type: "silence"}

// toolCall is a tool_use block; input is anything that encodes as a JSON object.
func toolCall(tool string, input any) block {
	raw, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return block{Type: "tool_use", Name: tool, Input: raw}
}

// A question and an option are what AskUserQuestion takes.
type question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []option `json:"options"`
	MultiSelect bool     `json:"multiSelect"`
}

type option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Preview     string `json:"preview,omitempty"`
}

func questionCall(questions ...question) block {
	return toolCall("AskUserQuestion", map[string]any{"questions": questions})
}
