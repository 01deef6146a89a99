package settings

import (
	"fmt"
	"slices"
	"strconv"
)

// A Version is Claude Code's. The zero one is unknown, and taken for Oldest.
type Version [3]int

// Oldest is the oldest Claude Code that is supported: an older one skips a settings file that names an event which it does
// not know, hooks and all (Claude Code's changelog).
var Oldest = Version{2, 1, 101}

var (
	// execForm is when hooks got "args": the program is started without a shell (Claude Code's changelog). An older version
	// takes no notice of them, and would start the program with no words at all.
	execForm = Version{2, 1, 139}

	// asyncRewake is the oldest version on which it was measured. One that does not know it runs such a hook in the
	// foreground, for as long as the person takes.
	asyncRewake = Version{2, 1, 197}
)

// Supported is nil, or the error that says that the version is too old.
func (v Version) Supported() error {
	if v.atLeast(Oldest) {
		return nil
	}
	return fmt.Errorf("Claude Code %s is too old: update it (`claude update`)", v)
}

func (v Version) atLeast(min Version) bool {
	if v == (Version{}) {
		v = Oldest
	}
	return slices.Compare(v[:], min[:]) >= 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

var (
	number = lazy(`(\d{1,6})\.(\d{1,6})\.(\d{1,6})`)
	signed = lazy(`(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S* \(Claude Code\)`)
)

// ParseVersion reads what `claude --version` prints, "2.1.329 (Claude Code)". A shell may print the versions of others
// before it: where the name is missing, only a lone number is taken.
func ParseVersion(s string) (v Version, ok bool) {
	m := signed().FindStringSubmatch(s)
	if all := number().FindAllStringSubmatch(s, 2); m == nil && len(all) == 1 {
		m = all[0]
	}
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	return v, true
}
