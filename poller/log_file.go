package poller

import (
	"bytes"
	"io"
	"os"
	"slices"
)

const (
	// tailBytes is how much of a log's end is read at first, mostTail at most: nothing keeps launchd's own files short, and
	// our log begins anew at 10 MB.
	tailBytes = 1 << 20
	mostTail  = 16 << 20
)

// logFile is a log and how far it was shown.
type logFile struct {
	path string
	was  os.FileInfo
	at   int64
}

// tail are the last n lines that show takes, also of the file that the log was before it was begun anew. A log that is not
// there has none. It reads at most so many bytes of each file.
func (f *logFile) tail(show func([]byte) (string, bool), n int, most int64) (lines []string, err error) {
	if lines, f.was, f.at, err = tailOf(f.path, show, n, most); err != nil || len(lines) >= n {
		return lines, err
	}
	older, _, _, err := tailOf(f.path+".1", show, n-len(lines), most)
	if err != nil { // what is left of it is still the log
		return lines, nil
	}
	return append(older, lines...), nil
}

// tailOf are the last n lines of one file that show takes, and how far it was read.
func tailOf(path string, show func([]byte) (string, bool), n int, most int64) (lines []string, is os.FileInfo, at int64, err error) {
	if info, serr := os.Stat(path); serr == nil && !info.Mode().IsRegular() {
		return nil, nil, 0, nil // a pipe would never end
	}
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, err
	}
	defer file.Close()
	if is, err = file.Stat(); err != nil {
		return nil, nil, 0, err
	}
	for window := int64(tailBytes); ; window *= 4 {
		from := max(is.Size()-min(window, most), 0)
		b, err := io.ReadAll(io.NewSectionReader(file, from, is.Size()-from))
		if err != nil {
			return nil, nil, 0, err
		}
		if from > 0 {
			_, b, _ = bytes.Cut(b, []byte("\n")) // the first line is cut
		}
		end := bytes.LastIndexByte(b, '\n') + 1
		at, lines = is.Size()-int64(len(b)-end), nil // a line that is being written comes with added
		for _, line := range slices.Backward(slices.Collect(bytes.Lines(b[:end]))) {
			if len(lines) == n {
				break
			}
			if text, ok := show(line); ok {
				lines = append(lines, text)
			}
		}
		slices.Reverse(lines)
		if len(lines) == n || from == 0 || window >= most {
			return lines, is, at, nil
		}
	}
}

// added are the whole lines that came since the last call. A log that was begun anew is read from its beginning, after what
// the old one, now .1, still got.
func (f *logFile) added() (lines [][]byte) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	is, err := file.Stat()
	if err != nil || !is.Mode().IsRegular() {
		return nil
	}
	if f.was != nil && !os.SameFile(f.was, is) {
		if old, err := os.Open(f.path + ".1"); err == nil {
			if info, err := old.Stat(); err == nil && os.SameFile(f.was, info) {
				b, _ := io.ReadAll(io.NewSectionReader(old, f.at, tailBytes))
				lines = slices.Collect(bytes.Lines(b))
			}
			old.Close()
		}
	}
	if f.was == nil || !os.SameFile(f.was, is) || is.Size() < f.at {
		f.at = 0
	}
	f.was = is
	b, _ := io.ReadAll(io.NewSectionReader(file, f.at, tailBytes))
	end := bytes.LastIndexByte(b, '\n') + 1
	f.at += int64(end)
	if end == 0 && len(b) == tailBytes {
		f.at += tailBytes // one endless line
	}
	return append(lines, slices.Collect(bytes.Lines(b[:end]))...)
}
