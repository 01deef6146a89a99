package state

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxMarker bounds what is read of a marker, in bytes; with all its replies a question has a tenth of it.
const maxMarker = 1 << 20

// MarkerFolder is a folder of questions that was listed once. Its files are looked up from it and not by their whole paths,
// which with a thousand of them saves half the time.
type MarkerFolder struct {
	in    Questions
	names []string
	dir   *os.File // nil where there is none
	fd    int
}

// markerFile is a file that was not read yet.
type markerFile struct {
	name    string
	regular bool
	size    int64
	written time.Time
}

// OpenMarkers lists the folder; one that does not exist is empty. Close must be called.
func (s Questions) OpenMarkers() (*MarkerFolder, error) {
	dir, err := os.OpenFile(s.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if missing(err) {
		return &MarkerFolder{in: s}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list questions: %w", err)
	}
	f := &MarkerFolder{in: s, dir: dir, fd: int(dir.Fd())}
	if f.names, err = dir.Readdirnames(-1); err != nil {
		dir.Close()
		return nil, fmt.Errorf("list questions: %w", err)
	}
	f.names = slices.DeleteFunc(f.names, func(name string) bool { return !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") })
	return f, nil
}

// Close closes the folder.
func (f *MarkerFolder) Close() {
	if f.dir != nil {
		_ = f.dir.Close()
	}
}

// files looks at those files that wanted picks by what is seen of them without reading.
func (f *MarkerFolder) files(names []string, wanted func(markerFile) bool) []markerFile {
	files := make([]markerFile, len(names))
	together(len(names), func(i int, _ []byte) bool {
		var st unix.Stat_t
		if unix.Fstatat(f.fd, names[i], &st, unix.AT_SYMLINK_NOFOLLOW) == nil { // else it has just gone
			files[i] = markerFile{names[i], uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG, st.Size, time.Unix(st.Mtim.Unix())}
		}
		return true
	})
	return slices.DeleteFunc(files, func(file markerFile) bool { return file.name == "" || !wanted(file) })
}

// together calls one for 0 to n-1, about in that order, and several at once where there are many, until it reports false.
// Each call has a buffer that is its own until it returns.
func together(n int, one func(i int, buf []byte) (more bool)) {
	var next atomic.Int64
	var enough atomic.Bool
	work := func(end int) {
		buf := make([]byte, 16<<10)
		for !enough.Load() {
			i := int(next.Add(1)) - 1
			if i >= end {
				return
			}
			if !one(i, buf) {
				enough.Store(true)
			}
		}
	}
	// The first ones alone: often they are all that is wanted.
	first := min(n, 16)
	if work(first); first == n || enough.Load() {
		return
	}
	next.Store(int64(first))
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) - 1 {
		others.Go(func() { work(n) })
	}
	work(n)
	others.Wait()
}

// read gives a file's bytes in buf, or in a longer one. Nothing but a regular file is opened, and a FIFO that took its
// place does not hold the caller.
func (f *MarkerFolder) read(file markerFile, buf []byte) ([]byte, error) {
	if !file.regular {
		return nil, errors.New("not a file")
	}
	if file.size > maxMarker {
		return nil, fmt.Errorf("%d bytes are too many for a marker", file.size)
	}
	fd, err := unix.Openat(f.fd, file.name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; n <= maxMarker; {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		got, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n += got; n < len(buf) { // of a file nothing less is given before its end
			return buf[:n], nil
		}
	}
	return nil, errors.New("it grows")
}

// ofSessions are the names that may be of one of these sessions. A marker whose name says that it is another session's is
// not among them; one with a name of another form is.
func (f *MarkerFolder) ofSessions(sessions []string) (names []string) {
	var theirs []string
	for _, id := range sessions {
		theirs = append(theirs, id, safeName(id))
	}
	for _, name := range f.names {
		if !f.in.markers() {
			if slices.ContainsFunc(theirs, func(id string) bool { return strings.HasPrefix(name, id+"-") }) {
				names = append(names, name)
			}
			continue
		}
		rest, ask := strings.CutPrefix(strings.TrimSuffix(name, ".json"), "ask-")
		i := len(rest) - len("-01234567")
		if !ask || i < 1 || rest[i] != '-' || strings.Trim(rest[i+1:], "0123456789abcdef") != "" || slices.Contains(theirs, rest[:i]) {
			names = append(names, name)
		}
	}
	return names
}
