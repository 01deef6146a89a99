package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
)

// pluginPath is how a plugin finds the program: on the PATH, else where install.sh puts
// it. A plugin does not contain the program, since one plugin is for all systems.
const pluginPath = `PATH="$PATH:$HOME/bin:$HOME/go/bin" gchat-hooks`

// There is a plugin for each preset, with exactly the hooks of the table. Their commands
// are a shell's lines, which every version supports.
func TestHookTable_PluginsHaveItsHooks(t *testing.T) {
	var marketplace struct {
		Plugins []struct{ Name, Source string }
	}
	root := filepath.Join("..", "..")
	b, err := os.ReadFile(filepath.Join(root, ".claude-plugin", "marketplace.json"))
	if err == nil {
		err = json.Unmarshal(b, &marketplace)
	}
	if err != nil || len(marketplace.Plugins) != len(PresetNames()) {
		t.Fatalf("%d plugins for %d presets: %v", len(marketplace.Plugins), len(PresetNames()), err)
	}
	for i, preset := range PresetNames() {
		p := marketplace.Plugins[i]
		if source := "./plugins/" + preset; p.Source != source || preset != "answer" && p.Name != "gchat-hooks-"+preset {
			t.Errorf("%s is %s in %s, want %s", preset, p.Name, p.Source, source)
		}
		comparePlugin(t, filepath.Join(root, "plugins", preset, "hooks", "hooks.json"), preset)
	}
}

func comparePlugin(t *testing.T, path, preset string) {
	t.Helper()
	hooks, err := PresetHooks(preset)
	kit.NoError(t, err)
	var entries []Entry
	for _, h := range hooks {
		e := Entry{Event: h.Event, Matcher: h.Matcher, Command: pluginPath + " hook " + h.Name, Timeout: h.Timeout, AsyncRewake: h.WakesSession}
		if _, name := ParseOwnCommand(e.Command, nil); name != h.Name {
			t.Errorf("%q is not known again as ours: an install beside the plugin would not be seen", e.Command)
		}
		entries = append(entries, e)
	}
	want, err := Install(nil, entries)
	kit.NoError(t, err)
	golden.Compare(t, path, string(want))
}
