package state

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// checkMembers has a line for each member of a configuration file that nothing reads: a slip of the keyboard is otherwise
// silent. Names that begin with "$" or "_" are a person's own notes.
func checkMembers(env Getenv) (fs []Finding) {
	known := map[string]bool{}
	for _, s := range settings {
		name, _, _ := strings.Cut(strings.TrimSuffix(s.Member, "[]"), ".")
		name, _, _ = strings.Cut(name, "[")
		known[name] = true
	}
	for _, path := range []string{ConfigFile(env), filepath.Join(ProjectDir(env), ".claude", "gchat-hooks.json")} {
		b, err := readSmall(path)
		var file map[string]json.RawMessage
		if err != nil || json.Unmarshal(plainJSON(trimBOM(b)), &file) != nil {
			continue
		}
		var odd []string
		for name := range file {
			if !known[name] && !strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "_") {
				odd = append(odd, fmt.Sprintf("%q", name))
			}
		}
		slices.Sort(odd)
		if len(odd) > 0 {
			fs = append(fs, Finding{Level: LevelWarn, What: fmt.Sprintf("%s has what nothing reads: %s", path, OneLine(strings.Join(odd, ", "))),
				Means: "it sets nothing", Mend: "correct the name in " + path + ", or take it out; docs/configuration.md has all names"})
		}
	}
	if len(fs) == 0 {
		return Fine("every setting in the files is a known one")
	}
	return fs
}
