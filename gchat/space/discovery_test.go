package space

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
)

var update = flag.Bool("update", false, "write discovery.json anew from the chat/v1 module")

// served are the methods this package answers.
var served = []string{
	"chat.spaces.get",
	"chat.spaces.list",
	"chat.spaces.messages.create",
	"chat.spaces.messages.get",
	"chat.spaces.messages.list",
	"chat.spaces.messages.patch",
}

// TestDiscovery holds the embedded extract to the document that the chat/v1
// module of go.mod ships. Run it with -update after a new version of the module.
func TestDiscovery(t *testing.T) {
	out, err := bound.Command(t, "go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api").Output()
	if err != nil {
		t.Skipf("go list does not know where the chat/v1 module is: %v", err)
	}
	full, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "chat", "v1", "chat-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := extract(t, full)
	if *update {
		if err := os.WriteFile("testdata/discovery.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(discoveryJSON, want) {
		t.Error("testdata/discovery.json differs from the module's document: go test ./gchat/space -run TestDiscovery -update")
	}
}

// extract decodes the document into this package's types, which drops the prose,
// and keeps the served methods with the schemas they can reach. One line each,
// so that a diff can be read.
func extract(t *testing.T, full []byte) []byte {
	t.Helper()
	type resource struct {
		Methods   map[string]*method         `json:"methods"`
		Resources map[string]json.RawMessage `json:"resources"`
	}
	doc := struct {
		*discovery
		Resources map[string]json.RawMessage `json:"resources"`
	}{discovery: new(discovery)}
	if err := json.Unmarshal(full, &doc); err != nil {
		t.Fatal(err)
	}
	methods := map[string]*method{}
	var walk func(map[string]json.RawMessage)
	walk = func(rs map[string]json.RawMessage) {
		for _, raw := range rs {
			var r resource
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			for _, m := range r.Methods {
				if slices.Contains(served, m.ID) {
					methods[m.ID] = m
				}
			}
			walk(r.Resources)
		}
	}
	walk(doc.Resources)
	if len(methods) != len(served) {
		t.Fatalf("the document has %d of the %d methods served here", len(methods), len(served))
	}

	schemas := map[string]*schema{}
	var reach func(*schema)
	reach = func(s *schema) {
		if s == nil {
			return
		}
		if s.Ref != "" && schemas[s.Ref] == nil {
			schemas[s.Ref] = doc.Schemas[s.Ref]
			reach(doc.Schemas[s.Ref])
		}
		reach(s.Items)
		reach(s.AdditionalProperties)
		for _, p := range s.Properties {
			reach(p)
		}
	}
	for _, m := range methods {
		reach(m.Request)
		reach(m.Response)
	}

	var b bytes.Buffer
	line := func(end string, v any) {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(j)
		b.WriteString(end + "\n")
	}
	b.WriteString("{\n\"revision\": ")
	line(",", doc.Revision)
	b.WriteString("\"methods\": {\n")
	writeLines(t, &b, methods)
	b.WriteString("},\n\"schemas\": {\n")
	writeLines(t, &b, schemas)
	b.WriteString("}\n}\n")
	return b.Bytes()
}

func writeLines[V any](t *testing.T, b *bytes.Buffer, m map[string]V) {
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(",\n")
		}
		j, err := json.Marshal(m[name])
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("\"" + name + "\": ")
		b.Write(j)
	}
	b.WriteString("\n")
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"text", `{"text":"hello"}`, ""},
		{"null is absent", `{"text":null}`, ""},
		{"thread", `{"text":"x","thread":{"threadKey":"k"}}`, ""},
		{"card with a link", `{"cardsV2":[{"cardId":"a","card":{"sections":[{"widgets":[{"buttonList":{"buttons":[{"text":"t","onClick":{"openLink":{"url":"https://x"}}}]}}]}]}}]}`, ""},
		{"unknown field", `{"txt":"x"}`, `Unknown name "txt" at 'message'`},
		{"snake case", `{"text":"x","thread":{"thread_key":"k"}}`, `Unknown name "thread_key" at 'message.thread'`},
		{"number for string", `{"text":1}`, `Invalid value at 'message.text' (string), 1`},
		{"string for object", `{"thread":"t"}`, `Invalid value at 'message.thread' (object)`},
		{"object for array", `{"cardsV2":{}}`, `Invalid value at 'message.cardsV2' (array)`},
		{"inside an array", `{"cardsV2":[{"cardId":1}]}`, `'message.cardsV2[0].cardId'`},
		{"enum", `{"text":"x","markupSyntax":"HTML"}`, `Invalid value at 'message.markupSyntax' (one of`},
		{"date", `{"text":"x","createTime":"yesterday"}`, `Invalid value at 'message.createTime' (string google-datetime)`},
		{"bool", `{"text":"x","threadReply":"yes"}`, `Invalid value at 'message.threadReply' (boolean)`},
		{"integer", `{"annotations":[{"startIndex":1.5}]}`, `'message.annotations[0].startIndex' (integer int32), 1.5`},
		{"not an object", `[]`, `Invalid value at 'message' (object)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := decode([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			bad := google().check("message", &schema{Ref: "Message"}, v)
			if tt.want == "" && len(bad) > 0 || tt.want != "" && !strings.Contains(strings.Join(bad, "\n"), tt.want) {
				t.Errorf("check found %q, want %q", bad, tt.want)
			}
		})
	}
}

// check lists what is wrong with v, which was decoded with json.Number for
// numbers. The words are those of Google's own refusals.
func (d *discovery) check(at string, s *schema, v any) []string {
	if s.Ref != "" {
		if s = d.Schemas[s.Ref]; s == nil {
			return []string{"no schema for '" + at + "'"}
		}
	}
	if v == nil || s.Type == "any" { // null is the same as absent
		return nil
	}
	wrong := []string{fmt.Sprintf("Invalid value at '%s' (%s), %s", at, s.kind(), brief(v))}
	switch v := v.(type) {
	case map[string]any:
		if s.Type != "object" {
			return wrong
		}
		return d.checkObject(at, s, v)
	case []any:
		if s.Type != "array" {
			return wrong
		}
		var bad []string
		for i, item := range v {
			bad = append(bad, d.check(fmt.Sprintf("%s[%d]", at, i), s.Items, item)...)
		}
		return bad
	case string:
		if s.Type != "string" || !s.accepts(v) {
			return wrong
		}
	case json.Number:
		if s.Type != "number" && (s.Type != "integer" || !s.accepts(v.String())) {
			return wrong
		}
	case bool:
		if s.Type != "boolean" {
			return wrong
		}
	}
	return nil
}

func (d *discovery) checkObject(at string, s *schema, v map[string]any) []string {
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		field := s.Properties[name]
		if field == nil {
			field = s.AdditionalProperties
		}
		if field == nil {
			bad = append(bad, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, at))
			continue
		}
		bad = append(bad, d.check(at+"."+name, field, v[name])...)
	}
	return bad
}

// decode reads one JSON value and nothing after it, keeping numbers as written.
func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the JSON value")
	}
	return v, nil
}
