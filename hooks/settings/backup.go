package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Backups stand beside the settings as they are named, not beside what a link leads to, and nobody else may read them. There
// is one of each.
const (
	beforeSuffix = ".before-gchat-hooks"  // the file as it was without hooks of ours: what an uninstall has to give back
	lastSuffix   = ".last-gchat-hooks"    // the file as it was before the last change, when it had hooks of ours
	madeSuffix   = ".made-by-gchat-hooks" // no copy: it says that there was no file
)

// backUp copies a file aside before it is replaced, and returns where; "" when there is no file.
func (f File) backUp(old snapshot) (path string, err error) {
	switch {
	case old.info == nil:
		err = os.MkdirAll(filepath.Dir(f.Path), 0o755)
		if err == nil {
			err = f.forget(beforeSuffix, lastSuffix) // of another time
		}
		if err == nil {
			err = f.keep(madeSuffix, snapshot{})
		}
	case Holds(old.bytes):
		path = f.Path + lastSuffix
		err = f.keep(lastSuffix, old)
	default:
		path = f.Path + beforeSuffix
		if err = f.keep(beforeSuffix, old); err == nil {
			err = f.forget(madeSuffix)
		}
	}
	if err != nil {
		return "", fmt.Errorf("back settings up: %w", err)
	}
	return path, nil
}

func (f File) keep(suffix string, old snapshot) error {
	path := f.Path + suffix
	p, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer p.Cleanup()
	if _, err := p.Write(old.bytes); err != nil {
		return err
	}
	if err := keepOwner(p.File, old.info); err != nil {
		return err
	}
	if err := p.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// before is the file as it was before the first install; nil when nobody knows.
func (f File) before() ([]byte, error) {
	b, err := os.ReadFile(f.Path + beforeSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return append([]byte{}, b...), nil // not nil, even when it was empty
}

// made says whether an install made the file.
func (f File) made() bool {
	_, err := os.Lstat(f.Path + madeSuffix)
	return err == nil
}

func (f File) forget(suffixes ...string) error {
	for _, suffix := range suffixes {
		if err := os.Remove(f.Path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove backup: %w", err)
		}
	}
	return nil
}

// nothingLeft says whether an uninstall left nothing that anybody wrote.
func nothingLeft(out []byte) bool { return string(bytes.TrimSpace(noBOM(out))) == "{}" }
