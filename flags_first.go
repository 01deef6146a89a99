package main

import (
	"regexp"
	"strings"
	"sync"
)

var longFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--[a-z][a-z-]*(=.*)?$`) })

// flagsFirst puts the flags before the words: the library takes what stands behind the first word for words, and people
// as well as Claude write `gchat-send "done" --type task_completion`. A lone "--" ends the flags.
func flagsFirst(args []string, takesValue func(flag string) (value, known bool)) []string {
	var flags, words []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		name, _, joined := strings.Cut(strings.TrimLeft(a, "-"), "=")
		value, known := false, false
		if strings.HasPrefix(a, "-") && a != "-" {
			value, known = takesValue(name)
		}
		switch {
		case !known && !longFlag().MatchString(a) && (len(words) > 0 || !strings.HasPrefix(a, "-") || a == "-" || strings.ContainsAny(a, " \n")):
			words = append(words, a) // "- item one" and "-5 degrees" are messages; "--dryrun" is a slip that must not send
		case value && !joined && i+1 < len(args):
			flags = append(flags, a, args[i+1])
			i++
		default:
			flags = append(flags, a)
		}
	}
	return append(append(flags, "--"), words...)
}
