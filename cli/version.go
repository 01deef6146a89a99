package cli

import (
	"runtime/debug"

	"gchat-hooks/state"
)

// version is what --version prints: the release's number alone for a tagged build, else
// the number with the commit it was built from. A build outside a clone knows no commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "v"+state.ReleaseVersion {
		return state.ReleaseVersion
	}
	commit, change := "", ""
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 8 {
			commit = setting.Value[:8]
		}
		if setting.Key == "vcs.modified" && setting.Value == "true" {
			change = ", changed"
		}
	}
	if commit == "" {
		return state.ReleaseVersion
	}
	return state.ReleaseVersion + " (" + commit + change + ")"
}
