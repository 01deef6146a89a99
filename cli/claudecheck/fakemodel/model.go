// Package fakemodel stands in for Anthropic's Messages API on loopback. It plays a script,
// so that a real Claude Code runs without a network and without a token.
package fakemodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is the handler of the API. Use New.
type Server struct {
	// Project replaces InProject in the inputs of tools. It has no slash at its end.
	Project string

	mu       sync.Mutex
	script   []Turn
	all      Turn // the reply to every request; nil: the script is played
	played   int
	requests []Request
	changed  chan struct{} // closed and replaced with every request
}

// New returns a model that says these turns, one after another, and "All done." after
// them. A subagent's turns come from its prompt; see Dictation and Errand.
func New(script ...Turn) *Server {
	return &Server{script: script, changed: make(chan struct{})}
}

// AddTurns adds turns after those that the script has.
func (s *Server) AddTurns(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, turns...)
}

// AnswerAll makes every request from now on get the same reply, whatever the script says.
func (s *Server) AnswerAll(reply ...Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = reply
}

// DropTurns removes the turns that were not said yet.
func (s *Server) DropTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = s.script[:min(s.played, len(s.script))]
}

// Requests returns all requests so far, the oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Changed returns a channel that the next request closes.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return // the client is gone
	}
	request := readRequest(r.Method, r.URL.Path, body)
	request.At = time.Now()
	reply := s.nextTurn(request)
	switch {
	case r.Method != http.MethodPost, !strings.HasPrefix(r.URL.Path, "/v1/messages"):
		writeJSON(w, struct{}{})
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		writeJSON(w, map[string]int{"input_tokens": 10})
	case len(reply) > 0 && reply[0].Type == Silence.Type:
		<-r.Context().Done()
	case request.Stream:
		stream(w, request.Model, reply)
	default:
		m := newMessage(request.Model)
		m["content"], m["stop_reason"] = reply, stopReason(reply)
		writeJSON(w, m)
	}
}

// nextTurn records a request and returns its reply: the next turn of the script for the
// conversation, and "ok" for the requests around it, such as the one for a title.
func (s *Server) nextTurn(request Request) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	close(s.changed)
	s.changed = make(chan struct{})
	if s.all != nil {
		return s.all
	}
	if !request.IsMain {
		return Turn{Text("ok")}
	}
	if text, ok := request.dictatedText(); ok {
		next := request.handBackTurn(text)
		next[0].ID = fmt.Sprintf("toolu_handback_%d", len(s.requests))
		return next
	}
	if next, ok := request.ErrandTurn(); ok {
		for i := range next {
			next[i].ID = fmt.Sprintf("toolu_errand_%d_%d", len(s.requests), i)
		}
		return next
	}
	if s.played >= len(s.script) {
		return Turn{Text("All done.")}
	}
	reply := slices.Clone(s.script[s.played])
	s.played++
	for i := range reply {
		reply[i].Input = bytes.ReplaceAll(reply[i].Input, []byte(InProject), []byte(s.Project+"/"))
		if reply[i].Type == "tool_use" && reply[i].ID == "" {
			reply[i].ID = fmt.Sprintf("toolu_%03d_%d", s.played, i)
		}
	}
	return reply
}

func newMessage(model string) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_%d", time.Now().UnixNano()), "type": "message", "role": "assistant",
		"model":   model,
		"content": Turn{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": 10, "output_tokens": 1},
	}
}

func stopReason(reply Turn) string {
	if slices.ContainsFunc(reply, func(b Block) bool { return b.Type == "tool_use" }) {
		return "tool_use"
	}
	return "end_turn"
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// stream writes a reply as server-sent events, one delta for each block.
func stream(w http.ResponseWriter, model string, reply Turn) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, data map[string]any) {
		data["type"] = kind
		b, _ := json.Marshal(data) // it always encodes
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	send("message_start", map[string]any{"message": newMessage(model)})
	for i, b := range reply {
		head := map[string]any{"type": "text", "text": ""}
		delta := map[string]any{"type": "text_delta", "text": b.Text}
		if b.Type == "tool_use" {
			head = map[string]any{"type": "tool_use", "id": b.ID, "name": b.Name, "input": struct{}{}}
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(b.Input)}
		}
		send("content_block_start", map[string]any{"index": i, "content_block": head})
		send("content_block_delta", map[string]any{"index": i, "delta": delta})
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stopReason(reply), "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": 20},
	})
	send("message_stop", map[string]any{})
}

// Turn is what the model says in one reply.
type Turn []Block

// Block is one content block of a reply: a text, or a tool call.
type Block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"` // "": the server makes one
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// InProject is the beginning of a file's name in a tool's input that stands for the
// session's project.
const InProject = "$PROJECT/"

// Silence is a reply that never comes.
var Silence = Block{Type: "silence"}

// Text returns a block of text.
func Text(text string) Block { return Block{Type: "text", Text: text} }

// Call returns a tool call. The input must encode as a JSON object.
func Call(tool string, input any) Block {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return Block{Type: "tool_use", Name: tool, Input: b}
}

// Bash returns a call that runs a command.
func Bash(command string) Block {
	return Call("Bash", map[string]string{"command": command, "description": "make a folder"})
}

// Question is one question of AskUserQuestion.
type Question struct {
	Question    string   `json:"question"`
	Header      string   `json:"header"`
	Options     []Option `json:"options"`
	MultiSelect bool     `json:"multiSelect"`
}

// Option is one option of a Question.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Preview     string `json:"preview,omitempty"`
}

// Ask returns a call of AskUserQuestion.
func Ask(questions ...Question) Block {
	return Call("AskUserQuestion", map[string]any{"questions": questions})
}

// StartAgent returns a call that starts an agent in the background, which runs these
// commands.
func StartAgent(commands ...string) Block {
	return Call("Agent", map[string]any{
		"description": "help", "prompt": Errand + strings.Join(commands, "\n"),
		"subagent_type": "general-purpose", "run_in_background": true,
	})
}
