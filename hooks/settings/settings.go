// Package settings edits Claude Code's settings.json for `gchat-hooks install` and `uninstall`. The file is a person's:
// its order, its spacing, its comments and the hooks of other programs stay as they are. An entry is ours by its command.
package settings

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// An Entry is one hook as a settings file registers it.
type Entry struct {
	Event       string   // Claude Code's event name
	Matcher     string   // "" matches everything
	Command     string   // a shell's line; the program's path when there are Args
	Args        []string // exec form: the program is started without a shell
	Timeout     int      // seconds
	AsyncRewake bool
}

// A group is a matcher with its hooks, as Claude Code has it. Each of our hooks stands in a group of its own.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

type handler struct {
	Type        string   `json:"type"`
	Command     string   `json:"command"`
	Args        []string `json:"args,omitempty"`
	Timeout     int      `json:"timeout,omitempty"`
	AsyncRewake bool     `json:"asyncRewake,omitempty"`
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
		all = append(all, encode(e, ""))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// insert puts entries in that file does not have yet.
func insert(file []byte, entries []Entry) ([]byte, error) {
	d, err := parse(file)
	if err != nil {
		return nil, err
	}
	var events []string // in the order in which they stand in the file, then in that of the entries
	if hooks := member(&d.root, "hooks"); hooks != nil {
		for _, event := range parts(hooks) {
			events = append(events, event.name)
		}
	}
	for _, e := range entries {
		events = append(events, e.Event)
	}
	for i, event := range events {
		for _, e := range entries {
			if e.Event != event || slices.Contains(events[:i], event) {
				continue
			}
			if err := d.add(e); err != nil {
				return nil, err
			}
		}
	}
	return d.bytes(), nil
}

// add puts an entry at the end of its event. It makes the event, and "hooks", where there is none; null is none too.
func (d *document) add(e Entry) error {
	one := group{e.Matcher, []handler{{"command", e.Command, e.Args, e.Timeout, e.AsyncRewake}}}
	hooks := member(&d.root, "hooks")
	switch {
	case hooks == nil:
		return d.append(&d.root, "hooks", map[string][]group{e.Event: {one}})
	case hooks.Value.Kind() == 'n':
		return d.set(hooks, map[string][]group{e.Event: {one}})
	case hooks.Value.Kind() != '{':
		return d.wrong(hooks, `"hooks" has to be an object, { … }`)
	}
	groups := member(hooks, e.Event)
	switch {
	case groups == nil:
		return d.append(hooks, e.Event, []group{one})
	case groups.Value.Kind() == 'n':
		return d.set(groups, []group{one})
	case groups.Value.Kind() != '[':
		return d.wrong(groups, `"`+e.Event+`" has to be a list, [ … ]`)
	}
	return d.append(groups, "", one)
}

// takeOut returns file without our entries, and these. Where file is what insert makes of before, that is before, to the
// byte: nil where there was no file.
func takeOut(file, before []byte) (without []byte, found []Entry, err error) {
	d, err := parse(file)
	if err != nil {
		return nil, nil, err
	}
	for {
		in, i, e := d.findOurs()
		if in == nil {
			break
		}
		found = append(found, e)
		if err := d.cut(in, i); err != nil {
			return nil, nil, err
		}
	}
	if len(found) == 0 {
		return file, nil, nil
	}
	if again, err := insert(before, found); err == nil && string(again) == string(file) {
		return before, found, nil
	}
	return d.bytes(), found, nil
}

// findOurs finds an entry of ours, and what to cut for it: part i of an object or a list. That is the outermost one that
// holds nothing else; keys of a group that we do not write are the person's. in is nil when there is no entry of ours.
func (d *document) findOurs() (in *hujson.Value, i int, e Entry) {
	for h, hooks := range parts(&d.root) {
		for ev, event := range parts(hooks.value) {
			for g, group := range parts(event.value) {
				list, matcher := member(group.value, "hooks"), member(group.value, "matcher")
				if hooks.name != "hooks" || event.name == "" || group.name != "" || list == nil || list.Value.Kind() != '[' {
					continue
				}
				for k, one := range parts(list) {
					e, ok := d.entry(event.name, matcher, one.value)
					if !ok {
						continue
					}
					alone := len(parts(list)) == 1 && (len(parts(group.value)) == 1 || len(parts(group.value)) == 2 && matcher != nil)
					switch {
					case !alone:
						return list, k, e
					case len(parts(event.value)) > 1:
						return event.value, g, e
					case len(parts(hooks.value)) > 1:
						return hooks.value, ev, e
					}
					return &d.root, h, e
				}
			}
		}
	}
	return nil, 0, Entry{}
}

// entry reads an entry of ours; ok is false where the command is another one.
func (d *document) entry(event string, matcher, v *hujson.Value) (e Entry, ok bool) {
	var h struct {
		Command              string
		Args                 []string
		Timeout, AsyncRewake any // whatever a person wrote there, the entry is ours
	}
	if v.Value.Kind() != '{' || json.Unmarshal([]byte(d.plain[v.StartOffset:v.EndOffset]), &h) != nil {
		return e, false
	}
	if _, name := ours(h.Command, h.Args); name == "" {
		return e, false
	}
	timeout, _ := h.Timeout.(float64)
	rewake, _ := h.AsyncRewake.(bool)
	e = Entry{event, "", h.Command, h.Args, int(timeout), rewake}
	if matcher != nil {
		e.Matcher = d.plain[matcher.StartOffset:matcher.EndOffset]
		if matcher.Value.Kind() == '"' {
			e.Matcher = matcher.Value.(hujson.Literal).String()
		}
	}
	return e, true
}

// program is the base name of ours.
const program = "gchat-hooks"

// shellForm are the shell lines that are ours: what Entries and the plugin write, and what the docs show. A line that does
// more is its person's.
var shellForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:PATH="\$PATH:\$HOME/bin:\$HOME/go/bin" )?('(?:[^']|'\\'')*'|[^\s;&|<>()'"]+) hook ([a-z0-9-]+)$`)
})

// ours are the program and the hook of a command that is ours, `gchat-hooks hook NAME`; also of a version that knows more
// names. hook is "" for another command. args is nil where a shell runs the command.
func ours(command string, args []string) (start, hook string) {
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

// shellQuote is s as one word of a shell's line.
func shellQuote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,:@%-") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
