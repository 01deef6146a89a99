// Package settings edits Claude Code's settings.json for `gchat-hooks install` and
// `uninstall`. The file belongs to a person: its order, its spacing and the hooks of
// other programs stay unchanged. An entry is ours if its command is.
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
	// Command is a shell's line, or the program's path if there are Args.
	Command string `json:"command"`
	// With Args, Claude Code starts the program without a shell.
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"` // seconds
	// With AsyncRewake, the hook runs in the background and can wake the session.
	AsyncRewake bool `json:"asyncRewake,omitempty"`
}

// A matcherGroup is a matcher with its hooks, in Claude Code's form. Each of our hooks
// has a group of its own.
type matcherGroup struct {
	Matcher string        `json:"matcher,omitempty"`
	Hooks   []hookHandler `json:"hooks"`
}

// A hookHandler is a hook in Claude Code's form.
type hookHandler struct {
	Type string `json:"type"`
	Entry
}

// Install returns file with these entries as the only ones of ours. If the file has
// exactly these already, it is returned unchanged.
func Install(file []byte, entries []Entry) ([]byte, error) {
	edited, _, err := replaceOwnEntries(file, entries)
	return edited, err
}

// OwnEntries returns the entries of ours in a file.
func OwnEntries(file []byte) ([]Entry, error) {
	_, entries, err := replaceOwnEntries(file, nil)
	return entries, err
}

// replaceOwnEntries is Install. It also returns the entries that were ours. edited is nil
// if the file has nothing else.
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

// sortedText returns entries as text that does not depend on their order.
func sortedText(entries []Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%#v", e))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// addEntry adds an entry at the end of its event's list.
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

// setPermissionMode returns file with permissions.defaultMode, or without it if removes
// is set. See File.SetPermissionMode.
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
	isSame := current != nil && current.Value.Kind() == '"' &&
		current.Value.(hujson.Literal).String() == mode
	switch {
	case removes && isSame:
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

// removeMember removes a member from an object.
func removeMember(object *hujson.Value, name string) {
	members := object.Value.(*hujson.Object).Members
	removeElement(object, slices.IndexFunc(members, func(m hujson.ObjectMember) bool {
		return m.Name.Value.(hujson.Literal).String() == name
	}))
}

// removeOwnEntries removes our entries. It also removes each group, event and "hooks"
// that is empty then, except those that a person had left empty.
func (d *document) removeOwnEntries() (removed []Entry) {
	hooks := findMember(&d.root, "hooks")
	if hooks == nil || hooks.Value.Kind() != '{' {
		return nil
	}
	events := hooks.Value.(*hujson.Object)
	isRootKept := filledEmptyPattern().Match(d.root.Pack())
	areHooksKept := filledEmptyPattern().Match(hooks.Pack())
	for i := len(events.Members) - 1; i >= 0; i-- {
		name := events.Members[i].Name.Value.(hujson.Literal).String()
		groups := &events.Members[i].Value
		isKept := filledEmptyPattern().Match(groups.Pack())
		ours := removeOwnFromEvent(name, groups)
		removed = append(ours, removed...)
		if len(ours) > 0 && len(asArray(groups).Elements) == 0 && !isKept {
			removeElement(hooks, i)
		}
	}
	root := d.root.Value.(*hujson.Object)
	if len(removed) > 0 && len(events.Members) == 0 && !areHooksKept {
		isHooks := func(m hujson.ObjectMember) bool { return m.Value.Value == hooks.Value }
		removeElement(&d.root, slices.IndexFunc(root.Members, isHooks))
		d.isMade[root] = len(root.Members) == 0 && !isRootKept
	}
	return removed
}

// removeOwnFromEvent removes our entries from the groups of an event. A group with a
// member that we do not write belongs to the person and stays.
func removeOwnFromEvent(event string, groups *hujson.Value) (removed []Entry) {
	array := asArray(groups)
	if array == nil {
		return nil
	}
	for i := len(array.Elements) - 1; i >= 0; i-- {
		group := &array.Elements[i]
		handlers, matcher := findMember(group, "hooks"), findMember(group, "matcher")
		removedBefore := len(removed)
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
		hasOnlyHooks := memberCount == 1 || memberCount == 2 && matcher != nil
		if len(removed) > removedBefore && hasOnlyHooks && len(asArray(handlers).Elements) == 0 {
			removeElement(groups, i)
		}
	}
	slices.Reverse(removed)
	return removed
}

// readOwnEntry reads an entry of ours. ok is false if the command is not ours.
func readOwnEntry(event string, matcher *hujson.Value, value hujson.Value) (e Entry, ok bool) {
	value = value.Clone()
	value.Minimize()
	_ = json.Unmarshal(value.Pack(), &e) // a member of another type is left out
	if _, name := ParseOwnCommand(e.Command, e.Args); name == "" {
		return e, false
	}
	e.Event = event
	if matcher != nil && matcher.Value.Kind() == '"' {
		e.Matcher = matcher.Value.(hujson.Literal).String()
	}
	return e, true
}

// programName is the base name of our program.
const programName = "gchat-hooks"

// shellCommandPattern matches the shell lines that are ours: those that EntriesFor and
// the plugin write, and those in the docs. A line that does more belongs to the person.
var shellCommandPattern = state.LazyPattern(`^(?:PATH="\$PATH:\$HOME/bin:\$HOME/go/bin" )?` +
	`('(?:[^']|'\\'')*'|[^\s;&|<>()'"]+) hook ([a-z0-9-]+)$`)

// ParseOwnCommand returns the program and the hook of a command that is ours,
// `gchat-hooks hook NAME`. The name may be one that only another version knows. hook is
// "" for any other command. args is nil if a shell runs the command.
func ParseOwnCommand(command string, args []string) (program, hook string) {
	if len(args) == 2 && args[0] == "hook" {
		program, hook = command, args[1]
	} else if match := shellCommandPattern().FindStringSubmatch(command); args == nil && match != nil {
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

// A document is a settings file as a syntax tree that keeps every byte.
type document struct {
	root       hujson.Value
	newline    string
	indentUnit string                       // the indent of one level
	isMade     map[hujson.ValueTrimmed]bool // objects and lists that this program made
}

const byteOrderMark = "\xef\xbb\xbf"

// parseDocument reads a settings file. A blank file counts as an empty object, as for
// Claude Code.
func parseDocument(file []byte) (*document, error) {
	if bytes.Count(file, []byte("["))+bytes.Count(file, []byte("{")) > 100_000 {
		// The parser is recursive, and its stack would overflow.
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
		message := strings.TrimPrefix(err.Error(), "hujson: ")
		problem, _, isLiteral := strings.Cut(message, "invalid literal")
		if isLiteral { // the rest of the message may be a secret
			problem += "no valid text, number, true, false or null"
		}
		return nil, errors.New(problem)
	}
	switch {
	case root.Value.Kind() != '{':
		return nil, errors.New("line 1: the settings are not an object, {…}")
	case !root.IsStandard():
		return nil, errors.New(
			"it has a comment or a trailing comma: Claude Code does not read such a file")
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

// findMember returns the value of a member of an object; nil if there is none. Of two
// members with that name it returns the last, which counts for JSON.parse.
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

// asArray returns a value that is a list; nil for any other value.
func asArray(value *hujson.Value) *hujson.Array {
	if value == nil {
		return nil
	}
	array, _ := value.Value.(*hujson.Array)
	return array
}

// openMember returns a member of an object to add something to. If there is none, it
// creates one with the value empty.
func (d *document) openMember(
	object *hujson.Value, depth int, name, empty string,
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

// appendValue appends a value in lines of its own: to an object, under its name, or to a
// list. It changes no byte that is there. In an object or list that a person had left
// empty, the value begins right behind the bracket. By that filledEmptyPattern recognises
// it.
func (d *document) appendValue(in *hujson.Value, depth int, name string, value any) {
	indent := strings.Repeat(d.indentUnit, depth)
	// The value consists of texts and numbers and lists of them, so this cannot fail.
	text, _ := json.MarshalIndent(value, indent, d.indentUnit)
	parsed, _ := hujson.Parse(bytes.ReplaceAll(text, []byte("\n"), []byte(d.newline)))
	lineBreak := hujson.Extra(d.newline + indent)
	closingBreak := hujson.Extra(d.newline + strings.Repeat(d.indentUnit, depth-1))
	isMade := d.isMade[in.Value]
	if !isMade && emptyPattern().Match(in.Pack()) {
		lineBreak = nil
	}
	switch in := in.Value.(type) {
	case *hujson.Object:
		parsed.BeforeExtra = hujson.Extra(" ")
		in.Members = append(in.Members, hujson.ObjectMember{
			Name:  hujson.Value{BeforeExtra: lineBreak, Value: hujson.String(name)},
			Value: parsed,
		})
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

// filledEmptyPattern matches the beginning of an object or list that its person had left
// empty and that we added something to: our part begins right behind the bracket, and
// only its inner parts have lines of their own. emptyPattern matches an empty object or
// list.
var (
	filledEmptyPattern = state.LazyPattern(`^\x{feff}?\s*(?:\[\{|\{"[^"]+": [\[{])\r?\n`)
	emptyPattern       = state.LazyPattern(`^\x{feff}?\s*(?:\[\s*\]|\{\s*\})\s*$`)
)

// removeElement removes part i of an object or list. It also removes the white space
// behind the part that is the last one then, since hujson would put a comma after that.
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
