package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Status shows all of many questions, beside files that are no questions.
func TestStatus_ManyQuestions(t *testing.T) {
	many := 1000
	if !kit.IsThorough() {
		many = 200
	}
	h := newProjectHome(t, "TERM=xterm-256color", "LANG=C.UTF-8")
	for i := range many {
		h.recordQuestion(i)
	}
	dir := filepath.Join(h.project, ".claude/state/pending-questions")
	for name, content := range map[string]string{
		"broken-1.json": `{"question_id": nonsense}`, "number-1.json": "5", "empty-1.json": "",
	} {
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	kit.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe-1.json"), 0o600))
	kit.NoError(t, os.Mkdir(filepath.Join(dir, "folder-1.json"), 0o700))
	for _, name := range []string{
		"broken-1.json", "number-1.json", "pipe-1.json", "folder-1.json",
	} {
		entry := state.IndexEntry{RecordType: state.IndexedQuestion, Path: filepath.Join(dir, name)}
		kit.NoError(t, state.AddToIndex(h.getenv, entry))
	}
	out, inJSON := h.mustRun("status"), h.mustRun("status", "--json")
	kit.Equalf(t, strings.Count(out, "\n  ask-user-"), many, "questions shown")
	kit.Containsf(t, out, fmt.Sprintf("\nquestions: %d open\n", many), "status")
	const first = "configuration: not connected to Google Chat or the page yet: gchat-hooks setup\nset aside: "
	if !strings.HasPrefix(out, first) || strings.Count(out, "set aside: ") < 4 {
		t.Errorf("files that are none are not said to be so:\n%s", out[:500])
	}
	if strings.ContainsAny(out+inJSON, "\x1b\u202e\u009b\U000e0041") {
		t.Errorf("a terminal would be moved:\n%q", out[len(out)-1500:])
	}
	var r statusReport
	kit.NoError(t, json.Unmarshal([]byte(inJSON), &r))
	kit.Equalf(t, len(r.Questions), many, "questions in the JSON")
	kit.Containsf(t, r.Questions[0].Question, "DB\u202e\u009b\U000e0041?", "the question")
	kit.Equalf(t, strings.Count(h.mustRun("answer"), "ask-user-"), many,
		"questions that answer lists")
}

func TestStatus_Text(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &statusReport{
		At: at,
		Questions: []openQuestion{
			{
				ThreadKey: "ask-user-1a2b3c4d", SessionName: "orch",
				AskedAt:  at.Add(-3 * time.Minute),
				Question: "日本語の質問" + strings.Repeat("?", 200), Questions: 2, Mode: state.ModeNative,
				Status: state.Pending, Posted: true, ThreadName: "spaces/A/threads/T",
				ThreadURL: "https://chat.google.com/room/A/T", Deliverer: state.DelivererHook,
				ProjectDir: "/p",
			},
			{
				ThreadKey: "ask-s-1a2b3c4d", SessionName: "a-longer-name",
				AskedAt:  at.Add(-125 * time.Minute),
				Question: "Which?", Questions: 1, Mode: state.ModeDeny, Status: state.Pending,
				PostError: "refused", Deliverer: state.DelivererNone, ProjectDir: "/p",
			},
		},
		Pollers: []pollerStatus{{Heartbeat: state.Heartbeat{
			PID: 7, IsDaemon: true, IsDryRun: true, Machine: "vm",
		}}},
		Errors: []logError{
			{Time: at, Job: "flush", Message: "not sent", Cause: "refused", Hint: "do x"},
		},
	}
	screen := r.text()
	if !strings.HasPrefix(screen, "errors: ") {
		t.Errorf("what is wrong does not stand first on\n%s", screen)
	}
	for _, want := range []string{
		"  ask-user-1a2b3c4d, 3m old, orch, native: waiting for you, /p\n",
		"  ask-s-1a2b3c4d, 2h5m old, a-longer-name, deny: only the terminal can answer, /p\n",
		"      \"日本語の質問????", "\n      https://chat.google.com/room/A/T\n",
		"      not posted: refused\n", "      hint: do x\n",
		"daemon: pid 7, on vm, a dry run: nothing is typed into any session",
	} {
		kit.Contains(t, screen, want)
	}
}

// Status names folders that the daemon may not read, even if the person's terminal may.
func TestStatus_UnreadableFolders(t *testing.T) {
	env := getenvOf([]string{"HOME=" + t.TempDir()})
	kit.NoError(t, os.MkdirAll(filepath.Join(state.UserStateDir(env), "pollers"), 0o700))
	const folder = "/Users/ann/Documents/shop"
	h := state.Heartbeat{PID: os.Getpid(), BeatAt: time.Now(), UnreadableFolders: []string{folder}}
	kit.NoError(t, state.WriteHeartbeat(env, h))
	screen := collectStatus(env, &config.Config{}, &state.Redactor{}).text()
	kit.Containsf(t, screen, folder+": check the permissions", "status")
	if !strings.HasPrefix(screen, "configuration: the poller (pid ") {
		t.Error(screen)
	}
}

// Of each version of Claude Code that runs, status says whether it works.
func TestStatus_SaysWhichClaudeWorks(t *testing.T) {
	env := getenvOf([]string{"HOME=" + t.TempDir()})
	dir := filepath.Join(t.TempDir(), ".claude")
	pid := os.Getpid()
	kit.NoError(t, os.MkdirAll(filepath.Join(dir, "sessions"), 0o700))
	_, err := state.SessionsIn(state.UserStateDir(env)).Change("runs", func(s *state.Session) {
		s.LastSeen, s.ClaudePID = time.Now(), pid
		s.TranscriptPath = filepath.Join(dir, "projects", "p", "s.jsonl")
	})
	kit.NoError(t, err)
	wantLine := func(version, want string) {
		t.Helper()
		file := fmt.Sprintf(`{"version":%q}`, version)
		kit.NoError(t, os.WriteFile(
			filepath.Join(dir, "sessions", fmt.Sprint(pid, ".json")), []byte(file), 0o600))
		screen := collectStatus(env, &config.Config{}, &state.Redactor{}).text()
		kit.Contains(t, "\n"+screen, "\nClaude Code "+version+want+"\n")
	}
	save := func(check state.ClaudeCheck) {
		kit.NoError(t, state.SaveClaudeCheck(env, "2.1.999", check))
	}
	wantLine("2.1.332", ": works with this version of gchat-hooks")
	wantLine("2.1.999", " was not checked: gchat-hooks doctor --claude tries whether it works")
	save(state.ClaudeCheck{Failure: "it was late"})
	wantLine("2.1.999", " was not checked as a whole: it was late; gchat-hooks doctor --claude tries it")
	save(state.ClaudeCheck{Broken: []string{"command.stop"}})
	wantLine("2.1.999", ": /stop does not work from Chat. Press Esc in the terminal.")
}

// A session was last seen when its transcript was written, and is not listed if its
// Claude Code ended without a hook.
func TestStatus_Sessions(t *testing.T) {
	env := getenvOf([]string{"HOME=" + t.TempDir()})
	transcript := filepath.Join(t.TempDir(), "s.jsonl")
	kit.NoError(t, os.WriteFile(transcript, nil, 0o600))
	for id, pid := range map[string]int{"runs": os.Getpid(), "ended": endedPID(t)} {
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(id, func(s *state.Session) {
			s.LastSeen, s.ClaudePID, s.TranscriptPath = time.Now().Add(-6*time.Minute), pid, transcript
		})
		kit.NoError(t, err)
	}
	r := collectStatus(env, &config.Config{}, &state.Redactor{})
	if len(r.Sessions) != 1 || r.Sessions[0].ID != "runs" ||
		time.Since(r.Sessions[0].LastSeen) > 5*time.Minute {
		t.Errorf("%+v", r.Sessions)
	}
}
