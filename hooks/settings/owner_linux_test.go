package settings

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A group that the file's person is not in cannot be kept, and is no reason to fail; ours gets no more than anybody has. A
// file of somebody else's is refused. One thread of root's plays that person.
func TestOwnerWithoutRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const person = 65534
	for _, test := range []struct {
		owner int
		mode  os.FileMode
		want  os.FileMode
		err   error
	}{
		{person, 0o664, 0o644, nil}, {person, 0o660, 0o600, nil}, {person, 0o600, 0o600, nil}, {1234, 0o666, 0o666, ErrOwner},
	} {
		f := at(t, []byte("{}"))
		home := f.Env("HOME")
		if err := errors.Join(os.Chmod(filepath.Dir(home), 0o755), os.Chown(home, person, 0), os.Chown(filepath.Dir(f.Path), person, 0), os.Chown(f.Path, test.owner, 5678), os.Chmod(f.Path, test.mode)); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with this
			syscall.RawSyscall(syscall.SYS_SETFSUID, person, 0, 0)
			_, err := f.Install(context.Background(), newest(t, "answer"), false)
			failed <- err
		}()
		if err := <-failed; !errors.Is(err, test.err) {
			t.Errorf("%d, %v: %v", test.owner, test.mode, err)
		}
		info, err := os.Stat(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if is := info.Sys().(*syscall.Stat_t); info.Mode() != test.want || int(is.Uid) != test.owner || Holds([]byte(get(t, f.Path))) != (test.err == nil) {
			t.Errorf("%d, %v became %d, %v", test.owner, test.mode, is.Uid, info.Mode())
		}
	}
}
