package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// newRepository makes the world's project a git repository with a commit.
func (w *world) newRepository() (dir, head string) {
	w.Helper()
	dir = w.env["CLAUDE_PROJECT_DIR"]
	initRepository(w, dir)
	_, head = gitHead(w.Context(), dir, gitTimeout)
	return dir, head
}

// summary returns the summary of sess-1, as the poller has it written.
func (w *world) summary() (text string, turns int) {
	w.Helper()
	s := w.session()
	r, turns, err := buildSummary(w.Context(), w.getenv, s)
	kit.NoError(w, err)
	kit.Equalf(w, r.Type, state.ReportSessionEnded, "type")
	kit.Equalf(w, r.At, s.SummaryOwedFor, "time")
	return reportText(&r), turns
}

// This is a whole session: it starts in a repository, works for two turns and ends.
func TestSummary_WholeSession(t *testing.T) {
	w := newReportWorld(t)
	dir, _ := w.newRepository()
	w.callHook(sessionHook, w.event("single-01-SessionStart"))
	w.changeSession("sess-1", func(s *state.Session) { s.StartedAt = s.StartedAt.Add(-72*time.Minute - time.Second/2) })
	at := time.Now()
	prompt := func(text string) string {
		return strings.Replace(entryLine(t, "user", at, text), `"uuid":"u"`,
			`"uuid":"of `+text+`"`, 1)
	}
	lines := prompt("first")
	for i, tool := range strings.Fields("Read Read Read Bash Bash mcp__server__do A1 A2 A3 A4 A5 A6 A7") {
		lines += assistantLine(t, at, call(fmt.Sprint("t", i), tool, nil))
	}
	lines += prompt("second") + assistantLine(t, at,
		map[string]any{"type": "text", "text": "All **done**.\nSee `b.go`."})
	lines += `{"type":"cost-state","totalCostUSD":1.2345,"hasUnknownModelCost":false}` + "\n" // 2.1.332
	writeFile(w, filepath.Join(w.dir, "sess-1.jsonl"), lines)
	commitFile(t, dir, "Add b", "b.go", "1\n2\n")
	commitFile(t, dir, "Fix *all* of <users/all>", "__init__.py", "1\n")
	writeFile(w, filepath.Join(dir, "a.go"), "a\nnot committed\n")
	for i, status := range []string{"verified", "in_progress", "pending"} {
		writeFile(w, filepath.Join(dir, ".claude", "completion-state", "promises",
			fmt.Sprint(i)+".json"), `{"status":"`+status+`"}`)
	}
	w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
	text, turns := w.summary()
	want := "(session_end) orch-epic4\n" +
		"Duration: 1h12m\nTurns: 2\nTools: Read 3, Bash 2, A1 1, A2 1, A3 1, A4 1, A5 1, A6 1 and 2 more\n" +
		"Cost: about $1.23, by Claude Code's estimate\n" +
		"Branch: main, 3 files changed, 4 insertions(+)\nFiles: `__init__.py`, a.go, b.go\n" +
		"Commits:\n• `Fix *all* of <users/all>`\n• Add b\n1 of 3 promises verified\nEnded: the person closed it in the terminal\n" +
		"To continue: `cd " + dir + " && claude --resume sess-1`\n\n" +
		"Last words:\nAll **done**.\nSee `b.go`."
	kit.Equal(t, text, want)
	kit.Equalf(t, turns, 2, "turns")
}

// After a kill between the report and the session's record, the summary is still sent
// once. A session that was resumed and ended without a turn gets none.
func TestSummary_IsSentOnce(t *testing.T) {
	w := newReportWorld(t)
	for _, turn := range []struct {
		source, prompt string
		want           int
	}{{"startup", "", 1}, {"resume", "", 1}, {"resume", "go on", 2}} {
		w.callHook(sessionHook, w.event("single-01-SessionStart", "source", turn.source))
		lines := ""
		if turn.prompt != "" {
			lines = entryLine(t, "user", time.Now(), turn.prompt) + assistantLine(t, time.Now(),
				map[string]any{"type": "text", "text": "Done."})
		}
		writeFile(w, filepath.Join(w.dir, "sess-1.jsonl"), lines)
		w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
		owing := w.session()
		for range 2 {
			kit.NoError(t, EnqueueSummary(w.Context(), w.getenv, owing))
		}
		kit.True(t, w.session().SummaryOwedFor.IsZero(), "a summary is owed")
		summaries := slices.DeleteFunc(w.reports(), func(m *state.Message) bool {
			return m.Report.Type != state.ReportSessionEnded
		})
		kit.Equalf(t, len(summaries), turn.want, "%+v: summaries", turn)
	}
}

// In these cases the start or a repository is not known, or the transcript cannot be
// read.
func TestSummary_SaysWhatIsKnown(t *testing.T) {
	recording, err := filepath.Abs("testdata/2.1.197/transcripts/single.jsonl")
	kit.NoError(t, err)
	ended := func(reason string) func(*world, *state.Session) {
		return func(_ *world, s *state.Session) { s.EndReason = reason }
	}
	for name, c := range map[string]struct {
		change func(w *world, s *state.Session)
		want   string
	}{
		"a transcript": {func(_ *world, s *state.Session) { s.TranscriptPath = recording },
			"Turns: 1\nTools: AskUserQuestion 1\nEnded: the person closed it in the terminal\nTo continue: `cd PROJECT && claude --resume sess-1`\n\nLast words:\nThanks, understood."},
		"no transcript": {func(_ *world, s *state.Session) {
			s.Source = "startup"
			s.StartedAt = s.SummaryOwedFor.Add(-time.Hour)
		},
			"Duration: 1h\nEnded: the person closed it in the terminal"},
		"begun again meanwhile": {func(_ *world, s *state.Session) {
			s.Source, s.StartedAt, s.TranscriptPath = "resume",
				s.SummaryOwedFor.Add(time.Second), recording
		}, "Turns: 1\nTools: AskUserQuestion 1\nEnded: the person closed it in the terminal\nTo continue: `cd PROJECT && claude --resume sess-1`\n\nLast words:\nThanks, understood."},
		"cleared": {ended("clear"), "Ended: the conversation was cleared"},
		"resumed": {ended("resume"), "Ended: another session was resumed in its place"},
		"logout":  {ended("logout"), "Ended: the person logged out"},
		"mode": {ended("bypass_permissions_disabled"),
			"Ended: permissions may no longer be bypassed"},
		"other": {ended("other"), "Ended: Claude Code was closed"},
		"later": {ended("moved_to_cloud"), "Ended: moved to cloud"},
		"none":  {ended(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
			w.changeSession("sess-1", func(s *state.Session) { c.change(w, s) })
			want := strings.TrimSuffix("(session_end) orch-epic4\n"+c.want, "\n")
			want = strings.ReplaceAll(want, "PROJECT", w.session().ProjectDir)
			text, _ := w.summary()
			kit.Equal(t, text, want)
		})
	}
}

func TestSummary_CancelledIsNone(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := buildSummary(ctx, w.getenv, w.session())
	kit.True(t, err != nil, "a summary of half of it")
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
	side := func(line string) string {
		return strings.Replace(line, `"isSidechain":false`, `"isSidechain":true`, 1)
	}
	text := assistantLine(t, now, map[string]any{"type": "text", "text": "Done."})
	bash := assistantLine(t, now, call("b", "Bash", nil)) + entryLine(t, "user", now, result("b"))
	one := prompt("go")
	for name, c := range map[string]struct {
		lines string
		want  int
	}{
		"none": {"", 0}, "one": {one + bash + text, 1},
		"two":                        {one + text + prompt("and now?") + text, 2},
		"before the session's start": {entryLine(t, "user", start.Add(-time.Hour), "go") + text, 0},
		"a prompt without an answer": {one + text + prompt("and now?"), 1},
		"two prompts, one answer":    {one + prompt("and this") + text, 1},
		"sent back by a Stop hook": {one + text + flag(prompt("Stop hook feedback:\nnot yet"),
			`"isMeta":true`) + text, 1},
		"woken by a background task": {one + text + flag(prompt("x"),
			`"origin":{"kind":"task-notification"}`) + text, 1},
		"woken, in an older version": {one + text +
			prompt("<task-notification>\n<summary>") + text, 1},
		"compacted": {one + text + flag(prompt("This session is being continued"),
			`"isCompactSummary":true`) + text, 1},
		"interrupted":  {one + text + prompt("[Request interrupted by user]") + text, 1},
		"a subagent's": {one + text + side(prompt("look at a.go")) + side(text) + text, 1},
		"a command for Claude Code": {one + text +
			prompt("<command-name>/compact</command-name>"), 1},
		"broken lines": {one + text + "{\"type\":\"user\"\n\x00\n" + prompt("go on") +
			text + `{"type":"us`, 2},
	} {
		did := tallyTranscript(t.Context(), transcript(t, c.lines), start)
		kit.Equalf(t, did.turns, c.want, "%s: turns", name)
	}
}

func TestSummary_TurnsOfRecordings(t *testing.T) {
	for file, want := range map[string]int{"single": 1, "dismissed": 1,
		"denied-again": 1, "woken": 1} {
		for _, version := range []string{"2.1.197", "2.1.329"} {
			path, err := filepath.Abs(filepath.Join("testdata", version, "transcripts",
				file+".jsonl"))
			kit.NoError(t, err)
			if _, err := os.Stat(path); err != nil && file == "woken" {
				// of 2.1.197 it was not recorded
				continue
			}
			did := tallyTranscript(t.Context(), path, time.Time{})
			kit.Equalf(t, did.turns, want, "%s of %s: turns", file, version)
		}
	}
}

func TestSummary_DurationText(t *testing.T) {
	end := time.Now()
	for d, want := range map[time.Duration]string{
		0: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m",
		59*time.Minute + 59*time.Second: "59m", 20 * time.Minute: "20m",
		time.Hour: "1h", 10 * time.Hour: "10h", 72 * time.Minute: "1h12m",
		27*time.Hour + 5*time.Minute: "27h5m", -time.Second: "",
	} {
		kit.Equalf(t, durationText(end.Add(-d), end), want, "%s", d)
	}
}

// A repository can name programs for git to start, and have file names that act
// elsewhere.
func TestSummary_HostileRepository(t *testing.T) {
	repo := newRepository(t)
	_, start := gitHead(t.Context(), repo, gitTimeout)
	ran := filepath.Join(t.TempDir(), "ran")
	evil := writeFile(t, filepath.Join(t.TempDir(), "evil"), "#!/bin/sh\ntouch "+ran+"\n")
	kit.NoError(t, os.Chmod(evil, 0o700))
	for _, kv := range [][2]string{{"core.fsmonitor", evil}, {"diff.external", evil},
		{"diff.x.textconv", evil},
		{"diff.x.command", evil}, {"core.hooksPath", filepath.Dir(evil)},
		{"core.pager", evil}, {"gpg.program", evil}, {"log.showSignature",
			"true"}, {"color.ui", "always"}} {
		runGit(t, repo, "config", kv[0], kv[1])
	}
	for name, content := range map[string]string{".gitattributes": "* diff=x\n",
		"<users!all> *bold*": "x", "new\nline": "x"} {
		writeFile(t, filepath.Join(repo, name), content)
	}
	runGit(t, repo, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "add", "-A")
	runGit(t, repo, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "commit", "-qm",
		"[Session End] *x*\n\nbody")
	runGit(t, repo, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "checkout",
		"-qb", "`<users/all>`")
	_ = os.Remove(ran)
	c := gitChangesSince(t.Context(), repo, start, time.Now().Add(-time.Minute))
	kit.True(t, c.branch == "`<users/all>`" && len(c.subjects) == 1 && len(c.files) == 3 &&
		c.diffStat == "3 files changed, 3 insertions(+)", "got %+v", c)
	writeFile(t, filepath.Join(repo, "new and never added"), "")
	makeOlder(t, writeFile(t, filepath.Join(repo, "was there before"), ""), time.Hour)
	if c := gitChangesSince(t.Context(), repo, start,
		time.Now().Add(-time.Minute)); len(c.files) != 4 ||
		c.files[3] != "new and never added" {
		t.Errorf("files %q", c.files)
	}
	kit.True(t, len(c.subjects) == 1 && c.subjects[0] == "[Session End] *x*",
		"subjects %q", c.subjects)
	wantNoFile(t, ran) // a program that the repository names
	if c := gitChangesSince(t.Context(), repo, "--output="+ran, time.Now()); len(c.subjects) != 0 ||
		len(c.files) != 0 {
		t.Errorf("an option passed for a commit: %+v", c)
	}
	wantNoFile(t, ran)
}

func TestSummary_HangingGit(t *testing.T) {
	repo := newRepository(t)
	bin := t.TempDir()
	kit.NoError(t, os.WriteFile(filepath.Join(bin, "git"),
		[]byte("#!/bin/sh\nsleep 1000 & echo $! > "+filepath.Join(bin,
			"pid")+"; wait\n"), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	branch, commit := gitHead(t.Context(), repo, gitHookTimeout)
	kit.Equal(t, branch+commit, "")
	pid, err := os.ReadFile(filepath.Join(bin, "pid"))
	if err != nil {
		t.Skip("the shell was ended before it had a child")
	}
	gone := func() bool {
		b, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	}
	for deadline := time.Now().Add(30 * time.Second); !gone(); time.Sleep(5 * time.Millisecond) {
		kit.Must(t, !time.Now().After(deadline), "git's child was left behind")
	}
}

func newRepository(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	initRepository(t, dir)
	return dir
}

// initRepository makes a folder a git repository with a commit.
func initRepository(t testing.TB, dir string) {
	t.Helper()
	runGit(t, dir, "init", "-qb", "main")
	runGit(t, dir, "config", "user.name", "Dev")
	runGit(t, dir, "config", "user.email", "dev@example.com")
	commitFile(t, dir, "first", "a.go", "a\n")
}

func commitFile(t testing.TB, dir, subject, file, content string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, file), content)
	runGit(t, dir, "add", "--", file)
	runGit(t, dir, "commit", "-qm", subject)
}

func runGit(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := bound.Command(t, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	kit.Equalf(t, err, nil, "git %v: %s", args, out)
}
