package settings

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// program is the base name of ours.
const program = "gchat-hooks"

// ours says whether a command is one of our hooks: `gchat-hooks hook NAME`, also of a version that knows more names;
// `gchat-hooks NAME`; or a path whose base name is a hook's. Of the names that wake an agent only the first two count:
// somebody else's script may well be called stop-hook. args is nil where a shell runs the command.
func ours(command string, args []string) bool {
	words := append([]string{command}, args...)
	if args == nil {
		words = shellWords(command)
		for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "env" || words[0] == "exec") {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return false
	}
	known := func(name string) bool {
		return slices.ContainsFunc(table, func(h row) bool { return h.Name == name })
	}
	name := path.Base(words[0])
	if name == program {
		return len(words) > 2 && words[1] == "hook" || len(words) > 1 && known(words[1])
	}
	return strings.HasPrefix(name, "gchat-") && known(name)
}

// assignment is what may stand before a command: NAME=value.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// shellWords are the words of a shell's first simple command, unquoted. Variables stay as they are.
func shellWords(line string) (words []string) {
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
	for _, r := range line {
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
				return words
			}
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return words
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./~+,:@%=-]+$`)

// shellQuote is s as one word of a shell's line.
func shellQuote(s string) string {
	if plain.MatchString(s) && !strings.HasPrefix(s, "~") && !assignment.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
