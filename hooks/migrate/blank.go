package migrate

import "strings"

// blankMark stands before and behind the expression of a blank in a format string's text: f"{n} found" is "\x00n\x00 found".
// A file with a NUL byte is no text and is not changed, and an escaped NUL stays as it is written, so that none is another's.
const blankMark = "\x00"

var (
	blank   = lazy(blankMark + "([^" + blankMark + "]*)" + blankMark)
	noName  = lazy(`\W+`)
	noWords = lazy(`\A[\s\pP\pS]*\z`)
)

// markBlanks marks the blanks of a format string's text, and takes one of two braces where both stand for one.
func markBlanks(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch end := 0; {
		case strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '{':
			if end = closingBrace(s, i); end < 0 {
				return b.String() + s[i:]
			}
			b.WriteString(blankMark + s[i+1:end] + blankMark)
			i = end
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func closingBrace(s string, open int) int {
	depth := 0
	for i := open; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// onlyBlanks says that a text has no word but what fills its blanks.
func onlyBlanks(s string) bool {
	return strings.Contains(s, blankMark) && noWords().MatchString(blank().ReplaceAllString(s, ""))
}

// shellText makes one word of s for any POSIX shell. A blank becomes a variable, for whoever follows the instruction to set
// or to fill in; between double quotes nothing else is left to mean anything.
func shellText(s string) string {
	if !strings.Contains(s, blankMark) {
		return shellQuote(s)
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
	var b strings.Builder
	at := 0
	for _, m := range blank().FindAllStringSubmatchIndex(s, -1) {
		name := blankName(s[m[2]:m[3]])
		b.WriteString(quoted.Replace(s[at:m[0]]))
		if at = m[1]; at < len(s) && wordByte(s[at]) {
			name = "{" + name + "}"
		}
		b.WriteString("$" + name)
	}
	return `"` + b.String() + quoted.Replace(s[at:]) + `"`
}

// blankName makes a variable's name of an expression: "epic.name" is epic_name, "len(items)" len_items, and what says how
// it is shown ("done:.0%", "x!r", "x=") goes.
func blankName(expr string) string {
	depth := 0
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case depth == 0 && (c == ':' || c == '!' && !strings.HasPrefix(expr[i:], "!=")):
			expr = expr[:i]
		}
	}
	name := strings.Trim(noName().ReplaceAllString(expr, "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "value" + strings.TrimSuffix("_"+name, "_")
	}
	return name
}
