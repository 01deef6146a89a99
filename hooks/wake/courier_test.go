package wake

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// told runs a stop hook whose message says this.
func (w *world) told(text string) string {
	w.Helper()
	return w.run("stop-hook", recorded(w, "single-07-Stop", "last_assistant_message", text))
}

func contents(calls []call) (all []string) {
	for _, c := range calls {
		all = append(all, section(c.message(), "CONTENT"))
	}
	return all
}

// What openclaw gets: the message exactly, our PATH, nothing of our own settings, no input, no descriptors.
func TestOpenClawCall(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/S/messages?key=k&token=secret"
	w.env["OPENCLAW_GATEWAY_TOKEN"], w.env["ANTHROPIC_API_KEY"], w.env["GOOGLE_CHAT_SERVICE_ACCOUNT"] = "theirs", "theirs", "theirs" // its channel's, none of ours
	said := "He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s\x00\x1b[31m"
	w.told(said)
	c := w.heard(1)[0]
	if got := section(c.message(), "CONTENT"); got != "He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s" {
		t.Errorf("content %q", got)
	}
	for _, v := range c.env {
		if strings.HasPrefix(v, "GOOGLE_CHAT_WEBHOOK") || strings.HasPrefix(v, "GCHAT_") {
			t.Errorf("openclaw gets %s", v)
		}
	}
	for _, want := range []string{"PATH=" + w.env["PATH"], "OPENCLAW_GATEWAY_TOKEN=theirs", "ANTHROPIC_API_KEY=theirs", "GOOGLE_CHAT_SERVICE_ACCOUNT=theirs", "HOME=" + w.path("home")} {
		if !slices.Contains(c.env, want) {
			t.Errorf("openclaw misses %s", want)
		}
	}
	w.settings("warden-main", `{"transcript_extract_chars":100000}`)
	long := strings.Repeat("long words ", 9000)
	w.told(long)
	c = w.heard(2)[1]
	if len(c.args) != 5 || c.args[3] != "--message-file" || !filepath.IsAbs(c.args[4]) || section(c.message(), "CONTENT") != long || c.mode != "-rw-------" {
		t.Errorf("long: %.200q %s", c.args, c.mode)
	}
	w.idle()
	w.until("nothing is left in the outbox", func() bool {
		left, _ := filepath.Glob(filepath.Join(w.user(), "wake", "outbox", "*"))
		mine, _ := filepath.Glob(filepath.Join(w.user(), "wake", "outbox", ".retrier-*"))
		return len(left) == len(mine)
	})
	w.settings("warden-main", `{"transcript_extract_chars":7}`)
	w.told("first last 🙂🙂")
	if got := section(w.heard(3)[2].message(), "CONTENT"); got != "last 🙂🙂" {
		t.Errorf("cut to %q", got)
	}
	w.idle()
}

// A gateway that is down loses nothing: what failed is tried again, in order, and before what comes later.
func TestGatewayDown(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("fail", "")
	w.told("one")
	w.until("the first try is written down", func() bool { m := w.waiting(); return len(m) == 1 && m[0].Tries > 0 })
	if m := w.waiting()[0]; !strings.Contains(m.LastError, "gateway is down") || !m.NotBefore.After(time.Now()) {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(w.log(), "gateway is down") || !strings.Contains(w.log(), `"hint"`) {
		t.Errorf("log:\n%s", w.log())
	}
	w.told("two")
	w.until("another try", func() bool { return len(w.calls()) >= 2 })
	w.must(os.Remove(w.path("fail")))
	w.told("three")
	w.idle()
	got := contents(w.calls())
	got = slices.DeleteFunc(got, func(s string) bool { return s == "one" })
	if !slices.Equal(got, []string{"two", "three"}) || contents(w.calls())[0] != "one" {
		t.Errorf("heard %q", contents(w.calls()))
	}
}

// Without openclaw a message waits, with one line that says what to do; the retrier hands it over when it is there.
func TestOpenClawMissing(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.must(os.Rename(w.path("bin/openclaw"), w.path("bin/away")))
	if _, err := openclaw(w.getenv, w.env["PATH"]); err == nil {
		t.Skip("this machine has an openclaw of its own")
	}
	w.told("one")
	w.until("the log says it", func() bool { return strings.Contains(w.log(), "openclaw is not in PATH") })
	if n := strings.Count(w.log(), "\n"); n != 1 || !strings.Contains(w.log(), "npm install -g openclaw") {
		t.Errorf("%d lines:\n%s", n, w.log())
	}
	w.must(os.Rename(w.path("bin/away"), w.path("bin/openclaw")))
	if got := contents(w.heard(1)); got[0] != "one" { // by the retrier, after its first pause
		t.Errorf("heard %q", got)
	}
	w.idle()
}

// One openclaw that hangs holds up neither its hook nor the messages after it.
func TestOpenClawHangs(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("hang", "")
	w.told("one")
	w.hung(1)
	w.must(os.Remove(w.path("hang")))
	w.told("two")
	if got := contents(w.heard(2)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("heard %q", got)
	}
	w.until("the second is out", func() bool { return len(w.waiting()) == 1 })
	if m := w.waiting()[0]; section(m.Message, "CONTENT") != "one" {
		t.Errorf("waits: %+v", m)
	}
	w.endStandIns()
}

// Whoever hands a message over is killed: it is handed over again, but not while the agent's CLI still has it in hand.
func TestCourierKilled(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("hang", "")
	w.told("one")
	w.hung(1)
	w.endCourier()
	w.must(os.Remove(w.path("hang")))
	w.told("two")
	w.heard(2)
	w.endShell()
	w.told("three")
	w.idle()
	if got := contents(w.calls()); !slices.Equal(got, []string{"one", "two", "one", "three"}) {
		t.Errorf("heard %q", got)
	}
	w.endStandIns()
}

// The shell that hands a message over hangs longer than a turn may take: it is ended, and the message waits.
func TestShellHangs(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("hang", "")
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	for name, v := range w.env {
		t.Setenv(name, v)
	}
	m := w.waiting()[0]
	shell, ok := startOpenClaw(w.getenv, m)
	if !ok {
		t.Fatal("not started")
	}
	w.hung(1)
	ended := make(chan bool)
	go func() { _, _ = shell.Wait(); close(ended) }()
	c := &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: m.Path, Shell: shell.Pid, Turn: 500 * time.Millisecond}
	c.fill()
	c.watch(m)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the shell goes on")
	}
	if !strings.Contains(w.log(), "and was ended") {
		t.Errorf("log:\n%s", w.log())
	}
	w.must(os.Remove(w.path("hang")))
	if sent, left := c.HandOver(t.Context()); sent != 1 || len(left) != 0 || len(w.calls()) != 2 {
		t.Errorf("%d sent, %d left", sent, len(left))
	}
}

// A claim that fails is no proof of an openclaw that hangs: it is left alone.
func TestClaimFails(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	m := w.waiting()[0]
	w.must(os.Mkdir(filepath.Join(filepath.Dir(m.Path), "."+filepath.Base(m.Path)+".lock"), 0o700))
	shell := exec.Command("sleep", "600")
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	w.must(shell.Start())
	c := &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: m.Path, Shell: shell.Process.Pid, Turn: time.Millisecond}
	c.fill()
	c.watch(m)
	if err := shell.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("openclaw's shell: %v", err)
	}
	var ended *exec.ExitError
	if err := shell.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("openclaw's shell ended otherwise than by us: %v", err)
	}
	if n := strings.Count(w.log(), "\n"); n != 1 || !strings.Contains(w.log(), "not known when openclaw ends") {
		t.Errorf("%d lines:\n%s", n, w.log())
	}
}

// How openclaw ended is for this user to read only, and openclaw works with the umask that the person has.
func TestEndIsPrivate(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("bin/openclaw", "#!/bin/sh\numask > $WAKE_TEST/umask; exit 7\n")
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	for name, v := range w.env {
		t.Setenv(name, v)
	}
	was := syscall.Umask(0o022)
	m := w.waiting()[0]
	shell, ok := startOpenClaw(w.getenv, m)
	syscall.Umask(was)
	if !ok {
		t.Fatal("not started")
	}
	_, err := shell.Wait()
	w.must(err)
	box := state.WakeOutboxIn(w.user())
	info, err := os.Stat(box.EndPath(m))
	w.must(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the exit code is in a file of mode %s", info.Mode())
	}
	if b, _ := os.ReadFile(w.path("umask")); strings.TrimSpace(string(b)) != "0022" {
		t.Errorf("openclaw has umask %s", b)
	}
	if code, _, ok := box.Ended(m); code != 7 || !ok {
		t.Errorf("it ended with %d %v", code, ok)
	}
}

// A hook that is killed at any step has told, or tells with its next event.
func TestHookKilled(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing")
		}
		t.Skip("needs strace")
	}
	killed := 0
	w := newWorld(t, "warden-main", quiet)
	w.write("fail", "") // nothing leaves the outbox
	for _, step := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "write", "openat", "clone,clone3"} {
		for nth := 1; nth <= 9; nth += 2 {
			if step == "openat" {
				nth += 6 // the first ones belong to the loader and the runtime
			}
			text := step + " " + string(rune('0'+nth))
			event := recorded(t, "single-07-Stop", "last_assistant_message", text)
			cmd, _ := w.start("stop-hook", event, "strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace="+step, "-e", "inject="+step+":signal=KILL:when="+string(rune('0'+nth)))
			if cmd.Wait() != nil {
				killed++
			}
			w.run("stop-hook", event)
			told := 0
			for _, m := range w.waiting() {
				if section(m.Message, "CONTENT") == text {
					told++
				}
			}
			if told < 1 || told > 2 {
				t.Errorf("killed at %s %d: told %d times", step, nth, told)
			}
		}
	}
	t.Logf("%d hooks were killed", killed)
	if killed < 10 {
		t.Errorf("only %d hooks were killed: the test does not do what it says", killed)
	}
	w.endCourier()
}

// The retrier's pauses, with a clock of the test's own: in order, ever longer, for a day.
func TestRetry(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("fail", "")
	for _, text := range []string{"one", "two"} {
		w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", text))
	}
	for name, v := range w.env { // openclaw runs in our own environment here
		t.Setenv(name, v)
	}
	now := time.Now()
	var slept []time.Duration
	c := &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: w.waiting()[0].Path, Now: func() time.Time { return now }}
	c.Sleep = func(_ context.Context, d time.Duration) {
		slept = append(slept, d)
		if now = now.Add(d); len(slept) == 40 {
			w.must(os.Remove(w.path("fail")))
		}
	}
	c.Run(t.Context())
	got := contents(w.calls())
	if n := len(got); got[n-2] != "one" || got[n-1] != "two" || slices.Contains(got[:n-2], "two") {
		t.Errorf("heard %q", got)
	}
	if tries := len(got) - 2; tries < 5 || tries > 12 {
		t.Errorf("%d tries in %s", tries, now.Sub(time.Now()))
	}
	if !state.WakeOutboxIn(w.user()).Empty() {
		t.Error("something is left")
	}

	w.write("fail", "")
	w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "nobody takes this"))
	c.First = w.waiting()[0].Path
	c.Sleep = func(_ context.Context, d time.Duration) { now = now.Add(d + time.Hour) }
	c.Run(t.Context())
	if dead := state.WakeOutboxIn(w.user()).Dead(); len(dead) != 1 || section(dead[0].Message, "CONTENT") != "nobody takes this" {
		t.Errorf("put aside: %+v", dead)
	}
}

// gchat-hooks wake tries at once, and says what is left and why.
func TestWakeCommand(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("fail", "")
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	if out, code := w.command("wake"); code != 2 || !strings.Contains(out, "0 handed over, 1 left") || !strings.Contains(out, "gateway is down") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := w.command("status"); code != 0 || !strings.Contains(out, "wake messages: 1 to be handed over") || !strings.Contains(out, "  to warden: response_complete, tried 1 times: openclaw: exit status 1: gateway is down\n") {
		t.Errorf("status, %d: %s", code, out)
	}
	w.must(os.Remove(w.path("fail")))
	if out, code := w.command("wake"); code != 0 || out != "1 handed over, 0 left\n" {
		t.Errorf("%d: %s", code, out)
	}
}

// What openclaw says of a failed turn: silence is no failure, and an agent that has the message is not asked for ever.
func TestFailedTurns(t *testing.T) {
	for name, c := range map[string]struct {
		out, errs string
		tries     int
		dead      bool
	}{
		"silence":            {"⚠️ Agent couldn't generate a response. Please try again.", "", 1, false},
		"silence, as JSON":   {`{"runId":"c773","status":"error","result":{"payloads":[{"text":"⚠️ Agent couldn't generate a response.","isError":true}]}}`, "", 1, false},
		"a model's error":    {"", "⚠️ fake/fake-model request failed (provider internal error, HTTP 500)", 17, true},
		"the same, as JSON":  {`{"ok":false,"runId":"e81a","error":{"type":"cli_error","message":"request failed"}}`, "", 17, true},
		"an agent's command": {"", "Gateway agent from agent exec would lose inter-session attribution.", 40, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "warden-main", quiet)
			w.write("out", c.out)
			w.write("errs", c.errs)
			w.write("bin/openclaw", "#!/bin/sh\nmktemp -d $WAKE_TEST/calls/XXXXXX >/dev/null; cat $WAKE_TEST/out; cat $WAKE_TEST/errs >&2; exit 1\n")
			for name, v := range w.env {
				t.Setenv(name, v)
			}
			w.fire("stop-hook", recorded(t, "single-07-Stop"))
			now, ctx := time.Now(), t.Context()
			ctx, cancel := context.WithCancel(ctx)
			courier := &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: w.waiting()[0].Path, Now: func() time.Time { return now }}
			courier.Sleep = func(_ context.Context, d time.Duration) {
				if now = now.Add(d); len(w.tries()) >= 40 {
					cancel()
				}
			}
			courier.Run(ctx)
			if n := len(w.tries()); n != c.tries {
				t.Errorf("%d tries, want %d", n, c.tries)
			}
			if dead := state.WakeOutboxIn(w.user()).Dead(); (len(dead) == 1) != c.dead {
				t.Errorf("%d put aside", len(dead))
			}
			if strings.Contains(c.errs, "attribution") && !strings.Contains(w.log(), "env -u OPENCLAW_SHELL") {
				t.Errorf("no hint:\n%s", w.log())
			}
		})
	}
}

func (w *world) tries() []string {
	all, _ := filepath.Glob(w.path("calls/*"))
	return all
}

// command runs a command for people.
func (w *world) command(name string) (out string, code int) {
	w.Helper()
	cmd, said := w.start(name, nil)
	var exit *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &exit) {
		return said.String(), exit.ExitCode()
	}
	return said.String(), 0
}

// endCourier kills the courier that has a message in hand, and no other process.
func (w *world) endCourier() {
	w.end(func(args, env string) bool { return strings.Contains(args, "wake\x00--detached") })
}

func (w *world) endShell() {
	w.end(func(args, env string) bool { return strings.HasPrefix(args, "sh\x00-c\x00e=$1") })
}

func (w *world) endStandIns() {
	w.end(func(args, env string) bool { return strings.HasPrefix(args, "sleep\x00600") })
}

// end kills the processes of this test's world, found by their environment, and waits until they are gone: one that is just
// dying still holds its locks.
func (w *world) end(which func(args, env string) bool) {
	w.Helper()
	var killed []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if strings.Contains(string(env), "WAKE_TEST="+w.dir+"\x00") && which(string(args), string(env)) {
			p, err := os.Readlink(filepath.Join(dir, "exe"))
			if pid := filepath.Base(dir); err == nil {
				w.Logf("ends %s (%s)", pid, p)
				if proc, err := os.FindProcess(atoi(pid)); err == nil {
					_ = proc.Signal(syscall.SIGKILL)
					killed = append(killed, proc.Pid)
				}
			}
		}
	}
	w.until("what was killed is gone", func() bool {
		return !slices.ContainsFunc(killed, func(pid int) bool { return inject.Running(pid, "") })
	})
}

func atoi(s string) (n int) {
	for _, r := range s {
		n = 10*n + int(r-'0')
	}
	return n
}
