package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// tempSuffix ends the name of a file that is being written, beside the one that it will replace. The name is fixed, so that
// a run after a kill finds what the killed one left.
const tempSuffix = ".gchat-migrate-new"

// disk is what is done to the harness folder, one step at a time. It writes through os.Root, which a rename by path, as
// renameio does it, cannot offer: a folder on the way may be a link that leads out.
type disk struct {
	root *os.Root
	// step is called before every change; an error stops it there. Tests stop at each.
	step func(what string) error
}

func (d *disk) at(what string) error {
	if d.step == nil {
		return nil
	}
	return d.step(what)
}

func (d *disk) exists(p string) bool {
	_, err := d.root.Lstat(p)
	return err == nil
}

func (d *disk) isDir(p string) bool {
	info, err := d.root.Lstat(p)
	return err == nil && info.IsDir()
}

// read reads a regular file; a link, or anything that could block, is refused.
func (d *disk) read(p string) ([]byte, error) {
	info, err := d.root.Lstat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no regular file")
	}
	f, err := d.root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, recordBound+1))
	if err == nil && len(b) > recordBound {
		err = errors.New("is too large")
	}
	return b, err
}

// sum is the hash of a file's bytes; "" when there is none.
func (d *disk) sum(p string) (string, error) {
	b, err := d.read(p)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", p, err)
	}
	return sum(b), nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// write puts b at p, whole or not at all, with this mode and with the owner of the file that it replaces.
func (d *disk) write(p string, b []byte, mode os.FileMode) error {
	temp := path.Join(path.Dir(p), "."+path.Base(p)+tempSuffix)
	err := d.fill(temp, p, b, mode)
	if err == nil {
		if err = d.at("rename " + temp); err == nil {
			err = d.root.Rename(temp, p)
		}
	}
	if err != nil {
		if d.at("remove "+temp) == nil {
			_ = d.root.Remove(temp)
		}
		return fmt.Errorf("write %s: %w", p, err)
	}
	return d.syncDir(path.Dir(p))
}

func (d *disk) fill(temp, p string, b []byte, mode os.FileMode) error {
	if err := d.clean(p); err != nil {
		return err
	}
	if err := d.at("create " + temp); err != nil {
		return err
	}
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	half := len(b) / 2
	if _, err = f.Write(b[:half]); err == nil {
		if err = d.at("half " + temp); err == nil {
			_, err = f.Write(b[half:])
		}
	}
	if err == nil {
		err = f.Chmod(mode) // as it was, whatever the umask is
	}
	if info, statErr := d.root.Lstat(p); err == nil && statErr == nil {
		keepOwner(f, info)
	}
	if err == nil {
		err = f.Sync()
	}
	return err
}

// clean removes what a killed write to p left beside it.
func (d *disk) clean(p string) error {
	return d.remove(path.Join(path.Dir(p), "."+path.Base(p)+tempSuffix))
}

// remove takes a file or an empty folder away; nothing there is well.
func (d *disk) remove(p string) error {
	if !d.exists(p) {
		return nil
	}
	if err := d.at("remove " + p); err != nil {
		return err
	}
	if err := d.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", p, err)
	}
	return d.syncDir(path.Dir(p))
}

// mkdir makes one folder; made says that it was not there.
func (d *disk) mkdir(p string, mode os.FileMode) (made bool, err error) {
	if d.exists(p) {
		if info, err := d.root.Stat(p); err != nil || !info.IsDir() {
			return false, fmt.Errorf("make folder %s: something else is there", p)
		}
		return false, nil
	}
	if err := d.at("mkdir " + p); err != nil {
		return false, err
	}
	if err := d.root.Mkdir(p, mode); err != nil {
		return false, fmt.Errorf("make folder %s: %w", p, err)
	}
	return true, d.syncDir(path.Dir(p))
}

// move renames a folder or a file; nothing may be at its new place.
func (d *disk) move(from, to string) error {
	if d.exists(to) {
		return fmt.Errorf("move %s: %s is there already", from, to)
	}
	if err := d.at("move " + from); err != nil {
		return err
	}
	if err := d.root.Rename(from, to); err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	return errors.Join(d.syncDir(path.Dir(from)), d.syncDir(path.Dir(to)))
}

func (d *disk) syncDir(p string) error {
	f, err := d.root.Open(p)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
