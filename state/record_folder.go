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

// Record is embedded in every kind of record. It holds the path of the record's file, and
// what the file contained when it was read.
type Record struct {
	Path      string    `json:"-"`
	WrittenAt time.Time `json:"-"` // when the file was written
	IsChanged bool      `json:"-"` // the Update that returned it changed and wrote it

	rawMembers map[string]json.RawMessage
}

func (r *Record) record() *Record { return r }

// rawString returns a member of the file that is a string; "" where it is none.
func (r *Record) rawString(name string) (text string) {
	_ = json.Unmarshal(r.rawMembers[name], &text)
	return text
}

// anyRecord is implemented by every kind of record. check completes a record that was
// just read, or returns what is wrong with it.
type anyRecord interface {
	record() *Record
	check(written time.Time) error
}

// sharedRecord is a record whose file other programs read and write, too. forOthers adds
// what only they read to the file's members. adopt takes over what another program wrote
// into the file while this record replaced it.
type sharedRecord interface {
	forOthers(members map[string]json.RawMessage)
	adopt(file []byte, written time.Time)
}

// Folder is a folder of records of one kind, one file NAME.json each. T embeds Record.
//
// A reader sees the old bytes or the new ones, also after kill -9. Members of a file that
// this version does not know survive a rewrite. A file that does not parse is moved aside
// and reported as *CorruptFileError; with KeepsDamaged, for folders where other programs
// keep files, too, it is left alone.
type Folder[T any] struct {
	Dir          string
	KeepsDamaged bool
	durability   durability // of the writes of Update
	// initRecord fills in a new record. Where it is set, Update creates a record that is
	// missing or was moved aside
	initRecord func(*T)
}

// maxRecordSize is how much of a record's file is read, in bytes.
const maxRecordSize = 64 << 20

// errBeingWritten means that another program, which does not rename its files into place,
// is writing the record.
var errBeingWritten = errors.New("it is being written")

// writeGrace is how old an incomplete file may be before it counts as damaged.
const writeGrace = 5 * time.Second

func (f Folder[T]) path(name string) string { return filepath.Join(f.Dir, name+".json") }

// RecordName returns a record's name by its file.
func RecordName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

// Create writes a new record, and returns fs.ErrExist where one has that name. If record
// is a copy of one that was read, members that were emptied since stay empty.
func (f Folder[T]) Create(name string, record *T) error {
	any(record).(anyRecord).record().rawMembers = nil
	if err := durable.write(f.path(name), encode(any(record).(anyRecord), nil), true); err != nil {
		return err
	}
	any(record).(anyRecord).record().Path = f.path(name)
	return nil
}

// Load reads a record. The error is fs.ErrNotExist where there is none, *CorruptFileError
// where it does not parse, or errBeingWritten where it may parse soon.
func (f Folder[T]) Load(name string) (*T, error) { return f.loadUnless(nil, name, &bytes.Buffer{}) }

// SkipFunc reports whether the caller does not want a record, by its name and the bytes
// of its file, which are nil where it cannot be read. Such a record is not parsed.
type SkipFunc func(name string, file []byte) bool

// loadUnless is Load, but returns nil and no error for a record to skip. It reads the
// file into buf. One buffer serves many files, since a waiting hook keeps the memory that
// it used.
func (f Folder[T]) loadUnless(skip SkipFunc, name string, buf *bytes.Buffer) (*T, error) {
	path := f.path(name)
	b, written, err := readPlainInto(path, maxRecordSize, buf)
	if err != nil { // do not judge by a part of the file
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
	isCutOff := errors.Is(rest, io.EOF) || errors.Is(rest, io.ErrUnexpectedEOF)
	switch {
	case isCutOff && time.Since(written).Abs() < writeGrace:
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), errBeingWritten)
	case f.KeepsDamaged || filepath.Base(f.Dir) == markerFolder:
		return nil, &CorruptFileError{Path: path, Err: err}
	}
	return nil, moveAside(path, err)
}

// Update is the only function that changes a record on disk. Under the record's lock it
// reads the record, calls change, and writes the record if it changed. An error of change
// leaves the file as it is. Update returns the record as it is then.
func (f Folder[T]) Update(name string, change func(*T) error) (*T, error) {
	lock, err := LockWithTimeout(f.lockPath(name))
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	return f.updateLocked(name, change)
}

// updateLocked is Update, for a caller that holds the record's lock.
func (f Folder[T]) updateLocked(name string, change func(*T) error) (*T, error) {
	fileRead := bytes.Buffer{}
	record, err := f.loadWritten(name, &fileRead)
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
	path := f.path(name)
	r.record().Path, r.record().IsChanged = path, true
	_, isShared := r.(sharedRecord)
	if !isShared {
		return record, f.durability.write(path, encode(r, before), false)
	}
	theirs, err := f.durability.replace(path, encode(r, before), fileRead.Bytes())
	if err != nil || theirs == nil {
		return record, err
	}
	merged, err := f.updateLocked(name, func(merged *T) error {
		any(merged).(sharedRecord).adopt(theirs, time.Now())
		return nil
	})
	if err != nil {
		return record, err
	}
	any(merged).(anyRecord).record().IsChanged = true
	return merged, nil
}

// loadWritten is Load, but waits a moment for another program that is writing the record.
// It reads the file into buf.
func (f Folder[T]) loadWritten(name string, buf *bytes.Buffer) (*T, error) {
	for deadline := time.Now().Add(foreignWriteTime); ; time.Sleep(foreignWritePause) {
		record, err := f.loadUnless(nil, name, buf)
		if !errors.Is(err, errBeingWritten) || time.Now().After(deadline) {
			return record, err
		}
	}
}

// Another program takes no lock. It may open the record's file before the file is
// replaced, and write into it afterwards.
const (
	foreignWriteTime  = 100 * time.Millisecond // from the program's open to its last write
	foreignWritePause = time.Millisecond       // between two looks at what it writes
)

// replace writes a record's file that other programs write, too. read is what the file
// contained when the record was read. If another program changed the file since, theirs
// is its content.
func (d durability) replace(path string, b, read []byte) (theirs []byte, err error) {
	tmp, err := d.prepare(path, b)
	if err != nil {
		return nil, err
	}
	replaced, _, openErr := OpenPlain(path, os.O_RDONLY)
	if openErr == nil {
		defer replaced.Close()
	}
	if err := d.install(tmp, path, false); err != nil || openErr != nil {
		return nil, err
	}
	for deadline := time.Now().Add(foreignWriteTime); ; time.Sleep(foreignWritePause) {
		theirs, err = io.ReadAll(io.NewSectionReader(replaced, 0, maxRecordSize))
		switch {
		case err != nil, bytes.Equal(theirs, read):
			return nil, nil
		case json.Valid(theirs):
			return theirs, nil
		case time.Now().After(deadline):
			return nil, nil
		}
	}
}

// Change is Update with a change that cannot fail.
func (f Folder[T]) Change(name string, change func(*T)) (*T, error) {
	return f.Update(name, func(record *T) error {
		change(record)
		return nil
	})
}

func (f Folder[T]) lockPath(name string) string { return filepath.Join(f.Dir, ".locks", name) }

// Names returns the names of the records, sorted.
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

// All reads every record, sorted by name. The errors of records that cannot be read are
// returned in bad.
func (f Folder[T]) All() (all []*T, bad []error) {
	all, bad, _ = f.allUnless(nil)
	return all, bad
}

// allUnless is All without the records to skip. unlisted is the error of listing the
// folder; it is in bad, too.
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

// Remove removes a record and its lock; it is no error where there is none. It waits for
// an Update under way, which would otherwise write the record again.
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

// RemoveTemporaryFiles removes temporary files older than an hour from a folder:
// processes that were killed while they wrote left them.
func RemoveTemporaryFiles(dir string) {
	for _, name := range folderEntries(dir) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		isFile := err == nil && info.Mode().IsRegular()
		if isFile && strings.HasPrefix(name, ".new-") && time.Since(info.ModTime()) > time.Hour {
			os.Remove(path)
		}
	}
}

// Cache keeps records that were read, and rereads those whose files changed. It is not
// safe for concurrent use. Calls share the records, which must not be changed.
type Cache[T any] struct {
	ShouldSkip SkipFunc // nil to skip none; Load returns nil for a skipped record

	entries map[string]*cacheEntry[T]
	round   int // the number of calls of ForgetUnused
}

type cacheEntry[T any] struct {
	info      os.FileInfo
	record    *T
	lastRound int // the round in which it was last loaded
}

// Load is Folder.Load by the record's path; leaveAlone is the folder's KeepsDamaged. It
// returns the error of a damaged file once, and then nil and nil.
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
		return nil, nil // the file changes again when its writer is done
	}
	if err == nil || errors.As(err, new(*CorruptFileError)) {
		// other errors are not cached
		c.entries[path] = &cacheEntry[T]{info, record, c.round}
	}
	return record, err
}

// Has reports whether the record at path was read or found damaged.
func (c *Cache[T]) Has(path string) bool { return c.entries[path] != nil }

// IsSameVersion reports whether a record's file is unchanged between two looks. A rewrite
// renames a new file over the old one, so the inode differs even within one tick of the
// clock. If a second rewrite in the same tick gets the first inode again, usually the
// size differs.
func IsSameVersion(before, after os.FileInfo) bool {
	return before != nil && after != nil && os.SameFile(before, after) &&
		before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// ForgetUnused removes the records from the cache that were not loaded since its last
// call.
func (c *Cache[T]) ForgetUnused() {
	maps.DeleteFunc(c.entries, func(_ string, entry *cacheEntry[T]) bool {
		return entry.lastRound != c.round
	})
	c.round++
}

func decode(b []byte, rec any, written time.Time) error {
	if err := json.Unmarshal(b, rec); err != nil {
		return err
	}
	r := rec.(anyRecord)
	if r.record().rawMembers == nil { // Question.UnmarshalJSON may have set it
		if err := json.Unmarshal(b, &r.record().rawMembers); err != nil {
			return err
		}
	}
	return r.check(written)
}

// encode returns the JSON of a record; before holds its members as they were when it was
// read. A member that did not change keeps its bytes, so that unknown members within it
// survive, too.
func encode(rec anyRecord, before map[string]json.RawMessage) []byte {
	file := recordMembers(rec)
	for name, bytesRead := range rec.record().rawMembers {
		if bytes.Equal(file[name], before[name]) {
			file[name] = bytesRead
		}
	}
	if shared, ok := rec.(sharedRecord); ok {
		shared.forOthers(file)
	}
	b, _ := json.Marshal(file)
	return append(b, '\n')
}

// recordMembers returns a record's members by their JSON names, without empty ones that
// are tagged to be omitted.
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
			// marshalling cannot fail: a record holds texts, numbers, times of our days,
			// and JSON that was read
			all[name] = b
		}
	}
	return all
}

// pythonTimeLayout formats a time so that datetime.fromisoformat reads it in every
// version of Python: before 3.11 it accepts only three or six digits of a second, and a
// zone only in numbers.
const pythonTimeLayout = "2006-01-02T15:04:05.000-07:00"

// jsonTime is a time that other programs read in JSON.
type jsonTime time.Time

func (t jsonTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(pythonTimeLayout))
}
