package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/kit"
)

// For the first two signals, Go ends a process with 2, which Claude Code takes for
// "block". A hook that does not wait ignores them and finishes its work.
func TestHook_SignalEndsWithZero(t *testing.T) {
	for name, sig := range map[string]os.Signal{
		"SIGQUIT": syscall.SIGQUIT, "SIGABRT": syscall.SIGABRT, "SIGTERM": syscall.SIGTERM,
		"SIGHUP": syscall.SIGHUP,
	} {
		t.Run(name+" to a waiting hook", func(t *testing.T) {
			w := newWorld(t)
			p, _ := w.startDialog()
			_ = p.Process.Signal(sig)
			kit.Equalf(t, p.awaitOutput(), "", "printed")
		})
		t.Run(name+" to a hook that reads its event", func(t *testing.T) {
			w := newWorld(t)
			in, out, err := os.Pipe()
			kit.NoError(t, err)
			defer out.Close()
			p := &hookProcess{Cmd: exec.Command(os.Args[0]), w: w, done: make(chan struct{})}
			p.Env, p.Stdin, p.Stdout, p.Stderr = append(w.environ(),
				hookNameVariable+"=gchat-stop-gate"), in, &p.out, &p.err
			kit.NoError(t, p.Start())
			go func() { _ = p.Wait(); close(p.done) }()
			_, err = out.WriteString(`{"half":`)
			kit.NoError(t, err)
			w.waitUntil("the event's first half to be read", func() bool {
				n, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ)
				return err == nil && n == 0
			})
			_ = p.Process.Signal(sig)
			_, err = out.WriteString(`0}`)
			kit.NoError(t, err)
			kit.Equalf(t, p.awaitOutput(), "", "printed")
		})
	}
}

// newOddWorld returns a world whose home folder has a name that is not valid UTF-8.
func newOddWorld(t *testing.T) *world {
	w := newChatWorld(t)
	home := filepath.Join(w.dir, "home\xff")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Skipf("this disk takes no such name: %v", err)
	}
	w.env["HOME"], w.env["XDG_STATE_HOME"] = home, filepath.Join(home, "state")
	return w
}

// status returns what gchat-hooks status prints.
func (w *world) status() string {
	w.Helper()
	out, err := w.programCommand("status").CombinedOutput()
	kit.NoError(w, err)
	return string(out)
}

// If nobody can be asked in Chat, the hook ends without a decision. The dialog stays in
// the terminal, and status says why.
func TestHook_EndsWhereNobodyCanBeAsked(t *testing.T) {
	for name, c := range map[string]struct {
		world func(*testing.T) *world
		wrap  []string
		why   string
	}{
		"a home folder that is no UTF-8": {newOddWorld, nil, "not valid UTF-8"},
		"ten descriptors": {
			func(t *testing.T) *world { return newChatWorld(t) },
			[]string{"sh", "-c", `ulimit -n 10 && exec "$@"`, "sh"}, "too many open files",
		},
	} {
		for kind, event := range map[string]func(*world) []byte{
			"permission": func(w *world) []byte { return permissionEvent(w, "s", "make") },
			"question": func(w *world) []byte {
				return recorded(w, "single-04-PermissionRequest")
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				w := c.world(t)
				w.env["CLAUDE_PROJECT_DIR"] = filepath.Join(w.env["HOME"], "shop")
				kit.NoError(t, os.MkdirAll(w.env["CLAUDE_PROJECT_DIR"], 0o700))
				kit.Equalf(t, w.startHook(forwardHook, event(w),
					c.wrap...).awaitOutput(), "", "printed")
				kit.Containsf(t, w.status(), c.why, "status")
			})
		}
	}
}

// A project whose name is not valid UTF-8 can have questions, too.
func TestHook_ProjectNameIsNoUTF8(t *testing.T) {
	w := newChatWorld(t)
	w.env["CLAUDE_PROJECT_DIR"] = filepath.Join(w.dir, "shop\xff")
	if err := os.MkdirAll(w.env["CLAUDE_PROJECT_DIR"], 0o700); err != nil {
		t.Skipf("this disk takes no such name: %v", err)
	}
	w.runHook(forwardHook, recorded(w, "single-03-PreToolUse"))
	p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"))
	w.sendAsUser(ann, w.awaitThread(1), "canary")
	p.wantAnswer("Canary")
}

// Without /proc, Linux does not say where this program is.
func TestHook_RunsWithoutProc(t *testing.T) {
	bare := []string{
		"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs none /proc && exec "$@"`, "sh",
	}
	try := exec.CommandContext(t.Context(), bare[0], append(bare[1:], "true")...)
	if out, err := try.CombinedOutput(); err != nil {
		kit.Must(t, os.Getenv("GCHAT_E2E_REQUIRED") != "1",
			"/proc cannot be hidden, and GCHAT_E2E_REQUIRED=1: %v: %s", err, out)
		t.Skipf("/proc cannot be hidden here: %v: %s", err, out)
	}
	w := newChatWorld(t)
	p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"), bare...)
	w.sendAsUser(ann, w.awaitThread(1), "canary")
	p.wantAnswer("Canary")
}
