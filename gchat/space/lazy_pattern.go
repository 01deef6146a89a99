package space

import (
	"regexp"
	"sync"
)

// lazy compiles a pattern at its first use: the hooks link this package too, and compiling costs more than
// most of their runs do.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
