package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// repository makes the machine's project a git repository with a commit.
func (m *machine) repository() (dir, head string) {
	m.Helper()
	dir = m.env["CLAUDE_PROJECT_DIR"]
	initRepository(m.TB, dir)
	_, head = headOf(m.Context(), dir, gitBound)
	return dir, head
}

func TestSessionStart(t *testing.T) {
	m := newMachine(t)
	dir, head := m.repository()
	if out := m.run(sessionHook, m.event("single-01-SessionStart")); out != "" {
		t.Errorf("printed %q", out)
	}
	s := m.session()
	if s.Name != "orch-epic4" || s.ProjectDir != dir || s.CWD != dir || s.Source != "startup" || s.Model != "claude-opus-5-5" ||
		s.Branch != "main" || s.Commit != head || s.StartedAt.IsZero() || !s.Running() ||
		s.TranscriptPath != filepath.Join(m.dir, "sess-1.jsonl") {
		t.Errorf("session %+v", s)
	}
	if n := len(m.reports()); n != 0 {
		t.Errorf("%d reports", n)
	}
}

func TestSessionStartIsToldWhenWanted(t *testing.T) {
	m := newMachine(t)
	m.repository()
	m.config(`{"reports":{"session_start":"on"}}`)
	for range 2 {
		m.run(sessionHook, m.event("single-01-SessionStart"))
	}
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "compact"))
	m.wantReports("(session_start) orch-epic4\nProject: shop\nBranch: main\nModel: claude-opus-5-5\nSource: startup")
}

// After a compaction a session goes on; with every other source it begins anew, and what was told before is of the past.
func TestSourcesOfASession(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("single-01-SessionStart"))
	told := time.Now().UTC()
	tell := func() { m.change(func(s *state.Session) { s.ToldSummary, s.ToldTurns, s.EndedAt = told, 3, told }) }
	tell()
	began := m.session().StartedAt
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "compact", "model", "claude-next"))
	s := m.session()
	if !s.StartedAt.Equal(began) || s.ToldTurns != 3 || s.Model != "claude-next" || s.Source != "startup" || !s.Running() {
		t.Errorf("after a compaction: %+v", s)
	}
	for _, source := range []string{"resume", "clear", "fork", "startup"} {
		tell()
		before := m.session().StartedAt
		m.run(sessionHook, m.event("single-01-SessionStart", "source", source))
		s := m.session()
		if !s.StartedAt.After(before) || s.ToldTurns != 0 || !s.ToldSummary.IsZero() || s.Source != source || !s.Running() {
			t.Errorf("after %s: %+v", source, s)
		}
	}
}

func TestSessionEndOwesTheSummary(t *testing.T) {
	for name, start := range map[string]bool{"with a start": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.repository()
			if start {
				m.run(sessionHook, m.event("single-01-SessionStart"))
				m.change(func(s *state.Session) { s.LastWords = "of a stop at the gate" })
			}
			if out := m.run(sessionHook, m.event("timing-10-SessionEnd")); out != "" {
				t.Errorf("printed %q", out)
			}
			s := m.session()
			if s.Running() || s.OwesSummary.IsZero() || s.Reason != "prompt_input_exit" || s.LastWords != "" || s.Name != "orch-epic4" ||
				s.TranscriptPath == "" || (s.Source != "") != start {
				t.Errorf("session %+v", s)
			}
			if n := len(m.reports()); n != 0 {
				t.Errorf("%d reports: they are the poller's", n)
			}
		})
	}
}

// All hooks of SessionEnd share a second and a half.
func TestSessionEndStartsNoGit(t *testing.T) {
	m := newMachine(t)
	m.repository()
	ran := filepath.Join(m.dir, "ran")
	git := m.put(filepath.Join(m.dir, "bin", "git"), "#!/bin/sh\ntouch "+ran+"\n")
	if err := os.Chmod(git, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(git)+":"+os.Getenv("PATH"))
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	if _, err := os.Stat(ran); err == nil {
		t.Error("git was started")
	}
}

// A turn's end is written nowhere.
func TestStopWritesNothing(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("single-07-Stop"))
	m.wantSilence()
}

func TestSessionHookShowsNoticesOnce(t *testing.T) {
	m := newMachine(t)
	for _, event := range []string{"single-07-Stop", "single-01-SessionStart"} {
		m.change(func(s *state.Session) { s.Notices = []string{"Look here."} })
		var told struct {
			SystemMessage string `json:"systemMessage"`
		}
		out := m.run(sessionHook, m.event(event))
		if err := json.Unmarshal([]byte(out), &told); err != nil || !strings.Contains(told.SystemMessage, "Look here.") {
			t.Errorf("%s printed %q", event, out)
		}
		if out := m.run(sessionHook, m.event(event)); out != "" {
			t.Errorf("%s printed %q once more", event, out)
		}
	}
}
