package config

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"

	"gchat-hooks/state"
)

// ManagedDir is the folder of Claude Code's settings that only an administrator writes.
func ManagedDir(env state.Getenv) string {
	dir := "/etc/claude-code"
	if runtime.GOOS == "darwin" {
		dir = "/Library/Application Support/ClaudeCode"
	}
	// Claude Code's own name for it, read in 2.1.329. 2.1.197 and 2.1.330, as they are
	// released, take no notice of it.
	return cmp.Or(env("CLAUDE_CODE_MANAGED_SETTINGS_PATH"), dir)
}

// ManagedFiles are the settings in that folder, in the order in which they count.
func ManagedFiles(env state.Getenv) []string {
	dir := ManagedDir(env)
	more, _ := filepath.Glob(filepath.Join(dir, "managed-settings.d", "*.json"))
	return append([]string{filepath.Join(dir, "managed-settings.json")}, more...)
}

// AllowsOnlyManagedRules reports whether an organization lets only its own rules allow
// something. Claude Code then takes a rule of a hook's for the running session all the
// same, and writes it down nowhere (2.1.332).
func AllowsOnlyManagedRules(env state.Getenv) bool {
	return slices.ContainsFunc(ManagedFiles(env), func(path string) bool {
		var file struct {
			Only bool `json:"allowManagedPermissionRulesOnly"`
		}
		b, err := state.ReadPlain(path, 1<<20)
		return err == nil && json.Unmarshal(b, &file) == nil && file.Only
	})
}
