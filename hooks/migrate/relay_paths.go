package migrate

import (
	"path"
	"strings"
)

const (
	oldModule = "communicator_checker"
	newModule = "persistent_agent_checker"
)

var (
	skillPath = lazy(`(?:skills|\.\.)/s3-communicator\b`)
	module    = lazy(`\b` + oldModule + `\b`)
)

// paths lets the places that lead to the skill lead to where it is kept.
func (t *text) paths() {
	for _, at := range skillPath().FindAllStringIndex(t.src, -1) {
		from := t.src[at[0]:at[1]]
		if strings.HasPrefix(from, "..") && path.Dir(path.Dir(t.path)) != ".claude/skills" {
			continue // leads to somewhere else
		}
		if at[1] < len(t.src) && (t.src[at[1]] == '-' || t.src[at[1]] == '_') {
			continue // another skill
		}
		to := strings.Replace(from, "/", "/_archived/", 1)
		t.replace(at[0], at[1], to, "the skill's folder is in _archived")
	}
}

// modules lets every word that names the checker's module name the new one.
func (t *text) modules() {
	for _, at := range module().FindAllStringIndex(t.src, -1) {
		t.replace(at[0], at[1], newModule, "the checker has another name")
	}
}

// leftovers lists the mentions that no rule took.
func (t *text) leftovers(why string) {
	for _, at := range mentions(t.src) {
		if !t.taken(at[0], at[1]) {
			t.see(t.lineAt(at[0]), why)
		}
	}
}
