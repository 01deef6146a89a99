package settings

import (
	"bytes"
	"slices"

	"github.com/tailscale/hujson"
)

// A container is an object or a list with the spaces and comments between its parts. Putting a part at its end and taking
// it out again gives back the very bytes.
//
// The parser keeps them so: each part has what stands before it, and after it up to its comma; the tail is what stands
// after the last comma, or after the last part when it has none. A last part whose after is not nil has a comma.
type container struct {
	obj *hujson.Object
	arr *hujson.Array
}

func (c container) len() int {
	if c.obj != nil {
		return len(c.obj.Members)
	}
	return len(c.arr.Elements)
}

func (c container) before(i int) *hujson.Extra {
	if c.obj != nil {
		return &c.obj.Members[i].Name.BeforeExtra
	}
	return &c.arr.Elements[i].BeforeExtra
}

func (c container) after(i int) *hujson.Extra {
	if c.obj != nil {
		return &c.obj.Members[i].Value.AfterExtra
	}
	return &c.arr.Elements[i].AfterExtra
}

func (c container) tail() *hujson.Extra {
	if c.obj != nil {
		return &c.obj.AfterExtra
	}
	return &c.arr.AfterExtra
}

// oneLine says whether all of its parts stand in one line.
func (c container) oneLine() bool {
	for i := range c.len() {
		if bytes.ContainsRune(*c.before(i), '\n') || bytes.ContainsRune(*c.after(i), '\n') {
			return false
		}
	}
	return !bytes.ContainsRune(*c.tail(), '\n')
}

// An opening is how a new last part begins: in the line of the others, or on one of its own.
type opening struct {
	ownLine bool
	nl      string // end of a line
	indent  string // of its own line
	closing string // of the bracket's line
	gap     string // off the others in its line
}

// makeRoom moves what stands before a new last part out of the tail, and returns it with the new part's after. A comment
// stays with the part that it follows.
func (c container) makeRoom(o opening) (before, after hujson.Extra) {
	n := c.len()
	if n > 0 && *c.after(n - 1) != nil { // a trailing comma: the new one has it too
		after = hujson.Extra{}
	}
	comments, space := split(*c.tail())
	before = slices.Clone(comments)
	ended := bytes.HasSuffix(comments, []byte("\n")) // a line comment took the end of its line along: join gives it back
	if ended {
		space = append(hujson.Extra(o.nl), space...)
	}
	switch {
	case o.ownLine && ended:
		before = append(before, o.indent...)
	case o.ownLine:
		before = append(before, o.nl+o.indent...)
	case n > 0:
		before = append(before, o.gap...)
	}
	if *c.tail() = space; o.ownLine && n == 0 {
		*c.tail() = hujson.Extra(o.nl + o.closing)
	}
	return before, after
}

// remove takes a part out. Comments before it stay: they may be about what stands above.
func (c container) remove(i int) {
	n := c.len()
	above, _ := split(*c.before(i))
	below, _ := split(*c.after(i))
	kept := slices.Concat(above, below)
	switch {
	case i < n-1:
		next := c.before(i + 1)
		if comments, _ := split(*next); len(kept) > 0 {
			*next = join(kept, *next)
		} else if i == 0 && len(comments) == 0 {
			*next = *c.before(0)
		}
	case *c.after(i) != nil: // a trailing comma: the one before keeps its own
		*c.tail() = join(kept, *c.tail())
	case i > 0: // the one before loses its comma
		comments, _ := split(*c.after(i - 1))
		*c.tail() = join(slices.Concat(comments, kept), *c.tail())
		*c.after(i - 1) = nil
	default:
		*c.tail() = join(kept, *c.tail())
	}
	if trailing := i == n-1 && *c.after(i) != nil; trailing && i > 0 && *c.after(i - 1) == nil {
		*c.after(i - 1) = hujson.Extra{}
	}
	if c.obj != nil {
		c.obj.Members = slices.Delete(c.obj.Members, i, i+1)
	} else {
		c.arr.Elements = slices.Delete(c.arr.Elements, i, i+1)
	}
}

// split parts what stands between two values into everything up to its last comment, and the white space after that. The
// end of the line of a line comment belongs to it.
func split(e hujson.Extra) (comments, space hujson.Extra) {
	end := 0
	for i := 0; i < len(e); {
		switch {
		case bytes.HasPrefix(e[i:], []byte("//")):
			i += bytes.IndexByte(e[i:], '\n') + 1 // the parser takes no other
			end = i
		case bytes.HasPrefix(e[i:], []byte("/*")):
			i += 2 + bytes.Index(e[i+2:], []byte("*/")) + 2
			end = i
		default:
			i++
		}
	}
	return e[:end:end], e[end:]
}

// join puts comments before the rest, without an empty line where both have an end of line.
func join(comments, rest hujson.Extra) hujson.Extra {
	if bytes.HasSuffix(comments, []byte("\n")) {
		rest = bytes.TrimPrefix(bytes.TrimPrefix(rest, []byte("\r")), []byte("\n"))
	}
	return slices.Concat(comments, rest)
}
