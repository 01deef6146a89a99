package settings

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tailscale/hujson"
)

// A style is how a file is written: what we put in looks like the rest of it.
type style struct {
	nl      string // end of a line
	unit    string // one step of indentation
	colon   string // between a name and its value
	comma   string // between two parts in one line
	compact bool   // all of it stands in one line
}

// usual is how Claude Code itself writes.
var usual = style{nl: "\n", unit: "  ", colon: ": ", comma: ", "}

// style finds it out. What the file does not show is as usual.
func (d *document) style() style {
	s := usual
	if i := bytes.IndexByte(d.body, '\n'); i > 0 && d.body[i-1] == '\r' {
		s.nl = "\r\n"
	}
	members := d.object().Members
	if len(members) == 0 {
		return s
	}
	s.compact = !bytes.ContainsRune(d.body[d.root.StartOffset:d.root.EndOffset], '\n')
	if len(members[0].Value.BeforeExtra) == 0 {
		s.colon = ":"
	}
	if len(members) == 1 && s.colon == ":" || len(members) > 1 && s.compact && len(members[1].Name.BeforeExtra) == 0 {
		s.comma = ","
	}
	for i := range members {
		if indent, ok := lineStart(members[i].Name.BeforeExtra); ok {
			s.unit = indent
			break
		}
	}
	return s
}

// lineStart is the indentation of the line that a part begins, when it begins one.
func lineStart(before hujson.Extra) (indent string, ok bool) {
	i := bytes.LastIndexByte(before, '\n')
	if i < 0 {
		return "", false
	}
	line := before[i+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))]), true
}

// A frame is a container in the file: the indentation of its closing bracket, and whether it lies in somebody's line.
type frame struct {
	container
	indent string
	inline bool
}

// inOneLine says whether a part put into it stands in one line with the others.
func (f frame) inOneLine() bool { return f.inline || f.len() > 0 && f.oneLine() }

// indentOf is the indentation of its part i.
func (s style) indentOf(f frame, i int) string {
	if indent, ok := lineStart(*f.before(i)); ok {
		return indent
	}
	return f.indent + s.unit
}

// append puts a value at its end, under a name if it is an object.
func (s style) append(f frame, name string, value any) {
	o := opening{!f.inOneLine(), s.nl, f.indent + s.unit, f.indent, strings.TrimPrefix(s.comma, ",")}
	if n := f.len(); o.ownLine && n > 0 {
		o.indent = s.indentOf(f, n-1)
	}
	v, err := hujson.Parse([]byte(s.text(value, o.indent, !o.ownLine)))
	if err != nil {
		panic(err) // we wrote it
	}
	before, after := f.makeRoom(o)
	if f.obj == nil {
		v.BeforeExtra, v.AfterExtra = before, after
		f.arr.Elements = append(f.arr.Elements, v)
		return
	}
	key := hujson.Value{BeforeExtra: before, Value: hujson.String(name)}
	v.BeforeExtra, v.AfterExtra = hujson.Extra(s.colon[1:]), after
	f.obj.Members = append(f.obj.Members, hujson.ObjectMember{Name: key, Value: v})
}

// What we write: objects and lists on lines of their own, texts' lists in one.
type (
	object []field
	list   []any
	field  struct {
		name  string
		value any
	}
)

// text is a value as JSON; indent is that of the line it begins in.
func (s style) text(value any, indent string, inline bool) string {
	var parts []string
	open, shut := "{", "}"
	switch v := value.(type) {
	case object:
		for _, f := range v {
			parts = append(parts, jsonText(f.name)+s.colon+s.text(f.value, indent+s.unit, inline))
		}
	case list:
		open, shut = "[", "]"
		for _, e := range v {
			parts = append(parts, s.text(e, indent+s.unit, inline))
		}
	case []string:
		open, shut, inline = "[", "]", true
		for _, e := range v {
			parts = append(parts, jsonText(e))
		}
	default:
		return jsonText(v)
	}
	if inline || len(parts) == 0 {
		return open + strings.Join(parts, s.comma) + shut
	}
	inner := s.nl + indent + s.unit
	return open + inner + strings.Join(parts, ","+inner) + s.nl + indent + shut
}

func jsonText(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // texts, numbers and truths
	return strings.TrimSuffix(b.String(), "\n")
}
