package cli

import (
	"bytes"
	"errors"
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

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
)

// TestLoad has twenty workers send five hundred messages through a Chat that refuses or
// stumbles half the time, while the machine is killed at random moments. Every message
// arrives, none twice, in order in each thread, within the rate.
func TestLoad(t *testing.T) {
	workers, each, calm := 20, 25, 1800
	if testing.Short() {
		workers, each, calm = 8, 10, 200
	}
	m := newMachine(t, 6000)
	m.nextFault = func(r *rand.Rand) fault {
		return []fault{noFault, noFault, noFault, noFault, tooMany, tooMany, storedThenTooMany, serverError, storedThenServerError, storedThenConnectionCut}[r.IntN(10)]
	}
	stop := make(chan struct{})
	var killers sync.WaitGroup
	killers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(200+rand.IntN(calm)) * time.Millisecond):
				if m.pausedKills.Load() == 0 {
					m.killAll()
				}
			}
		}
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range each {
				m.sendUntilKept(fmt.Sprintf("w%02d", w), fmt.Sprintf("w%02d m%02d", w, n))
			}
		})
	}
	wg.Wait()
	close(stop)
	killers.Wait()
	m.flush()

	var counts arrivals
	counts.count(m.space)
	t.Logf("%d messages from %d workers: %d arrived, %d missing, %d twice, %d out of order; %d requests, of which %d refused or broken, %d stored all the same; the machine killed %d times, %d processes; bursts of at most %d over the rate",
		workers*each, workers, len(counts.counts), workers*each-len(counts.counts), counts.duplicates, counts.outOfOrder,
		m.posts.Load(), m.faults.Load(), m.storedFaults.Load(), m.kills.Load(), m.killed.Load(), m.largestBurst())
	if len(counts.counts) != workers*each || counts.duplicates > 0 || counts.outOfOrder > 0 {
		t.Errorf("%d arrived, %d twice, %d out of order", len(counts.counts), counts.duplicates, counts.outOfOrder)
	}
	if m.kills.Load() == 0 || m.faults.Load() == 0 || m.storedFaults.Load() == 0 {
		t.Error("the load was none: no kill, or no fault")
	}
	// The rate is one write per 10 ms here, with bursts of 10; a busy machine may deliver
	// a few of them late, together.
	if over := m.largestBurst(); over > 2*10 {
		t.Errorf("%d writes more than the rate at some moment, want at most 10 and what came late", over)
	}
}

// arrivals is what the space holds, counted.
type arrivals struct {
	counts                 map[string]int
	duplicates, outOfOrder int
}

func (a *arrivals) count(s *space.Space) {
	a.counts = map[string]int{}
	last := map[string]string{} // by thread
	for _, m := range s.Messages() {
		if a.counts[m.Text]++; a.counts[m.Text] > 1 {
			a.duplicates++
		}
		if m.Text <= last[m.Thread.Name] {
			a.outOfOrder++
		}
		last[m.Thread.Name] = m.Text
	}
}

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

// machine is one person's machine, and the Chat that it sends to.
type machine struct {
	testing.TB
	dir, program string
	env          []string
	space        *space.Space
	nextFault    func(*rand.Rand) fault
	hold         chan struct{} // nil, or what posts wait for: Chat hangs
	perMinute    int

	mu        sync.Mutex
	random    *rand.Rand
	running   map[*exec.Cmd]bool
	postTimes []time.Time // of requests

	// workers whose message must get through now
	pausedKills                                            atomic.Int64
	posts, faults, storedFaults, kills, killed, serverTime atomic.Int64
}

// builtProgram builds gchat-hooks once for all tests. It returns the folder that it is
// in.
var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gchat-send-test-")
	if err != nil {
		return "", err
	}
	return dir, underlock.Build(filepath.Join(dir, "gchat-hooks"))
})

func newMachine(t testing.TB, perMinute int) *machine {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &machine{TB: t, dir: t.TempDir(), perMinute: perMinute, random: rand.New(rand.NewPCG(seed, 1)), running: map[*exec.Cmd]bool{}}
	m.program = filepath.Join(m.dir, "gchat-send")
	dir, err := builtProgram()
	if err == nil {
		// a path of its own: by it kill knows its processes
		err = os.Link(filepath.Join(dir, "gchat-hooks"), m.program)
	}
	kit.NoError(t, err)
	if m.space, err = space.Open(space.Options{}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(m.serveTimed), strict.Embedded))
	t.Cleanup(func() {
		m.killAll()
		endPollersIn(m.dir) // one may have begun at that moment
		server.CloseClientConnections()
		server.Close()
		m.space.Close()
	})
	m.env = []string{
		"HOME=" + m.dir, "XDG_STATE_HOME=" + filepath.Join(m.dir, "state"), "PATH=" + os.Getenv("PATH"), "CLAUDE_PROJECT_DIR=" + m.dir,
		"GOOGLE_CHAT_WEBHOOK_URL=" + m.space.WebhookURL(server.URL), "GCHAT_WRITES_PER_MINUTE=" + strconv.Itoa(perMinute),
	}
	return m
}

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
	code := map[fault]int{tooMany: 429, storedThenTooMany: 429, serverError: 500, storedThenServerError: 503, badRequest: 400, forbidden: 403, notFound: 404}[f]
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
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":"not now","status":"UNAVAILABLE"}}`, code)
}

// sendUntilKept runs gchat-send until it keeps the message: a worker whose process was
// killed, or that is told that the message was not kept, since the outbox is crowded,
// does what a script does, it sends again under the same id. What came under one id
// counts as one message for ten minutes. On a slow machine a worker may be killed for
// long, so after half a minute the killing pauses.
func (m *machine) sendUntilKept(session, text string) {
	start, isSpared := time.Now(), false
	defer func() {
		if isSpared {
			m.pausedKills.Add(-1)
		}
	}()
	for {
		if !isSpared && time.Since(start) > 30*time.Second {
			isSpared = true
			m.pausedKills.Add(1)
		}
		cmd := bound.Command(m, m.program, "--session", session, "--thread-key", session,
			"--id", strings.ReplaceAll(text, " ", "-"), text)
		var stderr bytes.Buffer
		cmd.Env, cmd.Stderr = m.env, &stderr
		err := m.run(cmd)
		var exit *exec.ExitError
		switch {
		case err == nil:
			return
		case errors.As(err, &exit) && exit.ExitCode() == exitNotDelivered:
			if !strings.Contains(stderr.String(), "save message: ") {
				return // it stays in the outbox
			}
		case errors.As(err, &exit) && exit.ExitCode() == -1: // killed
		default:
			m.Errorf("gchat-send: %v: %s", err, &stderr)
			return
		}
	}
}

func (m *machine) run(cmd *exec.Cmd) error {
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
		if exe, _ := os.Readlink(link); exe == m.program {
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				m.killed.Add(1)
			}
		}
	}
}

// flush sends what is left, with nobody killing it.
func (m *machine) flush(flags ...string) {
	m.Helper()
	cmd := bound.Within(m, 3*time.Minute, m.program)
	cmd.Args, cmd.Env = append([]string{"gchat-hooks", "flush", "--timeout", "150s"}, flags...), m.env
	if out, err := cmd.CombinedOutput(); err != nil {
		box := m.outbox()
		waiting, _ := box.Waiting()
		m.Errorf("flush: %v %s; %d waiting, %d dead", err, out, len(waiting), len(box.SetAside()))
	}
}

// largestBurst is by how many writes the requests were ahead of the rate at most.
func (m *machine) largestBurst() (most int) {
	interval := time.Minute / time.Duration(m.perMinute)
	slices.SortFunc(m.postTimes, time.Time.Compare)
	ahead, last := time.Duration(0), time.Time{}
	for _, at := range m.postTimes {
		ahead = max(0, ahead-at.Sub(last)) + interval
		last = at
		most = max(most, int(ahead/interval))
	}
	return most
}
