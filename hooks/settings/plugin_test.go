package settings

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the plugin's hooks anew")

// The plugin's hooks are those of the default preset, whatever becomes of the table.
func TestPluginHasTheHooksOfTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "plugin", "hooks", "hooks.json")
	want, err := Plugin()
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
	var file struct {
		Hooks map[string][]struct {
			Matcher string
			Hooks   []struct{ Type, Command string }
		}
	}
	if err := json.Unmarshal(got, &file); err != nil {
		t.Fatal(err)
	}
	hooks, err := Hooks()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		found := false
		for _, group := range file.Hooks[h.Event] {
			for _, one := range group.Hooks {
				found = found || group.Matcher == h.Matcher && one.Command == pluginPath+" hook "+h.Name
				if !ours(one.Command, nil) {
					t.Errorf("%q is not known again as ours: an install beside the plugin would not be seen", one.Command)
				}
			}
		}
		if !found {
			t.Errorf("%s on %s is missing", h.Name, h.Event)
		}
	}
}
