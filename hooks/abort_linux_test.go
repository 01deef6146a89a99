package hooks_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/kit"
)

// For the first two signals, Go ends a process with 2, which Claude Code takes for
// "block". A hook that does not wait ignores them and finishes its work.
func TestHook_SignalEndsWithZero(t *testing.T) {
	for name, sig := range map[string]os.Signal{
		"SIGQUIT": syscall.SIGQUIT, "SIGABRT": syscall.SIGABRT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP,
	} {
		t.Run(name+" to a waiting hook", func(t *testing.T) {
			w := newWorldWithoutPoller(t)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			w.awaitWaiter(w.question())
			_ = p.Process.Signal(sig)
			kit.Equalf(t, p.awaitOutput(), "", "printed")
		})
		t.Run(name+" to a hook that reads its event", func(t *testing.T) {
			w := newWorldWithoutPoller(t)
			in, out, err := os.Pipe()
			kit.NoError(t, err)
			defer out.Close()
			p := &hookProcess{Cmd: exec.Command(os.Args[0]), w: w, done: make(chan struct{})}
			p.Env, p.Stdin, p.Stdout, p.Stderr = append(w.environ(), hookNameVariable+"=gchat-stop-gate"), in, &p.out, &p.err
			kit.NoError(t, p.Start())
			go func() { _ = p.Wait(); close(p.done) }()
			if _, err := out.WriteString(`{"half":`); err != nil {
				t.Fatal(err)
			}
			w.waitUntil("the event's first half to be read", func() bool {
				n, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ)
				return err == nil && n == 0
			})
			_ = p.Process.Signal(sig)
			if _, err := out.WriteString(`0}`); err != nil {
				t.Fatal(err)
			}
			kit.Equalf(t, p.awaitOutput(), "", "printed")
		})
	}
}
