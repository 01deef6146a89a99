package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Ended are the sessions whose end is not reported yet, the oldest end first. What does not parse is moved aside and
// returned in bad.
func (s Ledgers) Ended() (ended []*Ledger, bad []error) {
	ended, bad = s.load(func(kind string) bool {
		return strings.HasSuffix(kind, ".json") && (kind == "ended.json" || strings.HasPrefix(kind, "ended-"))
	})
	slices.SortStableFunc(ended, func(a, b *Ledger) int { return a.EndedAt.Compare(b.EndedAt) })
	return ended, bad
}

// load reads the ledgers whose file names go on like this after the first dot. What does not parse is moved aside and
// returned in bad.
func (s Ledgers) load(wanted func(kind string) bool) (all []*Ledger, bad []error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !missing(err) {
		return nil, []error{fmt.Errorf("list ledgers: %w", err)}
	}
	for _, e := range entries {
		name, kind, _ := strings.Cut(e.Name(), ".")
		if name == "" || !wanted(kind) {
			continue
		}
		l, err := loadLedger(filepath.Join(s.Dir, e.Name()))
		switch {
		case err == nil:
			all = append(all, l)
		case !errors.Is(err, fs.ErrNotExist):
			bad = append(bad, err)
		}
	}
	return all, bad
}

// Reported takes an ended session out. Its file stays for a day under another name, so that the same end told once
// more is known.
func (s Ledgers) Reported(l *Ledger) error {
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	now, err := loadLedger(l.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !now.EndedAt.Equal(l.EndedAt) {
		return nil // another reporter was faster, and the session may even have ended once more
	}
	to := s.path(l.SessionID, ".reported")
	if l.AtGate {
		to = s.gatePath(l, ".")
	}
	if err == nil {
		err = os.Rename(l.Path, to)
	}
	if err != nil {
		return fmt.Errorf("take ended session out: %w", err)
	}
	if l.AtGate {
		return nil // it runs on
	}
	// The hook was killed before it did this; a later ledger of the same session has another start.
	if running, err := s.Load(l.SessionID); err == nil && running.StartedAt.Equal(l.StartedAt) {
		return os.Remove(running.Path)
	}
	return nil
}

// Sweep removes reported ends that are a day old, and whatever else nobody touched for thirty days.
func (s Ledgers) Sweep(now time.Time) {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		age := ledgerAge
		if strings.HasSuffix(e.Name(), ".reported.json") {
			age = MaxAge
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > age && e.Name() != ".lock" {
			os.Remove(filepath.Join(s.Dir, e.Name()))
		}
	}
}
