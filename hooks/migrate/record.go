package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
)

// Where a migration is written down: one numbered folder for each Apply, with the very bytes that were there before, and
// those that came after, so that a killed Apply can go on without looking at the half-changed harness.
const (
	recordsDir = ".claude/state/gchat-migrate"
	// staging becomes a record by a rename; before that nothing in the harness was touched, after it nothing is unknown.
	staging     = ".claude/.gchat-migrate-new"
	recordFile  = "record.json"
	recordBound = 64 << 20 // bytes of one file that is read
)

// errBusy says that another process migrates the same folder.
var errBusy = errors.New("another migration of this folder is under way")

// The phases of a record. A refused one has only those steps left that Revert could not take back.
const (
	applying  = "applying"
	applied   = "applied"
	reverting = "reverting"
	refused   = "refused"
)

// record is what Apply does, in this order, and Revert undoes from the end.
type record struct {
	Version int      `json:"version"`
	Phase   string   `json:"phase"`
	Made    []string `json:"made_folders"` // to be removed again, the deepest first
	Steps   []step   `json:"steps"`

	dir string
}

// step is one change: "write" other bytes, "create" a file, "remove" one, "move" a folder.
type step struct {
	Do     string            `json:"do"`
	Path   string            `json:"path"`
	To     string            `json:"to,omitempty"`
	Mode   os.FileMode       `json:"mode,omitempty"`
	Before string            `json:"before,omitempty"` // SHA-256; "" is no file
	After  string            `json:"after,omitempty"`
	Bytes  int               `json:"bytes,omitempty"` // the names of the bytes in before and after
	Files  map[string]string `json:"files,omitempty"` // of a folder that moves
}

// newRecord writes a plan down. Files come into being first and go last, so that a program of the harness that runs
// meanwhile finds what it imports under one of its names.
func newRecord(d *disk, p *Plan) (*record, error) {
	rec := &record{Version: 1, Phase: applying, dir: staging}
	var bytes [][2][]byte
	var creates, writes, moves, removes []step
	for _, c := range p.Changes {
		switch {
		case c.Folder:
			files, err := d.sums(c.Path)
			if err != nil {
				return nil, err
			}
			moves = append(moves, step{Do: "move", Path: c.Path, To: c.To, Files: files})
			rec.willMake(d, path.Dir(c.To))
			continue
		case c.To != "":
			bytes = append(bytes, [2][]byte{nil, c.after}, [2][]byte{c.before, nil})
			creates = append(creates, step{Do: "create", Path: c.To, Mode: c.mode, After: sum(c.after), Bytes: len(bytes) - 1})
			removes = append(removes, step{Do: "remove", Path: c.Path, Mode: c.mode, Before: sum(c.before), Bytes: len(bytes)})
		default:
			if info, err := d.root.Lstat(c.Path); err == nil {
				c.mode = info.Mode().Perm() // who changed it since the plan was made, changed no word of it
			}
			bytes = append(bytes, [2][]byte{c.before, c.after})
			writes = append(writes, step{Do: "write", Path: c.Path, Mode: c.mode, Before: sum(c.before), After: sum(c.after), Bytes: len(bytes)})
		}
	}
	rec.Steps = slices.Concat(creates, writes, moves, removes)
	rec.willMake(d, recordsDir)
	rec.willMake(d, path.Dir(recordsDir))
	return rec, rec.commit(d, bytes)
}

func (r *record) willMake(d *disk, p string) {
	if !d.exists(p) {
		r.Made = append(r.Made, p)
	}
}

// commit writes the record beside the harness's own files and puts it in its place with one rename.
func (r *record) commit(d *disk, bytes [][2][]byte) error {
	if _, err := d.mkdir(staging, 0o700); err != nil {
		return err
	}
	if err := r.save(d); err != nil {
		return err
	}
	for i, dir := range []string{"before", "after"} {
		if _, err := d.mkdir(path.Join(staging, dir), 0o700); err != nil {
			return err
		}
		for n, b := range bytes {
			if b[i] == nil {
				continue
			}
			if err := d.write(path.Join(staging, dir, strconv.Itoa(n+1)), b[i], 0o600); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{path.Dir(recordsDir), recordsDir} {
		if _, err := d.mkdir(dir, 0o700); err != nil {
			return &Problem{err, "the record of what was there before goes into " + recordsDir}
		}
	}
	numbers, err := recordNumbers(d)
	if err != nil {
		return err
	}
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	r.dir = path.Join(recordsDir, strconv.Itoa(next))
	return d.move(staging, r.dir)
}

func (r *record) save(d *disk) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return d.write(path.Join(r.dir, recordFile), append(b, '\n'), 0o600)
}

// kept gives the bytes before or after a step.
func (r *record) kept(d *disk, side string, s step) ([]byte, error) {
	b, err := d.read(path.Join(r.dir, side, strconv.Itoa(s.Bytes)))
	if err != nil {
		return nil, fmt.Errorf("read record of %s: %w", s.Path, err)
	}
	want := s.Before
	if side == "after" {
		want = s.After
	}
	if sum(b) != want {
		return nil, fmt.Errorf("read record of %s: its bytes are not those that were written", s.Path)
	}
	return b, nil
}

func recordNumbers(d *disk) ([]int, error) {
	entries, err := fs.ReadDir(d.root.FS(), recordsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Problem{fmt.Errorf("read records: %w", err), recordsDir + " has to be a folder in the harness, or not to be there"}
	}
	var all []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// records reads all records, the oldest first.
func records(d *disk) ([]*record, error) {
	numbers, err := recordNumbers(d)
	if err != nil {
		return nil, err
	}
	var all []*record
	for _, n := range numbers {
		rec, err := readRecord(d, path.Join(recordsDir, strconv.Itoa(n)))
		if err != nil {
			return nil, &Problem{err, "the bytes from before are in " + path.Join(recordsDir, strconv.Itoa(n), "before")}
		}
		all = append(all, rec)
	}
	return all, nil
}

func readRecord(d *disk, dir string) (*record, error) {
	b, err := d.read(path.Join(dir, recordFile))
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	rec := &record{dir: dir}
	if err := json.Unmarshal(b, rec); err != nil {
		return nil, fmt.Errorf("read record %s: %w", path.Join(dir, recordFile), err)
	}
	if rec.Version != 1 {
		return nil, fmt.Errorf("read record %s: version %d is not ours", path.Join(dir, recordFile), rec.Version)
	}
	return rec, nil
}

// unfinished finds the record of an Apply or a Revert that was cut short; nil when there is none.
func unfinished(d *disk) (*record, error) {
	all, err := records(d)
	for _, rec := range slices.Backward(all) {
		if rec.Phase == applying || rec.Phase == reverting {
			return rec, err
		}
	}
	return nil, err
}

// sums are the hashes of the files in a folder; "" for what is no regular file, or too large to be read.
func (d *disk) sums(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(d.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files[p[len(dir)+1:]], _ = d.sum(p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return files, nil
}
