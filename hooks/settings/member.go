package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
)

// A Member is one setting in a file of ours that a person edits, too: config.json.
type Member struct {
	Name  string
	Value any // a text, a list of texts, or More; nil takes the member out
}

// More are texts for a list beside those that are in it by then: another program may add to it at the same moment.
type More []string

// beside is the list that they make with what there is. A text is a list with commas.
func (add More) beside(there []byte) (all []string, err error) {
	var text string
	if json.Unmarshal(there, &text) == nil {
		all = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	} else if err := json.Unmarshal(there, &all); err != nil {
		return nil, err
	}
	for _, a := range add {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, nil
}

// Set gives members of an object their values, those that are not there yet at its end. Everything else stays, byte for
// byte: other members, their order, comments and spacing.
func Set(file []byte, members ...Member) ([]byte, error) {
	d, err := parse(file)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		there := member(&d.root, m.Name)
		if add, ok := m.Value.(More); ok {
			is := "null"
			if there != nil {
				is = d.plain[there.StartOffset:there.EndOffset]
			}
			if m.Value, err = add.beside([]byte(is)); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		switch {
		case m.Value == nil && there != nil:
			err = d.cut(&d.root, slices.IndexFunc(parts(&d.root), func(p part) bool { return p.value == there }))
		case m.Value == nil:
		case there == nil:
			err = d.append(&d.root, m.Name, m.Value)
		default:
			err = d.set(there, m.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return d.bytes(), nil
}

// Set changes members of the file, or makes it. Only its owner may read it then, whatever its mode was: the values may be
// secrets. changed is false where it said all of that already.
func (f File) Set(ctx context.Context, members ...Member) (changed bool, err error) {
	if info, err := os.Stat(f.Path); err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode().Perm()&0o222 != 0 {
		if err := os.Chmod(f.Path, info.Mode().Perm()&0o700); err != nil {
			return false, fmt.Errorf("protect %s: %w", f.Path, err)
		}
	}
	err = f.edit(ctx, func(old snapshot) ([]byte, error) {
		out, err := Set(old.bytes, members...)
		if err != nil {
			return nil, f.unreadable(err)
		}
		changed = old.info == nil || string(out) != string(old.bytes)
		return out, nil
	})
	return changed && err == nil, err
}
