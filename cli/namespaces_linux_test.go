package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

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
func TestTwoPIDNamespacesShareAHome(t *testing.T) {
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
