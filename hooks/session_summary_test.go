package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// summary words the summary of sess-1, as the poller has it done.
func (m *machine) summary() (text string, turns int) {
	m.Helper()
	s := m.session()
	r, turns, err := Summary(m.Context(), m.getenv, s)
	if err != nil {
		m.Fatal(err)
	}
	if r.Type != state.SessionEnded || !r.At.Equal(s.OwesSummary) {
		m.Errorf("report %+v", r)
	}
	return shown(&r), turns
}

// The whole way: a session begins in a repository, works for two turns and ends.
func TestSummaryOfASession(t *testing.T) {
	m := newMachine(t)
	dir, _ := m.repository()
	m.run(sessionHook, m.event("single-01-SessionStart"))
	m.change(func(s *state.Session) { s.StartedAt = s.StartedAt.Add(-72*time.Minute - time.Second/2) })
	at := time.Now()
	prompt := func(text string) string {
		return strings.Replace(entryLine(t, "user", at, text), `"uuid":"u"`, `"uuid":"of `+text+`"`, 1)
	}
	lines := prompt("first")
	for i, tool := range strings.Fields("Read Read Read Bash Bash mcp__server__do A1 A2 A3 A4 A5 A6 A7") {
		lines += assistantLine(t, at, call(fmt.Sprint("t", i), tool, nil))
	}
	lines += prompt("second") + assistantLine(t, at, map[string]any{"type": "text", "text": "All **done**.\nSee `b.go`."})
	m.put(filepath.Join(m.dir, "sess-1.jsonl"), lines)
	m.put(filepath.Join(m.dir, "sess-1", "subagents", "agent-1.jsonl"), prompt("go")+assistantLine(t, at, call("s1", "Bash", nil)))
	commitFile(t, dir, "Add b", "b.go", "1\n2\n")
	commitFile(t, dir, "Fix *all* of <users/all>", "__init__.py", "1\n")
	m.put(filepath.Join(dir, "a.go"), "a\nnot committed\n")
	for i, status := range []string{"verified", "verified", "pending"} {
		m.put(filepath.Join(dir, ".claude", "completion-state", "promises", fmt.Sprint(i)+".json"), `{"status":"`+status+`"}`)
	}
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	text, turns := m.summary()
	want := "(session_end) orch-epic4\n" +
		"Duration: 1 h 12 min\nTurns: 2\nTools: Bash 3, Read 3, A1 1, A2 1, A3 1, A4 1, A5 1, A6 1 and 2 more\n" +
		"Branch: main, 2 commits, 3 files changed, 4 insertions(+)\nFiles: `__init__.py`, a.go, b.go\n" +
		"Commits:\n• `Fix *all* of <users/all>`\n• Add b\nPromises: 2 verified, 1 pending\nReason: prompt_input_exit\n\n" +
		"Last words:\nAll **done**.\nSee `b.go`."
	if text != want || turns != 2 {
		t.Errorf("%d turns, got %q\nwant %q", turns, text, want)
	}
}

// Neither the start nor a repository is known, or the transcript cannot be read.
func TestSummaryOfWhatIsKnown(t *testing.T) {
	recording, err := filepath.Abs("testdata/2.1.197/transcripts/single.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(m *machine, s *state.Session)
		want   string
	}{
		"a transcript": {func(_ *machine, s *state.Session) { s.TranscriptPath = recording },
			"Turns: 1\nTools: AskUserQuestion 1\nReason: prompt_input_exit\nLast words: Thanks, understood."},
		"no transcript": {func(_ *machine, s *state.Session) { s.Source = "startup"; s.StartedAt = s.OwesSummary.Add(-time.Hour) },
			"Duration: 1 h\nReason: prompt_input_exit"},
		"begun anew meanwhile": {func(_ *machine, s *state.Session) {
			s.Source, s.StartedAt, s.TranscriptPath = "resume", s.OwesSummary.Add(time.Second), recording
		}, "Turns: 1\nTools: AskUserQuestion 1\nReason: prompt_input_exit\nLast words: Thanks, understood."},
		"edits outside git": {func(m *machine, s *state.Session) {
			path := filepath.Join(s.ProjectDir, "sub", "new.go")
			m.put(s.TranscriptPath, assistantLine(m.TB, time.Now(), call("1", "Write", map[string]any{"file_path": path})))
		}, "Tools: Write 1\nFiles: sub/new.go\nReason: prompt_input_exit"},
		"a reason that says nothing": {func(_ *machine, s *state.Session) { s.Reason = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.run(sessionHook, m.event("timing-10-SessionEnd"))
			m.change(func(s *state.Session) { c.change(m, s) })
			want := strings.TrimSuffix("(session_end) orch-epic4\n"+c.want, "\n")
			if text, _ := m.summary(); text != want {
				t.Errorf("got %q\nwant %q", text, want)
			}
		})
	}
}

func TestSummaryThatIsBrokenOff(t *testing.T) {
	m := newMachine(t)
	m.run(sessionHook, m.event("timing-10-SessionEnd"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Summary(ctx, m.getenv, m.session()); err == nil {
		t.Error("a summary of half of it")
	}
}

func TestSummaryTellsWhatFormattingCost(t *testing.T) {
	for name, c := range map[string]struct {
		usd  []float64
		long bool
		want string
	}{
		"none": {nil, false, ""}, "one": {[]float64{0.00118}, false, "Formatting: 1 question, $0.0012"},
		"several":        {[]float64{0.0004, 0.0004, 0.0004, 0}, false, "Formatting: 3 questions, $0.0012"},
		"a long session": {[]float64{0.001}, true, "Formatting: 1 question, $0.0010 in the last day"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.run(sessionHook, m.event("single-01-SessionStart"))
			m.run(sessionHook, m.event("timing-10-SessionEnd"))
			ago := time.Hour
			if c.long {
				ago = 30 * time.Hour
			}
			m.change(func(s *state.Session) { s.StartedAt = time.Now().Add(-ago) })
			folder := state.ProjectState(m.getenv)
			if err := state.Register(m.getenv, folder, m.session().ProjectDir); err != nil {
				t.Fatal(err)
			}
			for i, usd := range c.usd {
				b, err := json.Marshal(&state.Question{QuestionID: "0a1b2c3d", SessionID: "orch-epic4", ClaudeSessionID: "sess-1",
					Status: state.Resolved, AskedAt: time.Now(), FormatUSD: usd})
				if err != nil {
					t.Fatal(err)
				}
				m.put(filepath.Join(folder, "pending-questions", fmt.Sprintf("orch-epic4-%d.json", i)), string(b))
			}
			text, _ := m.summary()
			if got := strings.Contains(text, "Formatting"); got != (c.want != "") || !strings.Contains(text+"\n", c.want+"\n") {
				t.Errorf("got %q", text)
			}
		})
	}
}

func TestTurns(t *testing.T) {
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
		"held twice by a resumed transcript": {one + text + one + text, 1},
		"before the session's start":         {entryLine(t, "user", start.Add(-time.Hour), "go") + text, 0},
		"a prompt without an answer":         {one + text + prompt("and now?"), 1},
		"two prompts, one answer":            {one + prompt("and this") + text, 1},
		"sent back by a Stop hook":           {one + text + flag(prompt("Stop hook feedback:\nnot yet"), `"isMeta":true`) + text, 1},
		"woken by a background task":         {one + text + flag(prompt("x"), `"origin":{"kind":"task-notification"}`) + text, 1},
		"woken, in an older version":         {one + text + prompt("<task-notification>\n<summary>") + text, 1},
		"compacted": {one + text + flag(prompt("This session is being continued"),
			`"isCompactSummary":true`) + text, 1},
		"interrupted":               {one + text + prompt("[Request interrupted by user]") + text, 1},
		"a subagent's":              {one + text + side(prompt("look at a.go")) + side(text) + text, 1},
		"a command for Claude Code": {one + text + prompt("<command-name>/compact</command-name>"), 1},
		"broken lines":              {one + text + "{\"type\":\"user\"\n\x00\n" + prompt("go on") + text + `{"type":"us`, 2},
	} {
		path := transcript(t, c.lines)
		if did := tallyOf(t.Context(), path, start); did.turns != c.want {
			t.Errorf("%s: %d turns, want %d", name, did.turns, c.want)
		}
	}
}

func TestTurnsOfRecordedSessions(t *testing.T) {
	for file, want := range map[string]int{"single": 1, "dismissed": 1, "denied-again": 1, "woken": 1} {
		for _, version := range []string{"2.1.197", "2.1.329"} {
			path, err := filepath.Abs(filepath.Join("testdata", version, "transcripts", file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path); err != nil && file == "woken" { // of 2.1.197 it was not recorded
				continue
			}
			if did := tallyOf(t.Context(), path, time.Time{}); did.turns != want {
				t.Errorf("%s of %s: %d turns", file, version, did.turns)
			}
		}
	}
}
