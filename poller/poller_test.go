package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestPoller_BringsAnswerToHook(t *testing.T) {
	t.Parallel()
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { q.Mode = state.ModeNative })
	d.startWaiter(q)
	d.runPoller(Options{})
	stored := d.awaitQuestion(q, "posted", isSent)
	answered := make(chan *state.Question, 1)
	go func() {
		q, _ := state.Await(t.Context(), d.env, "", q.Path, isDecided)
		answered <- q
	}()
	d.reply(stored.ThreadName, "users/2", "1")
	d.reply(stored.ThreadName, "", "2 - soon")
	stored = <-answered
	kit.True(t, stored.Answers["Which?"] == "Two" && stored.Notes["Which?"] == "soon" &&
		stored.AnsweredBy == space.PersonName,
		"answered %v, %v by %s", stored.Answers, stored.Notes, stored.AnsweredBy)
	stored = d.awaitQuestion(q, "refused", func(q *state.Question) bool {
		return len(q.OwedNotes) == 0
	})
	kit.True(t, stored.Replies[0].Verdict == state.VerdictRefused &&
		strings.Join(d.noteKinds(q), " ") == state.NoteRefused,
		"%+v, notes %q", stored.Replies, d.noteKinds(q))
	d.closeQuestion(q, state.Resolved, "chat") // as the PostToolUse hook does
	d.awaitQuestion(q, "its notes are enqueued", func(q *state.Question) bool {
		return len(q.OwedNotes) == 0
	})
	got := d.noteKinds(q)
	kit.True(t, len(got) == 2 && got[1] == state.NoteClosed, "notes %q", got)
}

func TestPoller_OnePerEnvironment(t *testing.T) {
	d := newTestMachine(t)
	end := d.runPoller(Options{})
	d.awaitQuestion(d.addQuestion(nil), "posted", isSent)
	err := d.run(Options{})
	kit.True(t, errors.Is(err, state.ErrLocked), "a second one: %v", err)
	stop := d.runPoller(Options{Daemon: true}) // the detached one yields
	bound.Until(t, "the daemon runs", func() bool {
		return state.ReadDaemonPID(state.UserStateDir(d.env)) != 0
	})
	d.awaitQuestion(d.addQuestion(nil), "posted by the daemon", isSent)
	kit.NoError(t, end())
	err = d.run(Options{Daemon: true})
	kit.True(t, errors.Is(err, ErrDaemonRuns) &&
		strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())),
		"a second daemon: %v", err)
	kit.Equalf(t, state.ReadDaemonPID(state.UserStateDir(d.env)), os.Getpid(), "the pid file")
	err = stop()
	kit.True(t, err == nil && !isPollerRunning(d.env), "after its end: %v", err)
	kit.Equalf(t, state.ReadDaemonPID(state.UserStateDir(d.env)), 0, "the pid file after the end")
}

func TestPoller_OnceDoesOneRound(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	m := d.startThread(q)
	kit.NoError(t, d.run(Options{Once: true}))
	stored := d.loadQuestion(q)
	kit.True(t, stored.FindReply(m.Name) != nil && stored.Status == state.Answered,
		"%s, %+v", stored.Status, stored.Replies)
	d.listStatus.Store(http.StatusForbidden)
	d.addQuestion(d.markPosted)
	err := d.run(Options{Once: true})
	kit.True(t, err != nil, "what keeps it from reading is not returned")
}

// A single round takes over from a detached poller. A new detached poller starts
// afterwards where a question is open.
func TestPoller_OnceStartsDetachedPoller(t *testing.T) {
	d := newTestMachine(t)
	mark, self := filepath.Join(d.dir, "started"), filepath.Join(d.dir, "gchat-hooks")
	kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\necho >"+mark+"\n"), 0o700))
	d.addQuestion(d.markPosted)
	for _, dry := range []bool{true, false} {
		kit.NoError(t, d.run(Options{ProgramPath: self, Once: true, DryRun: dry}))
		there := bound.WaitFor(time.Duration(1-intOf(dry))*10*time.Second, func() bool {
			_, err := os.Stat(mark)
			return err == nil
		})
		kit.True(t, there != dry, "dry run %v: started %v", dry, there)
	}
}

func TestPoller_SurvivesAPanic(t *testing.T) {
	d := newTestMachine(t)
	p := d.newPoller()
	p.runSafely("test", func() { panic("a bug") })
	p.runInBackground("test", func() { panic("another") })
	p.goroutines.Wait()
	kit.Equalf(t, len(d.logLines("a bug in gchat-hooks")), 2, "lines of the log")
}

// isPollerRunning reports whether a poller has the environment's lock.
func isPollerRunning(env state.Getenv) bool {
	lock, err := state.LockPoller(env)
	if err == nil {
		lock.Unlock()
	}
	return errors.Is(err, state.ErrLocked)
}

// A daemon without any configuration says what to do and ends: a restart would change
// nothing.
func TestPoller_DaemonNeedsConfiguration(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GOOGLE_CHAT_WEBHOOK_URL"] = ""
	err := d.run(Options{Daemon: true})
	user := (*state.UserError)(nil)
	kit.True(t, errors.As(err, &user) && user.Hint != "", "%v", err)
	d.addQuestion(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Run(ctx, Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true})
	kit.True(t, err == nil, "with a question: %v", err)
}

// A poller whose home folder was deleted beneath it ends.
func TestPoller_EndsWithoutItsFolder(t *testing.T) {
	d := newTestMachine(t)
	d.addQuestion(nil)
	ended := make(chan error, 1)
	go func() { ended <- d.run(Options{Daemon: true}) }()
	bound.Until(t, "the poller runs", func() bool { return isPollerRunning(d.env) })
	for range 100 { // it may just be writing
		if os.RemoveAll(filepath.Join(state.UserStateDir(d.env), "pollers")) == nil {
			break
		}
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it lives on")
	}
}

// Where no lock excludes other processes, a poller that hooks started ends at once, since
// several might serve. A daemon serves.
func TestPoller_OnlyDaemonServesWithoutLocks(t *testing.T) {
	for _, daemon := range []bool{false, true} {
		d := newTestMachine(t)
		t.Cleanup(state.UseLockEnv(d.env))
		lock, err := state.LockPoller(d.env)
		kit.NoError(t, err)
		// This executable says that it got the lock, as a child of this process would.
		self := filepath.Join(d.dir, "self")
		kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\necho locked\n"), 0o700))
		p := d.newPoller()
		p.ProgramPath, p.Lock, p.Daemon = self, lock, daemon
		serves, err := p.checkPollerLock(t.Context())
		kit.True(t, serves == daemon && err == nil, "daemon %v: serves %v, %v", daemon, serves, err)
		place := state.ReadLockFolder(d.env)
		kit.True(t, place != nil && place.Dir == "", "locks are at %+v", place)
		release(&p.Lock)
	}
}

// The machine is kept awake exactly while a question is open.
func TestPoller_KeepsMachineAwake(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		d := newTestMachine(t)
		bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
		program := "#!/bin/sh\necho \"$@\" >> " + calls +
			"\nwhile case $1 in -*) ;; *) false ;; esac; do shift; done\n\"$@\"\necho ended >> " +
			calls + "\n"
		for _, name := range []string{"systemd-inhibit", "caffeinate"} {
			kit.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(program), 0o700))
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		if wanted {
			d.writeConfig(`{"keep_awake": true}`)
		}
		p := d.newPoller()
		q := d.addQuestion(d.markPosted)
		p.readIndex()
		p.writeHeartbeat(p.loadOwnConfig().KeepsAwake)
		if !wanted {
			kit.True(t, p.stopKeepingAwake == nil, "kept awake unasked")
			continue
		}
		var call []byte
		bound.Until(t, "a program is called", func() bool {
			call, _ = os.ReadFile(calls)
			return strings.Contains(string(call), "\n")
		})
		isKeptAwake := strings.Contains(string(call), "idle") || strings.Contains(string(call),
			"-w")
		kit.True(t, isKeptAwake && !strings.Contains(string(call), "ended"),
			"while it is open: %q", call)
		d.changeQuestion(q, func(q *state.Question) { q.Status = state.Cancelled })
		p.lastHeartbeatAt = time.Time{}
		p.readIndex()
		p.writeHeartbeat(p.loadOwnConfig().KeepsAwake)
		p.goroutines.Wait()
		kit.True(t, p.stopKeepingAwake == nil, "it is kept awake for what is over")
	}
}

// A message that waits behind an older one of its thread is left to a poller, which
// sends both in order.
func TestSendNow_KeepsOrder(t *testing.T) {
	o := newSendTest(t)
	tried := func(message *state.Message) {
		message.Parts, message.FirstTriedAt = []string{message.Report.Text}, o.now()
	}
	o.enqueueReport("a", "first")
	second, other := o.enqueueReport("a", "second", tried), o.enqueueReport("b", "other", tried)
	for message, sent := range map[*state.Message]bool{second: false, other: true} {
		now, err := SendNow(t.Context(), Options{Env: o.env, Log: o.poller.Log, Now: time.Now},
			config.Load(o.env, message.ProjectDir), message)
		kit.True(t, err == nil && now.SentAt.IsZero() != sent && now.FirstTriedAt.IsZero() != sent,
			"%+v: %v", now, err)
	}
}

// hangingChat accepts each message and never answers.
type hangingChat struct{ transport }

// gchat-send has two seconds in all: it does not wait longer for what it sent. A poller
// checks what became of it.
func TestSendNow_KeepsItsBound(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueReport("", "x", func(message *state.Message) {
		message.Parts, message.FirstTriedAt = []string{"x"}, o.now()
	})
	command := Options{Env: o.env, Log: o.poller.Log, Now: time.Now}
	cfg := config.Load(o.env, message.ProjectDir)
	s := newCommandSender(command, message)
	gateway := s.openGateway(t.Context(), cfg)
	gateway.transport = hangingChat{gateway.transport}
	synctest.Test(t, func(t *testing.T) {
		const bound = 1800 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		began := time.Now()
		now, err := s.sendAllParts(ctx, message, gateway)
		took := time.Since(began)
		kit.True(t, err == nil && !now.IsFinal() && !now.FirstTriedAt.IsZero() && took == bound,
			"it took %s, error %v: %+v", took, err, now)
	})
}
