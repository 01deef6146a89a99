// Package settings edits Claude Code's settings.json for `gchat-hooks install` and `uninstall`. The file is a person's:
// its order, its spacing, its comments, the keys that nobody here knows and the hooks of other programs stay as they are,
// byte for byte, and what install put in, uninstall takes out again. An entry is ours by its command and by nothing else.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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

// errOthers says that an edit would have changed what is not ours. It is a bug, found before anything was written.
var errOthers = errors.New("a bug in gchat-hooks: the edit would change what is not ours; nothing is written")

// Install returns file with these entries as the only ones of ours in it: those that are there as wanted stay where they
// are, others of ours go, missing ones come last. An empty or missing file (nil) begins as {}. before is the file as it
// was before our first entry, nil when nobody knows: it says which empty lists and objects are the person's, who gets
// them back with the last entry of ours gone. A *SyntaxError says where a file cannot be understood.
func Install(file, before []byte, entries []Entry) ([]byte, error) {
	out, err := edit(file, before, entries)
	if err != nil {
		return nil, err
	}
	if err := onlyOurs(file, out); err != nil {
		return nil, err
	}
	return out, nil
}

// onlyOurs looks once more, before a person's file is written: without ours, what an install made of it is what it was, to
// the byte. Where ours stood already, it is so but for the spacing and the empty lists around them: before may have them
// from another time. What was before is not asked, since a person may have written the file anew since.
func onlyOurs(file, out []byte) error {
	before := append([]byte{}, file...) // not nil: an empty file is known to be empty
	was, err := edit(file, before, nil)
	is, err2 := edit(out, before, nil)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("%w (%w)", errOthers, err)
	}
	if !bytes.Equal(was, is) && (!Holds(file) || !bytes.Equal(minimal(was), minimal(is))) || json.Valid(noBOM(file)) && !json.Valid(noBOM(out)) {
		return errOthers
	}
	return nil
}

// minimal is a file without spaces and comments, and without events that have no hooks.
func minimal(file []byte) []byte {
	d, err := parse(file)
	if err != nil {
		return nil
	}
	if hooks := d.hooks(); hooks != nil {
		for i := range hooks.Members {
			if null(&hooks.Members[i]) {
				hooks.Members[i].Value.Value = &hujson.Array{}
			}
			if groups, ok := hooks.Members[i].Value.Value.(*hujson.Array); ok {
				d.touched[groups] = true
			}
		}
	}
	d.tidy(nil)
	d.root.Minimize()
	return d.root.Pack()
}

// Uninstall returns file without our entries, and without the lists and objects that held nothing else, unless before, as
// in Install, has them. After an Install it is the very bytes that were there. A file of nothing but our entries becomes
// before when that was blank, else {}.
func Uninstall(file, before []byte) ([]byte, error) { return edit(file, before, nil) }

// Holds says whether file has an entry of ours; one that cannot be understood has none.
func Holds(file []byte) bool {
	d, err := parse(file)
	if err != nil {
		return false
	}
	d.strip(nil)
	return len(d.touched) > 0
}

func edit(file, before []byte, entries []Entry) ([]byte, error) {
	d, err := parse(file)
	if err != nil {
		return nil, err
	}
	missing, err := d.strip(entries), error(nil)
	s := d.style()
	for _, e := range missing {
		if err = d.add(s, e); err != nil {
			return nil, err
		}
	}
	d.tidy(original(before))
	return d.bytes(), nil
}

// original is the file before our first entry as a document; nil when it is not known.
func original(before []byte) *document {
	if before == nil {
		return nil
	}
	d, err := parse(before)
	if err != nil {
		return nil // what a damaged backup says is no worse than nothing
	}
	d.strip(nil) // somebody registered ours by hand; those are not given back
	d.tidy(nil)
	return d
}
