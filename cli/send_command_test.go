package cli

import (
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

// A hook may call the poller while gchat-send holds the poller's lock. If no poller has
// looked for work since that call, gchat-send starts one.
func TestSend_StartsAPollerForAnEarlierCall(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 60)
	lock := func() string {
		locks, _ := filepath.Glob(m.path(".local/state/gchat-hooks/pollers/*.lock"))
		return strings.Join(locks, " ")
	}
	isPolling := func() bool { return state.IsLocked(lock()) }
	for _, called := range []string{"", "\n"} {
		m.mustRun("send", "words")
		if called == "" && bound.WaitFor(200*time.Millisecond, isPolling) {
			t.Error("it started a poller that was not called")
		}
		kit.NoError(t, os.WriteFile(lock(), []byte("\n"), 0o600))
	}
	bound.Until(t, "a poller looks for the hook's work", isPolling)
}

// If Chat refuses a message, gchat-send says why and ends with 2. The message is not
// lost.
func TestSend_ChatRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fault  fault
		says   string
		isDead bool
	}{
		{"malformed", badRequest, "chat answered 400", true},
		{"gone", notFound, "chat answered 404", true},
		{"forbidden", forbidden, "chat answered 403", false},
		{"too many", tooMany, "chat answered 429", false},
		{"broken", serverError, "chat answered 500", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !c.isDead {
				t.Skip("seconds pass until a message is tried again")
			}
			m := newMachine(t, 60)
			m.nextFault = func(*rand.Rand) fault { return c.fault }
			output := m.wantRun(exitNotDelivered, c.says, "send", "--thread-key", "x", "words")
			if strings.Contains(output, "token=") || !strings.Contains(output, ": hint: ") {
				t.Errorf("a secret, or no hint: %s", output)
			}
			m.killAll() // the poller that it started
			waiting, _ := m.outbox().Waiting()
			dead := len(m.outbox().SetAside())
			kit.Equalf(t, dead == 1, c.isDead, "it is set aside")
			kit.Equalf(t, dead+len(waiting), 1, "messages in the outbox")
			m.wantRun(exitNotDelivered, "", "send", "--no-queue", "now or never")
			m.killAll()
			m.nextFault = func(*rand.Rand) fault { return noFault }
			m.flush("--dead")
			m.wantMessages("words")
		})
	}
}

// gchat-send ends although Chat hangs. The message arrives once when Chat is back.
func TestSend_ChatHangs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	m.hold = make(chan struct{})
	m.wantRun(exitNotDelivered, "it stays in the outbox", "send", "--session", "s", "first")
	m.wantRun(exitNotDelivered, "", "send", "--session", "s", "second")
	close(m.hold)
	m.flush()
	m.wantMessages("first", "second")
}

// If Chat hangs, a message that is not kept may have arrived. gchat-send does not claim
// that it was not delivered.
func TestSend_UnkeptWhileChatHangs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	m.hold = make(chan struct{})
	m.wantRun(exitNotDelivered, "it may have arrived, and is not kept", "send", "--no-queue",
		"words")
	close(m.hold)
	waiting, _ := m.outbox().Waiting()
	kit.Equalf(t, len(waiting), 0, "messages are kept")
}

// A message that is sent now or never is sent in quiet hours, even by a running poller.
func TestSend_NowInQuietHours(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	now := time.Now().UTC()
	m.writeFile(configFile, fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q,"time_zone":"UTC"}}`,
		now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04")))
	for i, args := range [][]string{
		{"--no-queue", "alone"}, {"--queue", "--type", "error", "starts a poller"},
		{"--no-queue", "beside it"},
	} {
		m.wantRun(0, "", append([]string{"send"}, args...)...)
		bound.Until(t, "it is in the space", func() bool { return len(m.space.Messages()) == i+1 })
	}
}

// gchat-send starts a poller for what a hook wrote meanwhile, even if its own message
// failed.
func TestSend_FailureLeavesAPoller(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 6000)
	var isTaken atomic.Bool
	m.nextFault = func(*rand.Rand) fault {
		if isTaken.Load() {
			return noFault
		}
		return forbidden
	}
	ended := make(chan int)
	go func() {
		_, code := m.run("send", "refused")
		ended <- code
	}()
	bound.Until(t, "a post comes", func() bool { return m.posts.Load() > 0 })
	m.wantRun(0, "", "send", "--queue", "later")
	kit.Equalf(t, <-ended, exitNotDelivered, "exit code")
	isTaken.Store(true)
	bound.Until(t, "a poller runs", m.isPollerAlive)
}

// On a full disk, gchat-send names the error, and no part of the message is kept or
// sent.
func TestSend_FullDisk(t *testing.T) {
	m := newMachine(t, 6000)
	dir := m.outbox().Dir
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	mount := bound.Command(t, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir)
	if out, err := mount.CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" && os.Geteuid() == 0 {
			t.Fatalf("mount: %v: %s", err, out)
		}
		t.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		m.killAll()
		kit.NoError(t, bound.Command(t, "umount", "-l", dir).Run())
	})
	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	for b := make([]byte, 4096); err == nil; _, err = f.Write(b) {
	}
	f.Close()
	m.wantRun(exitNotDelivered, "no space left on device", "send", strings.Repeat("words ", 5000))
	m.wantMessages()
	waiting, bad := m.outbox().Waiting()
	kit.Equalf(t, len(waiting)+len(bad), 0, "messages in the outbox")
	kit.NoError(t, os.Remove(fill))
	m.wantRun(0, "", "send", "and on")
	m.wantMessages("and on")
}

// A dry run names the thread if the key's thread is known.
func TestSend_DryRunNamesTheThread(t *testing.T) {
	m := newMachine(t, 60)
	for _, want := range []string{
		`"thread":{"threadKey":"K"}`, `"thread":{"name":"spaces/local/threads/`,
	} {
		m.wantRun(0, want, "send", "--dry-run", "--thread-key", "K", "words")
		m.mustRun("send", "--thread-key", "K", "words")
	}
}
