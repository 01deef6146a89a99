package migrate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
)

// ErrNothingToRevert says that there is no record of a migration.
var ErrNothingToRevert = errors.New("no migration to take back")

// Revert gives back what was in the harness folder dir before every Apply, byte for byte, and removes the record. A file
// that a person edited since is left alone and listed; the bytes from before stay in the record then, and another Revert
// tries again. A folder that moved comes back with whatever was edited in it.
func Revert(dir string) (*Outcome, error) { return revert(dir, nil) }

func revert(dir string, step func(string) error) (*Outcome, error) {
	h, err := openHarness(dir)
	if err != nil {
		return nil, err
	}
	defer h.close()
	d := h.disk
	unlock, err := d.lockDir(".claude")
	if err != nil {
		return nil, err
	}
	defer unlock()
	d.step = step
	all, err := records(d)
	if err != nil {
		return nil, err
	}
	begun := d.exists(staging)
	if err := d.clearStaging(); err != nil {
		return nil, err
	}
	if len(all) == 0 && !begun {
		return nil, &Problem{fmt.Errorf("%s: %w", dir, ErrNothingToRevert), "git or a backup may know more"}
	}
	out := &Outcome{}
	for _, rec := range slices.Backward(all) {
		if err := rec.back(d, out); err != nil {
			return out, &Problem{err, "revert again to finish it"}
		}
	}
	return out, nil
}

// back undoes a record's steps from the end, and then the record itself.
func (r *record) back(d *disk, out *Outcome) error {
	if r.Phase != reverting {
		r.Phase = reverting
		if err := r.save(d); err != nil {
			return err
		}
	}
	var left []step
	for _, s := range slices.Backward(r.Steps) {
		if s.Do != "move" {
			if err := d.clean(s.Path); err != nil {
				return err
			}
		}
		before := len(out.Refused)
		if err := r.undo(d, s, out); err != nil {
			return err
		}
		if len(out.Refused) > before {
			left = append(left, s)
		}
	}
	if len(left) > 0 {
		if err := d.removeMade(r); err != nil {
			return err
		}
		slices.Reverse(left)
		r.Steps, r.Phase, out.Record = left, refused, r.dir
		return r.save(d)
	}
	if err := d.move(r.dir, staging); err != nil {
		return err
	}
	return d.clearStaging()
}

func (r *record) undo(d *disk, s step, out *Outcome) error {
	if s.Do == "move" {
		return r.undoMove(d, s, out)
	}
	now, err := d.sum(s.Path)
	if err != nil {
		out.refuse(s.Path, plainError(err))
		return nil
	}
	switch {
	case now == s.Before:
		return nil
	case now != s.After:
		why := "was edited since"
		if now == "" {
			why = "was deleted since"
		}
		if s.Before != "" {
			why += fmt.Sprintf("; the bytes from before are %s/before/%d", r.dir, s.Bytes)
		}
		out.refuse(s.Path, why)
		return nil
	case s.Before == "":
		return out.remove(d, s.Path)
	}
	return r.put(d, "before", s, out, "gave back ")
}

func (r *record) undoMove(d *disk, s step, out *Outcome) error {
	from, to := d.exists(s.Path), d.exists(s.To)
	switch {
	case from && !to:
		return nil
	case !to:
		out.refuse(s.To, "is gone")
		return nil
	}
	now, err := d.sums(s.To)
	if err != nil {
		return err
	}
	if from {
		there, err := d.sums(s.Path)
		if err != nil {
			return err
		}
		one, _ := d.root.Stat(s.Path)
		other, _ := d.root.Stat(s.To)
		if os.SameFile(one, other) || !maps.Equal(now, there) || slices.Contains(slices.Collect(maps.Values(now)), "") {
			out.refuse(s.To, "stays: "+s.Path+" is there again")
			return nil
		}
		out.Done = append(out.Done, "dropped "+s.To+": "+s.Path+" is there again, and the same")
		return d.move(s.To, path.Join(r.dir, "archived")) // goes with the record, and so at once
	}
	if err := d.move(s.To, s.Path); err != nil {
		return err
	}
	out.Done = append(out.Done, "moved "+s.To+" back to "+s.Path)
	for name, was := range s.Files {
		if now[name] != was {
			out.Done = append(out.Done, path.Join(s.Path, name)+" was edited or deleted in the archive, and came back so")
		}
	}
	return nil
}

// clearStaging removes a record that is not one yet, or no longer, and the folders that were made for it.
func (d *disk) clearStaging() error {
	if !d.exists(staging) {
		return nil
	}
	if rec, err := readRecord(d, staging); err == nil {
		if err := d.removeMade(rec); err != nil {
			return err
		}
	}
	if err := d.at("remove " + staging); err != nil {
		return err
	}
	if err := d.root.RemoveAll(staging); err != nil {
		return fmt.Errorf("remove %s: %w", staging, err)
	}
	return d.syncDir(path.Dir(staging))
}

// removeMade removes the folders that were made for a record, where nothing is in them (any more): one that holds the record
// of a refused Revert stays.
func (d *disk) removeMade(r *record) error {
	for _, p := range r.Made {
		if d.emptyDir(p) {
			if err := d.remove(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *disk) emptyDir(p string) bool {
	f, err := d.root.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return d.isDir(p) && len(names) == 0
}
