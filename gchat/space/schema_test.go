package space

import (
	_ "embed"
	"encoding/json"
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

// A discovery says what answers look like; the tests check them by it. What we ask for is checked by e2e/strict.
type discovery struct {
	Revision string             `json:"revision"`
	Methods  map[string]*method `json:"methods"` // by id
	Schemas  map[string]*schema `json:"schemas"`
}

type method struct {
	ID       string  `json:"id"`
	Request  *schema `json:"request,omitempty"`
	Response *schema `json:"response,omitempty"`
}

// A schema is the type of a value: of a message, or of a field.
type schema struct {
	Ref                  string             `json:"$ref,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
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

// accepts tells whether the text of a scalar fits type, enum and format.
func (s *schema) accepts(v string) bool {
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return false
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
