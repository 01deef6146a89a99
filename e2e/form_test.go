package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// formServer as the first argument turns the test binary into an MCP server. The n-th call of
// its one tool asks its user for the n-th form in a file. The result is what came back.
const formServer = "form-server"

// fill is a call of the server's tool. takesForms are the arguments that allow it.
var (
	fill       = call("mcp__form__ask", map[string]any{})
	takesForms = []string{"--allowedTools", "mcp__form__ask"}
)

// whoAreYou is a form with one field.
var whoAreYou = map[string]any{
	"message": "Who are you?",
	"requestedSchema": map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
	},
}

func runFormServer(file string) int {
	raw, err := os.ReadFile(file)
	var forms []map[string]any
	if err != nil || json.Unmarshal(raw, &forms) != nil {
		fmt.Fprintln(os.Stderr, "forms:", err)
		return 1
	}
	answer := func(v map[string]any) {
		v["jsonrpc"] = "2.0"
		raw, _ := json.Marshal(v)
		fmt.Printf("%s\n", raw)
	}
	called := json.RawMessage("0")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			answer(map[string]any{"id": m.ID, "result": map[string]any{
				"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "form", "version": "1"},
			}})
		case "tools/list":
			tool := map[string]any{"name": "ask", "description": "asks", "inputSchema": map[string]any{"type": "object"}}
			answer(map[string]any{"id": m.ID, "result": map[string]any{"tools": []any{tool}}})
		case "tools/call":
			called = m.ID
			answer(map[string]any{"id": "form", "method": "elicitation/create", "params": forms[0]})
			forms = forms[min(1, len(forms)-1):]
		case "": // the answer to the form
			content := []any{map[string]any{"type": "text", "text": "the form says " + lines.Text()}}
			answer(map[string]any{"id": called, "result": map[string]any{"content": content}})
		default:
			if len(m.ID) > 0 {
				answer(map[string]any{"id": m.ID, "error": map[string]any{"code": -32601, "message": "no"}})
			}
		}
	}
	return 0
}

// forms has a session use a server that asks for these forms, one after another.
func forms(t *testing.T, forms ...map[string]any) (prepare func(home, project string)) {
	return func(home, project string) {
		file := filepath.Join(home, "forms.json")
		writeFile(t, file, forms)
		server := map[string]any{"command": self(), "args": []string{formServer, file}}
		writeFile(t, filepath.Join(project, ".mcp.json"), map[string]any{"mcpServers": map[string]any{"form": server}})
		path := filepath.Join(home, ".claude", "settings.json")
		var settings map[string]any
		raw, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(raw, &settings) != nil {
			t.Fatal(err)
		}
		settings["enableAllProjectMcpServers"] = true
		writeFile(t, path, settings)
	}
}
