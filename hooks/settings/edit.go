package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A document is a settings file as a syntax tree, which has every byte of it. Besides JSON it takes comments and trailing
// commas. Claude Code skips a file that has them (2.1.329), but a person who mends that later finds each comment where it was.
type document struct {
	root    hujson.Value
	newline string
	unit    string // what one level is indented by
}

const byteOrderMark = "\xef\xbb\xbf"

// parse reads a settings file. A blank one is an empty object, as Claude Code takes it.
func parse(file []byte) (*document, error) {
	if bytes.Count(file, []byte("["))+bytes.Count(file, []byte("{")) > 100_000 { // the parser is recursive: the stack would end
		return nil, errors.New("line 1: more than 100,000 lists and objects")
	}
	body := bytes.TrimPrefix(file, []byte(byteOrderMark))
	mark := file[:len(file)-len(body)]
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}\n")
	}
	root, err := hujson.Parse(body)
	if err != nil {
		where, _, isLiteral := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), "invalid literal")
		if isLiteral { // the rest may be a secret
			where += "no valid text, number, true, false or null"
		}
		return nil, errors.New(where)
	}
	if root.Value.Kind() != '{' {
		return nil, errors.New("line 1: settings are an object, {…}")
	}
	root.BeforeExtra = slices.Concat(mark, root.BeforeExtra)
	d := &document{root, "\n", "  "}
	if bytes.Contains(body, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if bytes.Contains(body, []byte("\n\t")) {
		d.unit = "\t"
	}
	return d, nil
}

// member is the value of a name in an object, nil when there is none. Of two the last one counts, as for JSON.parse.
func member(in *hujson.Value, name string) (found *hujson.Value) {
	if object, ok := in.Value.(*hujson.Object); ok {
		for i := range object.Members {
			if object.Members[i].Name.Value.(hujson.Literal).String() == name {
				found = &object.Members[i].Value
			}
		}
	}
	return found
}

// list is the list that v is, nil for another value.
func list(v *hujson.Value) *hujson.Array {
	if v == nil {
		return nil
	}
	array, _ := v.Value.(*hujson.Array)
	return array
}

// open is the member of an object that is to hold more. Where there is none, it is put there, and empty is its value.
func (d *document) open(in *hujson.Value, depth int, name, empty string) (*hujson.Value, error) {
	if member(in, name) == nil {
		d.put(in, depth, name, json.RawMessage(empty))
	}
	v := member(in, name)
	if byte(v.Value.Kind()) != empty[0] {
		return nil, fmt.Errorf("%q has to be %c…%c", name, empty[0], empty[1])
	}
	return v, nil
}

// put appends a value to an object, under its name, or to a list, in lines of its own. A comment stays behind what it follows.
func (d *document) put(in *hujson.Value, depth int, name string, value any) {
	indent := strings.Repeat(d.unit, depth)
	text, _ := json.MarshalIndent(value, indent, d.unit) // texts and numbers, and lists of them
	v, _ := hujson.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte(d.newline)))
	// before moves what stood behind the last part in front of the new one, and gives the closing bracket a line of its own.
	before := func(shut *hujson.Extra) hujson.Extra {
		behind := string(bytes.TrimRight(*shut, " \t\r\n"))
		*shut = hujson.Extra(d.newline + strings.Repeat(d.unit, depth-1))
		return hujson.Extra(behind + d.newline + indent)
	}
	switch in := in.Value.(type) {
	case *hujson.Object:
		key := hujson.Value{BeforeExtra: before(&in.AfterExtra), Value: hujson.String(name)}
		v.BeforeExtra = hujson.Extra(" ")
		in.Members = append(in.Members, hujson.ObjectMember{Name: key, Value: v})
	case *hujson.Array:
		v.BeforeExtra = before(&in.AfterExtra)
		in.Elements = append(in.Elements, v)
	}
}

// cut takes part i out of an object or a list. Comments stay, also those in it.
func cut(in *hujson.Value, i int) {
	var kept hujson.Extra          // the comments of the part
	var after *hujson.Extra        // what stands before the closing bracket
	var behind, last *hujson.Value // the part that follows; the one before, where none follows
	switch in := in.Value.(type) {
	case *hujson.Object:
		kept, after = slices.Concat(comments(in.Members[i].Name), comments(in.Members[i].Value)), &in.AfterExtra
		in.Members = slices.Delete(in.Members, i, i+1)
		if i < len(in.Members) {
			behind = &in.Members[i].Name
		} else if i > 0 {
			last = &in.Members[i-1].Value
		}
	case *hujson.Array:
		kept, after = comments(in.Elements[i]), &in.AfterExtra
		in.Elements = slices.Delete(in.Elements, i, i+1)
		if i < len(in.Elements) {
			behind = &in.Elements[i]
		} else if i > 0 {
			last = &in.Elements[i-1]
		}
	}
	if behind != nil {
		behind.BeforeExtra = slices.Concat(kept, behind.BeforeExtra)
		return
	}
	if last != nil { // an AfterExtra would put a comma behind it
		kept, last.AfterExtra = slices.Concat(last.AfterExtra, kept), nil
	}
	*after = slices.Concat(kept, *after)
}

// comments are those in and around a value, with the white space that they stand in.
func comments(v hujson.Value) (all hujson.Extra) {
	keep := func(extra hujson.Extra) {
		if bytes.Contains(extra, []byte("/")) {
			all = append(all, extra...)
		}
	}
	keep(v.BeforeExtra)
	switch in := v.Value.(type) {
	case *hujson.Object:
		for _, m := range in.Members {
			all = slices.Concat(all, comments(m.Name), comments(m.Value))
		}
		keep(in.AfterExtra)
	case *hujson.Array:
		for _, e := range in.Elements {
			all = append(all, comments(e)...)
		}
		keep(in.AfterExtra)
	}
	keep(v.AfterExtra)
	return all
}
