package settings

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/tailscale/hujson"
)

// last is the member of an object that counts: of two with one name, JSON.parse takes the second.
func last(o *hujson.Object, name string) *hujson.ObjectMember {
	for i := len(o.Members) - 1; i >= 0; i-- {
		if nameOf(&o.Members[i]) == name {
			return &o.Members[i]
		}
	}
	return nil
}

func nameOf(m *hujson.ObjectMember) string { return m.Name.Value.(hujson.Literal).String() }

// text is the string that a member of o holds, "" when it has none; ok is false when it holds something else.
func text(o *hujson.Object, name string) (s string, ok bool) {
	m := last(o, name)
	if m == nil {
		return "", true
	}
	l, ok := m.Value.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	return l.String(), true
}

// strip takes our entries out, but for one of each that is as wanted, and returns the wanted ones that are missing. Of the
// lists and objects that it emptied it takes out groups of hooks; tidy decides about the others.
func (d *document) strip(wanted []Entry) (missing []Entry) {
	missing = slices.Clone(wanted)
	for i := range d.object().Members {
		all, ok := d.object().Members[i].Value.Value.(*hujson.Object)
		if !ok || nameOf(&d.object().Members[i]) != "hooks" {
			continue
		}
		for j := range all.Members {
			if groups, ok := all.Members[j].Value.Value.(*hujson.Array); ok {
				missing = d.stripGroups(nameOf(&all.Members[j]), groups, missing)
			}
		}
	}
	return missing
}

func (d *document) stripGroups(event string, groups *hujson.Array, missing []Entry) []Entry {
	var empty []int
	for i := range groups.Elements {
		group, ok := groups.Elements[i].Value.(*hujson.Object)
		if !ok {
			continue
		}
		matcher, plain := text(group, "matcher")
		for j := range group.Members {
			hooks, ok := group.Members[j].Value.Value.(*hujson.Array)
			if !ok || nameOf(&group.Members[j]) != "hooks" {
				continue
			}
			var gone []int
			for k := range hooks.Elements {
				handler, ok := hooks.Elements[k].Value.(*hujson.Object)
				if !ok || !isOurs(handler) {
					continue
				}
				is := slices.IndexFunc(missing, func(e Entry) bool {
					return plain && e.Event == event && e.Matcher == matcher && same(handler, e)
				})
				if is >= 0 {
					missing = slices.Delete(missing, is, is+1)
				} else {
					gone = append(gone, k)
				}
			}
			for _, k := range slices.Backward(gone) {
				container{arr: hooks}.remove(k)
				d.touched[groups] = true
			}
			if len(gone) > 0 && len(hooks.Elements) == 0 && nothingElse(group) {
				empty = append(empty, i)
				break
			}
		}
	}
	for _, i := range slices.Backward(empty) {
		container{arr: groups}.remove(i)
	}
	return missing
}

// nothingElse says whether a group has but what Claude Code gives it: keys that nobody knows are a person's.
func nothingElse(group *hujson.Object) bool {
	for i := range group.Members {
		hooks, ok := group.Members[i].Value.Value.(*hujson.Array)
		if name := nameOf(&group.Members[i]); name != "matcher" && (name != "hooks" || !ok || len(hooks.Elements) > 0) {
			return false
		}
	}
	return true
}

// isOurs says whether a hook runs one of our commands.
func isOurs(handler *hujson.Object) bool {
	command, ok := text(handler, "command")
	if !ok || command == "" {
		return false
	}
	var args []string
	if m := last(handler, "args"); m != nil {
		if list, ok := m.Value.Value.(*hujson.Array); ok {
			args = []string{}
			for _, e := range list.Elements {
				word, _ := e.Value.(hujson.Literal)
				args = append(args, word.String())
			}
		}
	}
	// A Claude Code that does not know exec form hands the command to a shell: whichever way it is read, it is ours.
	return ours(command, args) || args != nil && ours(command, nil)
}

// runs are the keys that say what is run and how; what else a person put into an entry of ours may stay.
var runs = []string{"type", "command", "args", "timeout", "async", "asyncRewake", "shell"}

// same says whether a hook is e, as far as its matcher and event do not say.
func same(handler *hujson.Object, e Entry) bool {
	value := hujson.Value{Value: handler}.Clone()
	value.Standardize()
	var is, want map[string]any
	if json.Unmarshal(value.Pack(), &is) != nil || json.Unmarshal([]byte(usual.text(handlerOf(e), "", true)), &want) != nil {
		return false
	}
	for _, key := range runs {
		if !reflect.DeepEqual(is[key], want[key]) {
			return false
		}
	}
	return true
}
