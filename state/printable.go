package state

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Printable is text that does nothing to a terminal: a log, a question, a session's name hold what other people wrote. It
// shortens nothing: the Redactor does not know half a secret.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || unicode.IsSpace(r) && r < unicode.MaxASCII && r != '\r' && r != '\v' && r != '\f' {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// OneLine is Printable text in one line.
func OneLine(s string) string { return strings.Join(strings.Fields(Printable(s)), " ") }

// ShellQuoted is a word as a POSIX shell takes it.
func ShellQuoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@%,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// PrintableJSON is JSON that does nothing to a terminal and means the same: what would is escaped.
func PrintableJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < unicode.MaxASCII || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
