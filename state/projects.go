package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Project is a folder in which a session with our hooks asked something: the file
// projects/{hash}.json in the user's state.
type Project struct {
	Record
	StateDir string    `json:"state"`       // its state folder
	Dir      string    `json:"project_dir"` // absolute
	LastSeen time.Time `json:"last_seen"`
}

func (p *Project) check(time.Time) error {
	if p.StateDir == "" {
		return errors.New("state is missing")
	}
	return nil
}

func projectFolder(env Getenv) Folder[Project] {
	return Folder[Project]{
		Dir:        filepath.Join(UserStateDir(env), "projects"),
		durability: unsynced,
		initRecord: func(*Project) {},
	}
}

// RegisterProject records that a state folder belongs to a project. It writes only where
// that is new.
func RegisterProject(env Getenv, projectState, projectDir string) error {
	name := Hash(6, projectState)
	if _, err := os.Lstat(projectFolder(env).path(name)); err == nil {
		return nil
	}
	_, err := projectFolder(env).Change(name, func(p *Project) {
		p.StateDir, p.Dir, p.LastSeen = projectState, projectDir, time.Now().UTC()
	})
	return err
}

// KnownProjects returns the projects that were registered, and the errors of files that
// cannot be read.
func KnownProjects(env Getenv) ([]*Project, []error) { return projectFolder(env).All() }

// OwnProjectFiles returns the files that we keep in a project's state folder, and the
// folders that they lie in, the innermost first. Other programs write questions of the
// same format into the same folders; those name no mode and no project, and are left out.
func OwnProjectFiles(projectState string) (files, folders []string) {
	for _, folder := range []string{QuestionsIn(projectState).Dir, MarkersIn(projectState).Dir} {
		locks := filepath.Join(folder, ".locks")
		// the whole folder: a running process may add a lock
		if len(folderEntries(locks)) > 0 {
			files = append(files, locks)
		}
		for _, name := range folderEntries(folder) {
			path := filepath.Join(folder, name)
			isOurs := strings.HasPrefix(name, ".new-")
			if q, err := LoadQuestionInPlace(path); err == nil && filepath.Ext(name) == ".json" {
				isOurs = q.Mode != "" && q.ProjectDir != ""
			}
			if isOurs {
				files = append(files, path)
			}
		}
		folders = append(folders, locks, folder)
	}
	ignoreFile := filepath.Join(projectState, gitignore)
	if b, err := ReadPlain(ignoreFile, 64); err == nil && string(b) == gitignoreText {
		files = append(files, ignoreFile)
	}
	for _, name := range []string{PIDFile, LastPollFile} {
		if _, err := ReadPlain(filepath.Join(projectState, name), 1024); err == nil {
			files = append(files, filepath.Join(projectState, name))
		}
	}
	folders = append(folders, filepath.Join(projectState, "user-input-queue"), projectState)
	parent := filepath.Dir(projectState)
	if filepath.Base(projectState) == "state" && filepath.Base(parent) == ".claude" {
		folders = append(folders, parent)
	}
	return files, folders
}

const (
	gitignore     = ".gitignore"
	gitignoreText = "*\n"
)

// folderEntries returns the names of a folder's entries; none where there is no such
// folder or it is a link.
func folderEntries(dir string) (names []string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || checkNoLink(dir) != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ErrUntrusted means that the files of a project do not count.
//
//lint:ignore ST1005 it is a name
var ErrUntrusted = errors.New("Claude Code was not told to trust its folder")

// IsProjectTrusted reports whether the files of a project count: this process is a hook
// that Claude Code runs for the project, which it does in trusted folders only, or Claude
// Code was told to trust the folder. The working folder proves nothing, since it may be a
// stranger's, nor does CLAUDECODE, which Claude's shell commands have anywhere.
func IsProjectTrusted(env Getenv, dir string) bool {
	projectDir := env("CLAUDE_PROJECT_DIR")
	if projectDir != "" {
		if filepath.Clean(projectDir) == filepath.Clean(dir) || isSameFolder(projectDir, dir) {
			return true
		}
	}
	isTrusted, _ := IsFolderTrusted(env, dir)
	return isTrusted
}

// isSameFolder reports whether two absolute paths lead to one folder, as through a link
// or, on a Mac, in another letter case.
func isSameFolder(a, b string) bool {
	info, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return filepath.IsAbs(a) && filepath.IsAbs(b) && err == nil && otherErr == nil &&
		os.SameFile(info, other)
}

// IsFolderTrusted reports whether Claude Code was told to trust a folder or one around
// it, up to the root of the folder's repository: a clone within a trusted folder is
// somebody else's (Claude Code 2.1.329; 2.1.197 went up to the file system's root).
// hasList says whether Claude Code has a list of folders at all.
func IsFolderTrusted(env Getenv, dir string) (isTrusted, hasList bool) {
	BeforeSlowCall("reads which folders are trusted")
	path := filepath.Join(Home(env), ".claude.json")
	if d := env("CLAUDE_CONFIG_DIR"); d != "" {
		path = filepath.Join(d, ".claude.json")
	}
	b, err := ReadPlainOrLink(path, MaxFileSize)
	if IsMissing(err) {
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
	dir, err = filepath.Abs(dir)
	if err != nil {
		return false, true
	}
	for dir = RealPath(dir); ; dir = filepath.Dir(dir) {
		for path, project := range file.Projects {
			if project.Trusted && isSameFolder(path, dir) {
				return true, true
			}
		}
		if dir == filepath.Dir(dir) || fileExists(filepath.Join(dir, ".git")) {
			return false, true
		}
	}
}
