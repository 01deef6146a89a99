package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A home whose locks do not lock, as on some networks: strace has every lock in it
// succeed. One poller of several serves, since their locks are taken elsewhere, and
// status says so. Where nothing locks, none serves, and status says what does.
func TestAHomeWhoseLocksDoNotLock(t *testing.T) {
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
