package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// A thousand questions beside files that are none are shown, all of them, in a moment.
func TestStatus_ManyQuestions(t *testing.T) {
	many := 1000
	if testing.Short() {
		many = 200
	}
	program, env, folder := newMachineWithQuestions(t, many)
	for name, content := range map[string]string{"broken-1.json": `{"question_id": nonsense}`, "number-1.json": "5", "empty-1.json": ""} {
		kit.NoError(t, os.WriteFile(filepath.Join(folder.Dir, name), []byte(content), 0o600))
	}
	for _, name := range []string{"broken-1.json", "number-1.json", "pipe-1.json", "folder-1.json"} {
		open := state.IndexEntry{RecordType: state.IndexedQuestion, Path: filepath.Join(folder.Dir, name)}
		kit.NoError(t, state.AddToIndex(getenvOf(env), open))
	}
	kit.NoError(t, syscall.Mkfifo(filepath.Join(folder.Dir, "pipe-1.json"), 0o600))
	kit.NoError(t, os.Mkdir(filepath.Join(folder.Dir, "folder-1.json"), 0o700))
	began := time.Now()
	out := mustRun(t, env, program, "status")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
	counted := fmt.Sprintf("\nquestions: %d open\n", many)
	if n := strings.Count(out, "\n  ask-user-"); n != many || !strings.HasPrefix(out, "configuration: no space is set up yet: gchat-hooks setup\nset aside: ") || !strings.Contains(out, counted) {
		t.Errorf("%d questions are shown", n)
	}
	if n := strings.Count(out, "set aside: "); n < 4 || strings.ContainsAny(out, "\x1b\u202e\u009b\U000e0041") {
		t.Errorf("%d files are said to be none, or a terminal would be moved:\n%s", n, out[len(out)-1500:])
	}
	var r statusReport
	out = mustRun(t, env, program, "status", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Questions) != many || !strings.Contains(r.Questions[0].Question, "DB\u202e\u009b\U000e0041?") {
		t.Errorf("%d questions: %v", len(r.Questions), err)
	}
	if strings.ContainsAny(out, "\x1b\u202e\u009b\U000e0041") {
		t.Errorf("a terminal would be moved:\n%q", out[:1500])
	}
	if list := mustRun(t, env, program, "answer"); strings.Count(list, "ask-user-") != many {
		t.Errorf("listed: %s", list)
	}
}

func TestStatus_Text(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &statusReport{
		At: at,
		Questions: []openQuestion{
			{ThreadKey: "ask-user-1a2b3c4d", SessionName: "orch", AskedAt: at.Add(-3 * time.Minute), Question: "日本語の質問" + strings.Repeat("?", 200), Questions: 2, Mode: state.ModeNative, Status: state.Pending, Posted: true, ThreadName: "spaces/A/threads/T", ThreadURL: "https://chat.google.com/room/A/T", Deliverer: state.DelivererHook, ProjectDir: "/p"},
			{ThreadKey: "ask-s-1a2b3c4d", SessionName: "a-longer-name", AskedAt: at.Add(-125 * time.Minute), Question: "Which?", Questions: 1, Mode: state.ModeDeny, Status: state.Pending, PostError: "refused", Deliverer: state.DelivererNone, ProjectDir: "/p"},
		},
		Errors: []logError{{Time: at, Job: "flush", Message: "not sent", Cause: "refused", Hint: "do x"}},
	}
	screen := r.text()
	if !strings.HasPrefix(screen, "errors: ") {
		t.Errorf("what is wrong does not stand first on\n%s", screen)
	}
	for _, want := range []string{
		"  ask-user-1a2b3c4d, 3m old, orch, native: waiting for you, /p\n", "  ask-s-1a2b3c4d, 2h5m old, a-longer-name, deny: only the terminal can answer, /p\n",
		"      \"日本語の質問????", "\n      https://chat.google.com/room/A/T\n", "      not posted: refused\n", "      hint: do x\n",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q on\n%s", want, screen)
		}
	}
}

// What the daemon may not read is told also where the person's terminal may read it.
func TestStatus_UnreadableFolders(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	kit.NoError(t, os.MkdirAll(filepath.Join(state.UserStateDir(env), "pollers"), 0o700))
	h := state.Heartbeat{PID: os.Getpid(), BeatAt: time.Now(), UnreadableFolders: []string{"/Users/ann/Documents/shop"}}
	kit.NoError(t, state.WriteHeartbeat(env, h))
	r := collectStatus(env, &config.Config{}, &state.Redactor{})
	if screen := r.text(); !strings.HasPrefix(screen, "configuration: the poller (pid ") || !strings.Contains(screen, "/Users/ann/Documents/shop: check the permissions") {
		t.Error(screen)
	}
}

// A session is seen when its transcript was written last, and not listed where its Claude
// Code has ended without a hook's word.
func TestStatus_NamesADryRun(t *testing.T) {
	r := &statusReport{Pollers: []pollerStatus{{Heartbeat: state.Heartbeat{PID: 7, IsDaemon: true, IsDryRun: true, Machine: "vm"}}}}
	kit.Containsf(t, r.text(), "daemon: pid 7, on vm, a dry run: nothing is typed into any session", "it")
}

func TestStatus_Sessions(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	transcript := filepath.Join(home, "s.jsonl")
	kit.NoError(t, os.WriteFile(transcript, nil, 0o600))
	ended := exec.Command("true")
	kit.NoError(t, ended.Run())
	for id, pid := range map[string]int{"runs": os.Getpid(), "ended": ended.Process.Pid} {
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(id, func(s *state.Session) {
			s.LastSeen, s.ClaudePID, s.TranscriptPath = time.Now().Add(-6*time.Minute), pid, transcript
		})
		kit.NoError(t, err)
	}
	r := collectStatus(env, &config.Config{}, &state.Redactor{})
	if len(r.Sessions) != 1 || r.Sessions[0].SessionID != "runs" || time.Since(r.Sessions[0].LastSeen) > 5*time.Minute {
		t.Errorf("%+v", r.Sessions)
	}
}
