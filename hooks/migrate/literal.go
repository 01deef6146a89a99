package migrate

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errOpen says that a string or a call does not end within reason.
var errOpen = errors.New("it has no end")

// longestCall bounds a call's length, in bytes: an unclosed quote must not swallow a document.
const longestCall = 16 << 10

// quoteAt says which quote begins a string at src[at], behind an optional prefix of Python's (r, b, f, u), and where its
// words begin. Models also write JSON's and JavaScript's strings, which are the same.
func quoteAt(src string, at int) (quote string, raw, format bool, from int) {
	i := at
	for i < len(src) && i-at < 2 && strings.IndexByte("rRbBfFuU", src[i]) >= 0 {
		raw = raw || src[i] == 'r' || src[i] == 'R'
		format = format || src[i] == 'f' || src[i] == 'F'
		i++
	}
	if i >= len(src) || src[i] != '"' && src[i] != '\'' {
		return "", false, false, at
	}
	quote = src[i : i+1]
	if strings.HasPrefix(src[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	return quote, raw, format, i + len(quote)
}

// readString reads the string that begins at src[at] and gives its value and the place behind it. In a format string the
// braces around what is to be filled in stay.
func readString(src string, at int) (value string, end int, err error) {
	value, format, end, err := readLiteral(src, at)
	if format {
		value = strings.NewReplacer("{{", "{", "}}", "}").Replace(value)
	}
	return value, end, err
}

// readLiteral is readString, but for the braces of a format string, which are as written.
func readLiteral(src string, at int) (value string, format bool, end int, err error) {
	quote, raw, format, i := quoteAt(src, at)
	if quote == "" {
		return "", false, at, errors.New("no string")
	}
	var b strings.Builder
	for stop := min(len(src), i+longestCall); i < stop; {
		switch {
		case strings.HasPrefix(src[i:], quote):
			return b.String(), format, i + len(quote), nil
		case src[i] == '\\' && raw && i+1 < len(src):
			b.WriteString(src[i : i+2])
			i += 2
		case src[i] == '\\' && i+1 < len(src):
			i += unescape(&b, src[i:])
		case src[i] == '\r' && strings.HasPrefix(src[i:], "\r\n"):
			i++ // the string's line ends are the shell's, whatever the file's are
		default:
			b.WriteByte(src[i])
			i++
		}
	}
	return "", format, at, errOpen
}

// unescape writes what the escape at the start of s stands for and gives its length. An unknown one stays as it is, as in
// Python.
func unescape(b *strings.Builder, s string) int {
	digits := 0
	switch s[1] {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
	case '\\', '\'', '"', '/':
		b.WriteByte(s[1])
	case '\n':
	case '\r':
		if strings.HasPrefix(s[2:], "\n") {
			return 3
		}
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		b.WriteString(s[:2])
	}
	if digits == 0 {
		return 2
	}
	if len(s) >= 2+digits {
		if n, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil && n != 0 && utf8.ValidRune(rune(n)) {
			b.WriteRune(rune(n))
			return 2 + digits
		}
	}
	b.WriteString(s[:2])
	return 2
}
