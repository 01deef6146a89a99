package state

import (
	"cmp"
	"os"
	"strings"
)

// MachineName is what people call this machine: its host name, up to the first dot.
func MachineName() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return cmp.Or(name, "this machine")
}
