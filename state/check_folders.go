package state

import (
	"os"
	"path/filepath"
	"strings"
)

// checkFolders looks whether state can be written where it is to be.
func checkFolders(env Getenv) (found []Finding) {
	if Home(env) == noHome {
		return []Finding{{Level: LevelFail, What: "HOME is not set", Mend: "export HOME=~",
			Means: "there is no configuration and no state of yours, so questions stay in the terminal"}}
	}
	missingOnes := []string{}
	for _, dir := range append(stateFolders(env), filepath.Dir(LogPath(env))) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			probe, err := os.CreateTemp(dir, ".new-")
			if err == nil {
				probe.Close()
				err = os.Remove(probe.Name())
			}
			if err != nil {
				found = append(found, Finding{Level: LevelFail, What: "nothing can be written to " + dir + ": " + reason(err), Means: "questions cannot be kept, so they stay in the terminal",
					Mend: "see who owns it and whether the disk is full (ls -ld " + ShellQuoted(dir) + "; df " + ShellQuoted(dir) + "), or set GCHAT_STATE_DIR"})
			}
		case err == nil:
			found = append(found, notAFolder(dir))
		case missing(err):
			if up := nearest(dir); !isDir(up) {
				found = append(found, notAFolder(up))
			} else {
				missingOnes = append(missingOnes, dir)
			}
		default:
			found = append(found, Finding{Level: LevelFail, What: "cannot look at " + dir + ": " + reason(err), Means: "questions cannot be kept", Mend: "see who owns its folders: ls -ld " + ShellQuoted(filepath.Dir(dir))})
		}
	}
	if len(found) > 0 {
		return found
	}
	if len(missingOnes) > 0 {
		return []Finding{{Level: LevelOK, What: "state folders are made at their first use: " + strings.Join(missingOnes, ", "), Fix: func() (string, error) {
			for _, dir := range missingOnes {
				if err := mkdir(dir); err != nil {
					return "", err
				}
			}
			return "made " + strings.Join(missingOnes, ", "), nil
		}}}
	}
	return Fine("state folders can be written")
}

func notAFolder(path string) Finding {
	return Finding{Level: LevelFail, What: path + " is a file where a folder has to be", Means: "questions cannot be kept, so they stay in the terminal",
		Mend: "mv " + ShellQuoted(path) + " " + ShellQuoted(path+".old")}
}

// nearest is the closest of a path's parents that exists.
func nearest(path string) string {
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return path
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
