package hooks

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// requestTrace sees every request to Chat and may answer in its place.
type requestTrace struct {
	mu        sync.Mutex
	intercept func(w http.ResponseWriter, r *http.Request) (handled bool)
}

func (tr *requestTrace) setIntercept(f func(http.ResponseWriter, *http.Request) bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.intercept = f
}

func newChatWorld(t testing.TB) *world {
	t.Helper()
	kit.NoError(t, buildProgram())
	s, err := space.Open(space.Options{})
	kit.NoError(t, err)
	w := newWorld(t)
	w.chat = s
	handler := s.Handler()
	srv := httptest.NewServer(strict.CheckRequests(t,
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.trace.mu.Lock()
			faulty := w.trace.intercept
			w.trace.mu.Unlock()
			if faulty == nil || !faulty(rw, r) {
				handler.ServeHTTP(rw, r)
			}
		}), strict.Embedded))
	t.Cleanup(func() {
		w.endPollers()
		srv.CloseClientConnections()
		srv.Close()
		s.Close()
		if t.Failed() {
			t.Logf("log:\n%s", w.log())
			for _, m := range s.Messages() {
				t.Logf("space: %s %s: %q", m.Thread.Name, m.Sender.Name, m.Text)
			}
		}
	})
	w.env["GOOGLE_CHAT_WEBHOOK_URL"], w.env["GCHAT_API_ENDPOINT"] = s.WebhookURL(srv.URL),
		s.APIEndpoint(srv.URL)
	w.env["GCHAT_ALLOWED_USERS"], w.env["GCHAT_POLLER_INTERVAL"] = ann.Name, "0.1"
	return w
}

// endPollers kills the detached pollers of this machine, which would stay for a while.
func (w *world) endPollers() {
	w.Helper()
	w.waitUntil("the pollers to end", func() bool {
		for _, p := range state.ReadHeartbeats(w.getenv) {
			if p.IsAlive && p.PID > 1 {
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		locks, _ := filepath.Glob(filepath.Join(state.UserStateDir(w.getenv), "pollers", "*.lock"))
		return !slices.ContainsFunc(locks, state.IsLocked)
	})
}

func (w *world) messages(prefix string) (found []*chat.Message) {
	for _, m := range w.chat.Messages() {
		if strings.HasPrefix(m.Text, prefix) {
			found = append(found, m)
		}
	}
	return found
}

// awaitNthMessage waits for the n-th message in the space that begins with a prefix.
func (w *world) awaitNthMessage(prefix string, n int) *chat.Message {
	w.Helper()
	w.waitUntil(prefix, func() bool { return len(w.messages(prefix)) >= n })
	return w.messages(prefix)[n-1]
}

func (w *world) awaitMessage(prefix string) *chat.Message {
	w.Helper()
	return w.awaitNthMessage(prefix, 1)
}

// awaitThread waits for the n-th question's message and returns its thread.
func (w *world) awaitThread(n int) string {
	w.Helper()
	return w.awaitNthMessage("[AskUserQuestion]", n).Thread.Name
}

func (w *world) sendAsUser(who *chat.User, thread, text string) *chat.Message {
	w.Helper()
	m, err := w.chat.PostAs(who, thread, text)
	kit.NoError(w, err)
	return m
}

// askPermission starts the hook of a PermissionRequest and waits for its message in the
// space.
func (w *world) askPermission(event []byte) (p *hookProcess, thread string) {
	w.Helper()
	before := len(w.messages("[P"))
	p = w.startHook(forwardHook, event)
	return p, w.awaitNthMessage("[P", before+1).Thread.Name
}

// wantUndecided denies the permission in the thread. That has to be the decision: the
// attempts before it must not have decided anything.
func (p *hookProcess) wantUndecided(thread string) {
	p.w.Helper()
	time.Sleep(300 * time.Millisecond) // a wrong decision would be made at once
	p.w.sendAsUser(ann, thread, "no, never")
	p.wantDecision("deny", "never")
}

// programCommand is a command of a person in the project.
func (w *world) programCommand(args ...string) *exec.Cmd {
	cmd := bound.Command(w, program, args...)
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	return cmd
}

// wantAnswerRefused checks that a question cannot be answered at a shell.
func (w *world) wantAnswerRefused(question, text string) {
	w.Helper()
	out, err := w.programCommand("answer", question, text).CombinedOutput()
	kit.True(w, err != nil, "answered %s: %s", question, out)
}
