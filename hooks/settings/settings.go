// Package settings edits Claude Code's settings.json for `gchat-hooks install` and `uninstall`. The file is a person's:
// its order, its spacing, its comments and the hooks of other programs stay as they are. An entry is ours by its command.
package settings

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// An Entry is one hook as a settings file registers it.
type Entry struct {
	Event       string   `json:"-"`                     // Claude Code's event name
	Matcher     string   `json:"-"`                     // "" matches everything
	Command     string   `json:"command"`               // a shell's line; the program's path when there are Args
	Args        []string `json:"args,omitempty"`        // exec form: the program is started without a shell
	Timeout     int      `json:"timeout,omitempty"`     // seconds
	AsyncRewake bool     `json:"asyncRewake,omitempty"` // it runs in the background, and may wake the session
}

// A group is a matcher with its hooks, as Claude Code has it. Each of our hooks stands in a group of its own.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type string `json:"type"`
	Entry
}

// Install returns file with these entries as the only ones of ours in it. before is the file as it was without hooks of
// ours, nil when there was none or it is not known. Where all of them are there already, file stays as it is.
func Install(file, before []byte, entries []Entry) ([]byte, error) {
	without, found, err := takeOut(file, before)
	if err != nil || sorted(found) == sorted(entries) {
		return file, err
	}
	return insert(without, entries)
}

// sorted are entries as text, whatever their order.
func sorted(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%#v", e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// insert puts each entry at the end of its event's list.
func insert(file []byte, entries []Entry) ([]byte, error) {
	d, err := parse(file)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		hooks, err := d.open(&d.root, 1, "hooks", "{}")
		if err != nil {
			return nil, err
		}
		event, err := d.open(hooks, 2, e.Event, "[]")
		if err != nil {
			return nil, err
		}
		d.put(event, 3, "", group{e.Matcher, []handler{{"command", e}}})
	}
	return d.root.Pack(), nil
}

// takeOut returns file without our entries, and these. Where file is what insert makes of before, that is before, to the
// byte: nil where there was no file.
func takeOut(file, before []byte) (without []byte, found []Entry, err error) {
	d, err := parse(file)
	if err != nil {
		return nil, nil, err
	}
	if found = d.takeOut(); len(found) == 0 {
		return file, nil, nil
	}
	if again, err := insert(before, found); err == nil && string(again) == string(file) {
		return before, found, nil
	}
	return d.root.Pack(), found, nil
}

// takeOut cuts our entries, and each group, event and "hooks" that holds nothing else then.
func (d *document) takeOut() (found []Entry) {
	hooks := member(&d.root, "hooks")
	if hooks == nil || hooks.Value.Kind() != '{' {
		return nil
	}
	events := hooks.Value.(*hujson.Object)
	for i := len(events.Members) - 1; i >= 0; i-- {
		name, groups := events.Members[i].Name.Value.(hujson.Literal).String(), &events.Members[i].Value
		ours := takeOutOf(name, groups)
		found = append(ours, found...)
		if len(ours) > 0 && len(list(groups).Elements) == 0 {
			cut(hooks, i)
		}
	}
	root := d.root.Value.(*hujson.Object)
	if len(found) > 0 && len(events.Members) == 0 {
		cut(&d.root, slices.IndexFunc(root.Members, func(m hujson.ObjectMember) bool { return m.Value.Value == hooks.Value }))
	}
	return found
}

// takeOutOf cuts our entries from the groups of an event. A group with a key that we do not write is the person's, and stays.
func takeOutOf(event string, groups *hujson.Value) (found []Entry) {
	all := list(groups)
	if all == nil {
		return nil
	}
	for i := len(all.Elements) - 1; i >= 0; i-- {
		group := &all.Elements[i]
		handlers, matcher, was := member(group, "hooks"), member(group, "matcher"), len(found)
		if list(handlers) == nil {
			continue
		}
		for h := len(list(handlers).Elements) - 1; h >= 0; h-- {
			if e, ok := entry(event, matcher, list(handlers).Elements[h]); ok {
				found = append(found, e)
				cut(handlers, h)
			}
		}
		keys := len(group.Value.(*hujson.Object).Members)
		if len(found) > was && len(list(handlers).Elements) == 0 && (keys == 1 || keys == 2 && matcher != nil) {
			cut(groups, i)
		}
	}
	slices.Reverse(found)
	return found
}

// entry reads an entry of ours; ok is false where the command is another one.
func entry(event string, matcher *hujson.Value, v hujson.Value) (e Entry, ok bool) {
	v = v.Clone()
	v.Minimize()
	_ = json.Unmarshal(v.Pack(), &e) // leaves out what has a wrong type
	if _, name := Ours(e.Command, e.Args); name == "" {
		return e, false
	}
	e.Event = event
	if matcher != nil && matcher.Value.Kind() == '"' {
		e.Matcher = matcher.Value.(hujson.Literal).String()
	}
	return e, true
}

// program is the base name of ours.
const program = "gchat-hooks"

// shellForm are the shell lines that are ours: what Entries and the plugin write, and what the docs show. A line that does
// more is its person's.
var shellForm = sync.OnceValue(func() *regexp.Regexp {
	const word = `('(?:[^']|'\\'')*'|[^\s;&|<>()'"]+)`
	return regexp.MustCompile(`^(?:PATH="\$PATH:\$HOME/bin:\$HOME/go/bin" )?` + word + ` hook ([a-z0-9-]+)$`)
})

// Ours are the program and the hook of a command that is ours, `gchat-hooks hook NAME`; also of a version that knows more
// names. hook is "" for another command. args is nil where a shell runs the command.
func Ours(command string, args []string) (start, hook string) {
	if len(args) == 2 && args[0] == "hook" {
		start, hook = command, args[1]
	} else if m := shellForm().FindStringSubmatch(command); m != nil && args == nil {
		start, hook = m[1], m[2]
		if unquoted, ok := strings.CutPrefix(start, "'"); ok {
			start = strings.ReplaceAll(strings.TrimSuffix(unquoted, "'"), `'\''`, "'")
		}
	}
	if path.Base(start) != program {
		return "", ""
	}
	return start, hook
}
