package settings

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// pluginPath is how a plugin finds the program: on the PATH, else where install.sh puts it. A plugin brings none: it is one
// for all systems.
const pluginPath = `PATH="$PATH:$HOME/bin:$HOME/go/bin" gchat-hooks`

var update = flag.Bool("update", false, "write the plugin's hooks anew")

// The plugin's hooks are those of the default preset, whatever becomes of the table. They are a shell's lines, which every
// version takes.
func TestPluginHasTheHooksOfTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "plugin", "hooks", "hooks.json")
	hooks, err := Hooks()
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for _, h := range hooks {
		e := Entry{Event: h.Event, Matcher: h.Matcher, Command: pluginPath + " hook " + h.Name, Timeout: h.Timeout}
		if _, name := Ours(e.Command, nil); name != h.Name {
			t.Errorf("%q is not known again as ours: an install beside the plugin would not be seen", e.Command)
		}
		entries = append(entries, e)
	}
	want, err := Install(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what the table says: go test ./hooks/settings -run Plugin -update\n%s", path, want)
	}
}
