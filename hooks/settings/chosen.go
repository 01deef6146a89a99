package settings

import (
	"cmp"
	"os/exec"
	"slices"
	"strings"
)

// Chosen are the hooks of ours that the file has: what an earlier install was told, or a person wrote. start says whether
// all of them start the program at path.
func (f File) Chosen(path string) (hooks []Hook, start bool, err error) {
	got, err := f.read()
	if err != nil {
		return nil, false, err
	}
	d, err := parse(got.bytes)
	if err != nil {
		return nil, false, err
	}
	d.root.Standardize() // comments keep Claude Code from reading it, but not us
	s := &source{}
	s.parse(d.root.Pack(), "")
	start = true
	for _, h := range s.hooks {
		if !ours(h.Command, h.Args) && !ours(h.Command, nil) {
			continue
		}
		hook := Hook{h.Event, h.Matcher, h.name, cmp.Or(h.Timeout, int(usualTimeout.Seconds())), h.AsyncRewake}
		i := slices.IndexFunc(table, func(r row) bool { return r.Event == h.Event && r.Name == h.name })
		if i >= 0 { // this version's time limit
			hook = table[i].Hook
			hook.Matcher = h.Matcher
		}
		if !slices.Contains(hooks, hook) {
			hooks = append(hooks, hook)
		}
		is, _ := h.program(f.Env)
		if !strings.Contains(is, "/") {
			is, _ = exec.LookPath(is)
		}
		start = start && is == path
	}
	return hooks, start, nil
}
