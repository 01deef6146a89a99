// Package settings edits Claude Code's settings.json for `gchat-hooks install` and
// `uninstall`. The file is a person's: its order, its spacing and the hooks of other
// programs stay as they are. An entry is ours by its command.
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
	Event   string `json:"-"` // Claude Code's event name
	Matcher string `json:"-"` // "" matches everything
	// a shell's line; the program's path when there are Args
	Command string `json:"command"`
	// exec form: the program is started without a shell
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"` // seconds
	// it runs in the background, and may wake the session
	AsyncRewake bool `json:"asyncRewake,omitempty"`
}

// A matcherGroup is a matcher with its hooks, as Claude Code has it. Each of our hooks
// stands in a group of its own.
type matcherGroup struct {
	Matcher string        `json:"matcher,omitempty"`
	Hooks   []hookHandler `json:"hooks"`
}

type hookHandler struct {
	Type string `json:"type"`
	Entry
}

// Install returns file with these entries as the only ones of ours in it. Where all of
// them are there already, file stays as it is.
func Install(file []byte, entries []Entry) ([]byte, error) {
	edited, _, err := replaceOwnEntries(file, entries)
	return edited, err
}

// OwnEntries are the entries of ours in a file.
func OwnEntries(file []byte) ([]Entry, error) {
	_, entries, err := replaceOwnEntries(file, nil)
	return entries, err
}

// replaceOwnEntries is Install, and returns the entries that were ours; with is nil where
// the file holds nothing else.
func replaceOwnEntries(file []byte, entries []Entry) (edited []byte, removed []Entry, err error) {
	doc, err := parseDocument(file)
	if err != nil {
		return nil, nil, err
	}
	removed = doc.removeOwnEntries()
	if sortedText(removed) == sortedText(entries) {
		return file, removed, nil
	}
	for _, e := range entries {
		if err := doc.addEntry(e); err != nil {
			return nil, nil, err
		}
	}
	if len(doc.root.Value.(*hujson.Object).Members) == 0 && doc.isMade[doc.root.Value] {
		return nil, removed, nil
	}
	return doc.root.Pack(), removed, nil
}

// sortedText are entries as text, whatever their order.
func sortedText(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%#v", e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// addEntry puts an entry at the end of its event's list.
func (d *document) addEntry(e Entry) error {
	hooks, err := d.openMember(&d.root, 1, "hooks", "{}")
	if err != nil {
		return err
	}
	event, err := d.openMember(hooks, 2, e.Event, "[]")
	if err != nil {
		return err
	}
	d.appendValue(event, 3, "", matcherGroup{e.Matcher, []hookHandler{{"command", e}}})
	return nil
}

// setPermissionMode returns file with permissions.defaultMode, or with out without it:
// see File.SetPermissionMode.
func setPermissionMode(file []byte, mode string, removes bool) ([]byte, error) {
	doc, err := parseDocument(file)
	if err != nil {
		return nil, err
	}
	permissions, err := doc.openMember(&doc.root, 1, "permissions", "{}")
	if err != nil {
		return nil, err
	}
	const name = "defaultMode"
	current := findMember(permissions, name)
	switch {
	case removes && current != nil && current.Value.Kind() == '"' && current.Value.(hujson.Literal).String() == mode:
		removeMember(permissions, name)
	case removes || current != nil:
		return file, nil
	default:
		doc.appendValue(permissions, 2, name, mode)
	}
	if len(permissions.Value.(*hujson.Object).Members) == 0 {
		removeMember(&doc.root, "permissions")
	}
	if len(doc.root.Value.(*hujson.Object).Members) == 0 {
		return nil, nil
	}
	return doc.root.Pack(), nil
}

func removeMember(object *hujson.Value, name string) {
	removeElement(
		object,
		slices.IndexFunc(object.Value.(*hujson.Object).Members, func(m hujson.ObjectMember) bool {
			return m.Name.Value.(hujson.Literal).String() == name
		}),
	)
}

// removeOwnEntries cuts our entries, and each group, event and "hooks" that holds nothing
// else then, unless its person had left it empty.
func (d *document) removeOwnEntries() (removed []Entry) {
	hooks := findMember(&d.root, "hooks")
	if hooks == nil || hooks.Value.Kind() != '{' {
		return nil
	}
	events := hooks.Value.(*hujson.Object)
	isRootKept, areHooksKept := filledEmptyPattern().Match(d.root.Pack()),
		filledEmptyPattern().Match(hooks.Pack())
	for i := len(events.Members) - 1; i >= 0; i-- {
		name, groups := events.Members[i].Name.Value.(hujson.Literal).String(), &events.Members[i].Value
		isKept := filledEmptyPattern().Match(groups.Pack())
		ours := removeOwnFromEvent(name, groups)
		removed = append(ours, removed...)
		if len(ours) > 0 && len(asArray(groups).Elements) == 0 && !isKept {
			removeElement(hooks, i)
		}
	}
	root := d.root.Value.(*hujson.Object)
	if len(removed) > 0 && len(events.Members) == 0 && !areHooksKept {
		removeElement(
			&d.root,
			slices.IndexFunc(
				root.Members,
				func(m hujson.ObjectMember) bool { return m.Value.Value == hooks.Value },
			),
		)
		d.isMade[root] = len(root.Members) == 0 && !isRootKept
	}
	return removed
}

// removeOwnFromEvent cuts our entries from the groups of an event. A group with a key
// that we do not write is the person's, and stays.
func removeOwnFromEvent(event string, groups *hujson.Value) (removed []Entry) {
	array := asArray(groups)
	if array == nil {
		return nil
	}
	for i := len(array.Elements) - 1; i >= 0; i-- {
		group := &array.Elements[i]
		handlers, matcher, removedBefore := findMember(
			group,
			"hooks",
		), findMember(
			group,
			"matcher",
		), len(
			removed,
		)
		if asArray(handlers) == nil {
			continue
		}
		for j := len(asArray(handlers).Elements) - 1; j >= 0; j-- {
			if e, ok := readOwnEntry(event, matcher, asArray(handlers).Elements[j]); ok {
				removed = append(removed, e)
				removeElement(handlers, j)
			}
		}
		memberCount := len(group.Value.(*hujson.Object).Members)
		if len(removed) > removedBefore && len(asArray(handlers).Elements) == 0 &&
			(memberCount == 1 || memberCount == 2 && matcher != nil) {
			removeElement(groups, i)
		}
	}
	slices.Reverse(removed)
	return removed
}

// readOwnEntry reads an entry of ours; ok is false where the command is another one.
func readOwnEntry(event string, matcher *hujson.Value, value hujson.Value) (e Entry, ok bool) {
	value = value.Clone()
	value.Minimize()
	_ = json.Unmarshal(value.Pack(), &e) // leaves out what has a wrong type
	if _, name := ParseOwnCommand(e.Command, e.Args); name == "" {
		return e, false
	}
	e.Event = event
	if matcher != nil && matcher.Value.Kind() == '"' {
		e.Matcher = matcher.Value.(hujson.Literal).String()
	}
	return e, true
}

// programName is the base name of ours.
const programName = "gchat-hooks"

// shellCommandPattern are the shell lines that are ours: what Entries and the plugin
// write, and what the docs show. A line that does more is its person's.
var shellCommandPattern = state.LazyPattern(`^(?:PATH="\$PATH:\$HOME/bin:\$HOME/go/bin" )?` +
	`('(?:[^']|'\\'')*'|[^\s;&|<>()'"]+) hook ([a-z0-9-]+)$`)

// ParseOwnCommand are the program and the hook of a command that is ours, `gchat-hooks
// hook NAME`; also of a version that knows more names. hook is "" for another command.
// args is nil where a shell runs the command.
func ParseOwnCommand(command string, args []string) (program, hook string) {
	if len(args) == 2 && args[0] == "hook" {
		program, hook = command, args[1]
	} else if match := shellCommandPattern().FindStringSubmatch(command); match != nil && args == nil {
		program, hook = match[1], match[2]
		if unquoted, ok := strings.CutPrefix(program, "'"); ok {
			program = strings.ReplaceAll(strings.TrimSuffix(unquoted, "'"), `'\''`, "'")
		}
	}
	if path.Base(program) != programName {
		return "", ""
	}
	return program, hook
}

// A document is a settings file as a syntax tree, which has every byte of it.
type document struct {
	root       hujson.Value
	newline    string
	indentUnit string                       // what one level is indented by
	isMade     map[hujson.ValueTrimmed]bool // objects and lists that no person wrote
}

const byteOrderMark = "\xef\xbb\xbf"

// parseDocument reads a settings file. A blank one is an empty object, as Claude Code
// takes it.
func parseDocument(file []byte) (*document, error) {
	if bytes.Count(file, []byte("["))+bytes.Count(file, []byte("{")) > 100_000 {
		// the parser is recursive: the stack would end
		return nil, errors.New("line 1: more than 100,000 lists and objects")
	}
	body := bytes.TrimPrefix(file, []byte(byteOrderMark))
	byteOrder := file[:len(file)-len(body)]
	isBlank := len(bytes.TrimSpace(body)) == 0
	if isBlank {
		body = []byte("{}\n")
	}
	root, err := hujson.Parse(body)
	if err != nil {
		problem, _, isLiteral := strings.Cut(
			strings.TrimPrefix(err.Error(), "hujson: "),
			"invalid literal",
		)
		if isLiteral { // the rest may be a secret
			problem += "no valid text, number, true, false or null"
		}
		return nil, errors.New(problem)
	}
	switch {
	case root.Value.Kind() != '{':
		return nil, errors.New("line 1: settings are an object, {…}")
	case !root.IsStandard():
		return nil, errors.New(
			"it has a comment or a trailing comma, and so Claude Code does not read it",
		)
	}
	root.BeforeExtra = slices.Concat(byteOrder, root.BeforeExtra)
	doc := &document{
		root:       root,
		newline:    "\n",
		indentUnit: "  ",
		isMade:     map[hujson.ValueTrimmed]bool{root.Value: isBlank},
	}
	if bytes.Contains(body, []byte("\r\n")) {
		doc.newline = "\r\n"
	}
	if bytes.Contains(body, []byte("\n\t")) {
		doc.indentUnit = "\t"
	}
	return doc, nil
}

// findMember is the value of a name in an object, nil when there is none. Of two the last
// one counts, as for JSON.parse.
func findMember(object *hujson.Value, name string) (found *hujson.Value) {
	if object, ok := object.Value.(*hujson.Object); ok {
		for i := range object.Members {
			if object.Members[i].Name.Value.(hujson.Literal).String() == name {
				found = &object.Members[i].Value
			}
		}
	}
	return found
}

// asArray is the list that v is, nil for another value.
func asArray(value *hujson.Value) *hujson.Array {
	if value == nil {
		return nil
	}
	array, _ := value.Value.(*hujson.Array)
	return array
}

// openMember is the member of an object that is to hold more. Where there is none, it is
// put there, and empty is its value.
func (d *document) openMember(
	object *hujson.Value,
	depth int,
	name, empty string,
) (*hujson.Value, error) {
	if findMember(object, name) == nil {
		d.appendValue(object, depth, name, json.RawMessage(empty))
		d.isMade[findMember(object, name).Value] = true
	}
	value := findMember(object, name)
	if byte(value.Value.Kind()) != empty[0] {
		return nil, fmt.Errorf("%q has to be %c…%c", name, empty[0], empty[1])
	}
	return value, nil
}

// appendValue appends a value to an object, under its name, or to a list, in lines of its
// own. No byte that is there changes. In what a person had left empty it begins right
// behind the bracket: by that filledEmptyPattern knows it.
func (d *document) appendValue(in *hujson.Value, depth int, name string, value any) {
	indent := strings.Repeat(d.indentUnit, depth)
	// texts and numbers, and lists of them
	text, _ := json.MarshalIndent(value, indent, d.indentUnit)
	parsed, _ := hujson.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte(d.newline)))
	lineBreak, closingBreak := hujson.Extra(
		d.newline+indent,
	), hujson.Extra(
		d.newline+strings.Repeat(d.indentUnit, depth-1),
	)
	isMade := d.isMade[in.Value]
	if !isMade && emptyPattern().Match(in.Pack()) {
		lineBreak = nil
	}
	switch in := in.Value.(type) {
	case *hujson.Object:
		parsed.BeforeExtra = hujson.Extra(" ")
		key := hujson.Value{BeforeExtra: lineBreak, Value: hujson.String(name)}
		in.Members = append(in.Members, hujson.ObjectMember{Name: key, Value: parsed})
		if isMade {
			in.AfterExtra = closingBreak
		}
	case *hujson.Array:
		parsed.BeforeExtra = lineBreak
		in.Elements = append(in.Elements, parsed)
		if isMade {
			in.AfterExtra = closingBreak
		}
	}
}

// filledEmptyPattern is how an object or a list begins that its person had left empty,
// and that we put something into: our part stands right behind the bracket, and its own
// parts in lines. emptyPattern is one that is empty.
var (
	filledEmptyPattern = state.LazyPattern(`^\x{feff}?\s*(?:\[\{|\{"[^"]+": [\[{])\r?\n`)
	emptyPattern       = state.LazyPattern(`^\x{feff}?\s*(?:\[\s*\]|\{\s*\})\s*$`)
)

// removeElement takes part i out of an object or a list. Behind the part that is the last
// one then, white space would put a comma.
func removeElement(in *hujson.Value, i int) {
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
