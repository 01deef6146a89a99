// Package settings edits Claude Code's settings.json for `gchat-hooks install` and `uninstall`. The file is a person's:
// its order, its spacing and the hooks of other programs stay as they are. An entry is ours by its command.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"gchat-hooks/state"
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

// Install returns file with these entries as the only ones of ours in it. Where all of them are there already, file stays as it
// is.
func Install(file []byte, entries []Entry) ([]byte, error) {
	with, _, err := edit(file, entries)
	return with, err
}

// Registered are the entries of ours in a file.
func Registered(file []byte) ([]Entry, error) {
	_, had, err := edit(file, nil)
	return had, err
}

// edit is Install, and returns the entries that were ours; with is nil where the file holds nothing else.
func edit(file []byte, entries []Entry) (with []byte, had []Entry, err error) {
	d, err := parse(file)
	if err != nil {
		return nil, nil, err
	}
	had = d.takeOut()
	if sorted(had) == sorted(entries) {
		return file, had, nil
	}
	for _, e := range entries {
		if err := d.add(e); err != nil {
			return nil, nil, err
		}
	}
	if len(d.root.Value.(*hujson.Object).Members) == 0 && d.made[d.root.Value] {
		return nil, had, nil
	}
	return d.root.Pack(), had, nil
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

// add puts an entry at the end of its event's list.
func (d *document) add(e Entry) error {
	hooks, err := d.open(&d.root, 1, "hooks", "{}")
	if err != nil {
		return err
	}
	event, err := d.open(hooks, 2, e.Event, "[]")
	if err != nil {
		return err
	}
	d.put(event, 3, "", group{e.Matcher, []handler{{"command", e}}})
	return nil
}

// setMode returns file with permissions.defaultMode, or with out without it: see File.SetMode.
func setMode(file []byte, mode string, out bool) ([]byte, error) {
	d, err := parse(file)
	if err != nil {
		return nil, err
	}
	permissions, err := d.open(&d.root, 1, "permissions", "{}")
	if err != nil {
		return nil, err
	}
	const name = "defaultMode"
	has := member(permissions, name)
	switch {
	case out && has != nil && has.Value.Kind() == '"' && has.Value.(hujson.Literal).String() == mode:
		cutMember(permissions, name)
	case out || has != nil:
		return file, nil
	default:
		d.put(permissions, 2, name, mode)
	}
	if len(permissions.Value.(*hujson.Object).Members) == 0 {
		cutMember(&d.root, "permissions")
	}
	if len(d.root.Value.(*hujson.Object).Members) == 0 {
		return nil, nil
	}
	return d.root.Pack(), nil
}

func cutMember(of *hujson.Value, name string) {
	cut(of, slices.IndexFunc(of.Value.(*hujson.Object).Members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	}))
}

// takeOut cuts our entries, and each group, event and "hooks" that holds nothing else then, unless its person had left it empty.
func (d *document) takeOut() (found []Entry) {
	hooks := member(&d.root, "hooks")
	if hooks == nil || hooks.Value.Kind() != '{' {
		return nil
	}
	events := hooks.Value.(*hujson.Object)
	rootStays, hooksStay := putIntoEmpty().Match(d.root.Pack()), putIntoEmpty().Match(hooks.Pack())
	for i := len(events.Members) - 1; i >= 0; i-- {
		name, groups := events.Members[i].Name.Value.(hujson.Literal).String(), &events.Members[i].Value
		stays := putIntoEmpty().Match(groups.Pack())
		ours := takeOutOf(name, groups)
		found = append(ours, found...)
		if len(ours) > 0 && len(list(groups).Elements) == 0 && !stays {
			cut(hooks, i)
		}
	}
	root := d.root.Value.(*hujson.Object)
	if len(found) > 0 && len(events.Members) == 0 && !hooksStay {
		cut(&d.root, slices.IndexFunc(root.Members, func(m hujson.ObjectMember) bool { return m.Value.Value == hooks.Value }))
		d.made[root] = len(root.Members) == 0 && !rootStays
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
var shellForm = state.Pattern(`^(?:PATH="\$PATH:\$HOME/bin:\$HOME/go/bin" )?` +
	`('(?:[^']|'\\'')*'|[^\s;&|<>()'"]+) hook ([a-z0-9-]+)$`)

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

// A document is a settings file as a syntax tree, which has every byte of it.
type document struct {
	root    hujson.Value
	newline string
	unit    string                       // what one level is indented by
	made    map[hujson.ValueTrimmed]bool // objects and lists that no person wrote
}

const byteOrderMark = "\xef\xbb\xbf"

// parse reads a settings file. A blank one is an empty object, as Claude Code takes it.
func parse(file []byte) (*document, error) {
	if bytes.Count(file, []byte("["))+bytes.Count(file, []byte("{")) > 100_000 { // the parser is recursive: the stack would end
		return nil, errors.New("line 1: more than 100,000 lists and objects")
	}
	body := bytes.TrimPrefix(file, []byte(byteOrderMark))
	mark := file[:len(file)-len(body)]
	isBlank := len(bytes.TrimSpace(body)) == 0
	if isBlank {
		body = []byte("{}\n")
	}
	root, err := hujson.Parse(body)
	if err != nil {
		where, _, isLiteral := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), "invalid literal")
		if isLiteral { // the rest may be a secret
			where += "no valid text, number, true, false or null"
		}
		return nil, errors.New(where)
	}
	switch {
	case root.Value.Kind() != '{':
		return nil, errors.New("line 1: settings are an object, {…}")
	case !root.IsStandard():
		return nil, errors.New("it has a comment or a trailing comma, and so Claude Code does not read it")
	}
	root.BeforeExtra = slices.Concat(mark, root.BeforeExtra)
	d := &document{root: root, newline: "\n", unit: "  ", made: map[hujson.ValueTrimmed]bool{root.Value: isBlank}}
	if bytes.Contains(body, []byte("\r\n")) {
		d.newline = "\r\n"
	}
	if bytes.Contains(body, []byte("\n\t")) {
		d.unit = "\t"
	}
	return d, nil
}

// member is the value of a name in an object, nil when there is none. Of two the last one counts, as for JSON.parse.
func member(in *hujson.Value, name string) (found *hujson.Value) {
	if object, ok := in.Value.(*hujson.Object); ok {
		for i := range object.Members {
			if object.Members[i].Name.Value.(hujson.Literal).String() == name {
				found = &object.Members[i].Value
			}
		}
	}
	return found
}

// list is the list that v is, nil for another value.
func list(v *hujson.Value) *hujson.Array {
	if v == nil {
		return nil
	}
	array, _ := v.Value.(*hujson.Array)
	return array
}

// open is the member of an object that is to hold more. Where there is none, it is put there, and empty is its value.
func (d *document) open(in *hujson.Value, depth int, name, empty string) (*hujson.Value, error) {
	if member(in, name) == nil {
		d.put(in, depth, name, json.RawMessage(empty))
		d.made[member(in, name).Value] = true
	}
	v := member(in, name)
	if byte(v.Value.Kind()) != empty[0] {
		return nil, fmt.Errorf("%q has to be %c…%c", name, empty[0], empty[1])
	}
	return v, nil
}

// put appends a value to an object, under its name, or to a list, in lines of its own. No byte that is there changes. In what a
// person had left empty it begins right behind the bracket: by that putIntoEmpty knows it.
func (d *document) put(in *hujson.Value, depth int, name string, value any) {
	indent := strings.Repeat(d.unit, depth)
	text, _ := json.MarshalIndent(value, indent, d.unit) // texts and numbers, and lists of them
	v, _ := hujson.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte(d.newline)))
	line, shut := hujson.Extra(d.newline+indent), hujson.Extra(d.newline+strings.Repeat(d.unit, depth-1))
	made := d.made[in.Value]
	if !made && isEmpty().Match(in.Pack()) {
		line = nil
	}
	switch in := in.Value.(type) {
	case *hujson.Object:
		v.BeforeExtra = hujson.Extra(" ")
		key := hujson.Value{BeforeExtra: line, Value: hujson.String(name)}
		in.Members = append(in.Members, hujson.ObjectMember{Name: key, Value: v})
		if made {
			in.AfterExtra = shut
		}
	case *hujson.Array:
		v.BeforeExtra = line
		in.Elements = append(in.Elements, v)
		if made {
			in.AfterExtra = shut
		}
	}
}

// putIntoEmpty is how an object or a list begins that its person had left empty, and that we put something into: our part stands
// right behind the bracket, and its own parts in lines. isEmpty is one that is empty.
var (
	putIntoEmpty = state.Pattern(`^\x{feff}?\s*(?:\[\{|\{"[^"]+": [\[{])\r?\n`)
	isEmpty      = state.Pattern(`^\x{feff}?\s*(?:\[\s*\]|\{\s*\})\s*$`)
)

// cut takes part i out of an object or a list. Behind the part that is the last one then, white space would put a comma.
func cut(in *hujson.Value, i int) {
	switch in := in.Value.(type) {
	case *hujson.Object:
		in.Members = slices.Delete(in.Members, i, i+1)
		if i > 0 && i == len(in.Members) {
			in.Members[i-1].Value.AfterExtra = nil
		}
	case *hujson.Array:
		in.Elements = slices.Delete(in.Elements, i, i+1)
		if i > 0 && i == len(in.Elements) {
			in.Elements[i-1].AfterExtra = nil
		}
	}
}
