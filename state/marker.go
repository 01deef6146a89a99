package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MarkerSlack is how far a marker's time can lie ahead: other programs round, and clocks are set.
const MarkerSlack = 2 * time.Minute

// Proof is what a question's file proves to a stop gate. It is read without the rest of the question: a gate may find a
// thousand of them, and has a few milliseconds.
type Proof struct {
	QuestionID string
	SessionID  string // Claude Code's own; without a claude_session_id what the file calls the session
	ThreadKey  string // of Old only
	Status     Status // also one that this version does not know
	AskedAt    time.Time
	ResolvedAt time.Time // zero where it does not say
	Written    time.Time // when its file was last written

	Path string // where it is on disk
}

// markerText is a marker as it stands in its file.
type markerText struct {
	QuestionID    string  `json:"question_id"`
	SessionID     string  `json:"session_id"`
	ClaudeSession string  `json:"claude_session_id"`
	ThreadKey     string  `json:"gchat_thread_key"`
	Status        Status  `json:"status"`
	ClosedAs      Status  `json:"closed_as"`
	AskedAt       string  `json:"asked_at"`
	ResolvedAt    *string `json:"resolved_at"`
}

// set takes a member's value as it stands in the file, and reports whether it could without a parser.
func (m *markerText) set(key, value []byte) (ok bool) {
	switch string(key) {
	case "question_id":
		m.QuestionID, ok = plainString(value)
	case "session_id":
		m.SessionID, ok = plainString(value)
	case "claude_session_id":
		m.ClaudeSession, ok = plainString(value)
	case "status":
		text, ok := plainString(value)
		m.Status = Status(text)
		return ok
	case "closed_as":
		text, ok := plainString(value)
		m.ClosedAs = Status(text)
		return ok
	case "asked_at":
		m.AskedAt, ok = plainString(value)
	case "resolved_at":
		if m.ResolvedAt = nil; string(value) == "null" {
			return true
		}
		text, ok := plainString(value)
		m.ResolvedAt = &text
		return ok
	default:
		return true
	}
	return ok
}

// parseMarker reads a file's bytes. Where thoroughly is false the file may be broken in ways that only a parser sees.
func parseMarker(b []byte, written time.Time, thoroughly bool) (*Proof, error) {
	var in markerText
	if thoroughly || !topMembers(b, in.set) {
		in = markerText{}
		if err := json.Unmarshal(b, &in); err != nil {
			return nil, err
		}
	}
	m := &Proof{
		QuestionID: in.QuestionID, SessionID: cmp.Or(in.ClaudeSession, in.SessionID), ThreadKey: in.ThreadKey,
		Status: in.Status, Written: written,
	}
	if m.QuestionID == "" || m.SessionID == "" {
		return nil, errors.New("question_id or session_id is missing")
	}
	if word := in.ClosedAs; word != "" && closedAs[word] == m.Status {
		m.Status = word
	}
	var err error
	if m.AskedAt, err = timeNear(in.AskedAt, written); err != nil { // another program's, which does not say
		m.AskedAt = written
	}
	if in.ResolvedAt != nil && *in.ResolvedAt != "" {
		if m.ResolvedAt, err = timeNear(*in.ResolvedAt, written); err != nil {
			return nil, fmt.Errorf("resolved_at: %w", err)
		}
	}
	return m, nil
}

// timeNear reads a time as we or other programs write it. One without a zone may be UTC or this machine's: it is the later
// of the two that does not lie after the file was written.
func timeNear(text string, written time.Time) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return t, nil
	}
	for _, layout := range foreignTimes {
		early, lerr := time.Parse(layout, text)
		if lerr != nil {
			continue
		}
		late, _ := time.ParseInLocation(layout, text, time.Local)
		if early.After(late) {
			early, late = late, early
		}
		if late.After(written.Add(MarkerSlack)) {
			return early, nil
		}
		return late, nil
	}
	return time.Time{}, err
}

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
	f.names = slices.DeleteFunc(f.names, func(name string) bool {
		return !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".")
	})
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

// topMembers walks the members of a JSON object and hands each to f with its value as it stands there. It is ten times as
// fast as a parser, and believes what it sees: it reports false where the bytes are no object that it can walk, or f says
// so, and then a parser has the word.
func topMembers(b []byte, f func(key, value []byte) bool) bool {
	i := afterSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	for i = afterSpace(b, i+1); i < len(b) && b[i] == '"'; {
		end := afterString(b, i)
		if end < 0 {
			return false
		}
		key := b[i+1 : end-1]
		if i = afterSpace(b, end); i >= len(b) || b[i] != ':' {
			return false
		}
		i = afterSpace(b, i+1)
		if end = afterValue(b, i); end < 0 || !f(key, b[i:end]) {
			return false
		}
		if i = afterSpace(b, end); i < len(b) && b[i] == ',' {
			i = afterSpace(b, i+1)
			continue
		}
		return i < len(b) && b[i] == '}' && afterSpace(b, i+1) == len(b)
	}
	return false
}

func afterSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// afterString is where the string that begins at i has ended; -1 when it does not end.
func afterString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		end := bytes.IndexByte(b[i:], '"')
		if end < 0 {
			return -1
		}
		slashes := 0
		for i += end; b[i-1-slashes] == '\\'; {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// afterValue is where the value that begins at i has ended; -1 when it does not end.
func afterValue(b []byte, i int) int {
	depth := 0
	for begin := i; i < len(b); {
		switch b[i] {
		case '"':
			if i = afterString(b, i); i < 0 || depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of what the value stands in
				return valueAt(begin, i)
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return valueAt(begin, i)
			}
		}
		i++
	}
	return -1
}

func valueAt(begin, end int) int {
	if begin == end {
		return -1
	}
	return end
}

// plainString is a JSON string without escapes.
func plainString(value []byte) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// Find looks at the questions of these sessions whose files were written since then, the newest first, until one proves
// what is wanted. What is no marker, or none that this version understands, is passed over, and returned in bad where it is named
// after one of the sessions; so is what proves has an error about. All files are read: a session that was resumed under
// another name has markers of the former one. Several goroutines may call proves at once.
func (f *MarkerFolder) Find(sessions []string, since time.Time, proves proof) (found bool, bad []error) {
	files := f.files(f.names, func(file markerFile) bool { return !file.written.Before(since) })
	slices.SortFunc(files, func(a, b markerFile) int { return b.written.Compare(a.written) })
	var mu sync.Mutex
	together(len(files), func(i int, buf []byte) bool {
		ok, err := f.proves(files[i], buf, sessions, proves)
		mu.Lock()
		defer mu.Unlock()
		found = found || ok
		if err != nil && !errors.Is(err, fs.ErrNotExist) && namedAfter(files[i].name, sessions) {
			bad = append(bad, err)
		}
		return !ok
	})
	return found, bad
}

// proof says whether a question proves what a gate wants to know.
type proof = func(*Proof) (bool, error)

// namedAfter says whether a marker is named after one of these sessions, as this version names them.
func namedAfter(name string, sessions []string) bool {
	return slices.ContainsFunc(sessions, func(id string) bool {
		begins := "ask-" + safeName(id) + "-"
		return strings.HasPrefix(name, begins) && len(name) == len(begins)+len("01234567.json")
	})
}

// proves asks about a marker twice: as it is read quickly, and what then counts as it is read thoroughly.
func (f *MarkerFolder) proves(file markerFile, buf []byte, sessions []string, proves proof) (ok bool, err error) {
	defer func() {
		if r := recover(); r != nil { // in a goroutine of its own it would end the process with 2, which means "block"
			ok, err = false, f.corrupt(file, fmt.Errorf("a bug in gchat-hooks; please report it: %v", r))
		}
	}()
	b, err := f.read(file, buf)
	for _, thoroughly := range []bool{false, true} {
		var m *Proof
		if err == nil {
			m, err = parseMarker(b, file.written, thoroughly)
		}
		if ok = false; err == nil && slices.Contains(sessions, m.SessionID) {
			ok, err = proves(m)
		}
		if err != nil {
			return false, f.corrupt(file, err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// together calls one for 0 to n-1, about in that order, until it reports false. The first calls come alone, since often they
// are all that is wanted, then several at once. A call has its buffer for itself.
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

// Old are markers of ours that are older than MaxAge by what they say and by their files, the closed ones first. It reads
// at most so many files of three times as many: other ones each time, lest those that stay for ever hide the others. Ours
// are those whose file, question and thread are called as we call them. What is passed over is returned in bad.
func (f *MarkerFolder) Old(now time.Time, most int) (old []*Proof, bad []error) {
	names := f.names
	if len(names) > 3*most {
		i := rand.IntN(len(names))
		names = slices.Concat(names[i:], names[:i])[:3*most]
	}
	files := f.files(names, func(file markerFile) bool { return now.Sub(file.written) > MaxAge })
	buf := make([]byte, 16<<10)
	for _, file := range files[:min(len(files), most)] {
		b, err := f.read(file, buf)
		var m *Proof
		if err == nil {
			m, err = parseMarker(b, file.written, true)
		}
		if err == nil && (m.QuestionID+".json" != file.name || !strings.HasPrefix(m.QuestionID, "ask-") || m.ThreadKey == "") {
			err = errors.New("it is not ours")
		}
		if err == nil && m.Status != Pending && !slices.Contains(next[Pending], m.Status) {
			err = fmt.Errorf("status %q means nothing to this version", m.Status)
		}
		if err == nil && now.Sub(m.AskedAt) <= MaxAge {
			err = errors.New("it says that it is younger than its file")
		}
		switch {
		case err == nil:
			m.Path = filepath.Join(f.in.Dir, file.name)
			old = append(old, m)
		case !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, f.corrupt(file, err))
		}
	}
	slices.SortStableFunc(old, func(a, b *Proof) int {
		switch openA, openB := a.Status.Open(), b.Status.Open(); {
		case openA == openB:
			return a.AskedAt.Compare(b.AskedAt)
		case openA:
			return 1
		}
		return -1
	})
	return old, bad
}

// Remove takes the file of a closed question away, with its locks.
func (f *MarkerFolder) Remove(m *Proof) error {
	return f.in.Remove(&Question{QuestionID: m.QuestionID, Status: m.Status, Path: m.Path})
}

func (f *MarkerFolder) corrupt(file markerFile, err error) error {
	return &Corrupt{Path: filepath.Join(f.in.Dir, file.name), Err: err}
}
