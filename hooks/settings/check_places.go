package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// managedFiles are the administrator's settings: one file, then a folder of them.
func managedFiles(env state.Getenv) []string {
	dir := env("CLAUDE_CODE_MANAGED_SETTINGS_PATH") // Claude Code's own name for it, read in 2.1.329
	switch {
	case dir != "":
	case runtime.GOOS == "darwin":
		dir = "/Library/Application Support/ClaudeCode"
	default:
		dir = "/etc/claude-code"
	}
	more, _ := filepath.Glob(filepath.Join(dir, "managed-settings.d", "*.json"))
	return append([]string{filepath.Join(dir, "managed-settings.json")}, more...)
}

// configDir is where Claude Code keeps what belongs to the person.
func configDir(env state.Getenv) string {
	if f, err := At(env, User); err == nil {
		return filepath.Dir(f.Path)
	}
	return ""
}

// plugins are the hooks that enabled plugins bring. Their place is Claude Code's own file, which no page documents: what is
// not understood is passed over.
func plugins(env state.Getenv, settings []*source) (all []*source) {
	enabled := map[string]any{}
	for _, s := range settings {
		var some map[string]any
		s.value(&some, "enabledPlugins")
		for name, on := range some {
			enabled[name] = on
		}
	}
	b, err := os.ReadFile(filepath.Join(configDir(env), "plugins", "installed_plugins.json"))
	if err != nil {
		return nil
	}
	var file struct {
		Plugins map[string]json.RawMessage `json:"plugins"`
	}
	_ = json.Unmarshal(b, &file)
	for name, raw := range file.Plugins {
		type install struct {
			Path string `json:"installPath"`
		}
		var installs []install // version 2
		if json.Unmarshal(raw, &installs) != nil {
			var one install // version 1
			_ = json.Unmarshal(raw, &one)
			installs = []install{one}
		}
		if enabled[name] != true || len(installs) == 0 || installs[0].Path == "" {
			continue
		}
		path := filepath.Join(installs[0].Path, "hooks", "hooks.json")
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		s := &source{scope: plugin, path: path, name: name}
		s.parse(b, installs[0].Path)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *source) int { return strings.Compare(a.path, b.path) })
	return all
}
