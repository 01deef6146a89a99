package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// After a reboot a question, or a message, brings the page back at the address that it
// had, with all that was said; what needs the space otherwise ends it, and so does its
// folder's end.
func TestTheSpaceStartsByItself(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	env := getenvOf(p.env())
	down := func(end func(pid int)) {
		_, pid := lastSpace(env)
		if pid == 0 {
			t.Fatal("it is not detached")
		}
		end(pid)
		p.awaitText("it is down", func() string { return map[bool]string{false: "down"}[isSpaceRunning(env)] })
	}
	thread, answer := p.ask("one")
	page, code := p.run("space", "--listen", p.address)
	if code != 0 || !strings.Contains(page, "is already running") {
		t.Fatalf("%d: %s", code, page)
	}
	page = strings.Fields(page)[1]
	down(func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) })
	p.awaitText("the poller starts it", func() string { return map[bool]string{true: "up"}[isSpaceRunning(env)] })
	p.reply(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "answered at the same address")

	endPollersIn(p.home)
	down(func(int) { endSpace(env) })
	said := make(chan string, 4)
	for i := range cap(said) { // at one moment
		go func() {
			out, code := p.run("send", "--session", fmt.Sprint(i), "words")
			said <- fmt.Sprintf("%d %s", code, out)
		}()
	}
	for range cap(said) {
		if out := <-said; !strings.HasPrefix(out, "0 sent") {
			t.Error(out)
		}
	}
	endPollersIn(p.home)
	down(func(int) {
		if out, code := p.run("space", "uninstall"); code != 0 || !strings.Contains(out, "the space has ended") {
			t.Errorf("%d: %s", code, out)
		}
	})
}

// A person opens the space otherwise while hooks and pollers need it, and start it as
// soon as it is down: the person's one runs.
func TestTheSpaceThatAPersonOpensRuns(t *testing.T) {
	p := newSpaceHome(t)
	env := getenvOf(p.env())
	for _, pair := range p.env() { // for the space that this process starts
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	_, port, _ := net.SplitHostPort(p.address)
	number, _ := strconv.Atoi(port)
	stop := make(chan struct{})
	var needs sync.WaitGroup
	defer needs.Wait()
	defer close(stop)
	for range 4 {
		needs.Go(func() {
			for one := (Program{self: p.program, env: env}); ; time.Sleep(time.Millisecond) {
				select {
				case <-stop:
					return
				default:
					if !isSpaceRunning(env) {
						one.startSpace(number)
					}
				}
			}
		})
	}
	for range 4 {
		for _, flags := range [][]string{{"--phone"}, nil} {
			p.awaitText("a detached one runs", func() string {
				_, pid := lastSpace(env)
				return map[bool]string{true: "up"}[pid > 0 && isSpaceRunning(env)]
			})
			_, end := p.runSpace(flags...)
			want := strings.Join(append([]string{"--listen", p.address}, flags...), " ")
			if is, _ := lastSpace(env); is != want || !isSpaceRunning(env) {
				t.Errorf("%q runs, want %q", is, want)
			}
			end()
		}
	}
}

// A detached space ends a day after its last use, soon after its folder is gone, and when
// another program stands in its place.
func TestADetachedSpaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := func(name string) string {
			kit.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			return filepath.Join(dir, name)
		}
		d := &spaceServer{Program: Program{self: file("program")}, dataDir: dir}
		lock := file("lock")
		begin := func() (*space.Space, context.Context) {
			s, err := space.Open(space.Options{})
			kit.NoError(t, err)
			return s, d.contextWhileNeeded(t.Context(), s)
		}
		s, needed := begin()
		time.Sleep(23 * time.Hour)
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.0.0.1/", nil))
		time.Sleep(23 * time.Hour)
		if needed.Err() != nil {
			t.Error("it ends although it was used within a day")
		}
		time.Sleep(2 * time.Hour)
		if needed.Err() == nil {
			t.Error("it stays unused")
		}
		d.isService = true
		_, needed = begin()
		time.Sleep(25 * time.Hour)
		if needed.Err() != nil {
			t.Error("the system's ends unused")
		}
		for _, path := range []string{d.self, lock} {
			_, needed := begin()
			os.Remove(path)
			time.Sleep(2 * spaceCheckInterval)
			if needed.Err() == nil {
				t.Errorf("it stays without %s", path)
			}
			file(filepath.Base(path))
		}
	})
}

// The space that the system runs ends as the daemon does when the program was upgraded:
// the system starts it where it fails.
func TestAnUpgradeEndsTheSystemsSpace(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for ten seconds")
	}
	n := newBareHome(t, "/usr/bin:/bin")
	for _, name := range []string{"gchat-hooks", "new"} {
		n.mustRun("cp", programPath(t), name)
	}
	ended, address := make(chan string), freeAddress(t)
	go func() {
		out, err := n.run("./gchat-hooks", "space", "--service", "--listen", address)
		ended <- fmt.Sprint(out, err)
	}()
	bound.Until(t, "it serves", func() bool {
		r, err := http.Get("http://" + address)
		return err == nil && r.Body.Close() == nil
	})
	n.mustRun("mv", "new", "gchat-hooks")
	kit.Containsf(t, <-ended, "the program on disk changed\nexit status 1", "it ends with")
}

// The page offers projects that Claude Code trusts, by names that are shown as they are,
// and none where sessions cannot be begun.
func TestThePageOffersTrustedProjects(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	trusted := map[string]map[string]bool{}
	for i, name := range []string{"web-shop", "api", "sub/api", "stranger", "\u202egpj.evil", "<script>"} {
		dir := filepath.Join(home, "src", name)
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		kit.NoError(t, state.RegisterProject(env, filepath.Join(dir, ".claude", "state"), dir))
		trusted[dir] = map[string]bool{"hasTrustDialogAccepted": i != 3}
	}
	b, _ := json.Marshal(map[string]any{"projects": trusted})
	kit.NoError(t, os.WriteFile(filepath.Join(home, ".claude.json"), b, 0o600))
	kit.NoError(t, config.SetMember(state.ConfigFile(env), "start_sessions", true))
	door := &spaceServer{Program: Program{env: env}}
	if names, start := door.pageProjects(); !start || fmt.Sprint(names) != "[<script> api web-shop]" {
		t.Errorf("offers %q, %v", names, start)
	}
	kit.NoError(t, config.SetMember(state.ConfigFile(env), "start_sessions", false))
	if names, start := door.pageProjects(); start || names != nil {
		t.Errorf("offers %q, %v where sessions cannot be begun", names, start)
	}
}

// What a person does on the page is fetched, though no open questions and no poller
// runs: the page's server starts one.
func TestThePageStartsAPollerForItsEvents(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	out, code := p.run("send", "--json", "words")
	if code != 0 {
		t.Fatal(out)
	}
	endPollersIn(p.home)
	runs := func() string {
		for _, h := range state.ReadHeartbeats(getenvOf(p.env())) {
			if h.IsAlive {
				return fmt.Sprint(h.PID)
			}
		}
		return ""
	}
	if pid := runs(); pid != "" {
		t.Fatalf("a poller runs already: %s", pid)
	}
	p.reply(page, regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(out), "hello")
	p.awaitText("a poller runs", runs)
}
