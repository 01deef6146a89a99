package config

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"

	"gchat-hooks/state"
)

// ManagedDir returns the folder of Claude Code's settings that only an administrator
// writes.
func ManagedDir(env state.Getenv) string {
	dir := "/etc/claude-code"
	if runtime.GOOS == "darwin" {
		dir = "/Library/Application Support/ClaudeCode"
	}
	// The variable's name is in the code of Claude Code 2.1.329. The released 2.1.197 and
	// 2.1.330 ignore it.
	return cmp.Or(env("CLAUDE_CODE_MANAGED_SETTINGS_PATH"), dir)
}

// ManagedFiles returns the settings files in ManagedDir, in the order in which they
// count.
func ManagedFiles(env state.Getenv) []string {
	dir := ManagedDir(env)
	more, _ := filepath.Glob(filepath.Join(dir, "managed-settings.d", "*.json"))
	return append([]string{filepath.Join(dir, "managed-settings.json")}, more...)
}

// AllowsOnlyManagedRules reports whether only the organization's own rules may allow
// something. Claude Code 2.1.332 then still applies a rule that a hook returns for the
// running session, and stores it nowhere.
func AllowsOnlyManagedRules(env state.Getenv) bool {
	return slices.ContainsFunc(ManagedFiles(env), func(path string) bool {
		var file struct {
			Only bool `json:"allowManagedPermissionRulesOnly"`
		}
		b, err := state.ReadPlain(path, 1<<20)
		return err == nil && json.Unmarshal(b, &file) == nil && file.Only
	})
}
