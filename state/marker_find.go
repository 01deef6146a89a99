package state

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Find looks at the questions of these sessions whose files were written since then, the newest first, until one proves
// what is wanted. What is no marker, or none that this version understands, is passed over, and returned in bad where it is named
// after one of the sessions; so is what proves has an error about. All files are read: a session that was resumed under
// another name has markers of the former one. Several goroutines may call proves at once.
func (f *MarkerFolder) Find(sessions []string, since time.Time, proves func(*Proof) (bool, error)) (found bool, bad []error) {
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

// namedAfter says whether a marker is named after one of these sessions, as this version names them.
func namedAfter(name string, sessions []string) bool {
	return slices.ContainsFunc(sessions, func(id string) bool {
		begins := "ask-" + safeName(id) + "-"
		return strings.HasPrefix(name, begins) && len(name) == len(begins)+len("01234567.json")
	})
}

// proves asks about a marker twice: as it is read quickly, and what then counts as it is read thoroughly.
func (f *MarkerFolder) proves(file markerFile, buf []byte, sessions []string, proves func(*Proof) (bool, error)) (ok bool, err error) {
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
// are those whose file, question and thread are called as we call them, whoever wrote them. What is passed over is returned
// in bad.
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
