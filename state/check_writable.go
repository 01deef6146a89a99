package state

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// claudeDir is where Claude Code keeps what belongs to the person.
func claudeDir(env Getenv) string {
	return cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(Home(env), ".claude"))
}

// WritableByOthers says that another user of this machine can change a file, or put files into a folder in the place of those
// that are there.
func WritableByOthers(path string) bool { return reachable(path)&0o022 != 0 }

// checkWritable looks at the folders whose files decide what runs, where questions go and what answers them. Whoever may write
// to a folder replaces what is in it, whatever the permissions of that. Ours are judged by their own permissions; Claude
// Code's are not ours to mend, and count where others can get at them.
func checkWritable(env Getenv) (found []Finding) {
	ours := []string{ConfigDir(env)}
	_ = filepath.WalkDir(UserState(env), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return filepath.SkipDir
		}
		if d.IsDir() {
			ours = append(ours, path)
		}
		return nil
	})
	project := ProjectState(env)
	ours = append(ours, project, QuestionsIn(project).Dir, MarkersIn(project).Dir, filepath.Join(project, "user-input-queue"))
	slices.Sort(ours) // with GCHAT_STATE_DIR some may be the same
	for _, path := range slices.Compact(ours) {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || granted(info)&0o022 == 0 {
			continue
		}
		f := Finding{Level: LevelFail, What: "other users of this machine can write to " + path, Means: "they can answer in your name", Mend: "chmod go-w " + ShellQuoted(path)}
		if path == ConfigDir(env) {
			f.Means = "they can say where questions go, and who answers them"
		}
		if link, err := os.Lstat(path); err == nil && link.IsDir() { // what a link leads to may be shared on purpose
			f.Mend += ", or " + doctorFix
			f.Fix = func() (string, error) { return "chmod go-w " + ShellQuoted(path), closeFolder(path) }
		}
		found = append(found, f)
	}
	for _, path := range []string{claudeDir(env), filepath.Join(claudeDir(env), "settings.json")} {
		if WritableByOthers(path) {
			found = append(found, Finding{Level: LevelWarn, What: "other users of this machine can write to " + path, Means: "they can register hooks, which run as you", Mend: "chmod go-w " + ShellQuoted(path)})
		}
	}
	return found
}

// closeFolder takes away what group and others may write to a folder, and sees that it worked: not every file system keeps
// permissions.
func closeFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.Chmod(path, info.Mode()&^0o022)
	}
	if err == nil {
		info, err = os.Stat(path)
	}
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		return errors.New("the file system does not keep permissions; set GCHAT_STATE_DIR to a folder on one that does")
	}
	return err
}
