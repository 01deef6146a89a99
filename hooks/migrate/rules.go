package migrate

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
)

// migrate runs the rules for a file of its kind. Earlier rules have the right of way.
func (f *file) migrate(moves, renames bool) {
	t := f.text
	if t == nil {
		return
	}
	switch kindOf(f.path) {
	case ours: // the stop gate may go on counting a relay that still runs
	case paper:
		if n := mentions(t.src); len(n) > 0 && !strings.Contains(strings.ToLower(path.Base(f.path)), "changelog") {
			t.see(t.lineAt(n[0][0]), "reads as a paper of its time and is not changed; it names the relay from here on")
		}
	case instructions:
		newMarkdown(t).rules(f.path, moves, renames)
	case program:
		if path.Ext(f.path) == ".py" {
			t.judge()
		}
		if renames {
			t.modules()
		}
		t.leftovers("names the relay in a program or a setting")
	case another:
		t.leftovers("names the relay")
	}
}

// rules are those for Markdown, which instructs.
func (m *markdown) rules(p string, moves, renames bool) {
	m.sections()
	m.spawns()
	m.sendCalls()
	m.rows()
	m.items()
	m.paragraphs()
	m.lists()
	m.renumberLists()
	if moves {
		m.paths()
	}
	if renames {
		m.modules()
	}
	if isOrchestrator(p, m.src) {
		m.denied()
	}
	m.leftovers("names the relay in a way that is not understood")
}

// skill plans the move of the relay's skill and says whether it is, or will be, in the archive.
func (h *harness) skill(p *Plan) bool {
	info, err := h.disk.root.Lstat(skillDir)
	switch {
	case err != nil:
		return h.disk.exists(archived)
	case info.Mode()&os.ModeSymlink != 0:
		h.see(skillDir, "is a symbolic link: archive the skill where it is")
	case !info.IsDir():
		h.see(skillDir, "is no folder")
	case h.disk.exists(archived):
		h.see(skillDir, "stays: "+archived+" is there already")
	case h.disk.exists(skillHome) && !h.disk.isDir(skillHome):
		h.see(skillHome, "is no folder: the skill cannot go there")
	default:
		p.Changes = append(p.Changes, Change{Path: skillDir, To: archived, Folder: true, Why: []string{"the relay's skill goes to the archive"}})
		return true
	}
	return false
}

// checker rewrites the stop gate's checker, if there is one that is understood, and gives it: it gets another name then,
// where every file that uses the name can be changed along.
func (h *harness) checker(p *Plan) *file {
	i := slices.IndexFunc(h.files, func(f *file) bool { return isChecker(f.path) && f.text != nil })
	if i < 0 {
		return nil
	}
	f := h.files[i]
	f.understood = checkPersistent(f.text)
	if !f.understood {
		return nil
	}
	f.text.leftovers("words about the relay in the stop gate's checker")
	to := path.Dir(f.path) + "/" + newModule + ".py"
	if h.disk.exists(to) {
		h.see(to, "is there already: the checker keeps its name")
		return nil
	}
	for _, other := range h.files {
		why := other.closed
		if k := kindOf(other.path); why == "" && (k == another || k == ours) {
			why = "is of another kind"
		}
		if why != "" && bytes.Contains(other.bytes, []byte(oldModule)) {
			h.see(f.path, "keeps its name: "+other.path+" uses it, "+why+", and is not changed")
			return nil
		}
	}
	f.to = to
	f.text.modules()
	return f
}

func checkerPath(f *file) string {
	if f == nil {
		return ""
	}
	return f.path
}

// add puts a file's changes and places into the plan.
func (p *Plan) add(h *harness, f *file) {
	t := f.text
	if t == nil {
		return
	}
	p.Look = append(p.Look, t.look...)
	t.look = nil
	after := []byte(t.result())
	if f.to == "" && bytes.Equal(after, f.bytes) {
		return
	}
	why := t.whys()
	if f.to != "" {
		why = append([]string{"another name: " + path.Base(f.to)}, why...)
	}
	p.Changes = append(p.Changes, Change{Path: f.path, To: f.to, Why: why, before: f.bytes, after: after, mode: f.mode})
}
