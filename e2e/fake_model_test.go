package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeModel stands in for the Messages API on loopback and plays a script.
// Replies are free: no token is paid for, no model is asked.
type fakeModel struct {
	URL string

	project  string        // what inProject stands for
	patience time.Duration // how long Wait waits
	mu       sync.Mutex
	script   []turn
	all      turn // the reply to every request, where it is not nil
	played   int
	requests []request
	changed  chan struct{} // closed and replaced with every request
}

func newFakeModel(t *testing.T, script ...turn) *fakeModel {
	t.Helper()
	a := &fakeModel{script: script, changed: make(chan struct{}), patience: patience}
	server := httptest.NewServer(a)
	a.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return a
}

// AddTurns adds turns to be played after those there are.
func (a *fakeModel) AddTurns(turns ...turn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = append(a.script, turns...)
}

// AnswerAll has every request from now on get the same reply, without the script.
func (a *fakeModel) AnswerAll(reply ...block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = reply
}

// DropTurns forgets the turns that were not played yet.
func (a *fakeModel) DropTurns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = a.script[:min(a.played, len(a.script))]
}

func (a *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return // the client is gone
	}
	req := readRequest(r.Method, r.URL.Path, body)
	req.At = time.Now()
	reply := a.nextTurn(req)
	switch {
	case r.Method != http.MethodPost, !strings.HasPrefix(r.URL.Path, "/v1/messages"):
		writeJSON(w, struct{}{})
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		writeJSON(w, map[string]int{"input_tokens": 10})
	case len(reply) > 0 && reply[0].Type == emptyBlock.Type:
		<-r.Context().Done()
	case req.Stream:
		stream(w, req.Model, reply)
	default:
		msg := message(req.Model)
		msg["content"], msg["stop_reason"] = reply, stopReason(reply)
		writeJSON(w, msg)
	}
}

// nextTurn keeps the request, wakes who waits for it and picks the reply: the next
// turn for the main loop, "ok" for the title and summary requests around it.
func (a *fakeModel) nextTurn(req request) turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, req)
	close(a.changed)
	a.changed = make(chan struct{})
	if a.all != nil {
		return a.all
	}
	if !req.Main {
		return turn{textBlock("ok")}
	}
	if text, ok := req.dictatedText(); ok {
		next := req.handBackTurn(text)
		next[0].ID = fmt.Sprintf("toolu_handback_%d", len(a.requests))
		return next
	}
	if next, ok := req.errandTurn(); ok {
		for i := range next {
			next[i].ID = fmt.Sprintf("toolu_errand_%d_%d", len(a.requests), i)
		}
		return next
	}
	if a.played >= len(a.script) {
		return turn{textBlock("All done.")}
	}
	reply := slices.Clone(a.script[a.played])
	a.played++
	for i := range reply {
		reply[i].Input = bytes.ReplaceAll(reply[i].Input, []byte(inProject), []byte(a.project+"/"))
		if reply[i].Type == "tool_use" && reply[i].ID == "" {
			reply[i].ID = fmt.Sprintf("toolu_%03d_%d", a.played, i)
		}
	}
	return reply
}

// Wait blocks until ok holds, and asks it again after every request.
func (a *fakeModel) Wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(a.patience)
	for {
		a.mu.Lock()
		changed := a.changed // before asking, or a request in between is missed
		a.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the model stand-in waited %v for %s", a.patience, what)
		}
	}
}

func message(model string) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_%d", time.Now().UnixNano()), "type": "message", "role": "assistant",
		"model":   model,
		"content": turn{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": 10, "output_tokens": 1},
	}
}

func stopReason(reply turn) string {
	for _, b := range reply {
		if b.Type == "tool_use" {
			return "tool_use"
		}
	}
	return "end_turn"
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// stream writes a reply as server-sent events, one delta a block.
func stream(w http.ResponseWriter, model string, reply turn) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, data map[string]any) {
		data["type"] = kind
		raw, _ := json.Marshal(data)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, raw)
	}
	event("message_start", map[string]any{"message": message(model)})
	for i, b := range reply {
		head := map[string]any{"type": "text", "text": ""}
		delta := map[string]any{"type": "text_delta", "text": b.Text}
		if b.Type == "tool_use" {
			head = map[string]any{
				"type": "tool_use", "id": b.ID, "name": b.Name, "input": struct{}{},
			}
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(b.Input)}
		}
		event("content_block_start", map[string]any{"index": i, "content_block": head})
		event("content_block_delta", map[string]any{"index": i, "delta": delta})
		event("content_block_stop", map[string]any{"index": i})
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stopReason(reply), "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": 20},
	})
	event("message_stop", map[string]any{})
}

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

// inProject begins the name of a file of the session's project in a tool's input.
const inProject = "$PROJECT/"

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
