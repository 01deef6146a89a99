package inject

import (
	"regexp"
	"sync"
)

// lazy compiles a pattern at its first use: most runs of a hook need none, and compiling all of them costs more than
// what such a run does.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
