package settings

import (
	"slices"

	"github.com/tailscale/hujson"
)

// tidy takes out the lists and objects that strip emptied and add did not fill again, unless the original has them: then
// they get its spacing, or are null again.
func (d *document) tidy(original *document) {
	for i := len(d.object().Members) - 1; i >= 0; i-- {
		all, ok := d.object().Members[i].Value.Value.(*hujson.Object)
		if !ok || nameOf(&d.object().Members[i]) != "hooks" {
			continue
		}
		was, emptied := original.hooks(), false
		for j := len(all.Members) - 1; j >= 0; j-- {
			groups, ok := all.Members[j].Value.Value.(*hujson.Array)
			if !ok || !d.touched[groups] || len(groups.Elements) > 0 {
				continue
			}
			m := member(was, nameOf(&all.Members[j]))
			if null(m) && last(all, nameOf(m)) == &all.Members[j] {
				all.Members[j].Value.Value = m.Value.Value
				continue
			}
			if m != nil && m.Value.Value.Kind() == '[' {
				respace(container{arr: groups}, container{arr: m.Value.Value.(*hujson.Array)})
				continue
			}
			if twice(all, nameOf(&all.Members[j])) {
				continue // without it the other one would count
			}
			container{obj: all}.remove(j)
			emptied = true
		}
		if !emptied || len(all.Members) > 0 {
			continue
		}
		if m := &d.object().Members[i]; original != nil && null(last(original.object(), "hooks")) && last(d.object(), "hooks") == m {
			m.Value.Value = hujson.Literal("null")
			continue
		}
		if was != nil {
			respace(container{obj: all}, container{obj: was})
			continue
		}
		if twice(d.object(), "hooks") {
			continue
		}
		container{obj: d.object()}.remove(i)
		d.respaceAll(original)
	}
}

// null says whether a member is there and holds null.
func null(m *hujson.ObjectMember) bool { return m != nil && m.Value.Value.Kind() == 'n' }

// twice says whether an object has two members of a name.
func twice(o *hujson.Object, name string) bool {
	n := 0
	for i := range o.Members {
		if nameOf(&o.Members[i]) == name {
			n++
		}
	}
	return n > 1
}

// hooks is the object that holds the hooks; nil when there is none.
func (d *document) hooks() *hujson.Object {
	if d == nil {
		return nil
	}
	if m := last(d.object(), "hooks"); m != nil {
		o, _ := m.Value.Value.(*hujson.Object)
		return o
	}
	return nil
}

func member(o *hujson.Object, name string) *hujson.ObjectMember {
	if o == nil {
		return nil
	}
	return last(o, name)
}

// respaceAll gives a document that has nothing left the form that it had before us.
func (d *document) respaceAll(original *document) {
	if len(d.object().Members) > 0 {
		return
	}
	c := container{obj: d.object()}
	around := slices.Concat(d.root.BeforeExtra, *c.tail(), d.root.AfterExtra)
	if comments, _ := split(around); len(comments) > 0 {
		if original != nil {
			respace(c, container{obj: original.object()})
		}
		return
	}
	switch {
	case original == nil:
		*c.tail() = nil
	case original.blankAs != nil:
		d.blankAs = original.blankAs
	default:
		respace(c, container{obj: original.object()})
	}
}

// respace gives an emptied container the spacing that it had when it was empty before. Comments that came since stay.
func respace(c, was container) {
	now, _ := split(*c.tail())
	then, _ := split(*was.tail())
	if was.len() == 0 && slices.Equal(now, then) {
		*c.tail() = *was.tail()
	}
}
