package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"google.golang.org/api/chat/v1"
)

// A document is what a discovery document says about requests:
// https://developers.google.com/discovery/v1/reference/apis.
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

	document    *document
	pathPattern *regexp.Regexp // the paths that call it
}

// A schema is the type of a body, of a member of one, or of a parameter.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Enum                 []string           `json:"enum"`
	Description          string             `json:"description"`
	Location             string             `json:"location"`
	Pattern              string             `json:"pattern"`
	ReadOnly             bool               `json:"readOnly"`
	Deprecated           bool               `json:"deprecated"`
	Items                *schema            `json:"items"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
}

func (s *schema) isRequired() bool { return strings.HasPrefix(s.Description, "Required.") }

// methods are those of Chat and of Pub/Sub, by the documents that stand beside the code
// of their Go packages.
var methods = sync.OnceValues(func() (all []*method, err error) {
	code := runtime.FuncForPC(reflect.ValueOf(chat.NewService).Pointer())
	file, _ := code.FileLine(code.Entry())
	if !filepath.IsAbs(file) { // built with -trimpath: a path below the module cache
		cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
		if err != nil {
			return nil, fmt.Errorf("find the module cache: %w", err)
		}
		file = filepath.Join(strings.TrimSpace(string(cache)), file)
	}
	for _, name := range []string{"chat-api.json", "../../pubsub/v1/pubsub-api.json"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
		if err != nil {
			return nil, err
		}
		d := new(document)
		if err := json.Unmarshal(b, d); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, d.collectMethods(d, nil)...)
	}
	return all, nil
})

var pathParameter = regexp.MustCompile(`\{\+?([A-Za-z]+)\}`)

// collectMethods collects the methods of a resource, and of those in it.
func (r *resource) collectMethods(doc *document, all []*method) []*method {
	for _, m := range r.Methods {
		m.document = doc
		path := pathParameter.ReplaceAllStringFunc(m.Path, func(s string) string {
			pattern := strings.Trim(m.Parameters[strings.Trim(s, "{+}")].Pattern, "^$")
			// what follows ":" is the method's own name
			return "(" + strings.ReplaceAll(pattern, "[^/]+", "[^/:]+") + ")"
		})
		m.pathPattern = regexp.MustCompile("^/" + path + "$")
		all = append(all, m)
	}
	for _, nested := range r.Resources {
		all = nested.collectMethods(doc, all)
	}
	return all
}

// checkQuery lists what is wrong with a query.
func (m *method) checkQuery(query url.Values) (bad []string) {
	for name, p := range m.Parameters {
		if p.Location == "query" && p.isRequired() && query.Get(name) == "" {
			bad = append(bad, fmt.Sprintf("Required parameter is missing: %s", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		p := m.Parameters[name]
		if p == nil || p.Location != "query" {
			p = m.document.Parameters[name]
		}
		switch {
		case name == "token" && query.Has("key"):
			// the token of a webhook's address stands in no document
		case p == nil:
			bad = append(bad, fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot bind query parameter.", name))
		case p.Deprecated:
			bad = append(bad, fmt.Sprintf("The parameter %s is deprecated", name))
		case len(query[name]) > 1: // we repeat none
			bad = append(bad, fmt.Sprintf("The parameter %s is given more than once", name))
		case !p.isAccepted(query.Get(name)):
			bad = append(bad, fmt.Sprintf("Invalid value at '%s', %q", name, query.Get(name)))
		}
	}
	if mask := query.Get("updateMask"); mask != "" && m.Parameters["updateMask"] != nil {
		bad = append(bad, m.checkMask(mask)...)
	}
	return bad
}

var fieldPath = regexp.MustCompile("`([a-z][A-Za-z0-9_.]*|\\*)`")

// checkMask lists the paths of an update mask that its description does not name.
func (m *method) checkMask(mask string) (bad []string) {
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

// value lists what is wrong with a value at a place in the body, as far as its schema
// tells. That it is of its member's type is the Go library's doing, by which all requests
// are made.
func (m *method) value(at string, s *schema, v any) (bad []string) {
	if s != nil && s.Ref != "" {
		s = m.document.Schemas[s.Ref]
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
		if s != nil && s.isAccepted(fmt.Sprint(v)) {
			return nil
		}
	}
	return []string{fmt.Sprintf("Invalid value at '%s', %.60v", at, v)}
}

func (m *method) object(at string, s *schema, v map[string]any) (bad []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		inPath := at == "" && m.Parameters[name] != nil
		if s.Properties[name].isRequired() && isMissing(v[name]) && !inPath {
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
		case v[name] == nil: // null is the same as absent
		case member.ReadOnly:
			bad = append(bad, fmt.Sprintf("The field '%s' is output only", at+"."+name))
		case member.Deprecated:
			bad = append(bad, fmt.Sprintf("The field '%s' is deprecated", at+"."+name))
		default:
			bad = append(bad, m.value(at+"."+name, member, v[name])...)
		}
	}
	return bad
}

// isMissing tells of a member that is not there, or empty where empty is the same.
func isMissing(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

// isAccepted tells whether a scalar is one of those that there are.
func (s *schema) isAccepted(v string) bool { return len(s.Enum) == 0 || slices.Contains(s.Enum, v) }
