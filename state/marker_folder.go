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
	var dir *os.File
	err := noLink(s.Dir)
	if err == nil {
		dir, err = os.OpenFile(s.Dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
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
func (f *MarkerFolder) files(names []string, wanted func(markerFile) bool) (files []markerFile) {
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(f.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it has just gone
		}
		file := markerFile{name, uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG, st.Size, time.Unix(st.Mtim.Unix())}
		if wanted(file) {
			files = append(files, file)
		}
	}
	return files
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
