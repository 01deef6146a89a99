package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"
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
	s := d.style()
	for _, m := range members {
		in := frame{container{obj: d.object()}, "", s.compact}
		at := -1
		for i := range in.obj.Members {
			if nameOf(&in.obj.Members[i]) == m.Name {
				at = i // of two of that name the last one counts, for JSON's readers
			}
		}
		if add, ok := m.Value.(More); ok {
			there := hujson.Value{Value: hujson.Literal("null")}
			if at >= 0 {
				there = in.obj.Members[at].Value.Clone()
			}
			there.Standardize()
			all, err := add.beside(there.Pack())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			m.Value = all
		}
		switch {
		case m.Value == nil && at >= 0:
			in.remove(at)
		case m.Value == nil:
		case at < 0:
			s.append(in, m.Name, m.Value)
		default:
			v, err := hujson.Parse([]byte(s.text(m.Value, "", true)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			in.obj.Members[at].Value.Value = v.Value
		}
	}
	return d.bytes(), nil
}

// Set changes members of the file, or makes it. Whatever it was before, nobody but its owner may read it then: the values
// may be secrets. changed is false where it said all of that already.
func (f File) Set(ctx context.Context, members ...Member) (changed bool, err error) {
	unlock, err := f.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	for range tries {
		old, err := f.read()
		if err != nil {
			return false, err
		}
		if old.info != nil && old.info.Mode().Perm()&0o077 != 0 && old.writable() == nil {
			if err := os.Chmod(old.path, old.info.Mode().Perm()&0o700); err != nil {
				return false, fmt.Errorf("protect %s: %w", old.path, err)
			}
			continue
		}
		out, err := Set(old.bytes, members...)
		if err != nil {
			return false, fmt.Errorf("%s: %w", old.path, err)
		}
		if old.info != nil && string(out) == string(old.bytes) {
			return false, nil
		}
		if err := old.writable(); err != nil {
			return false, err
		}
		if done, err := f.write(old, out); err != nil || done {
			return done, err
		}
	}
	return false, fmt.Errorf("%s: another program keeps writing it; try again", f.Path)
}

// PutBack gives a file that Set changed its bytes and its mode of before. One that is gone by now stays away.
func (f File) PutBack(ctx context.Context, b []byte, mode os.FileMode) error {
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for range tries {
		old, err := f.read()
		if err != nil || old.info == nil {
			return err
		}
		if string(old.bytes) != string(b) {
			if err := old.writable(); err != nil {
				return err
			}
			if done, err := f.write(old, b); err != nil {
				return err
			} else if !done {
				continue
			}
		}
		if old.info.Mode().Perm() == mode {
			return nil
		}
		if err := os.Chmod(old.path, mode); err != nil {
			return fmt.Errorf("put %s back: %w", old.path, err)
		}
		return nil
	}
	return fmt.Errorf("%s: another program keeps writing it; try again", f.Path)
}

// Holds says whether the file has an entry of ours.
func (f File) Holds() (bool, error) {
	s, err := f.read()
	return err == nil && Holds(s.bytes), err
}

// Forget removes the copies that installs left beside the file.
func (f File) Forget() error { return f.forget(beforeSuffix, lastSuffix, madeSuffix) }

// Copies are those copies.
func (f File) Copies() (paths []string) {
	for _, suffix := range []string{beforeSuffix, lastSuffix, madeSuffix} {
		if _, err := os.Lstat(f.Path + suffix); err == nil {
			paths = append(paths, f.Path+suffix)
		}
	}
	return paths
}
