package migrate

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
)

// An Outcome is what Apply or Revert did.
type Outcome struct {
	Done    []string // a sentence for each file or folder
	Refused []Look   // what was left as it is, and why
	Record  string   // the folder, below the harness, with the bytes from before; "" when there is none (any more)
}

// Apply does what the plan says, and writes down first what was there. It refuses, and writes nothing, when a file is no
// longer what the plan was made from. Killed at any moment, it is finished by Find and Apply, or taken back by Revert.
// A plan without changes does nothing.
func (p *Plan) Apply() (*Outcome, error) { return p.apply(nil) }

func (p *Plan) apply(step func(string) error) (*Outcome, error) {
	h, err := openHarness(p.Dir)
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
	rec, err := unfinished(d)
	switch {
	case err != nil:
		return nil, err
	case p.Resumes != (rec != nil):
		return nil, &Problem{errors.New("the harness is no longer what the plan was made from"), "look at the plan again, then apply it"}
	case rec == nil && len(p.Changes) == 0:
		return &Outcome{}, nil
	case rec == nil:
		if err := p.unchanged(d); err != nil {
			return nil, err
		}
		if err := d.clearStaging(); err != nil {
			return nil, err
		}
		if rec, err = newRecord(d, p); err != nil {
			return nil, errors.Join(err, d.clearStaging())
		}
	}
	out, err := rec.forward(d)
	if err != nil {
		err = &Problem{err, "apply again to finish it, or take it back with --revert"}
	}
	return out, err
}

// unchanged checks that every file is still what the plan was made from, and that nothing is in the way.
func (p *Plan) unchanged(d *disk) error {
	for _, c := range p.Changes {
		stale := false
		if c.Folder {
			stale = !d.isDir(c.Path)
		} else {
			now, err := d.sum(c.Path)
			stale = err != nil || now != sum(c.before)
		}
		if stale || c.To != "" && d.exists(c.To) {
			return &Problem{fmt.Errorf("%s is no longer what the plan was made from", c.Path), "look at the plan again, then apply it"}
		}
	}
	return nil
}

// forward does the steps that are not done yet.
func (r *record) forward(d *disk) (*Outcome, error) {
	out := &Outcome{Record: r.dir}
	if r.Phase != applying {
		r.Phase = applying
		if err := r.save(d); err != nil {
			return out, err
		}
	}
	for _, s := range r.Steps {
		if s.Do != "move" {
			if err := d.clean(s.Path); err != nil {
				return out, err
			}
		}
		if err := r.do(d, s, out); err != nil {
			return out, err
		}
	}
	r.Phase = applied
	return out, r.save(d)
}

func (r *record) do(d *disk, s step, out *Outcome) error {
	if s.Do == "move" {
		return r.moveOn(d, s, out)
	}
	now, err := d.sum(s.Path)
	if err != nil {
		out.refuse(s.Path, plainError(err))
		return nil
	}
	switch {
	case now == s.After:
		return nil
	case now != s.Before:
		out.refuse(s.Path, "was edited since the plan was made")
		return nil
	case s.Do == "remove":
		// Only when the file with the new name is there: else the harness would lose both.
		if i := slices.IndexFunc(out.Refused, func(l Look) bool { return path.Dir(l.Path) == path.Dir(s.Path) }); i >= 0 {
			out.refuse(s.Path, "stays, since "+out.Refused[i].Path+" was not written")
			return nil
		}
		return out.remove(d, s.Path)
	}
	return r.put(d, "after", s, out, "wrote ")
}

// put writes the bytes of a step that are kept from "before" or "after" it.
func (r *record) put(d *disk, which string, s step, out *Outcome, did string) error {
	b, err := r.kept(d, which, s)
	if err != nil {
		return err
	}
	if err := d.write(s.Path, b, s.Mode.Perm()); err != nil {
		return err
	}
	out.Done = append(out.Done, did+s.Path)
	return nil
}

func (o *Outcome) remove(d *disk, path string) error {
	if err := d.remove(path); err != nil {
		return err
	}
	o.Done = append(o.Done, "removed "+path)
	return nil
}

func (r *record) moveOn(d *disk, s step, out *Outcome) error {
	switch from, to := d.exists(s.Path), d.exists(s.To); {
	case !from && to:
		return nil
	case !from:
		out.refuse(s.Path, "is gone")
		return nil
	case to:
		out.refuse(s.Path, "stays: "+s.To+" is there already")
		return nil
	}
	if _, err := d.mkdir(path.Dir(s.To), 0o755); err != nil {
		return err
	}
	if err := d.move(s.Path, s.To); err != nil {
		return err
	}
	out.Done = append(out.Done, "moved "+s.Path+" to "+s.To)
	return nil
}

func (o *Outcome) refuse(p, why string) {
	o.Refused = append(o.Refused, Look{Path: p, Why: why})
}

// resume makes the plan of an Apply that was cut short: what is missing of it.
func (h *harness) resume(rec *record) (*Plan, error) {
	p := &Plan{Dir: h.dir, Resumes: true}
	p.Notes = append(p.Notes, "An earlier migration was cut short: this is what is missing of it. Apply finishes it, --revert takes it back.")
	for _, s := range rec.Steps {
		if s.Do == "move" {
			if h.disk.exists(s.Path) {
				p.Changes = append(p.Changes, Change{Path: s.Path, To: s.To, Folder: true, Why: []string{"the relay's skill goes to the archive"}})
			}
			continue
		}
		now, err := h.disk.sum(s.Path)
		switch {
		case err != nil:
			p.Look = append(p.Look, Look{Path: s.Path, Why: plainError(err)})
		case now == s.After:
		case now != s.Before:
			p.Look = append(p.Look, Look{Path: s.Path, Why: "was edited since: it will be left as it is"})
		default:
			c := Change{Path: s.Path, mode: s.Mode}
			if s.Before != "" {
				c.before, err = h.disk.read(s.Path)
			}
			if s.After != "" && err == nil {
				c.after, err = rec.kept(h.disk, "after", s)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			p.Changes = append(p.Changes, c)
		}
	}
	return p, nil
}
