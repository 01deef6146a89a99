package state

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// FindMarker looks at the questions of these sessions whose files were written since then, the newest first, until one
// proves what is wanted. What is no marker, or none that this version understands, is passed over and returned in bad, and
// so is what proves has an error about.
func (s Questions) FindMarker(sessions []string, since time.Time, proves func(*Marker) (bool, error)) (found bool, bad []error, err error) {
	d, err := s.openMarkers()
	if d == nil {
		return false, nil, err
	}
	defer d.close()
	files, err := d.files(s.ofSessions(sessions))
	if err != nil {
		return false, nil, err
	}
	files = slices.DeleteFunc(files, func(f markerFile) bool { return f.written.Before(since) })
	slices.SortFunc(files, func(a, b markerFile) int { return b.written.Compare(a.written) })
	for _, f := range files {
		found, err := d.proves(f, sessions, proves)
		if found {
			return true, bad, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, err)
		}
	}
	return false, bad, nil
}

// proves asks about a marker twice: as it is read quickly, and what then counts as it is read thoroughly.
func (d *markerDir) proves(f markerFile, sessions []string, proves func(*Marker) (bool, error)) (bool, error) {
	b, err := d.read(f)
	for _, thoroughly := range []bool{false, true} {
		var m *Marker
		if err == nil {
			m, err = parseMarker(b, f.written, thoroughly)
		}
		ok := false
		if err == nil && slices.Contains(sessions, m.SessionID) {
			ok, err = proves(m)
		}
		if err != nil {
			return false, d.corrupt(f, err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// OldMarkers are markers of ours that are older than MaxAge by what they say and by their file, the closed ones first. It
// reads at most so many files: other ones each time, lest those that stay for ever hide the others. Ours are those whose
// file, question and thread are called as we call them, whoever wrote them. What is passed over is returned in bad.
func (s Questions) OldMarkers(now time.Time, most int) (old []*Marker, bad []error, err error) {
	d, err := s.openMarkers()
	if d == nil {
		return nil, nil, err
	}
	defer d.close()
	files, err := d.files(func(string) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	files = slices.DeleteFunc(files, func(f markerFile) bool { return now.Sub(f.written) <= MaxAge })
	if len(files) > most {
		i := rand.IntN(len(files))
		files = append(files[i:], files[:i]...)[:most]
	}
	for _, f := range files {
		b, err := d.read(f)
		var m *Marker
		if err == nil {
			m, err = parseMarker(b, f.written, true)
		}
		if err == nil && (m.QuestionID+".json" != f.name || !strings.HasPrefix(m.QuestionID, "ask-") || m.ThreadKey == "") {
			err = errors.New("it is not ours")
		}
		if err == nil && now.Sub(m.AskedAt) <= MaxAge {
			err = errors.New("it says that it is younger than its file")
		}
		switch {
		case err == nil:
			m.Path = filepath.Join(d.path, f.name)
			old = append(old, m)
		case !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, d.corrupt(f, err))
		}
	}
	slices.SortStableFunc(old, func(a, b *Marker) int {
		switch openA, openB := a.Status.Open(), b.Status.Open(); {
		case openA == openB:
			return a.AskedAt.Compare(b.AskedAt)
		case openA:
			return 1
		}
		return -1
	})
	return old, bad, nil
}

func (d *markerDir) corrupt(f markerFile, err error) error {
	return &Corrupt{Path: filepath.Join(d.path, f.name), Err: err}
}
