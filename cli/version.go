package cli

import "runtime/debug"

// releaseVersion is the version that this source becomes, or became. A release is tagged
// with a "v" before it. The plugins and CHANGELOG.md name it, too:
// TestVersion_IsTheSameEverywhere compares them.
const releaseVersion = "0.1.0"

// version is what --version prints: the release's number alone for a tagged build, else
// the number with the commit it was built from. A build outside a clone knows no commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "v"+releaseVersion {
		return releaseVersion
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
		return releaseVersion
	}
	return releaseVersion + " (" + commit + change + ")"
}
