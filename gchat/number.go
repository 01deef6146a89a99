package gchat

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

var numberForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:option[\s]*)?#?\s*(?:\(\s*(\d+)\s*\)|(\d+)[.)]?)$`)
})

// number reads the forms in which phones give a number: "2", "2.", "(2)", "#2", "option 2", "２", "2️⃣". Out of an
// int's range it gives -1. Bare is a number without any decoration.
func number(s string) (n int, bare, ok bool) {
	if len(s) > 200 {
		return 0, false, false
	}
	s = strings.TrimSpace(plainDigits(s))
	m := numberForm().FindStringSubmatch(s)
	if m == nil {
		return 0, false, false
	}
	n, err := strconv.Atoi(m[1] + m[2])
	if err != nil {
		n = -1
	}
	return n, s == m[2], true
}

// plainDigits gives full-width ASCII as ASCII and ends a keycap emoji with a space: "1️⃣3️⃣" is two numbers.
func plainDigits(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '！' && r <= '～':
			return r - '！' + '!'
		case r == '。':
			return '.'
		case r == '\uFE0F':
			return -1
		case r == '\u20E3', unicode.Is(unicode.Zs, r):
			return ' '
		}
		return r
	}, s)
}
