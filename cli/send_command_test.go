package cli

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A hook called the poller, and gchat-send took the lock before it: the hook leaves its
// work to what has the lock. So gchat-send starts a poller, as long as none has looked
// for work since that call.
func TestSend_StartsAPollerForAnEarlierCall(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 60)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	lock := func() string {
		locks, _ := filepath.Glob(filepath.Join(m.dir, "state", "gchat-hooks", "pollers", "*.lock"))
		return strings.Join(locks, " ")
	}
	for _, called := range []string{"", "\n"} {
		if code, stderr := m.runSend("words"); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if called == "" && bound.WaitFor(200*time.Millisecond, func() bool { return state.IsLocked(lock()) }) {
			t.Error("it started a poller that was not called")
		}
		kit.NoError(t, os.WriteFile(lock(), []byte("\n"), 0o600))
	}
	if !bound.WaitFor(5*time.Second, func() bool { return state.IsLocked(lock()) }) {
		t.Error("no poller looks for the hook's work")
	}
}

// Whatever Chat answers, gchat-send says it, ends with 2, and the message is not lost.
func TestSend_ChatRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault fault
		says  string
		dead  bool
	}{
		{"malformed", badRequest, "chat answered 400", true},
		{"gone", notFound, "chat answered 404", true},
		{"forbidden", forbidden, "chat answered 403", false},
		{"too many", tooMany, "chat answered 429", false},
		{"broken", serverError, "chat answered 500", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !c.dead {
				t.Skip("seconds pass until a message is tried again")
			}
			m := newMachine(t, 60)
			m.nextFault = func(*rand.Rand) fault { return c.fault }
			code, stderr := m.runSend("--thread-key", "x", "words")
			if code != exitNotDelivered || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "gchat-send: hint: ") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			if strings.Contains(stderr, "token=") {
				t.Errorf("a secret is shown: %s", stderr)
			}
			m.killAll() // the poller that it started
			waiting, _ := m.outbox().Waiting()
			if dead := m.outbox().SetAside(); len(dead)+len(waiting) != 1 || (len(dead) == 1) != c.dead {
				t.Errorf("%d dead, %d waiting", len(dead), len(waiting))
			}
			if code, stderr := m.runSend("--no-queue", "now or never"); code != exitNotDelivered {
				t.Errorf("--no-queue: exit code %d: %s", code, stderr)
			}
			m.killAll()
			m.nextFault = func(*rand.Rand) fault { return noFault }
			m.flush("--dead")
			if got := m.messageTexts(); len(got) != 1 || got[0] != "words" {
				t.Errorf("in the space: %q", got)
			}
		})
	}
}

// Chat hangs: gchat-send ends all the same, and what it left arrives once when Chat is
// back.
func TestSend_ChatHangs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	hangs := make(chan struct{})
	m.nextFault = func(*rand.Rand) fault { return noFault }
	m.hold = hangs
	code, stderr := m.runSend("--session", "s", "first")
	if code != exitNotDelivered || !strings.Contains(stderr, "it stays in the outbox") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, stderr := m.runSend("--session", "s", "second"); code != exitNotDelivered {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	close(hangs)
	m.flush()
	if got := m.messageTexts(); len(got) != 2 || got[0] != "first" || got[1] != "second" {
		t.Errorf("in the space: %q", got)
	}
}

// Of a message that is not kept, and that Chat may have taken, gchat-send does not say
// that it was not delivered.
func TestSend_UnkeptWhileChatHangs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	m.hold = make(chan struct{})
	code, stderr := m.runSend("--no-queue", "words")
	close(m.hold)
	if code != exitNotDelivered || !strings.Contains(stderr, "it may have arrived, and is not kept") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if waiting, _ := m.outbox().Waiting(); len(waiting) > 0 {
		t.Errorf("%d are kept", len(waiting))
	}
}

// What is to be sent now or never is sent in quiet hours, also by a poller that runs.
func TestSend_NowInQuietHours(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	now := time.Now().UTC()
	quiet := fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q,"time_zone":"UTC"}}`,
		now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04"))
	dir := filepath.Join(m.dir, ".config", "gchat-hooks")
	kit.NoError(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "config.json"), []byte(quiet), 0o600)))
	count := 0
	for _, args := range [][]string{
		{"--no-queue", "alone"}, {"--queue", "--type", "error", "starts a poller"}, {"--no-queue", "beside it"},
	} {
		if code, stderr := m.runSend(args...); code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
		count++
		bound.Until(t, "it is in the space", func() bool { return len(m.messageTexts()) == count })
	}
}

// What a hook wrote while gchat-send was the poller has a poller after it, also where
// gchat-send's own message is not kept.
func TestSend_FailureLeavesAPoller(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	refuses := atomic.Bool{}
	refuses.Store(true)
	m.nextFault = func(*rand.Rand) fault {
		if refuses.Load() {
			return forbidden
		}
		return noFault
	}
	ended := make(chan int)
	go func() {
		code, _ := m.runSend("refused")
		ended <- code
	}()
	bound.Until(t, "a post comes", func() bool { return m.posts.Load() > 0 })
	if code, stderr := m.runSend("--queue", "later"); code != 0 {
		t.Errorf("--queue: exit code %d: %s", code, stderr)
	}
	kit.Equalf(t, <-ended, exitNotDelivered, "--no-queue: exit code")
	refuses.Store(false)
	env := func(name string) string {
		for _, v := range m.env {
			if value, is := strings.CutPrefix(v, name+"="); is {
				return value
			}
		}
		return ""
	}
	bound.Until(t, "a poller runs", func() bool { return state.ReadHeartbeat(env, state.Environment(env)).IsAlive })
}

// A full disk is said, and neither half a message nor any of it is kept or sent.
func TestSend_FullDisk(t *testing.T) {
	m := newMachine(t, 6000)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	dir := m.outbox().Dir
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	if out, err := bound.Command(t, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" && os.Geteuid() == 0 {
			t.Fatalf("mount: %v: %s", err, out)
		}
		t.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		m.killAll()
		if out, err := bound.Command(t, "umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	for b := make([]byte, 4096); err == nil; _, err = f.Write(b) {
	}
	f.Close()
	code, stderr := m.runSend(strings.Repeat("words ", 5000))
	if code != exitNotDelivered || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if waiting, bad := m.outbox().Waiting(); len(waiting)+len(bad)+len(m.messageTexts()) > 0 {
		t.Errorf("%d waiting, %v, in the space %q", len(waiting), bad, m.messageTexts())
	}
	kit.NoError(t, os.Remove(fill))
	if code, stderr := m.runSend("and on"); code != 0 || len(m.messageTexts()) != 1 {
		t.Errorf("exit code %d: %s; in the space %q", code, stderr, m.messageTexts())
	}
}

// A dry run names the thread that the message would go into, where its key is known.
func TestSend_DryRunNamesTheThread(t *testing.T) {
	m := newMachine(t, 60)
	m.nextFault = func(*rand.Rand) fault { return noFault }
	for _, want := range []string{`"thread":{"threadKey":"K"}`, `"thread":{"name":"spaces/local/threads/`} {
		cmd := bound.Command(m, m.program, "--dry-run", "--thread-key", "K", "words")
		cmd.Env = m.env
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
		if code, said := m.runSend("--thread-key", "K", "words"); code != 0 {
			t.Fatal(said)
		}
	}
}
