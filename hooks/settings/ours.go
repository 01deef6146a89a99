package settings

import (
	"path"
	"slices"
	"strings"
)

// program is the base name of ours.
const program = "gchat-hooks"

// ours says whether a command is one of our hooks and nothing else: what else a shell's line does is its person's.
func ours(command string, args []string) bool {
	if args == nil {
		if _, rest := shellWords(command); !nothingMore().MatchString(rest) {
			return false
		}
	}
	return hookIn(command, args) != ""
}

// hookIn is the name of our hook that a command begins with, "" for another program: `gchat-hooks hook NAME`, also of a
// version that knows more names; `gchat-hooks NAME`; or a path whose base name is a hook's. Of the names that wake an agent
// only the first two count: somebody else's script may well be called stop-hook. args is nil where a shell runs the command.
func hookIn(command string, args []string) string {
	words := append([]string{command}, args...)
	if args == nil {
		words, _ = shellWords(command)
		words = withoutPrefix(words)
	}
	if len(words) == 0 {
		return ""
	}
	known := func(name string) bool {
		return slices.ContainsFunc(table, func(h row) bool { return h.Name == name })
	}
	name := path.Base(words[0])
	switch {
	case name == program && len(words) > 2 && words[1] == "hook":
		return words[2]
	case name == program && len(words) > 1 && known(words[1]):
		return words[1]
	case strings.HasPrefix(name, "gchat-") && known(name):
		return name
	}
	return ""
}

// withoutPrefix are the words of a command without what may stand before its program.
func withoutPrefix(words []string) []string {
	for len(words) > 0 && (assignment().MatchString(words[0]) || words[0] == "env" || words[0] == "exec") {
		words = words[1:]
	}
	return words
}

// nothingMore is what may follow our command in a line that is still ours: redirections, and what keeps a failure quiet.
var nothingMore = lazy(`^\s*(\d*&?[<>]+[&|]?\s*("[^"]*"|'[^']*'|[^\s;&|<>()"'])+\s*)*((;|&&|\|\|)\s*(true|:|exit 0))?[\s;&)]*$`)

// assignment is what may stand before a command: NAME=value.
var assignment = lazy(`^[A-Za-z_][A-Za-z0-9_]*=`)

// shellWords are the words of a shell's first simple command, unquoted, and the rest of the line from the operator on that
// ends it. Variables stay as they are.
func shellWords(line string) (words []string, rest string) {
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func() {
		if begun {
			words = append(words, word.String())
			word.Reset()
			begun = false
		}
	}
	escaped := false
	for i, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case strings.ContainsRune(" \t\r", r):
			end()
		case strings.ContainsRune("\n;&|<>()", r):
			end()
			if len(words) > 0 {
				return words, line[i:]
			}
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return words, ""
}

var plain = lazy(`^[A-Za-z0-9_./~+,:@%=-]+$`)

// shellQuote is s as one word of a shell's line.
func shellQuote(s string) string {
	if plain().MatchString(s) && !strings.HasPrefix(s, "~") && !assignment().MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
