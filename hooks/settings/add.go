package settings

import (
	"github.com/tailscale/hujson"
)

// add puts an entry in: beside others of ours with its matcher, else as a group of its own at the end of its event. What
// others registered is not touched, also where a group of theirs has the same matcher.
func (d *document) add(s style, e Entry) error {
	hooks, err := d.enter(s, frame{container{obj: d.object()}, "", s.compact}, "hooks", '{')
	if err != nil {
		return err
	}
	groups, err := d.enter(s, hooks, e.Event, '[')
	if err != nil {
		return err
	}
	for i := len(groups.arr.Elements) - 1; i >= 0; i-- {
		if group, ok := groups.arr.Elements[i].Value.(*hujson.Object); ok && allOurs(group, e.Matcher) {
			in := frame{container{obj: group}, s.indentOf(groups, i), groups.inOneLine()}
			list, err := d.enter(s, in, "hooks", '[')
			if err == nil {
				s.append(list, "", handlerOf(e))
			}
			return err
		}
	}
	s.append(groups, "", groupOf(e))
	return nil
}

// enter is the list or object that a member of an object holds; it makes an empty one where there is none, or null, which
// says no more than that: tidy gives it back.
func (d *document) enter(s style, f frame, name string, kind hujson.Kind) (frame, error) {
	if last(f.obj, name) == nil {
		s.append(f, name, map[hujson.Kind]any{'{': object{}, '[': list{}}[kind])
	}
	i := len(f.obj.Members) - 1
	for nameOf(&f.obj.Members[i]) != name {
		i--
	}
	if f.obj.Members[i].Value.Value.Kind() == 'n' {
		f.obj.Members[i].Value.Value = map[hujson.Kind]hujson.ValueTrimmed{'{': &hujson.Object{}, '[': &hujson.Array{}}[kind]
	}
	value := f.obj.Members[i].Value
	in := frame{indent: s.indentOf(f, i), inline: f.inOneLine()}
	if value.Value.Kind() != kind {
		what := map[hujson.Kind]string{'{': "an object, { … }", '[': "a list, [ … ]"}[kind]
		return in, d.wrongAt(value.StartOffset, "\""+name+"\" has to be "+what)
	}
	in.obj, _ = value.Value.(*hujson.Object)
	in.arr, _ = value.Value.(*hujson.Array)
	return in, nil
}

// allOurs says whether a group has this matcher and hooks of ours, and nothing else.
func allOurs(group *hujson.Object, matcher string) bool {
	is, ok := text(group, "matcher")
	m := last(group, "hooks")
	if !ok || is != matcher || m == nil || m.Value.Value.Kind() != '[' {
		return false
	}
	hooks := m.Value.Value.(*hujson.Array).Elements
	for i := range hooks {
		if handler, ok := hooks[i].Value.(*hujson.Object); !ok || !isOurs(handler) {
			return false
		}
	}
	for i := range group.Members {
		if name := nameOf(&group.Members[i]); name != "matcher" && name != "hooks" {
			return false
		}
	}
	return len(hooks) > 0
}

// groupOf is a matcher with one hook, as Claude Code has it.
func groupOf(e Entry) object {
	hooks := field{"hooks", list{handlerOf(e)}}
	if e.Matcher == "" {
		return object{hooks}
	}
	return object{{"matcher", e.Matcher}, hooks}
}

func handlerOf(e Entry) object {
	o := object{{"type", "command"}, {"command", e.Command}}
	if e.Args != nil {
		o = append(o, field{"args", e.Args})
	}
	o = append(o, field{"timeout", e.Timeout})
	if e.AsyncRewake {
		o = append(o, field{"asyncRewake", true})
	}
	return o
}
