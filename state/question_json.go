package state

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// UnmarshalJSON keeps the raw members, so that MarshalJSON can give back what it does not know.
func (q *Question) UnmarshalJSON(b []byte) error {
	type plain Question
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &p.raw); err != nil {
		return err
	}
	*q = Question(p)
	return nil
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
