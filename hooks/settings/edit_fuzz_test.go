package settings

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	"gchat-hooks/e2e/kit"
)

// entrySets are the hooks of a few installs, in the forms for an older and a newer Claude
// Code.
func entrySets(t testing.TB) (all [][]Entry) {
	for _, version := range []Version{{}, {2, 1, 329}} {
		for _, names := range [][]string{{"answer"}, {"system3", "wake"}, {"wake"}} {
			all = append(all, entriesOf(t, version, names...))
		}
	}
	return all
}

// FuzzInstall checks that JSON stays JSON, that entries of others keep their meaning, and
// that all of ours are there. Half of the files are generated from a seed, with hooks,
// which random bytes seldom produce.
func FuzzInstall(f *testing.F) {
	for i, s := range shapes {
		if len(s.file) < 1<<16 {
			f.Add([]byte(s.file), uint64(i))
		}
	}
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		f.Add([]byte(nil), seed)
	}
	all := entrySets(f)
	f.Fuzz(func(t *testing.T, file []byte, seed uint64) {
		g := settingsGenerator{rand.New(rand.NewPCG(seed, 2)), false}
		if len(file) == 0 {
			g.lines = g.IntN(3) > 0
			file = []byte(g.randomBlank() + g.settings() + g.randomBlank())
			kit.Must(t, json.Valid(file), "grown wrong: %s", file)
		}
		checkBothWays(t, file, all[g.IntN(len(all))], all[g.IntN(len(all))])
	})
}

func checkBothWays(t *testing.T, file []byte, first, second []Entry) {
	t.Helper()
	bare, had, err := replaceOwnEntries(file, nil)
	if err != nil || hasDuplicateMembers(file) {
		return
	}
	kit.Must(t, len(had) != 0 || bytes.Equal(bare, file),
		"nothing of ours in it, and yet it changes:\n%q\n%q", file, bare)
	wantSameOthers(t, file, bare)
	out, err := Install(file, first)
	if err != nil {
		kit.Must(t, strings.Contains(err.Error(), "has to be"), "%v\n%q", err, file)
		return
	}
	other, err := Install(out, second)
	if err != nil {
		kit.Must(t, strings.Contains(err.Error(), "has to be"), "%v", err)
		return
	}
	for i, installed := range [][]byte{out, other} {
		entries := [][]Entry{first, second}[i]
		if again, err := Install(installed, entries); err != nil || !bytes.Equal(again, installed) {
			t.Fatalf("a second install changes something (%v):\n%q\n%q", err, installed, again)
		}
		wantSameOthers(t, file, installed)
		back, found, err := replaceOwnEntries(installed, nil)
		kit.Must(t, err == nil && sortedText(found) == sortedText(entries),
			"uninstall does not take out what was put in (%v):\n%q\n%q", err, back, installed)
		wantSameOthers(t, file, back)
		if blank := len(bytes.TrimSpace(bytes.TrimPrefix(file,
			[]byte(byteOrderMark)))) == 0; len(had) == 0 && !blank && !bytes.Equal(back, file) {
			t.Fatalf("what was not ours is not as it was:\n%q\n%q\n%q", file, installed, back)
		}
	}
}

// hasDuplicateMembers reports whether two members of one object have the same name. Edits
// of such files are not checked.
func hasDuplicateMembers(file []byte) bool {
	d, err := parseDocument(file)
	if err != nil {
		return true
	}
	for v := range d.root.All() {
		seen := map[string]bool{}
		object, _ := v.Value.(*hujson.Object)
		for i := 0; object != nil && i < len(object.Members); i++ {
			name := object.Members[i].Name.Value.(hujson.Literal).String()
			if seen[name] {
				return true
			}
			seen[name] = true
		}
	}
	return false
}

// wantSameOthers compares what two files mean, without our entries and without lists and
// objects of hooks that are empty or null.
func wantSameOthers(t *testing.T, a, b []byte) {
	t.Helper()
	kit.Must(t, !json.Valid(a) || json.Valid(b) || len(bytes.TrimSpace(a)) == 0 || b == nil,
		"no JSON any more:\n%s", b)
	if x, y := otherMembers(t, a), otherMembers(t, b); !reflect.DeepEqual(x, y) {
		t.Fatalf("what is not ours has changed:\n%v\n%v\n%s\n%s", x, y, a, b)
	}
}

// otherMembers reads a file in another way than the tested code: by encoding/json, as
// maps.
func otherMembers(t *testing.T, file []byte) map[string]any {
	t.Helper()
	all, body := map[string]any{}, bytes.TrimPrefix(file, []byte(byteOrderMark))
	if len(bytes.TrimSpace(body)) == 0 {
		return all
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil // for example a number that is too large
	}
	if all["hooks"] == nil { // null counts as none
		delete(all, "hooks")
	}
	hooks, _ := all["hooks"].(map[string]any)
	for event, groups := range hooks {
		list, ok := groups.([]any)
		if !ok && groups != nil {
			continue
		}
		var kept []any
		for _, g := range list {
			if g = withoutOurs(g); g != nil {
				kept = append(kept, g)
			}
		}
		if hooks[event] = kept; len(kept) == 0 {
			delete(hooks, event)
		}
	}
	if hooks != nil && len(hooks) == 0 {
		delete(all, "hooks")
	}
	return all
}

// withoutOurs returns a group without our hooks; nil if it has nothing else.
func withoutOurs(g any) any {
	group, ok := g.(map[string]any)
	handlers, ok2 := group["hooks"].([]any)
	if !ok || !ok2 || len(handlers) == 0 {
		return g
	}
	theirs := []any{}
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
		if _, name := ParseOwnCommand(command, args); name == "" {
			theirs = append(theirs, h)
		}
	}
	group["hooks"] = theirs
	if _, matches := group["matcher"]; len(theirs) == 0 &&
		(len(group) == 1 || len(group) == 2 && matches) {
		return nil
	}
	return group
}
