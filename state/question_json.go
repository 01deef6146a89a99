package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// UnmarshalJSON keeps the raw members, so that MarshalJSON can give back what it does not know.
func (q *Question) UnmarshalJSON(b []byte) error {
	type plain Question
	var p plain
	err := json.Unmarshal(b, &p)
	if err != nil {
		if b = withOurTimes(b); b == nil {
			return err
		}
		p = plain{}
		err = json.Unmarshal(b, &p)
	}
	if err == nil {
		err = json.Unmarshal(b, &p.raw)
	}
	if err != nil {
		return err
	}
	*q = Question(p)
	return nil
}

// foreignTimes are how other programs write a time: Python's isoformat knows neither a Z nor, of UTC, a zone.
var foreignTimes = []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00"}

// withOurTimes is a question with its times as RFC 3339, a time without a zone taken for UTC; nil when that mends nothing.
func withOurTimes(b []byte) []byte {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return nil
	}
	for _, name := range []string{"asked_at", "resolved_at"} {
		var text string
		if json.Unmarshal(raw[name], &text) != nil {
			continue
		}
		if text == "" {
			raw[name] = json.RawMessage("null")
		}
		for _, layout := range foreignTimes {
			if t, err := time.Parse(layout, text); err == nil {
				raw[name], _ = json.Marshal(t.UTC())
				break
			}
		}
	}
	mended, err := json.Marshal(raw)
	if err != nil {
		return nil
	}
	return mended
}

// MarshalJSON writes known members in the order of the struct, then unknown ones by name. A known member whose value
// did not change keeps the bytes it was read with: unknown fields inside it survive too.
func (q *Question) MarshalJSON() ([]byte, error) {
	type plain Question
	was, err := members(q.raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	known := map[string]bool{}
	write := func(name string, value []byte) {
		if out.Len() == 0 {
			out.WriteByte('{')
		} else {
			out.WriteByte(',')
		}
		key, _ := json.Marshal(name)
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	v := reflect.ValueOf((*plain)(q)).Elem()
	for i := range v.NumField() {
		name, opts, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known[name] = true
		f := v.Field(i)
		if raw := q.raw[name]; raw == nil && opts == "omitempty" && (f.IsZero() || (f.Kind() == reflect.Map || f.Kind() == reflect.Slice) && f.Len() == 0) {
			continue
		}
		b, err := json.Marshal(f.Interface())
		if err != nil {
			return nil, err
		}
		if raw, ok := q.raw[name]; ok && bytes.Equal(b, was[name]) {
			b = raw
		}
		write(name, b)
	}
	for _, name := range slices.Sorted(maps.Keys(q.raw)) {
		if !known[name] {
			write(name, q.raw[name])
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// members marshals the known members of a raw question again: the shape that an unchanged value would take.
func members(raw map[string]json.RawMessage) (map[string][]byte, error) {
	if raw == nil {
		return nil, nil
	}
	type plain Question
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, err
	}
	was := map[string][]byte{}
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if b, err := json.Marshal(v.Field(i).Interface()); err == nil {
			was[name] = b
		}
	}
	return was, nil
}
