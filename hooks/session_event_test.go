package hooks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// repository makes the world's project a git repository with a commit.
func (w *world) repository() string {
	w.Helper()
	dir := w.env["CLAUDE_PROJECT_DIR"]
	w.git("init", "-qb", "main")
	w.git("config", "user.name", "Dev")
	w.git("config", "user.email", "dev@example.com")
	w.commit("first", "a.go", "1\n2\n3\n")
	return dir
}

func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.env["CLAUDE_PROJECT_DIR"], append(w.environ(), "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit changes a file and commits it.
func (w *world) commit(subject, file, content string) {
	w.Helper()
	writeFile(w.TB, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], file), content)
	w.git("add", "--", file)
	w.git("commit", "-qm", subject)
}

// event is an event of the session sess-1 in the world's project, with some members set.
func (w *world) event(name string, kv ...any) []byte {
	w.Helper()
	return recorded(w.TB, name, append([]any{"session_id", "sess-1", "cwd", w.env["CLAUDE_PROJECT_DIR"], "transcript_path", filepath.Join(w.dir, "sess-1.jsonl")}, kv...)...)
}

func (w *world) ledgers() state.Ledgers {
	return state.LedgersIn(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks"))
}

func (w *world) ledger() *state.Ledger {
	w.Helper()
	l, err := w.ledgers().Load("sess-1")
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// rewindStart lets the session have begun earlier.
func (w *world) rewindStart(by time.Duration) {
	w.Helper()
	if err := w.ledgers().Update("sess-1", func(l *state.Ledger, _ bool) error { l.StartedAt = l.StartedAt.Add(-by); return nil }); err != nil {
		w.Fatal(err)
	}
}

var headerTime = regexp.MustCompile(`^(\[Session (?:Start|End)\] [^|\n]+) \| \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n`)

// sessionMessages are the messages about a session's start or end, without their times.
func (w *world) sessionMessages(prefix string) (texts []string) {
	w.Helper()
	for _, m := range w.messages(prefix) {
		if !headerTime.MatchString(m.Text) {
			w.Errorf("no time in the header of %q", m.Text)
		}
		texts = append(texts, headerTime.ReplaceAllString(m.Text, "$1\n"))
	}
	return texts
}

// wantSummary waits for the one summary of a session's end.
func (w *world) wantSummary(want string) {
	w.Helper()
	w.awaitMessage("[Session End]")
	w.endFlusher()
	if got := w.sessionMessages("[Session End]"); len(got) != 1 || got[0] != want {
		w.Errorf("got %q\nwant %q", got, want)
	}
}

func TestSessionFromStartToSummary(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	dir := w.repository()
	head := w.git("rev-parse", "HEAD")
	if out := w.run(sessionHook, w.event("single-01-SessionStart")); out != "" {
		t.Errorf("printed %q", out)
	}
	if l := w.ledger(); l.Branch != "main" || l.Commit != head || l.Source != "startup" || l.Model != "claude-opus-5-5" || l.SessionName != "orch-epic4" || l.ProjectDir != dir || l.Turns != 0 {
		t.Errorf("ledger %+v", l)
	}
	w.rewindStart(72*time.Minute + time.Second/2)

	at := time.Now().UTC().Format(time.RFC3339Nano)
	lines := ""
	for i, tool := range []string{"Read", "Read", "Read", "Bash", "Bash", "mcp__server__do", "A1", "A2", "A3", "A4", "A5", "A6", "A7"} {
		lines += fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"content":[{"type":"tool_use","id":"t%d","name":%q,"input":{}}]}}`+"\n", at, i, tool)
	}
	writeFile(t, filepath.Join(w.dir, "sess-1.jsonl"), lines)
	writeFile(t, filepath.Join(w.dir, "sess-1", "subagents", "agent-1.jsonl"),
		`{"type":"assistant","isSidechain":true,"message":{"content":[{"type":"tool_use","id":"s1","name":"Bash","input":{}}]}}`+"\n")
	w.commit("Add b", "b.go", "1\n2\n")
	w.commit("Fix *all* of <users/all>", "__init__.py", "1\n")
	writeFile(t, filepath.Join(dir, "a.go"), "1\n3\n") // not committed
	for i, status := range []string{"verified", "verified", "pending"} {
		writeFile(t, filepath.Join(dir, ".claude", "completion-state", "promises", fmt.Sprint(i)+".json"), `{"status":"`+status+`"}`)
	}

	task := []any{map[string]any{"id": "1", "type": "subagent", "status": "running"}}
	for _, event := range [][]byte{
		w.event("single-07-Stop", "prompt_id", "p1"), w.event("single-07-Stop", "prompt_id", "p1", "stop_hook_active", true),
		w.event("single-07-Stop", "prompt_id", "p1.5", "background_tasks", task), w.event("single-07-Stop", "prompt_id", "p2", "last_assistant_message", "All **done**.\nSee `b.go`."),
	} {
		if out := w.run(sessionHook, event); out != "" {
			t.Errorf("printed %q", out)
		}
	}
	if n := len(w.chat.Messages()); n != 0 {
		t.Errorf("%d messages before the end", n)
	}
	w.run(sessionHook, w.event("timing-10-SessionEnd"))
	w.wantSummary("[Session End] orch-epic4\n\n" +
		"Duration: 1 h 12 min\nTurns: 2\nTools: Bash 3, Read 3, A1 1, A2 1, A3 1, A4 1, A5 1, A6 1 and 2 more\n" +
		"Branch: main, 2 commits, 3 files changed, 3 insertions(+), 1 deletion(-)\nFiles: `__init__.py`, a.go, b.go\n" +
		"Commits:\n• `Fix *all* of ‹users/all>`\n• Add b\nPromises: 2 verified, 1 pending\nReason: prompt_input_exit\n\nLast words:\nAll *done*.\nSee `b.go`.")
	if ls, _ := w.ledgers().Ended(); len(ls) != 0 {
		t.Errorf("%d ended sessions are left", len(ls))
	}
}

func TestSessionStartIsToldWhenWanted(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.repository()
	w.config(`{"reports":{"session_start":"on"}}`)
	for range 2 {
		w.run(sessionHook, w.event("single-01-SessionStart"))
	}
	w.run(sessionHook, w.event("single-01-SessionStart", "source", "compact"))
	w.awaitMessage("[Session Start]")
	w.endFlusher()
	want := "[Session Start] orch-epic4\n\nProject: shop\nBranch: main\nModel: claude-opus-5-5\nSource: startup"
	if got := w.sessionMessages("[Session Start]"); len(w.chat.Messages()) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSourcesOfASession(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.rewindStart(time.Hour)
	w.run(sessionHook, w.event("single-07-Stop"))
	began := w.ledger().StartedAt
	w.run(sessionHook, w.event("single-01-SessionStart", "source", "compact", "model", "claude-next"))
	if l := w.ledger(); !l.StartedAt.Equal(began) || l.Turns != 1 || l.Model != "claude-next" || l.Source != "startup" {
		t.Errorf("after a compaction: %+v", l)
	}
	for _, source := range []string{"resume", "clear", "fork", "startup"} {
		w.run(sessionHook, w.event("single-07-Stop", "prompt_id", source))
		before := w.ledger().StartedAt
		w.run(sessionHook, w.event("single-01-SessionStart", "source", source))
		if l := w.ledger(); !l.StartedAt.After(before) || l.Turns != 0 || l.Source != source {
			t.Errorf("after %s: %+v", source, l)
		}
	}
}

// The SessionStart hook may not be registered.
func TestSessionWhoseStartNobodySaw(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	for range 2 {
		w.run(sessionHook, w.event("multi-07-Stop", "prompt_id", nil, "last_assistant_message", nil))
	}
	if l := w.ledger(); l.Source != state.Unknown || l.Turns != 2 || l.StartedAt.IsZero() {
		t.Errorf("ledger %+v", l)
	}
	recording, err := filepath.Abs("testdata/2.1.197/transcripts/single.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	w.run(sessionHook, w.event("killed-04-SessionEnd", "transcript_path", recording))
	w.wantSummary("[Session End] orch-epic4\n\nTurns: 2\nTools: AskUserQuestion 1\nLast words: Thanks, understood.")
}

func TestSessionEndAlone(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.repository()
	writeFile(t, filepath.Join(w.dir, "sess-1.jsonl"), fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Write","input":{"file_path":%q}}]}}`+"\n",
		filepath.Join(w.env["CLAUDE_PROJECT_DIR"], "sub", "new.go")))
	w.run(sessionHook, w.event("timing-10-SessionEnd"))
	w.wantSummary("[Session End] orch-epic4\n\nTools: Write 1\nBranch: main\nFiles: sub/new.go\nReason: prompt_input_exit")
}

func TestStopShowsNoticesOnce(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	for _, event := range []string{"single-07-Stop", "single-01-SessionStart"} {
		if err := state.AddNotice(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks"), "sess-1", "Look here."); err != nil {
			t.Fatal(err)
		}
		var told struct {
			SystemMessage string `json:"systemMessage"`
		}
		if out := w.run(sessionHook, w.event(event)); json.Unmarshal([]byte(out), &told) != nil || told.SystemMessage != "Look here." {
			t.Errorf("%s printed %q", event, out)
		}
		if out := w.run(sessionHook, w.event(event)); out != "" {
			t.Errorf("%s printed %q once more", event, out)
		}
	}
}

func TestEndToldByTwoInstalls(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.run(sessionHook, w.event("single-07-Stop"))
	a, b := w.start(sessionHook, w.event("timing-10-SessionEnd")), w.start(sessionHook, w.event("timing-10-SessionEnd"))
	a.end()
	b.end()
	w.awaitMessage("[Session End]")
	w.endFlusher()
	w.run(sessionHook, w.event("timing-10-SessionEnd")) // a third, after the summary
	w.flush()
	if n := len(w.messages("[Session End]")); n != 1 {
		t.Errorf("%d summaries", n)
	}
}

// The same session resumed in a second terminal: each end is told, and neither breaks the other's files.
func TestSessionInTwoTerminals(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.run(sessionHook, w.event("single-01-SessionStart", "source", "resume"))
	w.run(sessionHook, w.event("single-07-Stop", "prompt_id", "p1"))
	w.run(sessionHook, w.event("killed-04-SessionEnd"))
	w.run(sessionHook, w.event("single-07-Stop", "prompt_id", "p2", "last_assistant_message", "Second."))
	w.run(sessionHook, w.event("timing-10-SessionEnd"))
	w.until("both summaries", func() bool { return len(w.messages("[Session End]")) == 2 })
	w.endFlusher()
	if got := strings.Join(w.sessionMessages("[Session End]"), "\n"); !strings.Contains(got, "Last words: Thanks, understood.") || !strings.Contains(got, "Last words: Second.") {
		t.Errorf("got %q", got)
	}
}

func TestSummaryThatNobodyWants(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.config(`{"reports":{"session_end":"off"}}`)
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.run(sessionHook, w.event("timing-10-SessionEnd"))
	w.until("the ended session to be taken out", func() bool { ls, _ := w.ledgers().Ended(); return len(ls) == 0 })
	w.endFlusher()
	if n := len(w.chat.Messages()); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// A flusher that another environment started does not take a summary to another space.
func TestSummaryStaysInItsSpace(t *testing.T) {
	t.Parallel()
	w, other := namedWorld(t), newWorld(t)
	elsewhere := w.with("GOOGLE_CHAT_WEBHOOK_URL", other.env["GOOGLE_CHAT_WEBHOOK_URL"], "GCHAT_API_ENDPOINT", other.env["GCHAT_API_ENDPOINT"])
	w.endSession()
	elsewhere.flush()
	if ls, _ := w.ledgers().Ended(); len(ls) != 1 || len(other.chat.Messages()) != 0 {
		t.Errorf("%d ended sessions wait, and the other space has %d messages", len(ls), len(other.chat.Messages()))
	}
	w.flush()
	w.wantSummary("[Session End] orch-epic4\n\nReason: prompt_input_exit")
}

// endSession writes down that the session has ended, as a SessionEnd hook does, and starts no flusher.
func (w *world) endSession() {
	w.Helper()
	hook, err := gchat.ConfiguredWebhook(&state.Config{APIEndpoint: w.env["GCHAT_API_ENDPOINT"]}, w.env["GOOGLE_CHAT_WEBHOOK_URL"])
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.ledgers().End("sess-1", time.Now(), func(l *state.Ledger, known bool) {
		l.Chat, l.Reason = hook.Chat(), "prompt_input_exit"
		if !known {
			l.SessionName, l.Source, l.ProjectDir = "orch-epic4", state.Unknown, w.env["CLAUDE_PROJECT_DIR"]
		}
	}); err != nil {
		w.Fatal(err)
	}
}

// TestKilledAtTheEnd kills -9 the SessionEnd hook, and the flusher that reports it, at each system call by which others
// see them. Then the end is told once more, as a second install does, and wants one summary.
func TestKilledAtTheEnd(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace to kill at system calls: apt-get install strace")
	}
	killed := atomic.Int64{}
	t.Run("steps", func(t *testing.T) {
		for _, victim := range []string{"SessionEnd", "flush"} {
			for _, call := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "write", "openat", "clone,clone3,vfork"} {
				for n := range 4 {
					nth := n + 1
					if call == "openat" {
						nth = 3*n + 6 // the first ones belong to the loader and the runtime
					}
					t.Run(fmt.Sprintf("%s/%s/%d", victim, call, nth), func(t *testing.T) {
						t.Parallel()
						killAtEnd(t, victim, call, nth, &killed)
					})
				}
			}
		}
	})
	t.Logf("%d processes were killed", killed.Load())
	if killed.Load() < 20 {
		t.Errorf("only %d processes were killed: the test does not do what it says", killed.Load())
	}
}

func killAtEnd(t *testing.T, victim, call string, nth int, killed *atomic.Int64) {
	w := namedWorld(t)
	strace := []string{"strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, nth)}
	w.run(sessionHook, w.event("single-01-SessionStart"))
	w.rewindStart(time.Hour)
	w.run(sessionHook, w.event("single-07-Stop"))
	if victim == "SessionEnd" {
		p := w.start(sessionHook, w.event("timing-10-SessionEnd"), strace...)
		<-p.done
		if !p.ProcessState.Success() {
			killed.Add(1)
		}
		w.flush() // whoever comes next
	} else {
		w.endSession()
		cmd := exec.Command(strace[0], append(strace[1:], program, "flush", "--timeout", "20s")...)
		cmd.Env = w.environ()
		if cmd.Run() != nil {
			killed.Add(1)
		}
	}
	w.run(sessionHook, w.event("timing-10-SessionEnd"))
	w.flush()
	w.endFlusher()
	want := "[Session End] orch-epic4\n\nDuration: 1 h\nTurns: 1\nReason: prompt_input_exit\nLast words: Thanks, understood."
	w.until("the summary", func() bool { return len(w.messages("[Session End]")) > 0 })
	if got := w.sessionMessages("[Session End]"); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want one %q", got, want)
	}
	if _, err := w.ledgers().Load("sess-1"); err == nil {
		t.Error("the running ledger is left")
	}
}

// TestKilledAtAnyMoment does the same at moments that nobody chose.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := namedWorld(t)
	w.env["GCHAT_WRITES_PER_MINUTE"] = "60000"
	for i := range 25 {
		id := fmt.Sprint("sess-", i)
		w.run(sessionHook, w.event("single-07-Stop", "session_id", id, "last_assistant_message", "I am "+id+"."))
		p := w.start(sessionHook, w.event("timing-10-SessionEnd", "session_id", id))
		time.Sleep(time.Duration(i) * 250 * time.Microsecond) // the moment of the kill; nothing is asserted on it
		_ = p.Process.Kill()
		<-p.done
		w.run(sessionHook, w.event("timing-10-SessionEnd", "session_id", id))
	}
	w.flush()
	w.endFlusher()
	all := strings.Join(w.sessionMessages("[Session End]"), "\n")
	for i := range 25 {
		if n := strings.Count(all, fmt.Sprintf("I am sess-%d.", i)); n != 1 {
			t.Errorf("session %d was reported %d times", i, n)
		}
	}
}

// Asking tmux takes as long as all the rest of a report: the ledger knows the name.
func TestReportsTakeTheNameFromTheLedger(t *testing.T) {
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	w.run(sessionHook, recorded(t, "killed-01-SessionStart", "session_id", "one"))
	delete(w.env, "CLAUDE_SESSION_ID")
	w.run(notify, recorded(t, "plan-12-SubagentStop", "session_id", "one"))
	w.awaitMessage("[Subagent Done] orch-epic4\n")
}
