package migrate

import "strings"

var (
	isLeft  = lazy(`[\w)\]]([ \t]*==[ \t]*)$`)
	onRight = lazy(`^[ \t]*(==|(not[ \t]+)?in[ \t])[ \t]*`)
	dotted  = lazy(`^[A-Za-z_][\w.]*`)
	// opensTest is what may stand before a comparison, and closesTest what may stand behind it. Anything else, an operator
	// on the next line too, could bind tighter than what the comparison becomes.
	opensTest  = lazy(`(?:[\[({,:]|[^=!<>]=|\b(?:return|if|elif|while|and|or|not|else|assert))$`)
	closesTest = lazy(`^[ \t]*(?:[:)\],]|(?:and|or|if|else|for)\b|(?:#.*)?\r?(?:$|\n(?:\s|#.*\n)*(?:$|[^\s#"'+*/%|&^<>=!.(\[-])))`)
	// otherWithin are words that mean something else within any(…): our own variable, and what no generator may hold.
	otherWithin = lazy(`\b(?:agent|await|yield)\b|:=`)
)

// compare rewrites the comparison that the name at start to end is part of.
func (t *text) compare(start, end int) bool {
	const why = "any persistent agent counts"
	head := t.src[t.lines[t.lineAt(start)].start:start]
	tail := t.src[end:t.lines[t.lineAt(end-1)].end]
	if at := isLeft().FindStringSubmatchIndex(head); at != nil {
		return closesTest().MatchString(t.src[end:]) && t.replace(start-len(head)+at[2], end, " in PERSISTENT_AGENTS", why)
	}
	before := strings.TrimRight(t.src[:start], " \t\r\n")
	at := onRight().FindStringSubmatchIndex(tail)
	if at == nil || !opensTest().MatchString(before[max(0, len(before)-10):]) {
		return false
	}
	words := operand(tail[at[1]:])
	after := end + at[1] + len(words)
	if words == "" || !closesTest().MatchString(t.src[after:]) {
		return false
	}
	if tail[at[2]:at[3]] == "==" {
		return t.replace(start, after, words+" in PERSISTENT_AGENTS", why)
	}
	if otherWithin().MatchString(words) {
		return false
	}
	words = "any(agent in " + words + " for agent in PERSISTENT_AGENTS)"
	if at[4] >= 0 {
		words = "not " + words
	}
	return t.replace(start, after, words, why)
}

// operand is the simple expression that s begins with: a name, with members, calls and subscripts; "" where none is, or
// where its brackets do not end on its line.
func operand(s string) string {
	end := len(dotted().FindString(s))
	for end > 0 && end < len(s) && (s[end] == '(' || s[end] == '[') {
		c, err := parseCall(s, 0, end)
		if err != nil {
			return ""
		}
		end = c.end
		if strings.HasPrefix(s[end:], ".") {
			end += 1 + len(dotted().FindString(s[end+1:]))
		}
	}
	return s[:end]
}
