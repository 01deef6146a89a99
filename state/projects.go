package state

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Project is a folder that sessions with our hooks asked something in.
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

// RegisterProject notes that a state folder belongs to a project. It writes only when
// that is news.
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

// KnownProjects are the known ones.
func KnownProjects(env Getenv) ([]*Project, []error) { return projectFolder(env).All() }

// OwnProjectFiles are what we keep in a project's state folder, and the folders that it
// lies in, the inmost first. Other programs write questions in the same format, into the
// same folders: theirs name no mode and no project, and are not among them.
func OwnProjectFiles(projectState string) (files, folders []string) {
	for _, folder := range []string{QuestionsIn(projectState).Dir, MarkersIn(projectState).Dir} {
		locks := filepath.Join(folder, ".locks")
		if len(folderEntries(locks)) > 0 { // all of it: a process that runs may make one more
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
	if b, err := ReadPlain(filepath.Join(projectState, gitignore), 64); err == nil &&
		string(b) == gitignoreText {
		files = append(files, filepath.Join(projectState, gitignore))
	}
	for _, name := range []string{PIDFile, LastPollFile} {
		if _, err := ReadPlain(filepath.Join(projectState, name), 1024); err == nil {
			files = append(files, filepath.Join(projectState, name))
		}
	}
	folders = append(folders, filepath.Join(projectState, "user-input-queue"), projectState)
	if filepath.Base(projectState) == "state" &&
		filepath.Base(filepath.Dir(projectState)) == ".claude" {
		folders = append(folders, filepath.Dir(projectState))
	}
	return files, folders
}

const (
	gitignore     = ".gitignore"
	gitignoreText = "*\n"
)

// folderEntries are a folder's entries; none where there is no such folder.
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

//lint:ignore ST1005 it is a name
var ErrUntrusted = errors.New("Claude Code was not told to trust its folder")

// IsProjectTrusted says whether the files of a project count: Claude Code runs a hook of
// it, which it does in trusted folders only, or was told to trust it. The working folder
// may be a stranger's, and Claude's shell commands have CLAUDECODE in any.
func IsProjectTrusted(env Getenv, dir string) bool {
	projectDir := env("CLAUDE_PROJECT_DIR")
	if projectDir != "" &&
		(filepath.Clean(projectDir) == filepath.Clean(dir) || isSameFolder(projectDir, dir)) {
		return true
	}
	isTrusted, _ := IsFolderTrusted(env, dir)
	return isTrusted
}

// isSameFolder says whether two absolute paths lead to one folder, through a link or, on
// a Mac, in another case.
func isSameFolder(a, b string) bool {
	info, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return filepath.IsAbs(a) && filepath.IsAbs(b) && err == nil && otherErr == nil &&
		os.SameFile(info, other)
}

// IsFolderTrusted says whether Claude Code was told to trust a folder, or one around it,
// as far up as the folder's repository goes: a clone within a trusted folder is another's
// (Claude Code 2.1.329; 2.1.197 went on to the root). known says that it has a list of
// folders at all.
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
