package settings

import (
	"regexp"
	"sync"
)

// lazy compiles a pattern at its first use. The same program is a hook that runs at every prompt, and shall not pay for
// patterns that only an install needs.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
