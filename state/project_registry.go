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
