package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"gchat-hooks/state"
)

// member is a setting in the person's config.json.
type member struct {
	name  string
	value any // a text or a list of texts; nil takes the member out
}

// setMembers writes members into the person's configuration, readable by them only. Other members, their order, comments
// and spacing stay. A file that does not parse, or that is read-only, is left alone.
func setMembers(path string, members ...member) error {
	if behindLinks, err := filepath.EvalSymlinks(path); err == nil {
		path = behindLinks
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read configuration: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o200 == 0 { // a rename would not ask
		return fmt.Errorf("%s is read-only", path)
	}
	changed, err := withMembers(old, members...)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make configuration folder: %w", err)
	}
	return state.WriteSecret(path, changed)
}

// withMembers is the file with the members set, new ones at the object's end.
func withMembers(file []byte, members ...member) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("{}\n")
	}
	root, err := hujson.Parse(file)
	if err != nil {
		return nil, err
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("it is no JSON object")
	}
	for _, m := range members {
		at := -1
		for i, there := range object.Members {
			if there.Name.Value.(hujson.Literal).String() == m.name {
				at = i // of two of that name the last one counts, for JSON's readers
			}
		}
		if m.value == nil {
			if at >= 0 {
				removeMember(object, at)
			}
			continue
		}
		value, err := jsonValue(m.value)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			object.Members[at].Value.Value = value
		} else {
			appendMember(object, m.name, value)
		}
	}
	return root.Pack(), nil
}

// appendMember puts a member behind the last one and behind that one's comment, indented as the first one is.
func appendMember(object *hujson.Object, name string, value hujson.ValueTrimmed) {
	comment := strings.TrimRight(string(object.AfterExtra), " \t\r\n") // of the last member, or in the empty object
	indent, end, comma := "\n  ", "\n", hujson.Extra(nil)
	if n := len(object.Members); n > 0 {
		indent = string(object.Members[0].Name.BeforeExtra)
		if line := strings.LastIndex(indent, "\n"); line >= 0 {
			indent = indent[line:]
		} else {
			indent = " "
		}
		end, comma = string(object.AfterExtra)[len(comment):], object.Members[n-1].Value.AfterExtra
	}
	object.AfterExtra = hujson.Extra(end)
	object.Members = append(object.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(comment + indent), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value, AfterExtra: comma},
	})
}

// removeMember takes a member out; a comment before it stays.
func removeMember(object *hujson.Object, at int) {
	next := &object.AfterExtra
	if at+1 < len(object.Members) {
		next = &object.Members[at+1].Name.BeforeExtra
	}
	*next = hujson.Extra(strings.TrimRight(string(object.Members[at].Name.BeforeExtra), " \t\r\n") + string(*next))
	object.Members = slices.Delete(object.Members, at, at+1)
}

// jsonValue is a text, or a list of texts in one line, with a URL's & as it is.
func jsonValue(v any) (hujson.ValueTrimmed, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	value, err := hujson.Parse(b.Bytes())
	if list, ok := value.Value.(*hujson.Array); ok {
		for i := 1; i < len(list.Elements); i++ {
			list.Elements[i].BeforeExtra = hujson.Extra(" ")
		}
	}
	return value.Value, err
}
