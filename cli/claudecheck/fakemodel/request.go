package fakemodel

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Request is one request that Claude Code made to the model.
type Request struct {
	Method, Path string
	Body         json.RawMessage
	At           time.Time
	// IsMain means that it belongs to a conversation: it offers AskUserQuestion, Bash or
	// REPL.
	IsMain bool `json:"-"`

	Model    string
	Stream   bool
	Messages []Message
	Tools    []struct{ Name string }
}

// Message is one message of a request.
type Message struct {
	Role    string
	Content Content
}

// Content is what a message has: a string, or blocks. A string is read as one block.
type Content []struct {
	Type      string
	Text      string
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
	Content   Content
}

func (c *Content) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*c = make(Content, 1)
		(*c)[0].Type = "text"
		return json.Unmarshal(raw, &(*c)[0].Text)
	}
	type blocks Content // without this method
	return json.Unmarshal(raw, (*blocks)(c))
}

// AllText returns all texts in it, those of tool results included.
func (c Content) AllText() string {
	var all []string
	for _, b := range c {
		switch b.Type {
		case "text":
			all = append(all, b.Text)
		case "tool_result":
			all = append(all, b.Content.AllText())
		}
	}
	return strings.Join(all, "\n")
}

func readRequest(method, path string, body []byte) Request {
	r := Request{Method: method, Path: path, Body: body}
	_ = json.Unmarshal(body, &r) // what does not parse is kept in Body
	r.IsMain = slices.ContainsFunc(r.Tools, func(t struct{ Name string }) bool {
		return t.Name == "AskUserQuestion" || t.Name == "Bash" || t.Name == "REPL"
	})
	return r
}

// ToolResult is what Claude Code told the model about one tool call.
type ToolResult struct {
	ToolUseID string
	Text      string
	IsError   bool
}

// ToolResults returns one result for each call, in the order of their first results.
// Every request repeats the whole conversation: the newest text counts.
func (s *Server) ToolResults() []ToolResult {
	var results []ToolResult
	for _, request := range s.Requests() {
		for _, m := range request.Messages {
			for _, b := range m.Content {
				if b.Type != "tool_result" {
					continue
				}
				r := ToolResult{b.ToolUseID, b.Content.AllText(), b.IsError}
				i := slices.IndexFunc(results, func(old ToolResult) bool {
					return old.ToolUseID == r.ToolUseID
				})
				if i >= 0 {
					results[i] = r
				} else {
					results = append(results, r)
				}
			}
		}
	}
	return results
}

// CountText returns in how many messages of one request a text is, at most. What the
// model said itself does not count.
func (s *Server) CountText(text string) (most int) {
	for _, request := range s.Requests() {
		n := 0
		for _, m := range request.Messages {
			if request.IsMain && m.Role != "assistant" && strings.Contains(m.Content.AllText(), text) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Dictation begins the prompt of a subagent whose only reply is the rest of that prompt.
const Dictation = "Reply with exactly: "

func (r Request) firstText() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[0].Content.AllText()
}

func (r Request) dictatedText() (text string, ok bool) {
	_, text, ok = strings.Cut(r.firstText(), Dictation)
	return text, ok
}

// handBackTurn returns how a subagent reports its text: as a text and, if it was sent
// back for that, with the tool for it.
func (r Request) handBackTurn(text string) Turn {
	isOffered := slices.ContainsFunc(r.Tools,
		func(t struct{ Name string }) bool { return t.Name == "SubagentHandback" })
	hasReplied := slices.ContainsFunc(r.Messages,
		func(m Message) bool { return m.Role == "assistant" })
	text, _, _ = strings.Cut(text, "\n\n<system-reminder>")
	if !isOffered || !hasReplied {
		return Turn{Text(text)}
	}
	return Turn{Call("SubagentHandback", map[string]string{"message": text})}
}

// Errand begins the prompt of a subagent that runs the commands that follow, one on each
// line, and then says "Errand done." The command FillForm calls the form server's tool.
const Errand, FillForm = "Run exactly these: ", "fill in the form"

// ErrandTurn returns the next turn of a subagent on an errand. ok is false for every
// other request.
func (r Request) ErrandTurn() (next Turn, ok bool) {
	_, commands, ok := strings.Cut(r.firstText(), Errand)
	if !ok {
		return nil, false
	}
	commands, _, _ = strings.Cut(commands, "\n\n")
	commands, _, _ = strings.Cut(commands, "</teammate-message>")
	done := 0
	for _, m := range r.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_result" {
				done++
			}
		}
	}
	remaining := strings.Split(strings.TrimSpace(commands), "\n")
	switch {
	case done >= len(remaining):
		return Turn{Text("Errand done.")}, true
	case remaining[done] == FillForm:
		return Turn{FormCall()}, true
	}
	return Turn{Bash(remaining[done])}, true
}

// FormCall returns a call of the tool of a form server that is registered as "form".
func FormCall() Block { return Call("mcp__form__ask", struct{}{}) }
