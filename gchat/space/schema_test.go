package space

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// discovery.json is the part of Google's discovery document for Chat that this package serves. It is made, and compared with
// the document of the chat/v1 module, by TestDiscovery.
//
//go:embed testdata/discovery.json
var discoveryJSON []byte

// A discovery says what requests and answers look like; the tests check bodies by it.
type discovery struct {
	Revision   string             `json:"revision"`
	Parameters map[string]*schema `json:"parameters"` // of every method
	Methods    map[string]*method `json:"methods"`    // by id
	Schemas    map[string]*schema `json:"schemas"`
}

type method struct {
	ID         string             `json:"id"`
	HTTPMethod string             `json:"httpMethod"`
	FlatPath   string             `json:"flatPath"`
	Parameters map[string]*schema `json:"parameters,omitempty"`
	Request    *schema            `json:"request,omitempty"`
	Response   *schema            `json:"response,omitempty"`
}

// A schema is the type of a value: of a message, a field, or a parameter.
type schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Location             string             `json:"location,omitempty"`
	Repeated             bool               `json:"repeated,omitempty"`
	ReadOnly             bool               `json:"readOnly,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties *schema            `json:"additionalProperties,omitempty"`
}

var google = sync.OnceValue(func() *discovery {
	d := new(discovery)
	if err := json.Unmarshal(discoveryJSON, d); err != nil {
		panic("discovery.json: " + err.Error())
	}
	return d
})

// checkQuery lists what is wrong with the query of a call to m.
func (d *discovery) checkQuery(m *method, query url.Values) []string {
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		p := m.Parameters[name]
		if p == nil || p.Location != "query" {
			p = d.Parameters[name]
		}
		if p == nil {
			bad = append(bad, fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot bind query parameter.", name))
			continue
		}
		if len(query[name]) > 1 && !p.Repeated {
			bad = append(bad, fmt.Sprintf("Invalid value at '%s': it is given more than once", name))
		}
		for _, v := range query[name] {
			if !p.accepts(v) {
				bad = append(bad, fmt.Sprintf("Invalid value at '%s' (%s), %s", name, p.kind(), brief(v)))
			}
		}
	}
	return bad
}

// accepts tells whether the text of a scalar fits type, enum, format and pattern.
func (s *schema) accepts(v string) bool {
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return false
	}
	if s.Pattern != "" {
		if ok, err := regexp.MatchString(s.Pattern, v); err != nil || !ok {
			return false
		}
	}
	var err error
	switch s.Type + " " + s.Format {
	case "boolean ":
		return v == "true" || v == "false"
	case "integer int32":
		_, err = strconv.ParseInt(v, 10, 32)
	case "string int64":
		_, err = strconv.ParseInt(v, 10, 64)
	case "string google-datetime":
		_, err = time.Parse(time.RFC3339Nano, v)
	}
	return err == nil
}

func (s *schema) kind() string {
	if len(s.Enum) > 0 {
		return "one of " + strings.Join(s.Enum, ", ")
	}
	return strings.TrimSpace(s.Type + " " + s.Format)
}
