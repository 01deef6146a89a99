package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// write puts out in the place of old: whole or not at all, also when the machine stops. It keeps mode and owner. done is
// false, and nothing written, when the file is no longer as old has it.
func (f File) write(old snapshot, out []byte) (done bool, err error) {
	dir := filepath.Dir(old.path)
	if old.info == nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, fmt.Errorf("make settings folder: %w", err)
		}
	}
	var staged *renameio.PendingFile
	if out != nil {
		if staged, err = stage(old, out, f.Mode); err != nil {
			return false, fmt.Errorf("write settings: %w", err)
		}
		defer staged.Cleanup()
	}
	if now, err := f.read(); err != nil || old.changed(now) {
		return false, err
	}
	if out == nil {
		err = os.Remove(old.path)
	} else {
		err = staged.CloseAtomicallyReplace()
	}
	if err != nil {
		return false, fmt.Errorf("write settings: %w", err)
	}
	return true, syncDir(dir)
}

// stage writes a file beside the one that it will replace, on the disk, with that one's mode and owner.
func stage(old snapshot, b []byte, mode os.FileMode) (*renameio.PendingFile, error) {
	option := renameio.WithPermissions(mode)
	if old.info != nil {
		option = renameio.WithStaticPermissions(old.info.Mode().Perm())
	}
	p, err := renameio.NewPendingFile(old.path, renameio.WithTempDir(filepath.Dir(old.path)), option)
	if err != nil {
		return nil, err
	}
	_, err = p.Write(b)
	if err == nil {
		err = keepOwner(p.File, old.info)
	}
	if err == nil {
		err = p.Sync() // now, so that nothing slow stands between the last look at the file and its replacement
	}
	if err != nil {
		return nil, errors.Join(err, p.Cleanup())
	}
	return p, nil
}

// ErrOwner says that the file is somebody else's, and would not be any more.
var ErrOwner = errors.New("the file belongs to another user")

// keepOwner gives a file the owner of another: under sudo it would be root's, and its person could not write it again. A
// group that its person is not in cannot be kept; ours may do then what anybody may.
func keepOwner(f *os.File, as os.FileInfo) error {
	if as == nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	want, ok2 := as.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	mode := info.Mode().Perm()
	err = f.Chown(int(want.Uid), int(want.Gid))
	switch {
	case errors.Is(err, syscall.EPERM) && is.Uid == want.Uid:
		mode = mode&^0o070 | mode&0o007<<3
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: %w", ErrOwner, err)
	case err != nil:
		return fmt.Errorf("keep the file's owner: %w", err)
	}
	return f.Chmod(mode)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
