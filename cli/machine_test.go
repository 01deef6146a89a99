package cli

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// A fault is how Chat answers a post.
type fault int

const (
	noFault fault = iota
	tooMany
	storedThenTooMany
	serverError
	storedThenServerError
	storedThenConnectionCut
	badRequest
	forbidden
	notFound
)

// machine is a home whose processes can all be killed, and the Chat that it sends to.
type machine struct {
	*home
	space     *space.Space
	nextFault func(*rand.Rand) fault
	hold      chan struct{} // nil, or what posts wait for: Chat hangs
	perMinute int

	mu        sync.Mutex
	random    *rand.Rand
	running   map[*exec.Cmd]bool
	postTimes []time.Time // of requests

	// workers whose message must get through now
	pausedKills                                atomic.Int64
	posts, faults, storedFaults, kills, killed atomic.Int64
}

func newMachine(t testing.TB, perMinute int) *machine {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &machine{
		home: newProjectHome(t), perMinute: perMinute, running: map[*exec.Cmd]bool{},
		random:    rand.New(rand.NewPCG(seed, 1)),
		nextFault: func(*rand.Rand) fault { return noFault },
	}
	m.timeout = 3 * time.Minute
	// a path of its own: by it kill knows its processes
	kit.NoError(t, os.Link(m.program, m.path("gchat-hooks")))
	m.program = m.path("gchat-hooks")
	var server *httptest.Server
	m.space, server = serveSpace(t, space.Options{}, func(http.Handler) http.Handler {
		return http.HandlerFunc(m.serve)
	})
	t.Cleanup(m.killAll)
	m.env = append(m.env, "GOOGLE_CHAT_WEBHOOK_URL="+m.space.WebhookURL(server.URL),
		"GCHAT_WRITES_PER_MINUTE="+strconv.Itoa(perMinute))
	return m
}

// serve answers as Chat.
func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		m.space.Handler().ServeHTTP(w, r)
		return
	}
	m.posts.Add(1)
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	m.postTimes = append(m.postTimes, time.Now())
	f := m.nextFault(m.random)
	m.mu.Unlock()
	if f == noFault {
		m.space.Handler().ServeHTTP(w, r)
		return
	}
	m.faults.Add(1)
	if f == storedThenTooMany || f == storedThenServerError || f == storedThenConnectionCut {
		rec := httptest.NewRecorder()
		m.space.Handler().ServeHTTP(rec, r)
		if rec.Code == http.StatusOK {
			m.storedFaults.Add(1)
		}
	}
	if f == storedThenConnectionCut {
		panic(http.ErrAbortHandler)
	}
	code := map[fault]int{
		tooMany: 429, storedThenTooMany: 429, serverError: 500, storedThenServerError: 503,
		badRequest: 400, forbidden: 403, notFound: 404,
	}[f]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":"not now","status":"UNAVAILABLE"}}`, code)
}

// runKillable runs a process that killAll ends.
func (m *machine) runKillable(cmd *exec.Cmd) error {
	m.mu.Lock()
	err := cmd.Start()
	if err == nil {
		m.running[cmd] = true
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		delete(m.running, cmd)
		m.mu.Unlock()
	}()
	return cmd.Wait()
}

// killAll ends every process of this machine, those in their own sessions too, as a power
// cut would.
func (m *machine) killAll() {
	m.kills.Add(1)
	m.mu.Lock()
	for cmd := range m.running {
		if cmd.Process.Kill() == nil {
			m.killed.Add(1)
		}
	}
	m.mu.Unlock()
	procs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range procs {
		if exe, _ := os.Readlink(link); exe != m.program {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			m.killed.Add(1)
		}
	}
}

// flush sends what is left, with nobody killing it.
func (m *machine) flush(flags ...string) {
	m.Helper()
	args := append([]string{"flush", "--timeout", "150s"}, flags...)
	if out, code := m.run(args...); code != 0 {
		waiting, _ := m.outbox().Waiting()
		dead := m.outbox().SetAside()
		m.Errorf("flush: %d %s; %d waiting, %d dead", code, out, len(waiting), len(dead))
	}
}

func (m *machine) outbox() state.Outbox { return state.OutboxIn(state.UserStateDir(m.getenv)) }

// wantMessages compares what is in the space.
func (m *machine) wantMessages(want ...string) {
	m.Helper()
	var got []string
	for _, message := range m.space.Messages() {
		got = append(got, message.Text)
	}
	if !slices.Equal(got, want) {
		m.Errorf("in the space: %q, want %q", got, want)
	}
}
