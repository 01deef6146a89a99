package e2e

import (
	"encoding/json"
	"fmt"
	"gchat-hooks/e2e/kit"
	"slices"
	"strings"
	"testing"
	"time"
)

// A request is one that Claude Code made to the model.
type request struct {
	Method, Path string
	Body         json.RawMessage
	At           time.Time
	Main         bool // it offers AskUserQuestion, Bash or REPL: the conversation itself

	Model    string
	Stream   bool
	Messages []struct {
		Role    string
		Content content
	}
	Tools []struct{ Name string }
}

// content is what a message holds: a string, or blocks.
type content []struct {
	Type      string
	Text      string
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
	Content   content
}

func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*c = make(content, 1)
		(*c)[0].Type = "text"
		return json.Unmarshal(raw, &(*c)[0].Text)
	}
	type blocks content // without this method
	return json.Unmarshal(raw, (*blocks)(c))
}

// Text is all the text in it, tool results included.
func (c content) Text() string {
	var all []string
	for _, b := range c {
		switch b.Type {
		case "text":
			all = append(all, b.Text)
		case "tool_result":
			all = append(all, b.Content.Text())
		}
	}
	return strings.Join(all, "\n")
}

func readRequest(method, path string, body []byte) request {
	req := request{Method: method, Path: path, Body: body}
	// What does not parse is kept all the same: a test wants to see it.
	json.Unmarshal(body, &req)
	req.Main = slices.ContainsFunc(req.Tools, func(t struct{ Name string }) bool {
		return t.Name == "AskUserQuestion" || t.Name == "Bash" || t.Name == "REPL"
	})
	return req
}

// dictation begins the prompt of a subagent whose reply the prompt says: several at once
// take no turn of the script.
const dictation = "Reply with exactly: "

// dictatedText is the reply that a subagent's prompt says.
func (r request) dictatedText() (text string, ok bool) {
	if len(r.Messages) == 0 {
		return "", false
	}
	_, text, ok = strings.Cut(r.Messages[0].Content.Text(), dictation)
	return text, ok
}

// handBackTurn is how a subagent reports its text: as plain text, and, where it was sent
// back for that, with the tool for it.
func (r request) handBackTurn(text string) turn {
	offered := slices.ContainsFunc(r.Tools,
		func(t struct{ Name string }) bool { return t.Name == "SubagentHandback" })
	replied := slices.ContainsFunc(r.Messages, func(m struct {
		Role    string
		Content content
	}) bool {
		return m.Role == "assistant"
	})
	text, _, _ = strings.Cut(text, "\n\n<system-reminder>")
	if !offered || !replied {
		return turn{textBlock(text)}
	}
	return turn{toolCall("SubagentHandback", map[string]string{"message": text})}
}

// agentErrand begins the prompt of a subagent that runs the commands that follow, one a
// line, and then says "Errand done." The command fillForm is a call of the form server's
// tool.
const agentErrand, fillForm = "Run exactly these: ", "fill in the form"

// errandTurn is the next turn of a subagent on an errand.
func (r request) errandTurn() (next turn, ok bool) {
	if len(r.Messages) == 0 {
		return nil, false
	}
	_, commands, ok := strings.Cut(r.Messages[0].Content.Text(), agentErrand)
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
	left := strings.Split(strings.TrimSpace(commands), "\n")
	if done >= len(left) {
		return turn{textBlock("Errand done.")}, true
	}
	if left[done] == fillForm {
		return turn{fillFormCall}, true
	}
	return turn{bash(left[done])}, true
}

// Requests returns every request so far, oldest first.
func (a *fakeModel) Requests() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// A toolResult is what Claude Code told the model about one tool call.
type toolResult struct {
	ToolUseID string
	Text      string
	IsError   bool
}

// ToolResults returns one result a call, in the order of the calls' first
// results. Every request repeats the whole conversation; the newest wording wins.
func (a *fakeModel) ToolResults() []toolResult {
	var results []toolResult
	for _, req := range a.Requests() {
		for _, m := range req.Messages {
			for _, b := range m.Content {
				if b.Type != "tool_result" {
					continue
				}
				r := toolResult{b.ToolUseID, b.Content.Text(), b.IsError}
				same := func(old toolResult) bool { return old.ToolUseID == r.ToolUseID }
				if i := slices.IndexFunc(results, same); i >= 0 {
					results[i] = r
				} else {
					results = append(results, r)
				}
			}
		}
	}
	return results
}

// WaitToolResult blocks until n tool results arrived and returns the n-th.
func (a *fakeModel) WaitToolResult(t *testing.T, n int) toolResult {
	t.Helper()
	var got []toolResult
	a.Wait(t, fmt.Sprintf("%d tool results", n), func() bool {
		got = a.ToolResults()
		return len(got) >= n
	})
	return got[n-1]
}

// WaitText blocks until the conversation holds text: a prompt, a reminder, a
// tool result.
func (a *fakeModel) WaitText(t *testing.T, text string) {
	t.Helper()
	a.Wait(t, fmt.Sprintf("a message with %q", text), func() bool { return a.maxCount(text) > 0 })
}

// WaitTextOnce is WaitText of what no message repeats.
func (a *fakeModel) WaitTextOnce(t *testing.T, text string) {
	t.Helper()
	a.WaitText(t, text)
	kit.Equalf(t, a.maxCount(text), 1, "messages with %q", text)
}

// maxCount says in how many messages of the conversation text is, not counting
// what the model said.
func (a *fakeModel) maxCount(text string) (most int) {
	for _, req := range a.Requests() {
		n := 0
		for _, m := range req.Messages {
			if req.Main && m.Role != "assistant" && strings.Contains(m.Content.Text(), text) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// lastRequests describes the last n requests, for a failed test's log.
func (a *fakeModel) lastRequests(n int) string {
	all := a.Requests()
	var s strings.Builder
	fmt.Fprintf(&s, "%d requests to the model", len(all))
	for i := max(0, len(all)-n); i < len(all); i++ {
		r := all[i]
		fmt.Fprintf(&s, "\n%d: %s %s main=%v messages=%d", i+1, r.Method, r.Path, r.Main,
			len(r.Messages))
		if len(r.Messages) > 0 {
			last := r.Messages[len(r.Messages)-1]
			text := last.Content.Text()
			fmt.Fprintf(&s, "\n   %s: %q", last.Role, text[max(0, len(text)-600):])
		}
	}
	return s.String()
}

// lastMainText is all the text of the conversation's last request.
func (a *fakeModel) lastMainText() (text string) {
	for _, req := range slices.Backward(a.Requests()) {
		if !req.Main {
			continue
		}
		for _, m := range req.Messages {
			text += m.Content.Text() + "\n"
		}
		break
	}
	return text
}
