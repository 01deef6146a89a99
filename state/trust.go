package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

var errUntrusted = errors.New("Claude Code was not told to trust its folder")

// projectCounts says whether the files of a project may say where questions go, who answers them, and which commands are
// run. A folder that came from elsewhere must not: it counts once Claude Code was told to trust it, as its own settings do.
// Where Claude Code itself started us, it knows; where it was never used, there is nothing to go by.
func projectCounts(env Getenv, dir string) bool {
	if env("CLAUDE_PROJECT_DIR") != "" || env("CLAUDECODE") != "" || dir == Home(env) || dir == ConfigDir(env) {
		return true
	}
	yes, known := Trusted(env, dir)
	return yes || !known
}

// Trusted says whether Claude Code was told to trust a folder, or one that it is in (as 2.1.45 looks it up); known that it
// has a list of folders at all.
func Trusted(env Getenv, dir string) (yes, known bool) {
	path := filepath.Join(Home(env), ".claude.json")
	if d := env("CLAUDE_CONFIG_DIR"); d != "" {
		path = filepath.Join(d, ".claude.json")
	}
	b, err := os.ReadFile(path)
	if missing(err) {
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
	dirs := []string{dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		dirs = append(dirs, real)
	}
	for _, d := range dirs {
		for ; ; d = filepath.Dir(d) {
			if file.Projects[d].Trusted {
				return true, true
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	return false, true
}
