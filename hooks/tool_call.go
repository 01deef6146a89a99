package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// toolCall is a tool_use of a transcript.
type toolCall struct {
	ID    string
	Name  string
	Input json.RawMessage
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
