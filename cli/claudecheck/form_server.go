package claudecheck

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// formMessage is a message of an MCP server's client, as far as ServeForms reads it.
type formMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version string `json:"protocolVersion"`
	} `json:"params"`
}

// NameForm returns a form with one field.
func NameForm() map[string]any {
	name := map[string]any{"type": "string"}
	return map[string]any{
		"message": "Who are you?",
		"requestedSchema": map[string]any{
			"type": "object", "properties": map[string]any{"name": name},
		},
	}
}

// ServeForms is an MCP server on stdin and stdout. The n-th call of its one tool, "ask",
// asks the user for the n-th of these forms, and each further call for the last one. The
// tool's result is what came back. record, if it is not nil, gets that first.
func ServeForms(
	in io.Reader, out io.Writer, forms []map[string]any, record func(answer string) error,
) error {
	send := func(message map[string]any) {
		message["jsonrpc"] = "2.0"
		b, _ := json.Marshal(message) // it always encodes
		fmt.Fprintf(out, "%s\n", b)
	}
	callID := json.RawMessage("0")
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m formMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			send(map[string]any{"id": m.ID, "result": map[string]any{
				"protocolVersion": m.Params.Version,
				"capabilities":    map[string]any{"tools": map[string]any{}},
				"serverInfo":      map[string]any{"name": "form", "version": "1"},
			}})
		case "tools/list":
			tool := map[string]any{
				"name": "ask", "description": "asks", "inputSchema": map[string]any{"type": "object"},
			}
			send(map[string]any{"id": m.ID, "result": map[string]any{"tools": []any{tool}}})
		case "tools/call":
			callID = m.ID
			send(map[string]any{"id": "form", "method": "elicitation/create", "params": forms[0]})
			forms = forms[min(1, len(forms)-1):]
		case "": // the answer to the form
			if record != nil {
				if err := record(lines.Text()); err != nil {
					return err
				}
			}
			text := map[string]any{"type": "text", "text": "the form says " + lines.Text()}
			send(map[string]any{"id": callID, "result": map[string]any{"content": []any{text}}})
		default:
			if len(m.ID) > 0 {
				send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "no"}})
			}
		}
	}
	return lines.Err()
}
