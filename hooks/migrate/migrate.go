// Package migrate takes a harness folder from a relay agent to gchat-hooks: the persistent agent s3-communicator, to which
// other agents sent messages for Google Chat, gives way to gchat-send and to the hooks. It finds everything that names the
// agent, changes what it understands, lists the rest by file and line, and can take all of it back.
//
// It is a tool for people, not a hook: nothing here runs while Claude Code waits.
package migrate

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The relay, and where its skill lives before and after.
const (
	relay     = "s3-communicator"
	skillDir  = ".claude/skills/" + relay
	skillHome = ".claude/skills/_archived"
	archived  = skillHome + "/" + relay
)

// ErrNotHarness says that a folder holds no .claude folder that could be migrated.
var ErrNotHarness = errors.New("not a harness folder")

// A Problem is an error with advice: its hint says what to do about it.
type Problem struct {
	Err    error
	Advice string
}

func (p *Problem) Error() string { return p.Err.Error() }

// Hint is what a person can do.
func (p *Problem) Hint() string { return p.Advice }

func (p *Problem) Unwrap() error { return p.Err }

// A Change is one file that is rewritten, or one folder that moves.
type Change struct {
	Path   string   // in the harness, with slashes
	To     string   // its new path; "" when it stays where it is
	Folder bool     // the whole folder moves as it is
	Why    []string // what is done to it, a line each, in the order of the file

	before, after []byte
	mode          os.FileMode
}

// A Look is a place that a person has to look at: it was not understood, or not changed for a reason.
type Look struct {
	Path string
	Line int // from 1; 0 is the whole file
	Why  string
	Text string // the line, shortened, with control characters shown
}

func (l Look) String() string {
	s := l.Path
	if l.Line > 0 {
		s += fmt.Sprintf(":%d", l.Line)
	}
	if s += ": " + l.Why; l.Text != "" {
		s += ": " + l.Text
	}
	return s
}

// A Plan is what would be done to a harness folder. Nothing is written before Apply.
type Plan struct {
	Dir     string
	Changes []Change // in the order of their paths
	Look    []Look   // "look at this yourself", in the order of path and line
	Notes   []string // what else is worth knowing, a sentence each
	// Resumes says that an earlier Apply or Revert was cut short: the changes are what is missing of that Apply.
	Resumes bool
}

// Find looks through the harness folder dir and says what would be done. now dates the changelog's entry.
// It fails with ErrNotHarness, wrapped in a Problem, when dir is no harness; it never writes.
func Find(dir string, now time.Time) (*Plan, error) {
	h, err := openHarness(dir)
	if err != nil {
		return nil, err
	}
	defer h.close()
	if rec, err := unfinished(h.disk); err != nil {
		return nil, err
	} else if rec != nil {
		return h.resume(rec)
	}
	if err := h.walk(); err != nil {
		return nil, err
	}
	p := &Plan{Dir: dir}
	moves := h.skill(p)
	renames := h.checker(p)
	for _, f := range h.files {
		if f.path == checkerPath(renames) || f.understood {
			p.add(h, f)
			continue
		}
		f.migrate(moves, renames != nil)
		p.add(h, f)
	}
	h.changelog(p, now)
	p.Look = append(p.Look, h.look...)
	h.notes(p)
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(p.Look, func(a, b Look) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return p, nil
}
