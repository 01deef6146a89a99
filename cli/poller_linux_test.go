package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Three environments with 300 open questions in 30 projects share one space: one of their
// pollers reads it for all, once a second. GCHAT_ENVIRONMENTS, in seconds, also prints
// what each poller takes over so long.
func TestPoller_ReadsASpaceForAllEnvironments(t *testing.T) {
	const environments, projects, questions = 3, 30, 300
	dir := t.TempDir()
	program := filepath.Join(dir, "gchat-hooks")
	if err := bound.Build(program); err != nil { // without what watches locks, which takes time
		t.Fatal(err)
	}
	chat, err := space.Open(space.Options{})
	kit.NoError(t, err)
	var lists atomic.Int64
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
			lists.Add(1)
		}
		chat.Handler().ServeHTTP(w, r)
	}), strict.Embedded))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); chat.Close() })
	envOf := func(environment int) []string {
		return []string{
			"HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "PATH=" + os.Getenv("PATH"),
			"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL),
			"GCHAT_API_ENDPOINT=" + chat.APIEndpoint(server.URL),
			fmt.Sprintf("GCHAT_ALLOWED_USERS=%s,users/%d", space.PersonName, environment),
		}
	}
	for n := range questions {
		project := filepath.Join(dir, fmt.Sprint("project-", n%projects))
		at := time.Now().UTC()
		key := fmt.Sprintf("%08d", n)
		q := &state.Question{
			QuestionID: key + "-0000-4000-8000-000000000000", ThreadKey: "ask-user-" + key, SessionID: "s-" + key,
			Mode: state.ModeNative, Status: state.Pending, AskedAt: at, PostedAt: &at, IsMessageSent: true, ProjectDir: project,
			Space: space.Name, Chat: strings.TrimPrefix(server.URL, "http://") + "/" + space.Name,
			ThreadName: space.Name + "/threads/" + key, MessageName: space.Name + "/messages/" + key,
			SubQuestions: []state.SubQuestion{{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}}},
		}
		folder := state.QuestionsIn(filepath.Join(project, ".claude", "state"))
		q, err := folder.Record(q.SessionID, func([]*state.Question) *state.Question { return q })
		if err == nil {
			err = state.AddQuestionToIndex(getenvOf(envOf(n%environments)), q)
		}
		kit.NoError(t, err)
	}
	var pids []int
	for n := range environments {
		cmd := exec.Command(program, "poller") // the end of the test ends it
		cmd.Env = envOf(n)
		kit.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	bound.Until(t, "all pollers serve what is theirs", func() bool {
		all := state.ReadHeartbeats(getenvOf(envOf(0)))
		serves := func(h state.Heartbeat) bool { return h.OpenQuestions == questions/environments }
		return len(all) == environments && !slices.ContainsFunc(all, func(h state.Heartbeat) bool { return !serves(h) })
	})
	began, before := time.Now(), lists.Load()
	bound.Until(t, "the space is read", func() bool { return lists.Load() >= before+4 })
	if n, took := lists.Load()-before, time.Since(began); float64(n) > took.Seconds()+2 {
		t.Errorf("%d lists within %s", n, took)
	}
	long, _ := strconv.Atoi(os.Getenv("GCHAT_ENVIRONMENTS"))
	if long == 0 {
		return
	}
	took := func() (used []time.Duration) {
		for _, pid := range pids {
			used = append(used, processorTime(t, pid))
		}
		return used
	}
	began, before = time.Now(), lists.Load()
	first := took()
	time.Sleep(time.Duration(long) * time.Second)
	last, span := took(), time.Since(began)
	for i, pid := range pids {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, _ := strings.Cut(string(status), "VmRSS:")
		rss, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
		t.Logf("poller %d: %.4f core, %s", i, (last[i]-first[i]).Seconds()/span.Seconds(), rss)
	}
	t.Logf("%.2f lists a second", float64(lists.Load()-before)/span.Seconds())
}

// processorTime is what a process has used of a core.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	kit.NoError(t, err)
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // there are 100 ticks a second
}

// asksTwenty is a Claude Code by its name, which runs the hooks of twenty questions at
// once, in order each.
const asksTwenty = `#!/bin/sh
for i in $(seq 20); do
	( "$1" hook gchat-ask-user-forward < "$2-$i-ask"; exec "$1" hook gchat-ask-user-forward < "$2-$i-wait" > "$2-$i-said" ) &
done
wait
`

// Two containers share a HOME: one poller serves both, and sees the processes of one. A
// question of the other is not over for that; its pids mean others here. The container
// with the poller ends first, and the other one's questions go on.
func TestPoller_ServesTwoPIDNamespaces(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("forty questions wait")
	}
	apart := func(script string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{
			"--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		return cmd
	}
	if out, err := apart("true").CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatalf("no pid namespace here, and GCHAT_E2E_REQUIRED=1: %s", out)
		}
		t.Skipf("no pid namespace here: %s", out)
	}
	p := newSpaceHome(t)
	page, end := p.runSpace()
	defer end()
	claude := filepath.Join(p.home, "claude")
	kit.NoError(t, os.WriteFile(claude, []byte(asksTwenty), 0o700))
	sessions := func(of string) (all []string) {
		for i := range 20 {
			all = append(all, fmt.Sprintf("%s-%d", of, i+1))
		}
		return all
	}
	containers := map[string]*exec.Cmd{}
	for _, name := range []string{"one", "two"} {
		for _, session := range sessions(name) {
			for file, event := range map[string]string{"ask": "PreToolUse", "wait": "PermissionRequest"} {
				kit.NoError(t, os.WriteFile(filepath.Join(p.home, session+"-"+file), []byte(p.hookEvent(session, event)), 0o600))
			}
		}
		// A container's first process is its own: Claude Code is another one.
		cmd := apart(`"$0" "$@"; exit`, claude, p.program, filepath.Join(p.home, name))
		cmd.Env, cmd.Dir = append(p.env(), "GCHAT_WRITES_PER_MINUTE=60000"), p.home
		kit.NoError(t, cmd.Start())
		containers[name] = cmd
		p.awaitThread(name + "-1") // of the two, this one's hook starts the poller
	}
	threads := map[string]string{}
	for _, name := range []string{"one", "two"} {
		for _, session := range sessions(name) {
			threads[session] = p.awaitThread(session)
		}
	}
	// in which a poller looks several times whether those who asked still live
	time.Sleep(10 * time.Second)
	for _, name := range []string{"one", "two"} {
		for _, session := range sessions(name) {
			p.reply(page, threads[session], "2")
		}
		if err := bound.Wait(t, containers[name]); err != nil {
			t.Errorf("container %s: %v", name, err)
		}
		for _, session := range sessions(name) {
			b, _ := os.ReadFile(filepath.Join(p.home, session+"-said"))
			kit.Containsf(t, string(b), `"Which DB in `+session+`?":"Postgres"`, "%s was told %q", session, b)
		}
	}
}

// A home whose locks do not lock, as on some networks: strace has every lock in it
// succeed. One poller of several serves, since their locks are taken elsewhere, and
// status says so. Where nothing locks, none serves, and status says what does.
func TestPoller_HomeWithoutWorkingLocks(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to have locks not lock")
	}
	for name, c := range map[string]struct {
		inject string
		all    bool // also the locks of other folders
		says   string
		serve  int
	}{
		"all get a lock":  {"retval=0", false, "do not work; gchat-hooks locks files in ", 1},
		"no locks":        {"error=ENOLCK", false, "no locks available); gchat-hooks locks files in ", 1},
		"nothing locks":   {"retval=0", true, "only the daemon serves", 0},
		"no locks at all": {"error=ENOLCK", true, "only the daemon serves", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, env, folder := newMachineWithQuestions(t, 0)
			of := getenvOf(env)
			dir := filepath.Join(of("HOME"), "run")
			kit.NoError(t, os.Mkdir(dir, 0o700))
			env = append(env, "XDG_RUNTIME_DIR="+dir, "GOOGLE_CHAT_WEBHOOK_URL=http://127.0.0.1:1/v1/spaces/A/messages?key=k&token=t")
			of = getenvOf(env)
			recordQuestion(t, env, folder, 1)
			lock, err := state.LockPoller(of) // its file is to be there
			kit.NoError(t, err)
			path := lock.Path
			lock.Unlock()
			said, stop := filepath.Join(of("HOME"), "said"), filepath.Join(of("HOME"), "stop")
			const script = `"$0" status & "$0" status & "$0" status & wait
				while [ ! -e "$2" ]; do "$0" status >"$1.new" && mv "$1.new" "$1"; sleep 0.2; done`
			args := []string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e", "inject=flock:" + c.inject}
			if !c.all {
				args = append(args, "-P", path)
			}
			cmd := exec.Command(strace, append(args, "sh", "-c", script, program, said, stop)...)
			cmd.Env = env
			kit.NoError(t, cmd.Start())
			t.Cleanup(func() { // strace stays as long as a poller
				_ = os.WriteFile(stop, nil, 0o600)
				endPollersIn(of("HOME"))
				_ = bound.Wait(t, cmd)
			})
			bound.Until(t, "status says so", func() bool {
				b, _ := os.ReadFile(said)
				return strings.Contains(string(b), c.says)
			})
			bound.Until(t, "as many serve as can", func() bool {
				serving := 0
				for _, h := range state.ReadHeartbeats(of) {
					if h.IsAlive {
						serving++
					}
				}
				return serving == c.serve
			})
		})
	}
}
