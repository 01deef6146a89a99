package cli

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// hookRun is one event of Claude Code, and the hook that gets it.
type hookRun struct {
	hook, event string
	isWaiting   bool // until it is answered, or told to end
}

const (
	hookEventCommon = `"session_id":"5f1c","cwd":"/","transcript_path":"/none",` +
		`"permission_mode":"default"`
	hookEventQuestion = `"tool_name":"AskUserQuestion","tool_use_id":"t1",` +
		`"tool_input":{"questions":[{"question":"Which DB?",` +
		`"header":"DB","multiSelect":false,"options":[{"label":"A","description":"a"},` +
		`{"label":"B","description":"b"}]}]}`
	hookEventAsking = `{"hook_event_name":"PreToolUse",` + hookEventCommon + `,` +
		hookEventQuestion + `}`
	hookEventAnswered = `{"hook_event_name":"PostToolUse",` + hookEventCommon + `,` +
		hookEventQuestion + `,"tool_response":{"answers":{"Which DB?":"B"}}}`
	hookEventStop = `{"hook_event_name":"Stop","stop_hook_active":false,` + hookEventCommon + `}`
	hookEventEnd  = `{"hook_event_name":"SessionEnd","reason":"other",` + hookEventCommon + `}`
)

// hookRuns are the events of a session in each mode.
var hookRuns = map[string][]hookRun{
	"native": {
		{
			hook:  "gchat-session-event",
			event: `{"hook_event_name":"SessionStart","source":"startup",` + hookEventCommon + `}`,
		},
		{hook: "gchat-ask-user-forward", event: hookEventAsking},
		{hook: "gchat-ask-user-forward", event: `{"hook_event_name":"PermissionRequest",` +
			hookEventCommon + `,` + hookEventQuestion + `}`, isWaiting: true},
		{hook: "gchat-ask-user-answered", event: hookEventAnswered},
		{
			hook: "gchat-notification-dispatch",
			event: `{"hook_event_name":"Notification",` +
				`"message":"Claude needs your permission",` + hookEventCommon + `}`,
		},
		{hook: "gchat-stop-gate", event: hookEventStop},
		{hook: "gchat-session-event", event: hookEventStop},
		{hook: "gchat-ask-user-answered", event: hookEventEnd},
		{hook: "gchat-session-event", event: hookEventEnd},
	},
	"hold": {
		{hook: "gchat-ask-user-forward", event: hookEventAsking, isWaiting: true},
		{hook: "gchat-ask-user-answered", event: hookEventAnswered},
	},
	"deny": {
		{hook: "gchat-ask-user-forward", event: hookEventAsking},
		{hook: "gchat-ask-user-rewake", event: hookEventAsking, isWaiting: true},
		{hook: "gchat-ask-user-answered", event: hookEventStop},
	},
}

// No hook opens a network socket, whether it waits or not, so a hook is as fast when Chat
// hangs as when Chat is idle. gchat-send, which acts as the poller, shows that the test
// would see a socket.
func TestHook_OpensNoSocket(t *testing.T) {
	t.Parallel()
	kit.NeedProgram(t, "strace")
	for name, c := range map[string]struct{ mode, chat string }{
		"native":               {"native", "up"},
		"native, Chat hangs":   {"native", "hanging"},
		"native, Chat is away": {"native", "away"},
		"hold":                 {"hold", "up"},
		"deny":                 {"deny", "up"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTracedHome(t, c.mode, c.chat)
			for _, r := range hookRuns[c.mode] {
				if calls := h.traceSockets(r, "hook", r.hook); strings.Contains(calls, "AF_INET") {
					t.Errorf("%s opened a socket:\n%s", r.event, calls)
				}
			}
			// no poller there, and no space that is left alone
			h.env = append(h.env, "XDG_STATE_HOME="+h.path("fresh"))
			const blind = "gchat-send opened no socket, as far as this test sees"
			kit.Containsf(t, h.traceSockets(hookRun{}, "send", "hello"), "AF_INET", blind)
		})
	}
}

// tracedHome is a machine whose hooks are traced.
type tracedHome struct {
	*home
	space *space.Space // nil where it does not answer
}

func newTracedHome(t *testing.T, mode, chatState string) *tracedHome {
	t.Helper()
	h := &tracedHome{
		home: newProjectHome(t, "GCHAT_ALLOWED_USERS="+space.PersonName, "GCHAT_ASK_MODE="+mode),
	}
	release := make(chan struct{})
	chatSpace, server := serveSpace(t, space.Options{}, func(next http.Handler) http.Handler {
		if chatState != "hanging" {
			return next
		}
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	})
	t.Cleanup(func() { close(release) })
	switch chatState {
	case "up":
		h.space = chatSpace
	case "away":
		server.Listener.Close()
	}
	h.env = append(h.env, "GOOGLE_CHAT_WEBHOOK_URL="+chatSpace.WebhookURL(server.URL))
	return h
}

// traceSockets runs the program with an event and returns the sockets that its own
// process opened: strace lets go of what it starts.
func (h *tracedHome) traceSockets(r hookRun, args ...string) (sockets string) {
	h.Helper()
	args = append([]string{
		"-f", "-qq", "-b", "execve", "-o", "trace", "-e", "trace=socket", h.program,
	}, args...)
	cmd := h.command("strace", args...)
	cmd.Stdin = strings.NewReader(r.event)
	kit.NoError(h, cmd.Start())
	if r.isWaiting {
		h.endWaitingHook(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	return kit.ReadFile(h, h.path("trace"))
}

// endWaitingHook has the hook that waits get its answer, or, where Chat is not there,
// tells it to end. A machine that is too busy to post within three seconds denies no
// call, and then no hook waits.
func (h *tracedHome) endWaitingHook(strace int) {
	h.Helper()
	h.awaitQuestion("a hook waits", func(q *state.Question) bool {
		isUndenied := h.getenv("GCHAT_ASK_MODE") == "deny" && q.Mode == state.ModeNative
		return isUndenied || state.HasWaiter(h.getenv, q.Path)
	})
	if h.space != nil {
		q := h.awaitQuestion("it is posted",
			func(q *state.Question) bool { return q.ThreadName != "" })
		_, err := h.space.PostAs(space.Person(), q.ThreadName, "2")
		kit.NoError(h, err)
		return
	}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", strace, strace))
	for child := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

func (h *tracedHome) awaitQuestion(what string, wanted func(*state.Question) bool) (q *state.Question) {
	h.Helper()
	bound.Until(h, what, func() bool {
		questions, _ := state.ReadIndexedQuestions(h.getenv)
		if len(questions) == 0 {
			return false
		}
		q = questions[0]
		return wanted(q)
	})
	return q
}
