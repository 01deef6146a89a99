package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"
)

// Record is embedded in every kind of record: where its file is, and what the file held when it was read.
type Record struct {
	Path    string    `json:"-"`
	Written time.Time `json:"-"` // when the file was
	Changed bool      `json:"-"` // by the Update that returned it, which then wrote it

	raw map[string]json.RawMessage
}

func (r *Record) record() *Record { return r }

// rawText is a member of the file that is a string; "" where it is none.
func (r *Record) rawText(name string) (text string) {
	_ = json.Unmarshal(r.raw[name], &text)
	return text
}

// recorded is what every kind of record is. check completes a record that was just read, and says what is wrong with it.
type recorded interface {
	record() *Record
	check(written time.Time) error
}

// Folder is a folder of records of one kind, one file NAME.json each. T embeds Record.
//
// A reader sees the old bytes or the new ones, also after kill -9. Members of a file that this version does not know survive
// a rewrite. A file that does not parse is moved aside and reported as *Corrupt; in a folder where other programs keep files,
// too, it is left alone.
type Folder[T any] struct {
	Dir        string
	LeaveAlone bool
	writes     durability // of Update
	begins     func(*T)   // Update begins a record where there is none, also in place of one that was moved aside
}

// maxRecord bounds what is read of a record's file, in bytes.
const maxRecord = 64 << 20

// ErrBeingWritten says that another program, which does not rename its files into place, is writing a record.
var ErrBeingWritten = errors.New("it is being written")

// beingWritten is how old an unfinished file can be before it counts as broken.
const beingWritten = 5 * time.Second

func (f Folder[T]) path(name string) string { return filepath.Join(f.Dir, name+".json") }

// NameOf is a record's name by its file.
func NameOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

// Create writes a new record; fs.ErrExist when one has that name. A copy of one that was read is as new as any: what was emptied
// in it since does not come back.
func (f Folder[T]) Create(name string, rec *T) error {
	any(rec).(recorded).record().raw = nil
	if err := durable.write(f.path(name), encode(any(rec).(recorded), nil), true); err != nil {
		return err
	}
	any(rec).(recorded).record().Path = f.path(name)
	return nil
}

// Load reads a record: fs.ErrNotExist when there is none, *Corrupt when it does not parse, ErrBeingWritten when it does not
// yet.
func (f Folder[T]) Load(name string) (*T, error) { return f.loadBut(nil, name, &bytes.Buffer{}) }

// Skip says of a record's file, which is nil where it cannot be read, that nothing of it is wanted: it is not parsed.
type Skip func(name string, file []byte) bool

// loadBut is Load, and nil for what is not wanted. The file is read into buf: one for many files, since hooks that wait keep what
// they used.
func (f Folder[T]) loadBut(skip Skip, name string, buf *bytes.Buffer) (*T, error) {
	path := f.path(name)
	b, written, err := readPlain(path, maxRecord, buf)
	if err != nil { // a part of it says nothing
		b = nil
	}
	switch {
	case skip != nil && skip(name, b):
		return nil, nil
	case errors.Is(err, ErrNotPlain):
		return nil, &Corrupt{Path: path, Err: err}
	case Missing(err):
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	rec := new(T)
	err = decode(b, rec, written)
	if err == nil {
		r := any(rec).(recorded).record()
		r.Path, r.Written = path, written
		return rec, nil
	}
	end := json.NewDecoder(bytes.NewReader(b)).Decode(new(json.RawMessage))
	switch {
	case time.Since(written).Abs() < beingWritten && (errors.Is(end, io.EOF) || errors.Is(end, io.ErrUnexpectedEOF)):
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), ErrBeingWritten)
	case f.LeaveAlone || filepath.Base(f.Dir) == markerFolder:
		return nil, &Corrupt{Path: path, Err: err}
	}
	return nil, setAside(path, err)
}

// Update is the only way a record on disk changes: under its lock it is read afresh, handed to change, and written where that
// changed it. An error of change leaves the file as it was. The record is returned as it then stands.
func (f Folder[T]) Update(name string, change func(*T) error) (*T, error) {
	lock, err := LockSoon(f.lockPath(name))
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	rec, err := f.Load(name)
	var corrupt *Corrupt
	gone := errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) && corrupt.Aside != ""
	if gone && f.begins != nil {
		rec, err = new(T), nil
		f.begins(rec)
	}
	if err != nil {
		return nil, err
	}
	r := any(rec).(recorded)
	was := membersOf(r)
	err = change(rec)
	if err != nil || reflect.DeepEqual(was, membersOf(r)) {
		return rec, err
	}
	r.record().Path, r.record().Changed = f.path(name), true
	return rec, f.writes.write(f.path(name), encode(r, was), false)
}

// Change is Update with a change that cannot fail.
func (f Folder[T]) Change(name string, change func(*T)) (*T, error) {
	return f.Update(name, func(rec *T) error {
		change(rec)
		return nil
	})
}

func (f Folder[T]) lockPath(name string) string { return filepath.Join(f.Dir, ".locks", name) }

// Names are the records' names, sorted.
func (f Folder[T]) Names() ([]string, error) {
	if noLink(f.Dir) != nil {
		return nil, nil
	}
	entries, err := os.ReadDir(f.Dir)
	if Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filepath.Base(f.Dir), err)
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// All reads every record, by name. What cannot be read is returned in bad.
func (f Folder[T]) All() (all []*T, bad []error) {
	all, bad, _ = f.allBut(nil)
	return all, bad
}

// allBut is All without what is not wanted. unlisted is why the folder cannot be listed; it is in bad, too.
func (f Folder[T]) allBut(skip Skip) (all []*T, bad []error, unlisted error) {
	names, err := f.Names()
	if err != nil {
		return nil, []error{err}, err
	}
	buf := bytes.Buffer{}
	for _, name := range names {
		rec, err := f.loadBut(skip, name, &buf)
		switch {
		case rec != nil:
			all = append(all, rec)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrBeingWritten):
			bad = append(bad, err)
		}
	}
	return all, bad, nil
}

// Remove takes a record away, with its lock. A record that is not there is no error. An Update that is under way ends first: it
// would write the record anew.
func (f Folder[T]) Remove(name string) error {
	lock, err := LockSoon(f.lockPath(name))
	if err != nil {
		return err
	}
	defer lock.Unlock()
	err = os.Remove(f.path(name))
	os.Remove(f.lockPath(name))
	if err != nil && !Missing(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// SweepTemporary removes what processes left in a folder that were killed while they wrote a file.
func SweepTemporary(dir string) {
	for _, name := range namesIn(dir) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if strings.HasPrefix(name, ".new-") && err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > time.Hour {
			os.Remove(path)
		}
	}
}

// Cache keeps records that were read, and reads those again whose files changed. It is for one reader; the records are
// shared between calls and must not be changed.
type Cache[T any] struct {
	Skip Skip // nil: all are wanted. Load has nil for the others

	read  map[string]*cached[T]
	round int // which Tidy ends
}

type cached[T any] struct {
	info os.FileInfo
	rec  *T
	used int // the last round that it was loaded in
}

// Load is Folder.Load, for the record's path; leaveAlone is the folder's. That a file is damaged is returned with the first call
// only, then nil and nil.
func (c *Cache[T]) Load(path string, leaveAlone bool) (*T, error) {
	if c.read == nil {
		c.read = map[string]*cached[T]{}
	}
	info, err := os.Lstat(path)
	if err != nil {
		delete(c.read, path)
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if was := c.read[path]; was != nil && SameVersion(was.info, info) {
		was.used = c.round
		return was.rec, nil
	}
	folder := Folder[T]{Dir: filepath.Dir(path), LeaveAlone: leaveAlone}
	rec, err := folder.loadBut(c.Skip, NameOf(path), &bytes.Buffer{})
	if errors.Is(err, ErrBeingWritten) {
		return nil, nil // the end of the writing is a change, too
	}
	if err == nil || errors.As(err, new(*Corrupt)) { // what failed otherwise is tried again
		c.read[path] = &cached[T]{info, rec, c.round}
	}
	return rec, err
}

// Has reports whether the record at path was read, or found damaged.
func (c *Cache[T]) Has(path string) bool { return c.read[path] != nil }

// SameVersion says whether a record's file did not change from one look to the next. A rewrite is a new file renamed over the old
// one, so the inode tells even within one clock tick; of two rewrites in one tick, where the second gets the first one's inode
// again, mostly the size.
func SameVersion(was, is os.FileInfo) bool {
	return was != nil && is != nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// Tidy forgets the records that were not loaded since the last Tidy.
func (c *Cache[T]) Tidy() {
	maps.DeleteFunc(c.read, func(_ string, one *cached[T]) bool { return one.used != c.round })
	c.round++
}

func decode(b []byte, rec any, written time.Time) error {
	if err := json.Unmarshal(b, rec); err != nil {
		return err
	}
	r := rec.(recorded)
	if r.record().raw == nil { // a Question has read it
		if err := json.Unmarshal(b, &r.record().raw); err != nil {
			return err
		}
	}
	return r.check(written)
}

// encode writes a record whose members were these when it was read. A member that did not change keeps the bytes it was read
// with: unknown members survive, those inside of it, too.
func encode(rec recorded, was map[string]json.RawMessage) []byte {
	file := membersOf(rec)
	for name, had := range rec.record().raw {
		if bytes.Equal(file[name], was[name]) {
			file[name] = had
		}
	}
	if also, ok := rec.(interface {
		forOthers(map[string]json.RawMessage)
	}); ok {
		also.forOthers(file)
	}
	b, _ := json.Marshal(file) // of JSON
	return append(b, '\n')
}

// membersOf are a record's members, as its struct tags name them. Those that may be left out are, where they are empty.
func membersOf(rec recorded) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	v := reflect.ValueOf(rec).Elem()
	for i := range v.NumField() {
		name, mayLack, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		empty := field.IsZero() || (field.Kind() == reflect.Map || field.Kind() == reflect.Slice) && field.Len() == 0
		if name == "" || name == "-" || empty && mayLack != "" {
			continue
		}
		value := field.Interface()
		switch t := value.(type) {
		case time.Time:
			value = JSONTime(t)
		case *time.Time:
			value = (*JSONTime)(t)
		}
		if b, err := json.Marshal(value); err == nil { // a record has texts, numbers, times of our days, and JSON that was read
			all[name] = b
		}
	}
	return all
}

// pythonTime is a time as datetime.fromisoformat reads it in every Python: before 3.11 it takes three or six digits of a
// second, and a zone only in numbers.
const pythonTime = "2006-01-02T15:04:05.000-07:00"

// JSONTime is a time in JSON that other programs read.
type JSONTime time.Time

func (t JSONTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(pythonTime))
}
