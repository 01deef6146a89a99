package migrate

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of the one that it replaces. Only root can give a file away; others own what they
// may replace, or could not have kept it.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}

// lockDir takes an advisory lock on the folder p itself: a lock file would be one more file in the harness.
func (d *disk) lockDir(p string) (unlock func(), err error) {
	f, err := d.root.Open(p)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &Problem{errBusy, "wait until the other one has ended"}
	}
	return func() { f.Close() }, nil
}
