package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Three environments with 300 open questions in 30 projects share one space. One of
// their pollers reads it for all of them, once a second.
func TestPoller_ReadsASpaceForAllEnvironments(t *testing.T) {
	const environments, projects, questions = 3, 30, 300
	h := newHome(t)
	h.program = h.path("gchat-hooks")
	kit.NoError(t, bound.Build(h.program)) // without what watches locks, which takes time
	var lists atomic.Int64
	chat, server := serveSpace(t, space.Options{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
				lists.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	h.env = append(h.env, "GOOGLE_CHAT_WEBHOOK_URL="+chat.WebhookURL(server.URL),
		"GCHAT_API_ENDPOINT="+chat.APIEndpoint(server.URL))
	people := func(environment int) string {
		return fmt.Sprintf("GCHAT_ALLOWED_USERS=%s,users/%d", space.PersonName, environment)
	}
	for n := range questions {
		h.project = h.path(fmt.Sprint("project-", n%projects))
		at := time.Now().UTC()
		key := fmt.Sprintf("%08d", n)
		h.record(&state.Question{
			QuestionID: key + "-0000-4000-8000-000000000000", ThreadKey: "ask-user-" + key,
			SessionID: "s-" + key, Mode: state.ModeNative, Status: state.Pending, AskedAt: at,
			PostedAt: &at, IsMessageSent: true, ProjectDir: h.project, Space: space.Name,
			Chat:        strings.TrimPrefix(server.URL, "http://") + "/" + space.Name,
			ThreadName:  space.Name + "/threads/" + key,
			MessageName: space.Name + "/messages/" + key,
			SubQuestions: []state.SubQuestion{{
				Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}},
			}},
		}, people(n%environments))
	}
	for n := range environments {
		cmd := exec.Command(h.program, "poller") // the end of the test ends it
		cmd.Env = append(slices.Clone(h.env), people(n))
		kit.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	}
	bound.Until(t, "all pollers serve what is theirs", func() bool {
		all := state.ReadHeartbeats(h.getenv)
		return len(all) == environments &&
			!slices.ContainsFunc(all, func(beat state.Heartbeat) bool {
				return beat.OpenQuestions != questions/environments
			})
	})
	began, before := time.Now(), lists.Load()
	bound.Until(t, "the space is read", func() bool { return lists.Load() >= before+4 })
	if n, took := lists.Load()-before, time.Since(began); float64(n) > took.Seconds()+2 {
		t.Errorf("%d lists within %s", n, took)
	}
}

// asksTwenty is a Claude Code by its name, which runs the hooks of twenty questions at
// once, in order each.
const asksTwenty = `#!/bin/sh
for i in $(seq 20); do
	( "$1" hook gchat-ask-user-forward < "$2-$i-ask"; exec "$1" hook gchat-ask-user-forward < "$2-$i-wait" > "$2-$i-answer" ) &
done
wait
`

// Two containers share a HOME. One poller serves both, but sees the processes of only
// one of them. It must not close the other container's questions for that. When the
// container with the poller ends, the other one's questions go on.
func TestPoller_ServesTwoPIDNamespaces(t *testing.T) {
	t.Parallel()
	kit.SkipShort(t, "forty questions wait")
	apart := func(script string, args ...string) *exec.Cmd {
		args = append([]string{
			"--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", script,
		}, args...)
		cmd := exec.CommandContext(t.Context(), "unshare", args...)
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
	p.writeFile("claude", asksTwenty)
	kit.NoError(t, os.Chmod(p.path("claude"), 0o700))
	sessions := func(of string) (all []string) {
		for i := range 20 {
			all = append(all, fmt.Sprintf("%s-%d", of, i+1))
		}
		return all
	}
	containers := map[string]*exec.Cmd{}
	for _, name := range []string{"one", "two"} {
		for _, session := range sessions(name) {
			for file, event := range map[string]string{
				"ask": "PreToolUse", "wait": "PermissionRequest",
			} {
				p.writeFile(session+"-"+file, p.hookEvent(session, event))
			}
		}
		// A container's first process is its own: Claude Code is another one.
		cmd := apart(`"$0" "$@"; exit`, p.path("claude"), p.program, p.path(name))
		cmd.Env, cmd.Dir = append(slices.Clone(p.env), "GCHAT_WRITES_PER_MINUTE=60000"), p.dir
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
			p.replyOnPage(page, threads[session], "2")
		}
		if err := bound.Wait(t, containers[name]); err != nil {
			t.Errorf("container %s: %v", name, err)
		}
		for _, session := range sessions(name) {
			want := `"Which DB in ` + session + `?":"Postgres"`
			kit.Containsf(t, p.readFile(session+"-answer"), want, "the answer of %s", session)
		}
	}
}

// On some networks, locks in a home do not lock: strace makes every lock in it succeed.
// The pollers then lock elsewhere, so that only one of them serves, and status says so.
// If no folder has working locks, no poller serves, and status says that the daemon
// does.
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
		"all get a lock": {"retval=0", false, "do not work; gchat-hooks locks files in ", 1},
		"no locks": {
			"error=ENOLCK", false, "no locks available); gchat-hooks locks files in ", 1,
		},
		"nothing locks":   {"retval=0", true, "only the daemon works", 0},
		"no locks at all": {"error=ENOLCK", true, "only the daemon works", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newProjectHome(t, noChat)
			h.env = append(h.env, "XDG_RUNTIME_DIR="+h.path("run"))
			kit.NoError(t, os.Mkdir(h.path("run"), 0o700))
			h.recordQuestion(1)
			lock, err := state.LockPoller(h.getenv) // its file is to be there
			kit.NoError(t, err)
			lock.Unlock()
			const script = `"$0" status & "$0" status & "$0" status & wait
				while [ ! -e stop ]; do "$0" status >new && mv new last; sleep 0.2; done`
			args := []string{
				"-f", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e",
				"inject=flock:" + c.inject,
			}
			if !c.all {
				args = append(args, "-P", lock.Path)
			}
			cmd := exec.Command(strace, append(args, "sh", "-c", script, h.program)...)
			cmd.Env, cmd.Dir = h.env, h.dir
			kit.NoError(t, cmd.Start())
			t.Cleanup(func() { // strace stays as long as a poller
				h.writeFile("stop", "")
				endPollersIn(h.dir)
				_ = bound.Wait(t, cmd)
			})
			bound.Until(t, "status says so",
				func() bool { return strings.Contains(h.readFile("last"), c.says) })
			bound.Until(t, "as many serve as can", func() bool {
				serving := slices.DeleteFunc(state.ReadHeartbeats(h.getenv),
					func(beat state.Heartbeat) bool {
						return !beat.IsAlive
					})
				return len(serving) == c.serve
			})
		})
	}
}
