package state

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// removed are members that earlier releases read.
var removed = []string{"anthropic_api_key_command", "digest_every", "haiku_model", "hook_timeout"}

// checkMembers has a line for each configuration file with members that nothing reads: a slip of the keyboard is otherwise
// silent, and so is a member that was removed. Names that begin with "$" or "_" are a person's own notes.
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
		var odd, old []string
		for name := range file {
			switch {
			case known[name] || strings.HasPrefix(name, "$") || strings.HasPrefix(name, "_"):
			case slices.Contains(removed, name):
				old = append(old, name)
			default:
				odd = append(odd, fmt.Sprintf("%q", name))
			}
		}
		slices.Sort(odd)
		slices.Sort(old)
		if len(odd) > 0 {
			fs = append(fs, Finding{
				Level: LevelWarn, What: fmt.Sprintf("%s has what nothing reads: %s", path, OneLine(strings.Join(odd, ", "))),
				Means: "it sets nothing",
				Mend:  "correct the name in " + path + ", or take it out; docs/configuration.md has all names",
			})
		}
		if len(old) > 0 {
			fs = append(fs, Finding{
				Level: LevelWarn, What: fmt.Sprintf("%s has settings that no longer exist: %s", path, strings.Join(old, ", ")),
				Means: "they set nothing", Mend: "take them out of " + path,
			})
		}
	}
	if len(fs) == 0 {
		return Fine("every setting in the files is a known one")
	}
	return fs
}
