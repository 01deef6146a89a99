package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gchat-hooks/state"
)

// A Version is Claude Code's. The zero one is unknown, and taken for Oldest.
type Version [3]int

// Oldest is the oldest version that is supported: before it, an event that Claude Code does not know voids the whole
// settings file, hooks and all (Claude Code's changelog).
var Oldest = Version{2, 1, 101}

var (
	// execForm is when hooks got "args": the program is started without a shell (Claude Code's changelog). An older
	// version takes no notice of them, and would start the program with no words at all.
	execForm = Version{2, 1, 139}

	// AsyncRewake is the oldest version on which it was measured. One that does not know it runs such a hook in the
	// foreground, for as long as the person takes.
	AsyncRewake = Version{2, 1, 197}
)

// AtLeast says whether a version is that one or a newer one.
func (v Version) AtLeast(min Version) bool {
	if v == (Version{}) {
		v = Oldest
	}
	return slices.Compare(v[:], min[:]) >= 0
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Supported says why hooks cannot be registered with this version; nil when they can.
func (v Version) Supported() error {
	if v.AtLeast(Oldest) {
		return nil
	}
	return fmt.Errorf("Claude Code %s is too old: update it (`claude update`)", v)
}

// ParseVersion reads what `claude --version` prints, "2.1.329 (Claude Code)", or the number alone. It has a line of its own: a
// wrapper may print the versions of other programs before it.
func ParseVersion(s string) (v Version, ok bool) {
	m := regexp.MustCompile(`(?m)^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S*(?: \(Claude Code\))?$`).FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1])
	}
	return v, true
}

var errNoClaude = errors.New("claude is not on PATH")

// AskVersion asks the claude on PATH, for so long. Others may be installed: an editor brings its own.
func AskVersion(ctx context.Context, env state.Getenv, wait time.Duration) (Version, error) {
	path, err := exec.LookPath("claude")
	for _, usual := range []string{".local/bin/claude", ".claude/local/claude"} { // by its installers; the second is an alias
		if err != nil {
			path, err = exec.LookPath(filepath.Join(state.Home(env), usual))
		}
	}
	if err != nil {
		return Version{}, errNoClaude
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = 300 * time.Millisecond // a child of it may hold the pipe
	out, err := cmd.Output()
	if v, ok := ParseVersion(string(out)); ok {
		return v, nil
	}
	return Version{}, fmt.Errorf("claude --version: %w", cmp.Or(ctx.Err(), err, errors.New("it prints no version")))
}
