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

// Record is embedded in every kind of record: where its file is, and what the file held
// when it was read.
type Record struct {
	Path      string    `json:"-"`
	WrittenAt time.Time `json:"-"` // when the file was
	IsChanged bool      `json:"-"` // by the Update that returned it, which then wrote it

	rawMembers map[string]json.RawMessage
}

func (r *Record) record() *Record { return r }

// rawString is a member of the file that is a string; "" where it is none.
func (r *Record) rawString(name string) (text string) {
	_ = json.Unmarshal(r.rawMembers[name], &text)
	return text
}

// anyRecord is what every kind of record is. check completes a record that was just read,
// and says what is wrong with it.
type anyRecord interface {
	record() *Record
	check(written time.Time) error
}

// Folder is a folder of records of one kind, one file NAME.json each. T embeds Record.
//
// A reader sees the old bytes or the new ones, also after kill -9. Members of a file that
// this version does not know survive a rewrite. A file that does not parse is moved aside
// and reported as *Corrupt; in a folder where other programs keep files, too, it is left
// alone.
type Folder[T any] struct {
	Dir          string
	KeepsDamaged bool
	durability   durability // of Update
	// Update begins a record where there is none, also in place of one that was moved
	// aside
	initRecord func(*T)
}

// maxRecordSize bounds what is read of a record's file, in bytes.
const maxRecordSize = 64 << 20

// errBeingWritten says that another program, which does not rename its files into place,
// is writing a record.
var errBeingWritten = errors.New("it is being written")

// writeGrace is how old an unfinished file can be before it counts as broken.
const writeGrace = 5 * time.Second

func (f Folder[T]) path(name string) string { return filepath.Join(f.Dir, name+".json") }

// RecordName is a record's name by its file.
func RecordName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

// Create writes a new record; fs.ErrExist when one has that name. A copy of one that was
// read is as new as any: what was emptied in it since does not come back.
func (f Folder[T]) Create(name string, record *T) error {
	any(record).(anyRecord).record().rawMembers = nil
	if err := durable.write(f.path(name), encode(any(record).(anyRecord), nil), true); err != nil {
		return err
	}
	any(record).(anyRecord).record().Path = f.path(name)
	return nil
}

// Load reads a record: fs.ErrNotExist when there is none, *Corrupt when it does not
// parse, errBeingWritten when it does not yet.
func (f Folder[T]) Load(name string) (*T, error) { return f.loadUnless(nil, name, &bytes.Buffer{}) }

// SkipFunc says of a record's file, which is nil where it cannot be read, that nothing of
// it is wanted: it is not parsed.
type SkipFunc func(name string, file []byte) bool

// loadUnless is Load, and nil for what is not wanted. The file is read into buf: one for
// many files, since hooks that wait keep what they used.
func (f Folder[T]) loadUnless(skip SkipFunc, name string, buf *bytes.Buffer) (*T, error) {
	path := f.path(name)
	b, written, err := readPlainInto(path, maxRecordSize, buf)
	if err != nil { // a part of it says nothing
		b = nil
	}
	switch {
	case skip != nil && skip(name, b):
		return nil, nil
	case errors.Is(err, errNotPlain):
		return nil, &CorruptFileError{Path: path, Err: err}
	case IsMissing(err):
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	record := new(T)
	err = decode(b, record, written)
	if err == nil {
		r := any(record).(anyRecord).record()
		r.Path, r.WrittenAt = path, written
		return record, nil
	}
	rest := json.NewDecoder(bytes.NewReader(b)).Decode(new(json.RawMessage))
	switch {
	case time.Since(written).Abs() < writeGrace && (errors.Is(rest, io.EOF) || errors.Is(rest, io.ErrUnexpectedEOF)):
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), errBeingWritten)
	case f.KeepsDamaged || filepath.Base(f.Dir) == markerFolder:
		return nil, &CorruptFileError{Path: path, Err: err}
	}
	return nil, moveAside(path, err)
}

// Update is the only way a record on disk changes: under its lock it is read afresh,
// handed to change, and written where that changed it. An error of change leaves the file
// as it was. The record is returned as it then stands.
func (f Folder[T]) Update(name string, change func(*T) error) (*T, error) {
	lock, err := LockWithTimeout(f.lockPath(name))
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	record, err := f.Load(name)
	var corrupt *CorruptFileError
	isGone := errors.Is(err, fs.ErrNotExist) || errors.As(err, &corrupt) && corrupt.MovedTo != ""
	if isGone && f.initRecord != nil {
		record, err = new(T), nil
		f.initRecord(record)
	}
	if err != nil {
		return nil, err
	}
	r := any(record).(anyRecord)
	before := recordMembers(r)
	err = change(record)
	if err != nil || reflect.DeepEqual(before, recordMembers(r)) {
		return record, err
	}
	r.record().Path, r.record().IsChanged = f.path(name), true
	return record, f.durability.write(f.path(name), encode(r, before), false)
}

// Change is Update with a change that cannot fail.
func (f Folder[T]) Change(name string, change func(*T)) (*T, error) {
	return f.Update(name, func(record *T) error {
		change(record)
		return nil
	})
}

func (f Folder[T]) lockPath(name string) string { return filepath.Join(f.Dir, ".locks", name) }

// Names are the records' names, sorted.
func (f Folder[T]) Names() ([]string, error) {
	if checkNoLink(f.Dir) != nil {
		return nil, nil
	}
	entries, err := os.ReadDir(f.Dir)
	if IsMissing(err) {
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
	all, bad, _ = f.allUnless(nil)
	return all, bad
}

// allUnless is All without what is not wanted. unlisted is why the folder cannot be
// listed; it is in bad, too.
func (f Folder[T]) allUnless(skip SkipFunc) (all []*T, bad []error, unlisted error) {
	names, err := f.Names()
	if err != nil {
		return nil, []error{err}, err
	}
	buf := bytes.Buffer{}
	for _, name := range names {
		record, err := f.loadUnless(skip, name, &buf)
		switch {
		case record != nil:
			all = append(all, record)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBeingWritten):
			bad = append(bad, err)
		}
	}
	return all, bad, nil
}

// Remove takes a record away, with its lock. A record that is not there is no error. An
// Update that is under way ends first: it would write the record anew.
func (f Folder[T]) Remove(name string) error {
	lock, err := LockWithTimeout(f.lockPath(name))
	if err != nil {
		return err
	}
	defer lock.Unlock()
	err = os.Remove(f.path(name))
	os.Remove(f.lockPath(name))
	if err != nil && !IsMissing(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// RemoveTemporaryFiles removes what processes left in a folder that were killed while
// they wrote a file.
func RemoveTemporaryFiles(dir string) {
	for _, name := range folderEntries(dir) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if strings.HasPrefix(name, ".new-") && err == nil && info.Mode().IsRegular() &&
			time.Since(info.ModTime()) > time.Hour {
			os.Remove(path)
		}
	}
}

// Cache keeps records that were read, and reads those again whose files changed. It is
// for one reader; the records are shared between calls and must not be changed.
type Cache[T any] struct {
	ShouldSkip SkipFunc // nil: all are wanted. Load has nil for the others

	entries map[string]*cacheEntry[T]
	round   int // which Tidy ends
}

type cacheEntry[T any] struct {
	info      os.FileInfo
	record    *T
	lastRound int // the last round that it was loaded in
}

// Load is Folder.Load, for the record's path; leaveAlone is the folder's. That a file is
// damaged is returned with the first call only, then nil and nil.
func (c *Cache[T]) Load(path string, leaveAlone bool) (*T, error) {
	if c.entries == nil {
		c.entries = map[string]*cacheEntry[T]{}
	}
	info, err := os.Lstat(path)
	if err != nil {
		delete(c.entries, path)
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if entry := c.entries[path]; entry != nil && IsSameVersion(entry.info, info) {
		entry.lastRound = c.round
		return entry.record, nil
	}
	folder := Folder[T]{Dir: filepath.Dir(path), KeepsDamaged: leaveAlone}
	record, err := folder.loadUnless(c.ShouldSkip, RecordName(path), &bytes.Buffer{})
	if errors.Is(err, errBeingWritten) {
		return nil, nil // the end of the writing is a change, too
	}
	if err == nil || errors.As(err, new(*CorruptFileError)) {
		// what failed otherwise is tried again
		c.entries[path] = &cacheEntry[T]{info, record, c.round}
	}
	return record, err
}

// Has reports whether the record at path was read, or found damaged.
func (c *Cache[T]) Has(path string) bool { return c.entries[path] != nil }

// IsSameVersion says whether a record's file did not change from one look to the next. A
// rewrite is a new file renamed over the old one, so the inode tells even within one
// clock tick; of two rewrites in one tick, where the second gets the first one's inode
// again, mostly the size.
func IsSameVersion(before, after os.FileInfo) bool {
	return before != nil && after != nil && os.SameFile(before, after) &&
		before.Size() == after.Size() &&
		before.ModTime().Equal(after.ModTime())
}

// ForgetUnused forgets the records that were not loaded since the last Tidy.
func (c *Cache[T]) ForgetUnused() {
	maps.DeleteFunc(
		c.entries,
		func(_ string, entry *cacheEntry[T]) bool { return entry.lastRound != c.round },
	)
	c.round++
}

func decode(b []byte, rec any, written time.Time) error {
	if err := json.Unmarshal(b, rec); err != nil {
		return err
	}
	r := rec.(anyRecord)
	if r.record().rawMembers == nil { // a Question has read it
		if err := json.Unmarshal(b, &r.record().rawMembers); err != nil {
			return err
		}
	}
	return r.check(written)
}

// encode writes a record whose members were these when it was read. A member that did not
// change keeps the bytes it was read with: unknown members survive, those inside of it,
// too.
func encode(rec anyRecord, before map[string]json.RawMessage) []byte {
	file := recordMembers(rec)
	for name, bytesRead := range rec.record().rawMembers {
		if bytes.Equal(file[name], before[name]) {
			file[name] = bytesRead
		}
	}
	if completer, ok := rec.(interface {
		forOthers(map[string]json.RawMessage)
	}); ok {
		completer.forOthers(file)
	}
	b, _ := json.Marshal(file) // of JSON
	return append(b, '\n')
}

// recordMembers are a record's members, as its struct tags name them. Those that may be
// left out are, where they are empty.
func recordMembers(rec anyRecord) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	v := reflect.ValueOf(rec).Elem()
	for i := range v.NumField() {
		name, omit, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		isEmpty := field.IsZero() ||
			(field.Kind() == reflect.Map || field.Kind() == reflect.Slice) && field.Len() == 0
		if name == "" || name == "-" || isEmpty && omit != "" {
			continue
		}
		value := field.Interface()
		switch t := value.(type) {
		case time.Time:
			value = jsonTime(t)
		case *time.Time:
			value = (*jsonTime)(t)
		}
		if b, err := json.Marshal(value); err == nil {
			// a record has texts, numbers, times of our days, and JSON that was read
			all[name] = b
		}
	}
	return all
}

// pythonTimeLayout is a time as datetime.fromisoformat reads it in every Python: before
// 3.11 it takes three or six digits of a second, and a zone only in numbers.
const pythonTimeLayout = "2006-01-02T15:04:05.000-07:00"

// jsonTime is a time in JSON that other programs read.
type jsonTime time.Time

func (t jsonTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(pythonTimeLayout))
}
