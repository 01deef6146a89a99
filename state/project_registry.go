package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The registry, projects.json in the user state, names every folder that holds questions, so that one inbox loop
// serves them all.
type registry struct {
	Projects map[string]json.RawMessage `json:"projects"` // by state folder
	rest     map[string]json.RawMessage
}

type registered struct {
	ProjectDir string    `json:"project_dir"`
	LastSeen   time.Time `json:"last_seen"`
}

// Register notes that projectState belongs to projectDir. It writes only when that is news.
func Register(userState, projectState, projectDir string, now time.Time) error {
	path := filepath.Join(userState, "projects.json")
	if r, err := readRegistry(path); err == nil && r.Projects[projectState] != nil {
		return nil
	}
	if err := mkdir(userState); err != nil {
		return err
	}
	l, err := lockSoon(path + ".lock")
	if err != nil {
		return err
	}
	defer l.Unlock()
	r, err := readRegistry(path)
	var corrupt *Corrupt
	if err != nil && !errors.As(err, &corrupt) {
		return err
	}
	entry, err := json.Marshal(registered{ProjectDir: projectDir, LastSeen: now.UTC()})
	if err != nil {
		return err
	}
	r.Projects[projectState] = entry
	projects, err := json.Marshal(r.Projects)
	if err != nil {
		return err
	}
	r.rest["projects"] = projects
	b, err := json.MarshalIndent(r.rest, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'))
}

// ProjectStates are the state folders that questions were recorded in, sorted. What does not parse is moved aside
// and returned as a *Corrupt error.
func ProjectStates(userState string) ([]string, error) {
	r, err := readRegistry(filepath.Join(userState, "projects.json"))
	return slices.Sorted(maps.Keys(r.Projects)), err
}

// A Project is a folder that sessions with our hooks asked something in.
type Project struct {
	State string // its state folder
	Dir   string // "" where that is not known
}

// Projects are the known ones, sorted by their state folders. A registry that does not parse is left as it is.
func Projects(userState string) (projects []Project, err error) {
	b, err := os.ReadFile(filepath.Join(userState, "projects.json"))
	if missing(err) {
		return nil, nil
	}
	var r struct {
		Projects map[string]registered `json:"projects"`
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("read project registry: %w", err)
	}
	for _, dir := range slices.Sorted(maps.Keys(r.Projects)) {
		projects = append(projects, Project{State: dir, Dir: r.Projects[dir].ProjectDir})
	}
	return projects, nil
}

func readRegistry(path string) (*registry, error) {
	r := &registry{Projects: map[string]json.RawMessage{}, rest: map[string]json.RawMessage{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r.rest); err != nil || r.rest == nil {
		r.rest = map[string]json.RawMessage{}
		return r, setAside(path, err)
	}
	if raw, ok := r.rest["projects"]; ok {
		if err := json.Unmarshal(raw, &r.Projects); err != nil || r.Projects == nil {
			r.Projects = map[string]json.RawMessage{}
			return r, setAside(path, err)
		}
	}
	return r, nil
}

// OwnFiles are what we keep in a project's state folder, and the folders that it lies in, the inmost first. Other programs
// write questions in the same format, into the same folders: theirs name no mode and no project, and are not among them.
func OwnFiles(projectState string) (files, folders []string) {
	for _, in := range []string{QuestionsIn(projectState).Dir, MarkersIn(projectState).Dir} {
		locks := filepath.Join(in, ".locks")
		for _, name := range namesIn(locks) {
			files = append(files, filepath.Join(locks, name))
		}
		for _, name := range namesIn(in) {
			path := filepath.Join(in, name)
			if strings.HasPrefix(name, ".new-") || strings.HasSuffix(name, ".json") && wroteQuestion(path) {
				files = append(files, path)
			}
		}
		folders = append(folders, locks, in)
	}
	if ignore := filepath.Join(projectState, gitignore); isFile(ignore) {
		if b, err := os.ReadFile(ignore); err == nil && string(b) == ignoreAll {
			files = append(files, ignore)
		}
	}
	for _, name := range []string{pidFile, LastPollFile, daemonLock} {
		if path := filepath.Join(projectState, name); isFile(path) {
			files = append(files, path)
		}
	}
	folders = append(folders, filepath.Join(projectState, "user-input-queue"), projectState)
	if filepath.Base(projectState) == "state" && filepath.Base(filepath.Dir(projectState)) == ".claude" {
		folders = append(folders, filepath.Dir(projectState))
	}
	return files, folders
}

const (
	gitignore = ".gitignore"
	ignoreAll = "*\n"
)

// keepOutOfGit gives a project's state folder a .gitignore of its own: questions and answers do not belong into a commit.
// One that stands there stays as it is. Where it cannot be written, neither can the question, which says so.
func keepOutOfGit(projectState string) {
	path := filepath.Join(projectState, gitignore)
	if _, err := os.Lstat(path); missing(err) {
		_ = createFile(path, []byte(ignoreAll))
	}
}

// wroteQuestion says whether a question's file is ours.
func wroteQuestion(path string) bool {
	var q struct {
		QuestionID string `json:"question_id"`
		Mode       string `json:"mode"`
		ProjectDir string `json:"project_dir"`
	}
	b, err := ReadPlain(path, maxQuestionFile)
	return err == nil && json.Unmarshal(b, &q) == nil && q.QuestionID != "" && q.Mode != "" && q.ProjectDir != ""
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// namesIn are a folder's entries; none where there is no such folder.
func namesIn(dir string) (names []string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() || noLink(dir) != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
