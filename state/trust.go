package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

var ErrUntrusted = errors.New("Claude Code was not told to trust its folder")

// ProjectCounts says whether the files of a project count: Claude Code runs a hook of it, which it does in trusted folders
// only, or was told to trust it. The working folder may be a stranger's, and Claude's shell commands have CLAUDECODE in any.
func ProjectCounts(env Getenv, dir string) bool {
	if named := env("CLAUDE_PROJECT_DIR"); named != "" && filepath.Clean(named) == filepath.Clean(dir) {
		return true
	}
	yes, _ := Trusted(env, dir)
	return yes
}

// Trusted says whether Claude Code was told to trust a folder, or one around it, as far up as the folder's repository goes: a
// clone within a trusted folder is another's (Claude Code 2.1.329; 2.1.197 went on to the root). known says that it has a list
// of folders at all.
func Trusted(env Getenv, dir string) (yes, known bool) {
	path := filepath.Join(Home(env), ".claude.json")
	if d := env("CLAUDE_CONFIG_DIR"); d != "" {
		path = filepath.Join(d, ".claude.json")
	}
	b, err := os.ReadFile(path)
	if Missing(err) {
		return false, false
	}
	var file struct {
		Projects map[string]struct {
			Trusted bool `json:"hasTrustDialogAccepted"`
		} `json:"projects"`
	}
	if err != nil || json.Unmarshal(b, &file) != nil {
		return false, false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, true
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for ; !file.Projects[dir].Trusted; dir = filepath.Dir(dir) {
		if dir == filepath.Dir(dir) || exists(filepath.Join(dir, ".git")) {
			return false, true
		}
	}
	return true, true
}
