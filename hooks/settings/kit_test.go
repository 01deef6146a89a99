package settings

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func newestEntries(t testing.TB, presets ...string) []Entry {
	return entriesOf(t, Version{2, 1, 329}, presets...)
}

// withoutBlanks returns a text without its white space.
func withoutBlanks(s string) string { return strings.Join(strings.Fields(s), "") }

func entriesOf(t testing.TB, v Version, presets ...string) []Entry {
	t.Helper()
	hooks, err := PresetHooks(presets...)
	kit.NoError(t, err)
	entries, _ := EntriesFor("/home/me/bin/gchat-hooks", v, hooks)
	return entries
}

// pluginPath is how a plugin finds the program: on the PATH, else where install.sh puts
// it. A plugin does not contain the program, since one plugin is for all systems.
const pluginPath = `PATH="$PATH:$HOME/bin:$HOME/go/bin" gchat-hooks`

// wantError checks that there is an error, and a part of its text.
func wantError(t testing.TB, err error, part string) {
	t.Helper()
	kit.True(t, err != nil, "no error")
	kit.Contains(t, fmt.Sprint(err), part)
}

func wantMode(t testing.TB, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	kit.NoError(t, err)
	kit.Equalf(t, info.Mode(), want, "mode of %s", path)
}
