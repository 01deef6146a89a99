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

// A repository can contain links and pipes in place of a project's state. So only plain
// files in plain folders of that state are read, written, renamed and locked: a link
// counts as missing, and a folder that is a link cannot be written to.

// projectFolders are the folders of a project's state. The state folder itself may be a
// link where the person named it.
var projectFolders = []string{"pending-questions", markerFolder, "user-input-queue", ".locks"}

// checkNoLink returns an error (ENOTDIR) where one of our folders on this path is a link.
func checkNoLink(folder string) error {
	for ; slices.Contains(projectFolders, filepath.Base(folder)); folder = filepath.Dir(folder) {
		// os.Lstat would allocate some hundred bytes, and a hook looks at hundreds of
		// files
		var stat syscall.Stat_t
		if syscall.Lstat(folder, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			return &fs.PathError{Op: "open", Path: folder, Err: syscall.ENOTDIR}
		}
	}
	return nil
}

// leadsOutside reports whether .claude or .claude/state of a project is a link to a place
// outside the project.
func leadsOutside(project string) bool {
	for _, name := range []string{".claude", filepath.Join(".claude", "state")} {
		path := filepath.Join(project, name)
		info, err := os.Lstat(path)
		isLink := err == nil && info.Mode()&fs.ModeSymlink != 0
		if isLink && !IsWithin(path, project) {
			return true
		}
	}
	return false
}

// systemGuardsFolders says that the system asks a person before a program may read
// certain folders. For a launchd agent it asks at any time of day, or refuses forever,
// although the person's terminal may read them.
var systemGuardsFolders = runtime.GOOS == "darwin"

// isGuarded reports whether path is in one of those folders, in any letter case and
// through any link.
func isGuarded(path, home string) bool {
	if target := RealPath(path); target != path && isGuarded(target, home) {
		return true
	}
	path = strings.ToLower(filepath.Clean(path)) + "/"
	folders := []string{
		"Documents", "Desktop", "Downloads", "Library/Mobile Documents", "Library/CloudStorage",
	}
	for _, folder := range folders {
		if strings.HasPrefix(path, strings.ToLower(filepath.Join(home, folder))+"/") {
			return true
		}
	}
	return strings.HasPrefix(path, "/volumes/")
}

// RealPath returns path with all links resolved; path itself where nothing is there.
func RealPath(path string) string {
	real, _ := filepath.EvalSymlinks(path)
	return cmp.Or(real, path)
}

// IsWithin reports whether an existing file lies in folder, with the links to both
// resolved.
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

// errNotPlain means that there is a link, a pipe or a folder where a file should be.
var errNotPlain = errors.New("it is not a plain file")

// plainFlags keep an open from following a link, and from waiting for the other end of a
// pipe.
const plainFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// appendFlags open a file to append to it, and create it where it is missing.
const appendFlags = os.O_APPEND | os.O_CREATE | os.O_WRONLY

// OpenPlain opens a file and returns its info, too. A file that it creates is readable by
// its owner alone. The error is errNotPlain, or that of opening.
func OpenPlain(path string, flag int) (*os.File, fs.FileInfo, error) {
	if err := checkNoLink(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, flag|plainFlags, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EISDIR),
		// a socket: ENXIO on Linux, EOPNOTSUPP on macOS
		errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP):
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

// ReadPlain reads a file of at most limit bytes. The error is one of OpenPlain's, or says
// that the file is larger.
func ReadPlain(path string, limit int64) ([]byte, error) {
	b, _, err := readPlainInto(path, limit, &bytes.Buffer{})
	return b, err
}

// MaxFileSize is the largest size, in bytes, of a file that we read, ours or another
// program's.
const MaxFileSize = 256 << 20

// ReadPlainOrLink is ReadPlain for a file that a person may keep elsewhere and link to.
func ReadPlainOrLink(path string, limit int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return ReadPlain(real, limit)
}

// readPlainInto reads a file into buf, whose bytes it returns with the time when the file
// was written.
func readPlainInto(path string, limit int64, buf *bytes.Buffer) (
	b []byte, written time.Time, err error,
) {
	f, info, err := OpenPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	buf.Reset()
	buf.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	_, err = buf.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(buf.Len()) > limit {
		err = fmt.Errorf("the file is larger than %d bytes", limit)
	}
	return buf.Bytes(), info.ModTime(), err
}
