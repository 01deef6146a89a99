package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newRepository makes the machine's project a git repository with a commit.
func (m *machine) newRepository() (dir, head string) {
	m.Helper()
	dir = m.env["CLAUDE_PROJECT_DIR"]
	initRepository(m.TB, dir)
	_, head = gitHead(m.Context(), dir, gitTimeout)
	return dir, head
}

func TestSession_StartIsRecorded(t *testing.T) {
	m := newMachine(t)
	dir, head := m.newRepository()
	kit.Equalf(t, m.run(sessionHook, m.event("single-01-SessionStart")), "", "printed")
	s := m.session()
	if s.Name != "orch-epic4" || s.ProjectDir != dir || s.CWD != dir || s.Source != "startup" || s.Model != "claude-opus-5-5" ||
		s.Branch != "main" || s.Commit != head || s.StartedAt.IsZero() || !s.IsRunning() ||
		s.TranscriptPath != filepath.Join(m.dir, "sess-1.jsonl") {
		t.Errorf("session %+v", s)
	}
	kit.Equalf(t, len(m.reports()), 0, "reports")
}

func TestSession_StartIsReportedOnce(t *testing.T) {
	m := newMachine(t)
	m.newRepository()
	m.writeConfig(`{"reports":{"session_start":"on"}}`)
	for range 2 {
		m.run(sessionHook, m.event("single-01-SessionStart"))
	}
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "compact"))
	m.wantReports("(session_start) orch-epic4\nProject: shop\nBranch: main\nModel: claude-opus-5-5\nSource: startup\nMachine: " + state.MachineName())
}

// After a compaction a session goes on. With every other source it starts again.
func TestSession_SourceSaysIfItGoesOn(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("single-01-SessionStart"))
	told := time.Now().UTC().Truncate(time.Millisecond)
	tell := func() { m.changeSession(func(s *state.Session) { s.SummarySentFor, s.EndedAt = told, told }) }
	tell()
	began := m.session().StartedAt
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "compact", "model", "claude-next"))
	s := m.session()
	if !s.StartedAt.Equal(began) || s.Model != "claude-next" || s.Source != "startup" || !s.IsRunning() {
		t.Errorf("after a compaction: %+v", s)
	}
	for _, source := range []string{"resume", "clear", "fork", "startup"} {
		tell()
		before := m.session().StartedAt
		m.run(sessionHook, m.event("single-01-SessionStart", "source", source))
		s := m.session()
		if !s.StartedAt.After(before) || !s.SummarySentFor.Equal(told) || s.Source != source || !s.IsRunning() {
			t.Errorf("after %s: %+v", source, s)
		}
	}
}

// After /clear the thread goes on, and commands that were carried out in it are not
// repeated. Without that, a /stop that had been answered interrupted the next session's
// first turn, seen with Claude Code 2.1.197.
func TestSession_ClearKeepsTheThread(t *testing.T) {
	m := newMachine(t)
	m.env["CLAUDE_PID"] = strconv.Itoa(os.Getpid())
	m.run(sessionHook, m.event("single-01-SessionStart"))
	done := time.Now().UTC().Truncate(time.Millisecond)
	m.changeSession(func(s *state.Session) {
		s.ThreadName, s.Chat, s.AcceptsCommands, s.OldCommandsDoneUntil = "spaces/x/threads/t", "h/spaces/x", true, done
		s.OldIgnoredUntil = done
	})
	m.run(sessionHook, m.event("single-01-SessionStart", "session_id", "sess-2", "source", "clear"))
	s, err := state.SessionsIn(state.UserStateDir(m.getenv)).Get("sess-2")
	kit.NoError(t, err)
	knows := s.OldCommandsDoneUntil.Equal(done) && s.OldIgnoredUntil.Equal(done)
	if s.ThreadName != "spaces/x/threads/t" || !s.AcceptsCommands || !knows {
		t.Errorf("%+v", s)
	}
}

func TestSession_EndOwesTheSummary(t *testing.T) {
	for name, start := range map[string]bool{"with a start": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.newRepository()
			if start {
				m.run(sessionHook, m.event("single-01-SessionStart"))
			}
			kit.Equalf(t, m.run(sessionHook, m.event("timing-10-SessionEnd")), "", "printed")
			s := m.session()
			if s.IsRunning() || s.SummaryOwedFor.IsZero() || s.EndReason != "prompt_input_exit" || s.Name != "orch-epic4" || s.TranscriptPath == "" || (s.Source != "") != start {
				t.Errorf("session %+v", s)
			}
			kit.Equalf(t, len(m.reports()), 0, "reports: they are the poller's")
		})
	}
}

// Two installs of the hooks, whose events coincide with those of a Stop, owe one summary.
// A session that was resumed may end again.
func TestSession_EndsOnce(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("single-01-SessionStart"))
	owed := map[time.Time]bool{}
	for range 2 {
		var all sync.WaitGroup
		for _, event := range []string{"timing-10-SessionEnd", "single-07-Stop", "timing-10-SessionEnd"} {
			all.Go(func() { m.run(sessionHook, m.event(event)) })
		}
		all.Wait()
		owed[m.session().SummaryOwedFor] = true
		m.run(sessionHook, m.event("timing-10-SessionEnd"))
		owed[m.session().SummaryOwedFor] = true
	}
	m.run(sessionHook, m.event("single-01-SessionStart", "source", "resume"))
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	owed[m.session().SummaryOwedFor] = true
	if owed[time.Time{}] || len(owed) != 2 {
		t.Errorf("owed: %v", owed)
	}
}

// All hooks of SessionEnd share one and a half seconds.
func TestSession_EndStartsNoGit(t *testing.T) {
	m := newMachine(t)
	m.newRepository()
	ran := filepath.Join(m.dir, "ran")
	git := m.writeFile(filepath.Join(m.dir, "bin", "git"), "#!/bin/sh\ntouch "+ran+"\n")
	kit.NoError(t, os.Chmod(git, 0o700))
	t.Setenv("PATH", filepath.Dir(git)+":"+os.Getenv("PATH"))
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	if _, err := os.Stat(ran); err == nil {
		t.Error("git was started")
	}
}

// A turn's end is not recorded.
func TestSession_StopWritesNothing(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("single-07-Stop"))
	m.wantNoOutput()
}

// The terminal shows the person once what went wrong.
func TestSession_NoticesAreShownOnce(t *testing.T) {
	m := newMachine(t)
	for _, run := range [][2]string{
		{sessionHook, "single-07-Stop"}, {sessionHook, "single-01-SessionStart"}, {"gchat-ask-user-answered", "single-07-Stop"},
	} {
		m.changeSession(func(s *state.Session) { s.Notices = []string{"Look here."} })
		kit.Equalf(t, m.run(run[0], m.event(run[1])), `{"systemMessage":"Look here."}`+"\n", "%q printed", run)
		if out := m.run(run[0], m.event(run[1])); out != "" {
			t.Errorf("%q printed %q once more", run, out)
		}
	}
}

// summary returns the summary of sess-1, as the poller has it written.
func (m *machine) summary() (text string, turns int) {
	m.Helper()
	s := m.session()
	r, turns, err := buildSummary(m.Context(), m.getenv, s)
	kit.NoError(m, err)
	if r.Type != state.ReportSessionEnded || !r.At.Equal(s.SummaryOwedFor) {
		m.Errorf("report %+v", r)
	}
	return reportText(&r), turns
}

// This is a whole session: it starts in a repository, works for two turns and ends.
func TestSummary_WholeSession(t *testing.T) {
	m := newMachine(t)
	dir, _ := m.newRepository()
	m.run(sessionHook, m.event("single-01-SessionStart"))
	m.changeSession(func(s *state.Session) { s.StartedAt = s.StartedAt.Add(-72*time.Minute - time.Second/2) })
	at := time.Now()
	prompt := func(text string) string {
		return strings.Replace(entryLine(t, "user", at, text), `"uuid":"u"`, `"uuid":"of `+text+`"`, 1)
	}
	lines := prompt("first")
	for i, tool := range strings.Fields("Read Read Read Bash Bash mcp__server__do A1 A2 A3 A4 A5 A6 A7") {
		lines += assistantLine(t, at, call(fmt.Sprint("t", i), tool, nil))
	}
	lines += prompt("second") + assistantLine(t, at, map[string]any{"type": "text", "text": "All **done**.\nSee `b.go`."})
	m.writeFile(filepath.Join(m.dir, "sess-1.jsonl"), lines)
	commitFile(t, dir, "Add b", "b.go", "1\n2\n")
	commitFile(t, dir, "Fix *all* of <users/all>", "__init__.py", "1\n")
	m.writeFile(filepath.Join(dir, "a.go"), "a\nnot committed\n")
	for i, status := range []string{"verified", "in_progress", "pending"} {
		m.writeFile(filepath.Join(dir, ".claude", "completion-state", "promises", fmt.Sprint(i)+".json"), `{"status":"`+status+`"}`)
	}
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	text, turns := m.summary()
	want := "(session_end) orch-epic4\n" +
		"Duration: 1h12m\nTurns: 2\nTools: Read 3, Bash 2, A1 1, A2 1, A3 1, A4 1, A5 1, A6 1 and 2 more\n" +
		"Branch: main, 3 files changed, 4 insertions(+)\nFiles: `__init__.py`, a.go, b.go\n" +
		"Commits:\n• `Fix *all* of <users/all>`\n• Add b\n1 of 3 promises verified\nEnded: the person closed it in the terminal\n" +
		"To continue: `cd " + dir + " && claude --resume sess-1`\n\n" +
		"Last words:\nAll **done**.\nSee `b.go`."
	if text != want || turns != 2 {
		t.Errorf("%d turns, got %q\nwant %q", turns, text, want)
	}
}

// After a kill between the report and the session's record, the summary is still sent
// once. A session that was resumed and ended without a turn gets none.
func TestSummary_IsSentOnce(t *testing.T) {
	m := newMachine(t)
	for _, turn := range []struct {
		source, said string
		want         int
	}{{"startup", "", 1}, {"resume", "", 1}, {"resume", "go on", 2}} {
		m.run(sessionHook, m.event("single-01-SessionStart", "source", turn.source))
		lines := ""
		if turn.said != "" {
			lines = entryLine(t, "user", time.Now(), turn.said) + assistantLine(t, time.Now(), map[string]any{"type": "text", "text": "Done."})
		}
		m.writeFile(filepath.Join(m.dir, "sess-1.jsonl"), lines)
		m.run(sessionHook, m.event("timing-10-SessionEnd"))
		owing := m.session()
		for range 2 {
			kit.NoError(t, EnqueueSummary(m.Context(), m.getenv, owing))
		}
		if current := m.session(); !current.SummaryOwedFor.IsZero() {
			t.Errorf("the session still owes: %+v", current)
		}
		summaries := 0
		for _, r := range m.reports() {
			if r.Report.Type == state.ReportSessionEnded {
				summaries++
			}
		}
		if summaries != turn.want {
			t.Errorf("%+v: %d summaries", turn, summaries)
		}
	}
}

// In these cases the start or a repository is not known, or the transcript cannot be
// read.
func TestSummary_SaysWhatIsKnown(t *testing.T) {
	recording, err := filepath.Abs("testdata/2.1.197/transcripts/single.jsonl")
	kit.NoError(t, err)
	ended := func(reason string) func(*machine, *state.Session) {
		return func(_ *machine, s *state.Session) { s.EndReason = reason }
	}
	for name, c := range map[string]struct {
		change func(m *machine, s *state.Session)
		want   string
	}{
		"a transcript": {func(_ *machine, s *state.Session) { s.TranscriptPath = recording },
			"Turns: 1\nTools: AskUserQuestion 1\nEnded: the person closed it in the terminal\nTo continue: `cd PROJECT && claude --resume sess-1`\n\nLast words:\nThanks, understood."},
		"no transcript": {func(_ *machine, s *state.Session) {
			s.Source = "startup"
			s.StartedAt = s.SummaryOwedFor.Add(-time.Hour)
		},
			"Duration: 1h\nEnded: the person closed it in the terminal"},
		"begun anew meanwhile": {func(_ *machine, s *state.Session) {
			s.Source, s.StartedAt, s.TranscriptPath = "resume", s.SummaryOwedFor.Add(time.Second), recording
		}, "Turns: 1\nTools: AskUserQuestion 1\nEnded: the person closed it in the terminal\nTo continue: `cd PROJECT && claude --resume sess-1`\n\nLast words:\nThanks, understood."},
		"cleared": {ended("clear"), "Ended: the conversation was cleared"},
		"resumed": {ended("resume"), "Ended: another session was resumed in its place"},
		"logout":  {ended("logout"), "Ended: the person logged out"},
		"mode":    {ended("bypass_permissions_disabled"), "Ended: permissions may no longer be bypassed"},
		"other":   {ended("other"), "Ended: Claude Code was closed"},
		"later":   {ended("moved_to_cloud"), "Ended: moved to cloud"},
		"none":    {ended(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.run(sessionHook, m.event("timing-10-SessionEnd"))
			m.changeSession(func(s *state.Session) { c.change(m, s) })
			want := strings.TrimSuffix("(session_end) orch-epic4\n"+c.want, "\n")
			want = strings.ReplaceAll(want, "PROJECT", m.session().ProjectDir)
			if text, _ := m.summary(); text != want {
				t.Errorf("got %q\nwant %q", text, want)
			}
		})
	}
}

func TestSummary_CancelledIsNone(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := buildSummary(ctx, m.getenv, m.session()); err == nil {
		t.Error("a summary of half of it")
	}
}

func TestSummary_CountsTurns(t *testing.T) {
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	now := start.Add(time.Minute)
	n := 0
	id := func(line string) string {
		n++
		return strings.Replace(line, `"uuid":"u"`, fmt.Sprintf(`"uuid":"u%d"`, n), 1)
	}
	prompt := func(text string) string { return id(entryLine(t, "user", now, text)) }
	flag := func(line, flags string) string {
		return strings.Replace(line, `"isSidechain":false`, `"isSidechain":false,`+flags, 1)
	}
	side := func(line string) string { return strings.Replace(line, `"isSidechain":false`, `"isSidechain":true`, 1) }
	text := assistantLine(t, now, map[string]any{"type": "text", "text": "Done."})
	bash := assistantLine(t, now, call("b", "Bash", nil)) + entryLine(t, "user", now, result("b"))
	one := prompt("go")
	for name, c := range map[string]struct {
		lines string
		want  int
	}{
		"none": {"", 0}, "one": {one + bash + text, 1}, "two": {one + text + prompt("and now?") + text, 2},
		"before the session's start": {entryLine(t, "user", start.Add(-time.Hour), "go") + text, 0},
		"a prompt without an answer": {one + text + prompt("and now?"), 1},
		"two prompts, one answer":    {one + prompt("and this") + text, 1},
		"sent back by a Stop hook":   {one + text + flag(prompt("Stop hook feedback:\nnot yet"), `"isMeta":true`) + text, 1},
		"woken by a background task": {one + text + flag(prompt("x"), `"origin":{"kind":"task-notification"}`) + text, 1},
		"woken, in an older version": {one + text + prompt("<task-notification>\n<summary>") + text, 1},
		"compacted": {one + text + flag(prompt("This session is being continued"),
			`"isCompactSummary":true`) + text, 1},
		"interrupted":               {one + text + prompt("[Request interrupted by user]") + text, 1},
		"a subagent's":              {one + text + side(prompt("look at a.go")) + side(text) + text, 1},
		"a command for Claude Code": {one + text + prompt("<command-name>/compact</command-name>"), 1},
		"broken lines":              {one + text + "{\"type\":\"user\"\n\x00\n" + prompt("go on") + text + `{"type":"us`, 2},
	} {
		path := transcript(t, c.lines)
		if did := tallyTranscript(t.Context(), path, start); did.turns != c.want {
			t.Errorf("%s: %d turns, want %d", name, did.turns, c.want)
		}
	}
}

func TestSummary_TurnsOfRecordings(t *testing.T) {
	for file, want := range map[string]int{"single": 1, "dismissed": 1, "denied-again": 1, "woken": 1} {
		for _, version := range []string{"2.1.197", "2.1.329"} {
			path, err := filepath.Abs(filepath.Join("testdata", version, "transcripts", file+".jsonl"))
			kit.NoError(t, err)
			if _, err := os.Stat(path); err != nil && file == "woken" {
				// of 2.1.197 it was not recorded
				continue
			}
			if did := tallyTranscript(t.Context(), path, time.Time{}); did.turns != want {
				t.Errorf("%s of %s: %d turns", file, version, did.turns)
			}
		}
	}
}
