package state

import (
	"cmp"
	"os"
	"path/filepath"
)

// claudeDir is where Claude Code keeps what belongs to the person.
func claudeDir(env Getenv) string {
	return cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(home(env), ".claude"))
}

// WritableByOthers says that another user of this machine can change a file, or put files into a folder in the place of those
// that are there.
func WritableByOthers(path string) bool { return reachable(path)&0o022 != 0 }

// checkWritable looks at the folders whose files decide what runs and where questions go. Whoever may write to a folder
// replaces what is in it, whatever the permissions of that. Claude Code's are not ours to mend.
func checkWritable(env Getenv) (found []Finding) {
	for _, p := range []struct {
		path, means string
		ours        bool
	}{
		{ConfigDir(env), "they can say where questions go, and who answers them", true},
		{UserState(env), "they can answer in your name", true},
		{claudeDir(env), "they can register hooks, which run as you", false},
		{filepath.Join(claudeDir(env), "settings.json"), "they can register hooks, which run as you", false},
	} {
		if !WritableByOthers(p.path) {
			continue
		}
		f := Finding{Level: LevelWarn, What: "other users of this machine can write to " + p.path, Means: p.means, Mend: "chmod go-w " + quoted(p.path)}
		if info, err := os.Lstat(p.path); p.ours && err == nil && info.IsDir() { // what a link leads to may be shared on purpose
			f.Mend += ", or " + doctorFix
			f.Fix = func() (string, error) {
				return "chmod go-w " + quoted(p.path), os.Chmod(p.path, info.Mode().Perm()&^0o022)
			}
		}
		found = append(found, f)
	}
	return found
}
