package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// hookRun is one event of Claude Code, and the hook that gets it.
type hookRun struct {
	hook, event string
	waits       bool // until it is answered, or told to end
}

const (
	noSocketCommon = `"session_id":"5f1c","cwd":"/","transcript_path":"/none","permission_mode":"default"`
	noSocketAsk    = `"tool_name":"AskUserQuestion","tool_use_id":"t1","tool_input":{"questions":[{"question":"Which DB?",` +
		`"header":"DB","multiSelect":false,"options":[{"label":"A","description":"a"},{"label":"B","description":"b"}]}]}`
)

var hookRuns = []hookRun{
	{hook: "gchat-session-event", event: `{"hook_event_name":"SessionStart","source":"startup",` + noSocketCommon + `}`},
	{hook: "gchat-ask-user-forward", event: `{"hook_event_name":"PreToolUse",` + noSocketCommon + `,` + noSocketAsk + `}`},
	{hook: "gchat-ask-user-forward", event: `{"hook_event_name":"PermissionRequest",` + noSocketCommon + `,` + noSocketAsk + `}`, waits: true},
	{hook: "gchat-notification-dispatch", event: `{"hook_event_name":"Notification","message":"Claude needs your permission",` + noSocketCommon + `}`},
	{hook: "gchat-stop-gate", event: `{"hook_event_name":"Stop","stop_hook_active":false,` + noSocketCommon + `}`},
	{hook: "gchat-session-event", event: `{"hook_event_name":"Stop","stop_hook_active":false,` + noSocketCommon + `}`},
	{hook: "gchat-ask-user-answered", event: `{"hook_event_name":"SessionEnd","reason":"other",` + noSocketCommon + `}`},
	{hook: "gchat-session-event", event: `{"hook_event_name":"SessionEnd","reason":"other",` + noSocketCommon + `}`},
}

// No hook opens a network socket, whatever Chat does: so it is as fast when Chat hangs as when Chat is idle. gchat-send, which
// is the poller itself, shows that the test would see one.
func TestNoHookOpensASocket(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing: apt-get install strace")
		}
		t.Skip("needs strace: apt-get install strace")
	}
	for _, chat := range []string{"up", "hanging", "away"} {
		t.Run(chat, func(t *testing.T) {
			h := newHooked(t, chat)
			for _, r := range hookRuns {
				if calls := h.trace(r, "hook", r.hook); strings.Contains(calls, "AF_INET") {
					t.Errorf("%s opened a socket:\n%s", r.event, calls)
				}
			}
			h.env = append(h.env, "XDG_STATE_HOME="+filepath.Join(h.dir, "fresh")) // no poller there, and no space that is left alone
			if calls := h.trace(hookRun{}, "send", "hello"); !strings.Contains(calls, "AF_INET") {
				t.Errorf("gchat-send opened no socket, as far as this test sees:\n%s", calls)
			}
		})
	}
}

// hooked is a machine whose hooks are traced.
type hooked struct {
	*testing.T
	program string
	env     []string
	space   *space.Space // nil where it does not answer
	dir     string
	traced  int
}

func newHooked(t *testing.T, chat string) *hooked {
	built, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{T: t, program: filepath.Join(built, "gchat-hooks"), dir: t.TempDir()}
	chatSpace, err := space.Open(space.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chatSpace.Close() })
	handler, released := strict.Google(t, chatSpace.Handler(), strict.Embedded), make(chan struct{})
	switch chat {
	case "up":
		h.space = chatSpace
	case "hanging":
		handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released })
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	if chat == "away" {
		server.Listener.Close()
	}
	project := filepath.Join(h.dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	h.env = []string{
		"HOME=" + h.dir, "XDG_STATE_HOME=" + filepath.Join(h.dir, "state"), "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + project,
		"GOOGLE_CHAT_WEBHOOK_URL=" + chatSpace.WebhookURL(server.URL), "GCHAT_ALLOWED_USERS=" + space.Human, "GCHAT_ASK_MODE=native",
	}
	t.Cleanup(func() { endPollersIn(h.dir) }) // before the temporary folder goes
	return h
}

// trace runs the program with an event and returns the sockets that its own process opened: strace lets go of what it starts.
func (h *hooked) trace(r hookRun, args ...string) (calls string) {
	h.Helper()
	h.traced++
	out := filepath.Join(h.dir, fmt.Sprint("trace-", h.traced))
	traced := []string{"-f", "-qq", "-b", "execve", "-o", out, "-e", "trace=socket", h.program}
	cmd := bound.Command(h, "strace", append(traced, args...)...)
	cmd.Env, cmd.Stdin = h.env, strings.NewReader(r.event)
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	if r.waits {
		h.endWait(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	b, err := os.ReadFile(out)
	if err != nil {
		h.Fatal(err)
	}
	return string(b)
}

// endWait has the hook that waits get its answer, or, where Chat is not there, tells it to end.
func (h *hooked) endWait(strace int) {
	h.Helper()
	h.until("a hook waits", func(q *state.Question) bool { return state.HasWaiter(getenv(h.env), q.Path) })
	if h.space != nil {
		q := h.until("it is posted", func(q *state.Question) bool { return q.ThreadName != "" })
		if _, err := h.space.Say(space.Person(), q.ThreadName, "2"); err != nil {
			h.Fatal(err)
		}
		return
	}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", strace, strace))
	for child := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

func (h *hooked) until(what string, is func(*state.Question) bool) (q *state.Question) {
	h.Helper()
	bound.Until(h, what, func() bool {
		qs, _ := state.OpenQuestions(getenv(h.env))
		if len(qs) == 0 {
			return false
		}
		q = qs[0]
		return is(q)
	})
	return q
}
