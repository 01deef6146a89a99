package strict

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A document is what a discovery document says about requests: https://developers.google.com/discovery/v1/reference/apis.
type document struct {
	resource
	Parameters map[string]*schema `json:"parameters"` // of every method
	Schemas    map[string]*schema `json:"schemas"`
}

type resource struct {
	Methods   map[string]*method   `json:"methods"`
	Resources map[string]*resource `json:"resources"`
}

type method struct {
	ID         string             `json:"id"`
	HTTPMethod string             `json:"httpMethod"`
	Path       string             `json:"path"`
	Parameters map[string]*schema `json:"parameters"`
	Request    *schema            `json:"request"`
	Scopes     []string           `json:"scopes"`

	of     *document
	called *regexp.Regexp // the paths that call it
}

// A schema is the type of a body, of a member of one, or of a parameter.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Enum                 []string           `json:"enum"`
	Description          string             `json:"description"`
	Location             string             `json:"location"`
	Pattern              string             `json:"pattern"`
	Repeated             bool               `json:"repeated"`
	ReadOnly             bool               `json:"readOnly"`
	Deprecated           bool               `json:"deprecated"`
	Items                *schema            `json:"items"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
}

func (s *schema) required() bool { return strings.HasPrefix(s.Description, "Required.") }

// began is the environment that the process began with: a test may have a HOME of its own, which has no modules, and a PATH.
var (
	began     = os.Environ()
	goTool, _ = exec.LookPath("go")
)

// methods are those of Chat and of Pub/Sub, by the documents that the API module of go.mod ships.
var methods = sync.OnceValues(func() (all []*method, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, goTool, "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api")
	cmd.Env = began
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find google.golang.org/api: %w", err)
	}
	for _, name := range []string{"chat/v1/chat-api.json", "pubsub/v1/pubsub-api.json"} {
		b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), name))
		if err != nil {
			return nil, err
		}
		d := new(document)
		if err := json.Unmarshal(b, d); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, d.walk(d, nil)...)
	}
	return all, nil
})

var pathParameter = regexp.MustCompile(`\{\+?([A-Za-z]+)\}`)

// walk collects the methods of a resource, and of those in it.
func (r *resource) walk(of *document, all []*method) []*method {
	for _, m := range r.Methods {
		m.of = of
		path := pathParameter.ReplaceAllStringFunc(m.Path, func(s string) string {
			pattern := strings.Trim(m.Parameters[strings.Trim(s, "{+}")].Pattern, "^$")
			return "(" + strings.ReplaceAll(pattern, "[^/]+", "[^/:]+") + ")" // what follows ":" is the method's own name
		})
		m.called = regexp.MustCompile("^/" + path + "$")
		all = append(all, m)
	}
	for _, below := range r.Resources {
		all = below.walk(of, all)
	}
	return all
}

// query lists what is wrong with a query.
func (m *method) query(query url.Values) (bad []string) {
	for name, p := range m.Parameters {
		if p.Location == "query" && p.required() && query.Get(name) == "" {
			bad = append(bad, fmt.Sprintf("Required parameter is missing: %s", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		p := m.Parameters[name]
		if p == nil || p.Location != "query" {
			p = m.of.Parameters[name]
		}
		switch {
		case name == "token" && query.Has("key"): // the token of a webhook's address stands in no document
			continue
		case p == nil:
			bad = append(bad, fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot bind query parameter.", name))
			continue
		case p.Deprecated:
			bad = append(bad, fmt.Sprintf("The parameter %s is deprecated", name))
		case len(query[name]) > 1 && !p.Repeated:
			bad = append(bad, fmt.Sprintf("The parameter %s is given more than once", name))
		}
		for _, v := range query[name] {
			if !p.accepts(v) {
				bad = append(bad, fmt.Sprintf("Invalid value at '%s', %q", name, v))
			}
		}
	}
	if mask := query.Get("updateMask"); mask != "" && m.Parameters["updateMask"] != nil {
		bad = append(bad, m.mask(mask)...)
	}
	return bad
}

var fieldPath = regexp.MustCompile("`([a-z][A-Za-z0-9_.]*|\\*)`")

// mask lists the paths of an update mask that its description does not name.
func (m *method) mask(mask string) (bad []string) {
	plain := func(path string) string { return strings.ToLower(strings.ReplaceAll(path, "_", "")) }
	var named []string
	for _, found := range fieldPath.FindAllStringSubmatch(m.Parameters["updateMask"].Description, -1) {
		named = append(named, plain(found[1]))
	}
	for path := range strings.SplitSeq(mask, ",") {
		if !slices.Contains(named, plain(path)) {
			bad = append(bad, fmt.Sprintf("Invalid update mask: %q", path))
		}
	}
	return bad
}

// body lists what is wrong with a request's body, as far as its schema tells. That a value is of its member's type is the Go
// library's doing, by which all requests are made.
func (m *method) body(v any) []string {
	if m.Request == nil {
		return []string{"Invalid JSON payload received. The method takes no body."}
	}
	return m.value("", m.Request, v)
}

// value lists what is wrong with a value at a place in the body.
func (m *method) value(at string, s *schema, v any) (bad []string) {
	if s != nil && s.Ref != "" {
		s = m.of.Schemas[s.Ref]
	}
	switch v := v.(type) {
	case map[string]any:
		if s != nil && s.Type == "object" {
			return m.object(at, s, v)
		}
	case []any:
		for i, item := range v {
			if s != nil {
				bad = append(bad, m.value(fmt.Sprintf("%s[%d]", at, i), s.Items, item)...)
			}
		}
		return bad
	default:
		if s != nil && s.accepts(fmt.Sprint(v)) {
			return nil
		}
	}
	return []string{fmt.Sprintf("Invalid value at '%s', %.60v", at, v)}
}

func (m *method) object(at string, s *schema, v map[string]any) (bad []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		inPath := at == "" && m.Parameters[name] != nil
		if s.Properties[name].required() && missing(v[name]) && !inPath {
			bad = append(bad, fmt.Sprintf("The field '%s' is required", at+"."+name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		member := s.Properties[name]
		if member == nil {
			member = s.AdditionalProperties
		}
		switch {
		case member == nil:
			bad = append(bad, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, at))
			continue
		case v[name] == nil: // null is the same as absent
			continue
		case member.ReadOnly:
			bad = append(bad, fmt.Sprintf("The field '%s' is output only", at+"."+name))
		case member.Deprecated:
			bad = append(bad, fmt.Sprintf("The field '%s' is deprecated", at+"."+name))
		}
		bad = append(bad, m.value(at+"."+name, member, v[name])...)
	}
	return bad
}

// missing tells of a member that is not there, or empty where empty is the same.
func missing(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

// accepts tells whether a scalar is one of those that there are.
func (s *schema) accepts(v string) bool { return len(s.Enum) == 0 || slices.Contains(s.Enum, v) }
