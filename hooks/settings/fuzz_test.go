package settings

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
)

// sets are the hooks of a few installs, as an older and a newer Claude Code take them.
func sets(t testing.TB) (all [][]Entry) {
	for _, version := range []Version{{}, {2, 1, 329}} {
		for _, names := range [][]string{{"answer"}, {"system3", "wake"}, {"wake"}} {
			all = append(all, entriesOf(t, version, names...))
		}
	}
	return all
}

func entriesOf(t testing.TB, v Version, presets ...string) []Entry {
	t.Helper()
	hooks, err := Hooks(presets...)
	if err != nil {
		t.Fatal(err)
	}
	entries, _, err := Program{Path: "/home/me/bin/gchat-hooks", Claude: v}.Entries(hooks)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// FuzzInstall: whatever is understood comes back byte for byte; what was JSON stays JSON; what is not ours means the same
// as before, in the same order; and all of ours is there.
func FuzzInstall(f *testing.F) {
	for _, s := range shapes {
		if len(s.file) > 1<<16 {
			continue // slow, and its kind is there already
		}
		f.Add([]byte(s.file), uint8(0), uint8(1))
		f.Add([]byte(s.file), uint8(4), uint8(3))
	}
	all := sets(f)
	f.Fuzz(func(t *testing.T, file []byte, one, two uint8) {
		checkBothWays(t, file, all[int(one)%len(all)], all[int(two)%len(all)])
	})
}

// FuzzGrown is FuzzInstall for files that are always understood: grown from a seed, with the hooks, comments, commas and
// doubles that random bytes seldom hit upon.
func FuzzGrown(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	all := sets(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := grower{rand.New(rand.NewPCG(seed, 2)), false, false}
		g.comments, g.lines = g.IntN(3) == 0, g.IntN(3) > 0
		file := []byte(g.space() + g.settings() + g.space())
		if !g.comments && !json.Valid(file) {
			t.Fatalf("grown wrong: %s", file)
		}
		checkBothWays(t, file, all[g.IntN(len(all))], all[g.IntN(len(all))])
	})
}

func checkBothWays(t *testing.T, file []byte, first, second []Entry) {
	t.Helper()
	bare, err := Uninstall(file, file)
	if err != nil {
		if json.Valid(noBOM(file)) && bytes.HasPrefix(bytes.TrimSpace(noBOM(file)), []byte("{")) && tooDeep(file) < 0 {
			t.Fatalf("valid JSON is refused: %v", err)
		}
		return
	}
	if !Holds(file) && !bytes.Equal(bare, file) {
		t.Fatalf("nothing of ours in it, and yet it changes:\n%q\n%q", file, bare)
	}
	out, err := Install(file, file, first)
	if err != nil {
		if _, ok := err.(*SyntaxError); !ok {
			t.Fatalf("%v\n%q", err, file)
		}
		return
	}
	again, err := Install(out, file, first)
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("the second install changes something (%v):\n%q\n%q", err, out, again)
	}
	checkInstalled(t, file, out, first)
	other, err := Install(out, file, second)
	if err != nil {
		t.Fatal(err)
	}
	checkInstalled(t, file, other, second)
	for _, installed := range [][]byte{out, other} {
		back, err := Uninstall(installed, file)
		if same := bytes.Equal(back, bare) || Holds(file) && bytes.Equal(minimal(back), minimal(bare)); err != nil || !same {
			t.Fatalf("uninstall does not give back what was there (%v):\n%q\n%q\n%q", err, bare, back, installed)
		}
	}
}

// FuzzEdited: a person edits the file between install and uninstall, as far as we can play one: the bytes of another file
// come in anywhere. What is still understood loses ours and nothing else.
func FuzzEdited(f *testing.F) {
	for i, s := range shapes {
		if len(s.file) > 1<<16 || len(shapes[(i+7)%len(shapes)].file) > 1<<16 {
			continue
		}
		f.Add([]byte(s.file), []byte(shapes[(i+7)%len(shapes)].file), uint64(i))
	}
	all := sets(f)
	f.Fuzz(func(t *testing.T, file, words []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		out, err := Install(file, file, all[r.IntN(len(all))])
		if err != nil {
			return
		}
		at := r.IntN(len(out))
		edited := append(append(bytes.Clone(out[:at]), words...), out[min(at+r.IntN(20), len(out)):]...)
		back, err := Uninstall(edited, file)
		if err != nil {
			return
		}
		if Holds(back) {
			t.Fatalf("ours stays:\n%s", back)
		}
		sameOthers(t, edited, back)
	})
}

// checkInstalled says whether out is file with these entries: valid, others' content unchanged.
func checkInstalled(t *testing.T, file, out []byte, entries []Entry) {
	t.Helper()
	if json.Valid(noBOM(file)) && !json.Valid(noBOM(out)) {
		t.Fatalf("no JSON any more:\n%s", out)
	}
	sameOthers(t, file, out)
	d, err := parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if missing := d.strip(entries); len(missing) > 0 || len(d.touched) > 0 {
		t.Fatalf("missing: %v, or too many of ours:\n%s", missing, out)
	}
}

// sameOthers compares what two files mean, without what is ours in them and without lists and objects of hooks
// that are empty or null.
func sameOthers(t *testing.T, a, b []byte) {
	t.Helper()
	if x, y := others(t, a), others(t, b); !reflect.DeepEqual(x, y) {
		t.Fatalf("what is not ours has changed:\n%v\n%v\n%s\n%s", x, y, a, b)
	}
}

// others reads a file by another way than the code under test: the library's standard form, read by encoding/json, as maps.
func others(t *testing.T, file []byte) map[string]any {
	t.Helper()
	d, err := parse(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	v := d.root.Clone()
	v.Standardize()
	all := map[string]any{}
	if err := json.Unmarshal(v.Pack(), &all); err != nil {
		return nil // a number too large, say
	}
	if all["hooks"] == nil { // null, which is as good as none
		delete(all, "hooks")
	}
	hooks, ok := all["hooks"].(map[string]any)
	if !ok {
		return all
	}
	for event, groups := range hooks {
		if groups == nil {
			delete(hooks, event)
		}
		list, ok := groups.([]any)
		if !ok {
			continue
		}
		kept := []any{}
		for _, g := range list {
			group, ok := g.(map[string]any)
			handlers, ok2 := group["hooks"].([]any)
			if !ok || !ok2 || len(handlers) == 0 {
				kept = append(kept, g)
				continue
			}
			var theirs []any
			for _, h := range handlers {
				handler, _ := h.(map[string]any)
				command, _ := handler["command"].(string)
				var args []string
				if words, ok := handler["args"].([]any); ok {
					args = []string{}
					for _, w := range words {
						s, _ := w.(string)
						args = append(args, s)
					}
				}
				if !ours(command, args) && (args == nil || !ours(command, nil)) {
					theirs = append(theirs, h)
				}
			}
			if len(theirs) == 0 {
				extra := false
				for key := range group {
					extra = extra || key != "matcher" && key != "hooks"
				}
				if !extra {
					continue
				}
				theirs = []any{}
			}
			group["hooks"] = theirs
			kept = append(kept, group)
		}
		if len(kept) == 0 {
			delete(hooks, event)
		} else {
			hooks[event] = kept
		}
	}
	if len(hooks) == 0 {
		delete(all, "hooks")
	}
	return all
}
