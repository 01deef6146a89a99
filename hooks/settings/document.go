package settings

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// A SyntaxError says where a settings file cannot be understood. Lines and columns count from 1, columns in bytes.
type SyntaxError struct {
	Line, Column int
	Msg          string
	Parses       bool // it is JSON, but Claude Code takes something else at that place
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// maxDepth is how deep lists and objects may lie in each other. Nobody's settings do; the parser is recursive.
const maxDepth = 500

var bom = []byte("\xef\xbb\xbf")

func noBOM(file []byte) []byte { return bytes.TrimPrefix(file, bom) }

// A document is a settings file whose every byte is known: bytes gives back what was parsed. Besides JSON it takes
// comments and trailing commas. Claude Code itself does not (2.1.329 skips such a file), but a person who
// mends that later must find every comment where it was.
type document struct {
	file    []byte // as it was given
	body    []byte // without the byte order mark
	root    hujson.Value
	unended bool // its last line is a comment without an end of line
	touched map[hujson.ValueTrimmed]bool
	blankAs []byte // what it is when its object is empty; nil: what it says
}

// parse reads a settings file. One with nothing in it is an object with nothing in it, as Claude Code takes it.
func parse(file []byte) (*document, error) {
	d := &document{file: file, body: noBOM(file), touched: map[hujson.ValueTrimmed]bool{}}
	if bytes.HasPrefix(file, []byte("\xff\xfe")) || bytes.HasPrefix(file, []byte("\xfe\xff")) {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: "this is UTF-16; save it as UTF-8"}
	}
	if len(bytes.TrimSpace(d.body)) == 0 {
		d.root = hujson.Value{Value: &hujson.Object{}, AfterExtra: hujson.Extra("\n")}
		d.blankAs = append([]byte{}, file...)
		return d, nil
	}
	if at := tooDeep(d.body); at >= 0 {
		return nil, d.errorAt(at, fmt.Sprintf("more than %d lists and objects in each other", maxDepth))
	}
	var err error
	if d.root, err = hujson.Parse(d.body); err != nil && strings.HasSuffix(err.Error(), "parsing comment: "+io.ErrUnexpectedEOF.Error()) {
		d.unended = true
		d.root, err = hujson.Parse(append(bytes.Clone(d.body), '\n'))
	}
	if err != nil {
		return nil, syntaxError(err)
	}
	if _, ok := d.root.Value.(*hujson.Object); !ok {
		return nil, d.wrongAt(d.root.StartOffset, "settings are an object, { … }")
	}
	return d, nil
}

// object is the document itself.
func (d *document) object() *hujson.Object { return d.root.Value.(*hujson.Object) }

// bytes is the file.
func (d *document) bytes() []byte {
	if d.blankAs != nil && len(d.object().Members) == 0 {
		return bytes.Clone(d.blankAs)
	}
	body := d.root.Pack()
	if d.unended {
		body = bytes.TrimSuffix(body, []byte("\n"))
	}
	return append(bytes.Clone(d.file[:len(d.file)-len(d.body)]), body...)
}

func (d *document) errorAt(at int, msg string) *SyntaxError {
	return &SyntaxError{Line: 1 + bytes.Count(d.body[:at], []byte("\n")), Column: at - bytes.LastIndexByte(d.body[:at], '\n'), Msg: msg}
}

// wrongAt is the error of a value that is of another type than Claude Code takes there.
func (d *document) wrongAt(at int, msg string) *SyntaxError {
	e := d.errorAt(at, msg)
	e.Parses = true
	return e
}

var where = lazy(`^hujson: line (\d+), column (\d+): `)

// syntaxError takes the place out of the parser's error, which has it in its words only. A literal is left out of them: it
// may be a secret.
func syntaxError(err error) *SyntaxError {
	msg, e := err.Error(), &SyntaxError{Line: 1, Column: 1}
	if m := where().FindStringSubmatch(msg); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Column, _ = strconv.Atoi(m[2])
		msg = msg[len(m[0]):]
	}
	e.Msg = strings.Replace(msg, io.ErrUnexpectedEOF.Error(), "the file ends", 1)
	if strings.HasPrefix(msg, "invalid literal") {
		e.Msg = "no valid text, number, true, false or null"
	}
	return e
}

// tooDeep is where the nesting exceeds maxDepth; -1 when it does not.
func tooDeep(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted && c == '\n': // texts have none: that quote was in a comment
			quoted = false
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}
