package wake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// rawChars is how much of an input is told that holds no question which can be read.
const rawChars = 2000

// questions are the questions of an AskUserQuestion call, for an agent to read. Claude writes the input, and a version may
// write it otherwise: one odd member costs neither its question nor the others, and is told as the JSON that it is.
func questions(toolInput []byte) string {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(toolInput, &in)
	var all []string
	for _, q := range entries(in["questions"]) {
		all = append(all, question(q))
	}
	if len(all) == 0 {
		return strings.TrimSpace("(could not parse questions)\n" + cutEnd(readable(asJSON(toolInput)), rawChars))
	}
	return cutEnd(strings.Join(all, "\n\n"), mostChars)
}

func question(raw json.RawMessage) string {
	q, ok := members(raw)
	if !ok {
		return "Question: " + readable(asText(raw))
	}
	title := asText(q["question"])
	if title == "" {
		title = asJSON(raw)
	}
	lines := []string{"Question: " + readable(title)}
	if h := oneLine(asText(q["header"])); strings.TrimSpace(h) != "" {
		lines = append(lines, "Header: "+h)
	}
	multi := "no"
	if isTrue(q["multiSelect"]) {
		multi = "yes"
	}
	lines = append(lines, "Multi-select: "+multi)
	options := entries(q["options"])
	if len(options) > 0 {
		lines = append(lines, "Options:")
	}
	for i, o := range options {
		lines = append(lines, fmt.Sprintf("  %d. %s", i+1, option(o)))
	}
	return strings.Join(lines, "\n")
}

func option(raw json.RawMessage) string {
	o, ok := members(raw)
	label := oneLine(asText(o["label"]))
	if !ok || strings.TrimSpace(label) == "" {
		return oneLine(asText(raw))
	}
	if d := oneLine(asText(o["description"])); strings.TrimSpace(d) != "" {
		return label + ": " + d
	}
	return label
}

// entries are those of a list. What stands where a list should is its only one, and a list may be written down as text.
func entries(raw json.RawMessage) (all []json.RawMessage) {
	if inner := []byte(text(raw)); json.Valid(inner) {
		raw = inner
	}
	if json.Unmarshal(raw, &all) == nil {
		return all
	}
	if _, ok := members(raw); ok || text(raw) != "" {
		return []json.RawMessage{raw}
	}
	return nil
}

// members are an object's.
func members(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	return m, json.Unmarshal(raw, &m) == nil && m != nil
}

// asText is a value as an agent reads it: text as it is, anything else as JSON, and nothing where there is none.
func asText(raw json.RawMessage) string {
	var s string
	switch {
	case json.Unmarshal(raw, &s) == nil: // also of null
		return s
	case len(raw) == 0:
		return ""
	}
	return asJSON(raw)
}

// asJSON is a value on one line; as it came where it is no JSON.
func asJSON(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// isTrue says whether a value means yes, also as a word or a number.
func isTrue(raw json.RawMessage) bool {
	switch strings.ToLower(strings.TrimSpace(asText(raw))) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}
