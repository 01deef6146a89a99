package migrate

import (
	"errors"
	"slices"
	"strings"
)

// call is a tool call as an instruction spells it: NAME(key="value", …), NAME({key: "value"}), or {"key": "value"} alone.
type call struct {
	start, end int
	args       []argument
	strings    []span // its strings with their quotes, those within other values too
}

// argument is one of a call's; key is "" for one without a name.
type argument struct {
	key, value string
	literal    bool // value is the text of a string, its blanks marked; else it is an expression as written
}

// span is a string's place and its quote.
type span struct {
	start, end int
	quote      string
}

var (
	argKey    = lazy(`^([A-Za-z_]\w*|"[A-Za-z_]\w*"|'[A-Za-z_]\w*')\s*(=|:)\s*`)
	closers   = map[byte]byte{'(': ')', '[': ']', '{': '}'}
	errParens = errors.New("its brackets do not match")
)

// parseCall reads the call whose bracket, "(" or "{", is at src[open].
func parseCall(src string, start, open int) (*call, error) {
	c := &call{start: start}
	if src[open] == '(' { // NAME({…}): the object's members are the arguments
		if i := skipSpace(src, open+1); i < len(src) && src[i] == '{' {
			inner, err := parseCall(src, start, i)
			if err != nil {
				return nil, err
			}
			end := skipSpace(src, inner.end)
			if end >= len(src) || src[end] != ')' {
				return nil, errParens
			}
			inner.end = end + 1
			return inner, nil
		}
	}
	closer := closers[src[open]]
	for i := open + 1; ; {
		i = skipSpace(src, i)
		if i >= len(src) || i-open > longestCall {
			return nil, errOpen
		}
		if src[i] == closer {
			c.end = i + 1
			return c, nil
		}
		if src[i] == ',' {
			i++
			continue
		}
		var a argument
		if m := argKey().FindStringSubmatch(src[i:min(len(src), i+200)]); m != nil && !strings.HasPrefix(src[i+len(m[0]):], "=") {
			a.key = strings.Trim(m[1], `"'`)
			i += len(m[0])
		}
		end, err := c.expression(src, i)
		if err == nil && end == i {
			err = errParens // a closing bracket that is another's
		}
		if err != nil {
			return nil, err
		}
		a.value, a.literal = constant(src[i:end])
		c.args = append(c.args, a)
		i = end
	}
}

// expression gives the place behind the expression at src[at]: a comma or a closing bracket of the call's own.
func (c *call) expression(src string, at int) (end int, err error) {
	var open []byte
	for i := at; i < len(src) && i-at <= longestCall; {
		switch b := src[i]; {
		case len(open) == 0 && (b == ',' || b == ')' || b == ']' || b == '}'):
			return i, nil
		case b == '(' || b == '[' || b == '{':
			open = append(open, closers[b])
		case b == ')' || b == ']' || b == '}':
			if open[len(open)-1] != b {
				return 0, errParens
			}
			open = open[:len(open)-1]
		case b == '#':
			i = lineEnd(src, i)
			continue
		default:
			if quote, _, _, _ := quoteAt(src, i); quote != "" && (i == 0 || !wordByte(src[i-1])) {
				_, end, err := readString(src, i)
				if err != nil {
					return 0, err
				}
				c.strings = append(c.strings, span{i, end, quote})
				i = end
				continue
			}
		}
		i++
	}
	return 0, errOpen
}

// constant gives the text of an expression made of strings only: one, several side by side, joined by +, in brackets. The
// blanks of format strings are marked in it.
func constant(expr string) (string, bool) {
	expr = strings.TrimSpace(expr)
	if inner, ok := strings.CutPrefix(expr, "("); ok && strings.HasSuffix(inner, ")") {
		return constant(inner[:len(inner)-1])
	}
	var b strings.Builder
	i, found := 0, false
	for i = skipSpace(expr, 0); i < len(expr); i = skipSpace(expr, i) {
		if expr[i] == '+' && found {
			i++
			continue
		}
		value, format, end, err := readLiteral(expr, i)
		if err != nil || strings.Contains(value, blankMark) {
			return expr, false
		}
		if format {
			value = markBlanks(value)
		}
		b.WriteString(value)
		i, found = end, true
	}
	if !found {
		return expr, false
	}
	return b.String(), true
}

// get finds an argument by its name.
func (c *call) get(key string) (argument, bool) {
	i := slices.IndexFunc(c.args, func(a argument) bool { return a.key == key })
	if i < 0 {
		return argument{}, false
	}
	return c.args[i], true
}

// skipSpace skips white space and comments.
func skipSpace(src string, i int) int {
	for i < len(src) {
		switch {
		case strings.IndexByte(" \t\r\n", src[i]) >= 0:
			i++
		case src[i] == '#' || strings.HasPrefix(src[i:], "//"):
			i = lineEnd(src, i)
		default:
			return i
		}
	}
	return i
}

func lineEnd(src string, i int) int {
	if n := strings.IndexByte(src[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(src)
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
