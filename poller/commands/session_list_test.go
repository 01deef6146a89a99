package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// listHome is a person's home with records of sessions and questions.
type listHome struct {
	t   *testing.T
	dir string
	now time.Time
}

func (h *listHome) env(name string) string { return map[string]string{"HOME": h.dir}[name] }

// add records a session that runs in this process and was seen some minutes ago.
func (h *listHome) add(id string, minutesAgo int, change func(*state.Session)) {
	h.t.Helper()
	_, err := state.SessionsIn(state.UserStateDir(h.env)).Change(id, func(s *state.Session) {
		s.Name, s.ProjectDir = id, "/home/ann/shop"
		s.LastSeen = h.now.Add(-time.Duration(minutesAgo) * time.Minute)
		s.StartedAt = s.LastSeen.Add(-time.Hour)
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
		s.Chat, s.ThreadName = "host/spaces/S", "spaces/S/threads/"+id
		if change != nil {
			change(s)
		}
	})
	kit.NoError(h.t, err)
}

func (h *listHome) list(questions ...*state.Question) []*ListedSession {
	h.t.Helper()
	list, unreadable := ListSessions(h.env, &config.Config{}, questions, h.now)
	kit.True(h.t, len(unreadable) == 0, "%v", unreadable)
	return list
}

// saveTranscript writes a transcript, and Claude Code's file of its session.
func (h *listHome) saveTranscript(s *state.Session, status string, lines ...string) {
	h.t.Helper()
	projects := filepath.Join(h.dir, ".claude/projects/-p")
	sessions := filepath.Join(h.dir, ".claude/sessions")
	kit.NoError(h.t, os.MkdirAll(projects, 0o700))
	kit.NoError(h.t, os.MkdirAll(sessions, 0o700))
	s.TranscriptPath = filepath.Join(projects, s.ID+".jsonl")
	kit.NoError(h.t, os.WriteFile(s.TranscriptPath, []byte(strings.Join(lines, "\n")), 0o600))
	kit.NoError(h.t, os.Chtimes(s.TranscriptPath, s.LastSeen, s.LastSeen))
	file := fmt.Sprintf(`{"sessionId":%q,"status":%q,"statusUpdatedAt":%d}`,
		s.ID, status, h.now.Add(-time.Minute).UnixMilli())
	path := filepath.Join(sessions, fmt.Sprint(s.ClaudePID)+".json")
	kit.NoError(h.t, os.WriteFile(path, []byte(file), 0o600))
}

func openQuestion(session string, kind state.Kind, askedAt time.Time) *state.Question {
	return &state.Question{
		ClaudeSessionID: session, Kind: kind, Status: state.Pending, Mode: state.ModeNative,
		AskedAt: askedAt, IsMessageSent: true, ThreadName: "spaces/S/threads/" + string(kind),
	}
}

func summary(list []*ListedSession) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, strings.TrimRight(strings.Join([]string{
			s.Name, s.State, strings.Join(s.WaitKinds(), "+"), strings.Join(s.FormerIDs, "+"),
		}, "|"), "|"))
	}
	return strings.Join(lines, "\n")
}

func TestListSessions_OnceForEachThreadInOrder(t *testing.T) {
	h := &listHome{t, t.TempDir(), time.Now().UTC().Truncate(time.Second)}
	ended := func(s *state.Session) { s.EndedAt = s.LastSeen }
	elsewhere := func(s *state.Session) { s.ClaudeStart = "1@another machine" }
	h.add("idle", 5, nil)
	h.add("asks", 9, nil)
	h.add("ended", 1, ended)
	h.add("killed", 2, func(s *state.Session) { s.ClaudePID, s.ClaudeStart = 1<<22-1, "1@"+state.PIDScope() })
	h.add("elsewhere", 6, elsewhere)
	h.add("long elsewhere", 25*60, elsewhere)
	// After /clear, and after a resume under another id, the thread goes on.
	h.add("before clear", 8, func(s *state.Session) { ended(s); s.ThreadName = "spaces/S/threads/t" })
	h.add("cleared", 7, func(s *state.Session) {
		s.ThreadName, s.PreviousSession = "spaces/S/threads/t", "before clear"
	})
	// Sessions without a thread are none of each other.
	noThread := func(s *state.Session) { s.ThreadName, s.Chat = "", "" }
	h.add("no thread", 10, noThread)
	h.add("no thread either", 11, noThread)
	h.add("no name", 12, func(s *state.Session) { s.Name, s.ProjectDir = "", "/home/ann/שלום 🛒" })
	h.add("unsafe", 13, func(s *state.Session) { s.Name = "a\u202eb\nc" })
	questions := []*state.Question{
		openQuestion("asks", state.KindPermission, h.now.Add(-time.Minute)),
		openQuestion("asks", state.KindQuestion, h.now.Add(-2*time.Minute)),
		openQuestion("before clear", state.KindPlan, h.now.Add(-3*time.Minute)),
		openQuestion("ended", state.KindQuestion, h.now.Add(-4*time.Minute)),
		openQuestion("nobody", state.KindQuestion, h.now),
	}
	answered := openQuestion("idle", state.KindQuestion, h.now)
	answered.Status = state.Answered
	got := summary(h.list(append(questions, answered)...))
	kit.Equal(t, got, strings.Join([]string{
		"cleared|waits for you|plan|before clear",
		"asks|waits for you|question+permission",
		"idle",
		"elsewhere|out of reach",
		"no thread",
		"no thread either",
		"שלום 🛒",
		"a\ufffdb c",
		"ended|ended|question",
		"killed|ended",
		"long elsewhere|ended",
	}, "\n"))
}

// What Claude does and what was said last come from Claude Code's own files, without
// secrets, and not from a policy that keeps them in the terminal.
func TestListSessions_StateAndLastWords(t *testing.T) {
	const (
		prompt    = `{"type":"user","message":{"content":"Fix <the> login"}}`
		answer    = `{"type":"assistant","message":{"content":[{"type":"text","text":"Fixed.\nKey: sk-ant-api03-0123456789abcdefghijklmnop"}]}}`
		toolUse   = `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}`
		result    = `{"type":"user","message":{"content":[{"type":"tool_result","content":"a \"user\""}]}}`
		sidechain = `{"type":"assistant","isSidechain":true,"message":{"content":"aside"}}`
		command   = `{"type":"user","message":{"content":"<command-name>/model</command-name>"}}`
		task      = `{"type":"user","origin":{"kind":"task-notification"},"message":{"content":"done"}}`
	)
	h := &listHome{t, t.TempDir(), time.Now().UTC().Truncate(time.Second)}
	for _, c := range []struct {
		status    string
		lines     []string
		want      string
		isPerson  bool
		wantState string
	}{
		{"busy", []string{answer, prompt, toolUse, result, sidechain, "{broken"},
			"Fix <the> login", true, "works"},
		{"idle", []string{prompt, answer, command, task}, "Fixed. Key: sk-ant-api03-•••", false, "idle"},
		{"waiting", []string{toolUse, result}, "", false, "dialog open"},
		{"new word", nil, "", false, ""},
	} {
		h.add("s", 1, func(s *state.Session) { h.saveTranscript(s, c.status, c.lines...) })
		s := h.list()[0]
		kit.Equalf(t, s.LastWords, c.want, "last words, %s", c.status)
		kit.Equalf(t, s.IsPersonLast, c.isPerson, "a person's, %s", c.status)
		if c.status == "waiting" { // no hook told of it: the terminal has it
			kit.Equal(t, strings.Join(s.WaitKinds(), "+"), "terminal")
			c.wantState = "waits for you"
		}
		kit.Equalf(t, s.State, c.wantState, "state")
	}
	kit.NoError(t, os.WriteFile(filepath.Join(h.dir, "policy.json"), []byte(`{"titles_only":true}`), 0o600))
	env := func(name string) string {
		if name == "GCHAT_POLICY_FILE" {
			return filepath.Join(h.dir, "policy.json")
		}
		return h.env(name)
	}
	h.add("s", 1, func(s *state.Session) { h.saveTranscript(s, "idle", prompt, answer) })
	cfg := config.LoadPersonal(env)
	kit.NoError(t, cfg.ApplyPolicies(t.Context(), env))
	list, _ := ListSessions(env, cfg, nil, h.now)
	kit.Equal(t, list[0].LastWords, "")
}

// Last words are read again once a transcript was written, and not before.
func TestSessionLister_ReadsWhatChanged(t *testing.T) {
	h := &listHome{t, t.TempDir(), time.Now().UTC().Truncate(time.Second)}
	path := ""
	h.add("s", 1, func(s *state.Session) {
		h.saveTranscript(s, "idle", `{"type":"user","message":{"content":"first"}}`)
		path = s.TranscriptPath
	})
	written := inject.LastWritten(path)
	var lister SessionLister
	want := func(words string) {
		t.Helper()
		list, _ := lister.List(h.env, &config.Config{}, nil, h.now)
		kit.Equal(t, list[0].LastWords, words)
	}
	write := func(words string, at time.Time) {
		line := fmt.Sprintf(`{"type":"user","message":{"content":%q}}`, words)
		kit.NoError(t, os.WriteFile(path, []byte(line), 0o600))
		kit.NoError(t, os.Chtimes(path, at, at))
	}
	want("first")
	write("other", written) // of the same size and time
	want("first")
	write("longer", written)
	want("longer")
	write("change", written.Add(time.Second))
	want("change")
	kit.NoError(t, os.Remove(path))
	want("")
}

// BenchmarkListSessions lists 300 sessions, 30 of them running and with long last words,
// and 300 open questions.
func BenchmarkListSessions(b *testing.B) {
	h := &listHome{&testing.T{}, b.TempDir(), time.Now().UTC()}
	var questions []*state.Question
	long := strings.Repeat("a word ", 9000)
	for i := range 300 {
		id := fmt.Sprintf("session %d", i)
		h.add(id, i, func(s *state.Session) {
			if i >= 30 {
				s.EndedAt = s.LastSeen
				return
			}
			h.saveTranscript(s, "busy", `{"type":"user","message":{"content":"`+long+`"}}`)
		})
		questions = append(questions, openQuestion(id, state.KindPermission, h.now))
	}
	for b.Loop() {
		ListSessions(h.env, &config.Config{}, questions, h.now)
	}
}
