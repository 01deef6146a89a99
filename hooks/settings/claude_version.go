package settings

import (
	"fmt"
	"slices"
	"strconv"
)

// A Version is Claude Code's. The zero one is unknown, and taken for the oldest that was looked at.
type Version [3]int

var (
	oldest = Version{2, 1, 45}

	// execForm is when hooks got "args": the program is started without a shell (Claude Code's changelog). 2.1.45 takes no
	// notice of them, and would start the program with no words at all.
	execForm = Version{2, 1, 139}

	// asyncRewake is the oldest version on which it was measured; 2.1.45 does not know it and runs such a hook in the
	// foreground, for as long as the person takes.
	asyncRewake = Version{2, 1, 197}
)

// since is when the events came that our hooks use; those of before 2.1 have no version here. 2.1.45 skips a settings file
// that names an event it does not know, hooks and all; from 2.1.101 on only that event is passed over.
var since = map[string]Version{
	"PreToolUse": {}, "PostToolUse": {}, "Notification": {}, "UserPromptSubmit": {}, "SessionStart": {}, "SessionEnd": {}, "Stop": {},
	"SubagentStop": {}, "PreCompact": {}, "PermissionRequest": {2, 0, 45}, "StopFailure": {2, 1, 78},
}

func (v Version) atLeast(min Version) bool {
	if v == (Version{}) {
		v = oldest
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
