package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
)

// A document is a settings file as text with its syntax tree. An edit replaces a range of the text, so that everything
// outside of it stays byte for byte, and parses again. Besides JSON it takes comments and trailing commas: Claude Code
// skips a file that has them (2.1.329), but a person who mends that later finds every comment where it was.
type document struct {
	mark  string // the byte order mark, or ""
	body  string
	plain string // body with spaces for comments and trailing commas
	root  hujson.Value
}

const byteOrderMark = "\xef\xbb\xbf"

// parse reads a settings file. A blank one is an empty object, as Claude Code takes it.
func parse(file []byte) (*document, error) {
	d := &document{}
	body, marked := strings.CutPrefix(string(file), byteOrderMark)
	if marked {
		d.mark = byteOrderMark
	}
	if strings.TrimSpace(body) == "" {
		body = "{}\n"
	}
	return d, d.read(body)
}

func (d *document) read(body string) (err error) {
	if strings.Count(body, "[")+strings.Count(body, "{") > 100_000 { // the parser is recursive: deeper ones would end the process
		return errors.New("line 1, column 1: more than 100,000 lists and objects")
	}
	d.body = body
	d.root, err = hujson.Parse([]byte(body))
	if err != nil && strings.HasSuffix(err.Error(), "parsing comment: "+io.ErrUnexpectedEOF.Error()) {
		body += "\n" // the last line is a comment without an end of line
		d.root, err = hujson.Parse([]byte(body))
	}
	if err != nil {
		where, _, isLiteral := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), "invalid literal")
		if isLiteral { // the rest may be a secret
			where += "no valid text, number, true, false or null"
		}
		return errors.New(strings.Replace(where, io.ErrUnexpectedEOF.Error(), "the file ends", 1))
	}
	if d.root.Value.Kind() != '{' {
		return d.wrong(&d.root, "settings are an object, { … }")
	}
	plain, err := hujson.Standardize([]byte(body))
	d.plain = string(plain)
	return err
}

func (d *document) bytes() []byte { return []byte(d.mark + d.body) }

// wrong is the error for a value of a type that Claude Code does not take at that place.
func (d *document) wrong(v *hujson.Value, msg string) error {
	before := d.body[:v.StartOffset]
	return fmt.Errorf("line %d, column %d: %s", 1+strings.Count(before, "\n"), v.StartOffset-strings.LastIndex(before, "\n"), msg)
}

// replace puts text in place of a range of the body.
func (d *document) replace(from, to int, text string) error {
	if err := d.read(d.body[:from] + text + d.body[to:]); err != nil {
		return fmt.Errorf("a bug in gchat-hooks: the edit would not parse; nothing is written: %w", err)
	}
	return nil
}

// A part is a member of an object or an element of a list: from its name or value to the end of its value.
type part struct {
	name       string // "" in a list
	value      *hujson.Value
	start, end int
}

// parts are the parts of an object or a list; none of another value.
func parts(in *hujson.Value) (all []part) {
	switch v := in.Value.(type) {
	case *hujson.Object:
		for i := range v.Members {
			m := &v.Members[i]
			all = append(all, part{m.Name.Value.(hujson.Literal).String(), &m.Value, m.Name.StartOffset, m.Value.EndOffset})
		}
	case *hujson.Array:
		for i := range v.Elements {
			e := &v.Elements[i]
			all = append(all, part{"", e, e.StartOffset, e.EndOffset})
		}
	}
	return all
}

// member is the value of a name in an object, nil when there is none. Of two the last one counts, as for JSON.parse.
func member(in *hujson.Value, name string) (found *hujson.Value) {
	for _, p := range parts(in) {
		if p.name == name {
			found = p.value
		}
	}
	return found
}

// append puts a value on lines of its own at the end of an object, under its name, or of a list. A comment stays behind the
// part that it follows.
func (d *document) append(in *hujson.Value, name string, value any) error {
	all, end, shut, comma := parts(in), in.StartOffset+1, in.EndOffset-1, ""
	outer := d.indent(in.StartOffset)
	indent := outer + "  "
	if first := parts(&d.root); len(first) > 0 && d.indent(first[0].start) != "" {
		indent = outer + d.indent(first[0].start)
	}
	if len(all) > 0 {
		last := all[len(all)-1]
		end = last.end
		if last.value.AfterExtra == nil { // else there is a trailing one
			comma = ","
		}
		if d.startsLine(last.start) {
			indent = d.indent(last.start)
		}
	}
	between := strings.TrimRight(d.body[end:shut], " \t\r\n")
	text := comma + between + d.newline() + indent
	if name != "" {
		text += encode(name, "") + ": "
	}
	text += d.text(value, indent)
	if rest := d.body[end+len(between) : shut]; !strings.Contains(rest, "\n") {
		text += d.newline() + outer
	}
	return d.replace(end, end+len(between), text)
}

// set replaces a value.
func (d *document) set(v *hujson.Value, value any) error {
	return d.replace(v.StartOffset, v.EndOffset, d.text(value, d.indent(v.StartOffset)))
}

// cut takes part i out of an object or a list, with the comma that it needed. Comments stay, also those in it.
func (d *document) cut(in *hujson.Value, i int) error {
	all := parts(in)
	from, to, comma := all[i].start, all[i].end, -1
	switch {
	case len(all) == 1:
		from, to = in.StartOffset+1, in.EndOffset-1
		if trail := all[i].value.AfterExtra; trail != nil {
			comma = all[i].end + len(trail)
		}
	case i < len(all)-1:
		to = all[i+1].start
	default:
		from = all[i-1].end
	}
	var kept strings.Builder
	for at := from; at < to; at++ {
		if strings.IndexByte(" \t\r\n", d.plain[at]) >= 0 && at != comma {
			kept.WriteByte(d.body[at])
		}
	}
	if strings.TrimSpace(kept.String()) == "" { // no comment
		return d.replace(from, to, "")
	}
	return d.replace(from, to, kept.String())
}

func (d *document) newline() string {
	if strings.Contains(d.body, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// indent is the white space that the line of an offset begins with.
func (d *document) indent(offset int) string {
	line := d.body[strings.LastIndex(d.body[:offset], "\n")+1 : offset]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// startsLine says whether nothing stands before an offset in its line.
func (d *document) startsLine(offset int) bool {
	line := strings.LastIndex(d.body[:offset], "\n")
	return line >= 0 && strings.TrimSpace(d.body[line:offset]) == ""
}

// text is a value as JSON: a list of texts in one line, else in lines as Claude Code writes them. indent is that of the line
// in which it begins.
func (d *document) text(value any, indent string) string {
	if list, ok := value.([]string); ok {
		var texts []string
		for _, s := range list {
			texts = append(texts, encode(s, ""))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.ReplaceAll(encode(value, indent), "\n", d.newline())
}

func encode(value any, indent string) string {
	unit := "  "
	if strings.HasPrefix(indent, "\t") {
		unit = "\t"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(indent, unit)
	_ = e.Encode(value) // texts, numbers, and lists of them
	return strings.TrimSuffix(b.String(), "\n")
}
