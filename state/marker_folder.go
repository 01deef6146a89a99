package state

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxMarker bounds what is read of a marker, in bytes; with all its replies a question has a tenth of it.
const maxMarker = 1 << 20

// markerDir is an open folder of questions. Its files are looked up from it and not by their whole paths: with a
// thousand of them that saves half the time.
type markerDir struct {
	path string
	fd   int
	d    *os.File
	buf  []byte
}

// markerFile is a file that was not read yet.
type markerFile struct {
	name    string
	regular bool
	size    int64
	written time.Time
}

// openMarkers opens the folder; nil where there is none.
func (s Questions) openMarkers() (*markerDir, error) {
	d, err := os.OpenFile(s.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list questions: %w", err)
	}
	return &markerDir{path: s.Dir, fd: int(d.Fd()), d: d, buf: make([]byte, 16<<10)}, nil
}

func (d *markerDir) close() { _ = d.d.Close() }

// files are those with a question's name that wanted picks, in no order.
func (d *markerDir) files(wanted func(name string) bool) ([]markerFile, error) {
	names, err := d.d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list questions: %w", err)
	}
	var files []markerFile
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") || !wanted(name) {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil { // else it has just gone
			files = append(files, markerFile{name, uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG, st.Size, time.Unix(st.Mtim.Unix())})
		}
	}
	return files, nil
}

// read gives a file's bytes, which are overwritten by the next read. Nothing but a regular file is opened, and a FIFO that
// took its place does not hold the caller.
func (d *markerDir) read(f markerFile) ([]byte, error) {
	if !f.regular {
		return nil, errors.New("not a file")
	}
	if f.size > maxMarker {
		return nil, fmt.Errorf("%d bytes are too many for a marker", f.size)
	}
	fd, err := unix.Openat(d.fd, f.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; n <= maxMarker; {
		if n == len(d.buf) {
			d.buf = append(d.buf, make([]byte, len(d.buf))...)
		}
		got, err := unix.Read(fd, d.buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case got == 0:
			return d.buf[:n], nil
		default:
			n += got
		}
	}
	return nil, errors.New("it grows")
}

// ofSessions picks the names that may be of one of these sessions. A marker whose name says that it is another session's is
// not looked at; one with a name of another form is.
func (s Questions) ofSessions(sessions []string) func(name string) bool {
	var theirs []string
	for _, id := range sessions {
		theirs = append(theirs, id, safeName(id))
	}
	if !s.markers() {
		return func(name string) bool {
			return slices.ContainsFunc(theirs, func(id string) bool { return strings.HasPrefix(name, id+"-") })
		}
	}
	return func(name string) bool {
		rest, ask := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "ask-")
		i := len(rest) - len("-01234567")
		if !ask || i < 1 || rest[i] != '-' || strings.Trim(rest[i+1:], "0123456789abcdef") != "" {
			return true
		}
		return slices.Contains(theirs, rest[:i])
	}
}
