package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A checkout can bring links and pipes in the places of a project's state. Of that state
// only plain files in plain folders are read, written, renamed and locked: what is a link
// is as good as missing, and a folder that is one cannot be written to.

// projectFolders are the folders of a project's state. The state folder itself may be a
// link where the person named it.
var projectFolders = []string{"pending-questions", markerFolder, "user-input-queue", ".locks"}

// checkNoLink is an error (ENOTDIR) where one of our folders on this path is a link.
func checkNoLink(folder string) error {
	for ; slices.Contains(projectFolders, filepath.Base(folder)); folder = filepath.Dir(folder) {
		// os.Lstat would leave some hundred bytes behind, and a hook looks at hundreds of
		// files
		var stat syscall.Stat_t
		if syscall.Lstat(folder, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			return &fs.PathError{Op: "open", Path: folder, Err: syscall.ENOTDIR}
		}
	}
	return nil
}

// leadsOutside says whether .claude or .claude/state of a project is a link to somewhere
// outside of the project.
func leadsOutside(project string) bool {
	for _, name := range []string{".claude", filepath.Join(".claude", "state")} {
		path := filepath.Join(project, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 &&
			!IsWithin(path, project) {
			return true
		}
	}
	return false
}

// systemGuardsFolders says that the system asks a person whether a program may read some
// folders: for a launchd agent it asks at any time of the day, or refuses for ever,
// though the person's terminal reads them.
var systemGuardsFolders = runtime.GOOS == "darwin"

// isGuarded says whether a path is in one of those folders, in whatever case it is
// written, and through whatever link.
func isGuarded(path, home string) bool {
	if target := RealPath(path); target != path && isGuarded(target, home) {
		return true
	}
	path = strings.ToLower(filepath.Clean(path)) + "/"
	for _, folder := range []string{"Documents", "Desktop", "Downloads", "Library/Mobile Documents", "Library/CloudStorage"} {
		if strings.HasPrefix(path, strings.ToLower(filepath.Join(home, folder))+"/") {
			return true
		}
	}
	return strings.HasPrefix(path, "/volumes/")
}

// RealPath is the one name of a file or folder that may be called by others, through
// links; path itself where it is not there.
func RealPath(path string) string {
	real, _ := filepath.EvalSymlinks(path)
	return cmp.Or(real, path)
}

// IsWithin says whether a file that is there lies in a folder, whatever links lead to
// either.
func IsWithin(path, folder string) bool {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// errNotPlain says that there is a link, a pipe or a folder where a file is to be.
var errNotPlain = errors.New("it is no plain file")

// plainFlags keep the opening of a file from following a link and from waiting for a
// pipe's other end.
const plainFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// appendFlags are the flags that open a file to add to its end, also where none is there.
const appendFlags = os.O_APPEND | os.O_CREATE | os.O_WRONLY

// OpenPlain opens a file, and says what it is. What it makes, its owner alone can read.
// Errors are errNotPlain and those of opening.
func OpenPlain(path string, flag int) (*os.File, fs.FileInfo, error) {
	if err := checkNoLink(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, flag|plainFlags, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR):
		return nil, nil, errNotPlain
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP):
		// a socket, on Linux and on macOS
		return nil, nil, errNotPlain
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotPlain
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// ReadPlain reads a file of at most so many bytes. Errors are those of OpenPlain, and one
// for a larger file.
func ReadPlain(path string, limit int64) ([]byte, error) {
	b, _, err := readPlainInto(path, limit, &bytes.Buffer{})
	return b, err
}

// MaxFileSize bounds a file of ours, or of another program that we read, in bytes.
const MaxFileSize = 256 << 20

// ReadPlainOrLink is ReadPlain of a file that a person may keep elsewhere and link to.
func ReadPlainOrLink(path string, limit int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return ReadPlain(real, limit)
}

// readPlainInto reads a file into buf, whose bytes it returns, and says when the file was
// written.
func readPlainInto(
	path string,
	limit int64,
	buf *bytes.Buffer,
) (b []byte, written time.Time, err error) {
	f, info, err := OpenPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	buf.Reset()
	buf.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	_, err = buf.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(buf.Len()) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return buf.Bytes(), info.ModTime(), err
}
