package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gchat-hooks/state"
)

// A Change is what an install or uninstall does to a settings file, or would do.
type Change struct {
	Path     string // as people name it
	Real     string // the file itself, when Path is a link to it
	Old, New []byte // nil: there is no file
	Backup   string // the copy beside Path of what was replaced; "" when there was nothing to keep
	Written  bool   // false when it was only shown, or nothing changes
	Refused  error  // of a change that was only shown: why it would not be written, ErrReadOnly
}

// Nothing says whether the file stays as it is.
func (c *Change) Nothing() bool { return (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New) }

// NotJSON says whether Claude Code will skip the file, hooks and all: it has comments or trailing commas, which Claude Code
// does not take (2.1.329). They were there before.
func (c *Change) NotJSON() bool {
	b := noBOM(c.New)
	return len(bytes.TrimSpace(b)) > 0 && !json.Valid(b)
}

// Disabled says whether the file keeps Claude Code from running any hook.
func (c *Change) Disabled() bool {
	s := &source{}
	s.parse(noBOM(c.New), "")
	on, _ := s.bool("disableAllHooks")
	return on
}

// Install makes these entries the only ones of ours in the file; dry only tells what that would change.
func (f File) Install(ctx context.Context, entries []Entry, dry bool) (*Change, error) {
	return f.change(ctx, dry, func(old, before []byte) ([]byte, error) {
		if len(entries) == 0 {
			return nil, errors.New("no hooks to install")
		}
		return Install(old, before, entries)
	})
}

// Uninstall takes our entries out of the file; dry only tells what that would change. A file that an install made, and that
// nobody else wrote into, goes. With the bytes back that were there before the first install, the backups go too.
func (f File) Uninstall(ctx context.Context, dry bool) (*Change, error) {
	return f.change(ctx, dry, func(old, before []byte) ([]byte, error) {
		if !Holds(old) {
			_, err := parse(old)
			return old, err
		}
		out, err := Uninstall(old, before)
		if err == nil && f.made() && nothingLeft(out) {
			return nil, nil
		}
		return out, err
	})
}

const (
	lockWait = 10 * time.Second // for another install
	tries    = 8                // while Claude Code, which knows no lock of ours, writes the file itself
)

func (f File) change(ctx context.Context, dry bool, edit func(old, before []byte) ([]byte, error)) (*Change, error) {
	if !dry {
		unlock, err := f.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	for range tries {
		old, err := f.read()
		if err != nil {
			return nil, err
		}
		before, err := f.before()
		if err != nil {
			return nil, err
		}
		if old.info == nil {
			before = nil // a copy of another time
		}
		out, err := edit(old.bytes, before)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", old.path, err)
		}
		c := &Change{Path: f.Path, Real: old.path, Old: old.bytes, New: out}
		if c.Nothing() {
			return c, nil
		}
		if dry {
			c.Refused = old.writable()
			return c, nil
		}
		if err := old.writable(); err != nil {
			return c, err
		}
		if c.Backup, err = f.backUp(old); err != nil {
			return nil, err
		}
		c.Written, err = f.write(old, out)
		if err != nil {
			return nil, err
		}
		if !c.Written {
			continue // it was written meanwhile
		}
		if out == nil || before != nil && bytes.Equal(out, before) && !Holds(out) {
			if err := f.forget(beforeSuffix, lastSuffix, madeSuffix); err != nil { // the file itself is the copy now
				return nil, err
			}
			c.Backup = ""
		}
		return c, nil
	}
	return nil, fmt.Errorf("%s: another program keeps writing it; try again", f.Path)
}

// lock keeps two installs apart.
func (f File) lock(ctx context.Context) (unlock func(), err error) { return Lock(ctx, f.Env) }

// Lock keeps all others from writing settings. Its file is in our own state: a settings folder may be a project's.
func Lock(ctx context.Context, env state.Getenv) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	l, err := state.LockFile(ctx, state.SettingsLock(env), 10*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("lock settings: another install is at it: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock settings: %w", err)
	}
	return l.Unlock, nil
}
