package poller

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// agent puts an openclaw into a folder of the office's that does what a shell script says, and logs its arguments.
func (o *office) agent(script string) (program string) {
	o.t.Helper()
	dir := filepath.Join(o.env["HOME"], "bin")
	program = filepath.Join(dir, "openclaw")
	text := "#!/bin/sh\nfor a; do echo \"$a\"; done >>" + dir + "/args\nenv >" + dir + "/env\npwd >" + dir + "/pwd\n" + script + "\n"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		o.t.Fatal(err)
	}
	return program
}

func (o *office) told(name string) string {
	b, _ := os.ReadFile(filepath.Join(o.env["HOME"], "bin", name))
	return string(b)
}

func (o *office) wake(program, text string, also ...func(*state.Message)) *state.Message {
	o.t.Helper()
	m := &state.Message{
		ID: state.MessageID("wake", text), Type: state.MessageWake, SessionID: "s", CreatedAt: o.time(),
		Wake: &state.Wake{
			Args: []string{"agent", "--session-id", "boss", "--message", text}, AgentSession: "boss", Trigger: "stop",
			SearchPath: filepath.Dir(program) + ":/usr/bin:/bin:relative",
		},
	}
	for _, f := range also {
		f(m)
	}
	m, _, err := state.OutboxIn(o.user).Enqueue(o.Env, m, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	return m
}

func TestAgentIsTold(t *testing.T) {
	t.Setenv("GCHAT_ALLOWED_USERS", "users/secret")
	o := newOffice(t)
	program := o.agent("echo done")
	first := o.wake(program, "one two")
	answered := o.wake(program, "three", func(m *state.Message) { m.Wake.NeedsReply = true })
	o.newSender().pass(t.Context())
	first, answered = o.reread(first), o.reread(answered)
	if first.SentAt.IsZero() || first.AgentAnswer != "" || answered.AgentAnswer != "done\n" {
		t.Errorf("answers %q and %q", first.AgentAnswer, answered.AgentAnswer)
	}
	want := "agent\n--session-id\nboss\n--message\none two\nagent\n--session-id\nboss\n--message\nthree\n"
	if got := o.told("args"); got != want {
		t.Errorf("told %q", got)
	}
	path := "PATH=" + filepath.Dir(program) + ":/usr/bin:/bin:"
	if env := o.told("env"); strings.Contains(env, "secret") || !strings.Contains(env, path) {
		t.Errorf("openclaw's environment: %s", env)
	}
	if pwd := strings.TrimSpace(o.told("pwd")); pwd != o.env["HOME"] {
		t.Errorf("it works in %s", pwd)
	}
}

// TestACommandBeginsNoAgentsTurn has gchat-send be the poller: a turn would end with it, and be begun again.
func TestACommandBeginsNoAgentsTurn(t *testing.T) {
	o := newOffice(t)
	m := o.wake(o.agent("sleep 1"), "hello")
	r := o.report("", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	now, err := Deliver(ctx, Options{Env: o.Env, Log: o.Log, Now: time.Now}, config.Load(o.Env, r.ProjectDir), r)
	if err != nil || now.SentAt.IsZero() {
		t.Fatal(now, err)
	}
	if m = o.reread(m); !m.FirstTriedAt.IsZero() || o.told("args") != "" || ctx.Err() != nil {
		t.Errorf("the agent was told %q; the message: %+v", o.told("args"), m)
	}
}

// A message that waits behind an older one of its thread is left to a poller, which sends them in order.
func TestACommandSendsNothingOutOfOrder(t *testing.T) {
	o := newOffice(t)
	tried := func(m *state.Message) { m.Parts, m.FirstTriedAt = []string{m.Report.Text}, o.time() }
	o.report("a", "first")
	second, other := o.report("a", "second", tried), o.report("b", "other", tried)
	for m, sent := range map[*state.Message]bool{second: false, other: true} {
		now, err := Deliver(t.Context(), Options{Env: o.Env, Log: o.Log, Now: time.Now}, config.Load(o.Env, m.ProjectDir), m)
		if err != nil || now.SentAt.IsZero() == sent || now.FirstTriedAt.IsZero() == sent {
			t.Errorf("%+v: %v", now, err)
		}
	}
}

func TestLongMessageGoesByFile(t *testing.T) {
	o := newOffice(t)
	program := o.agent(`while [ "$1" != --message-file ]; do shift; done; cat "$2"`)
	m := o.wake(program, strings.Repeat("long ", 20_000), func(m *state.Message) { m.Wake.NeedsReply = true })
	o.newSender().pass(t.Context())
	if m = o.reread(m); m.AgentAnswer != strings.Repeat("long ", 20_000) {
		t.Errorf("the agent got %d bytes", len(m.AgentAnswer))
	}
	left, err := filepath.Glob(filepath.Join(o.user, "outbox", "*.txt"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestAgentThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		sent         bool
		why          string
		pauses       []time.Duration
	}{
		{"says nothing", `echo "⚠️ Agent couldn't generate a response"; exit 1`, true, "", nil},
		{"its turn fails", `echo '{"runId": 1}'; exit 1`, false, "its turn failed", []time.Duration{wakePause, 2 * wakePause, 4 * wakePause}},
		{"gateway down", `echo "connection refused" >&2; exit 1`, false, "connection refused", []time.Duration{wakePause}},
		{"leaves a child", `sleep 5 & exit 0`, true, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice(t)
			s := o.newSender()
			m := o.wake(o.agent(c.script), "hello")
			behind := o.wake(o.agent(c.script), "behind")
			for _, want := range append(slices.Clone(c.pauses), 0) {
				next := s.pass(t.Context())
				if m = o.reread(m); !strings.Contains(m.LastError, c.why) || m.IsFinal() != c.sent {
					t.Errorf("last error %q, final %v", m.LastError, m.IsFinal())
				}
				if want == 0 {
					break
				}
				if got := next.Sub(o.time()).Round(time.Second); got != want {
					t.Errorf("next in %v, want %v", got, want)
				}
				o.later(want)
			}
			if strings.Contains(o.told("args"), "behind") != c.sent || o.reread(behind).IsFinal() != c.sent {
				t.Error("the messages of one agent keep no order")
			}
		})
	}
}

func TestAgentThatNeverTakesItIsGivenUp(t *testing.T) {
	o := newOffice(t)
	s := o.newSender()
	m := o.wake(o.agent("exit 1"), "hello")
	for range failingTurns + 2 {
		s.pass(t.Context())
		o.later(5 * time.Minute)
	}
	if m = o.reread(m); m.SetAsideReason != "" {
		t.Errorf("set aside after %d tries: %s", m.FailedTries, m.SetAsideReason)
	}
	o.later(oldWake)
	s.pass(t.Context())
	if m = o.reread(m); m.SetAsideReason == "" {
		t.Error("it is tried for ever")
	}
}

func TestOpenClawIsFoundWhenItIsInstalledLater(t *testing.T) {
	o := newOffice(t)
	o.env["PATH"] = filepath.Join(o.env["HOME"], "bin")
	m := o.wake("", "hello")
	if program, err := exec.LookPath("openclaw"); err == nil {
		t.Skip("this machine has an openclaw: " + program)
	}
	s := o.newSender()
	s.pass(t.Context())
	if m = o.reread(m); !strings.Contains(m.LastError, "not in PATH") {
		t.Errorf("last error %q", m.LastError)
	}
	o.agent("")
	o.later(5 * time.Second)
	s.pass(t.Context())
	if m = o.reread(m); m.SentAt.IsZero() {
		t.Errorf("not sent: %s", m.LastError)
	}
}

// hangingChat takes each message and never answers.
type hangingChat struct{ transport }

func (hangingChat) Post(ctx context.Context, _ gchat.Post) (gchat.Posted, error) {
	<-ctx.Done()
	return gchat.Posted{}, ctx.Err()
}

// gchat-send has two seconds in all: what it sent is not waited for beyond them. A poller looks what became of it.
func TestACommandDoesNotLinger(t *testing.T) {
	o := newOffice(t)
	m := o.report("", "x", func(m *state.Message) { m.Parts, m.FirstTriedAt = []string{"x"}, o.time() })
	command := Options{Env: o.Env, Log: o.Log, Now: time.Now}
	cfg := config.Load(o.Env, m.ProjectDir)
	s := commandSender(command, m)
	way := s.open(t.Context(), cfg)
	way.transport = hangingChat{way.transport}
	synctest.Test(t, func(t *testing.T) {
		const bound = 1800 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		began := time.Now()
		now, err := s.sendOne(ctx, m, way)
		if took := time.Since(began); err != nil || now.IsFinal() || now.FirstTriedAt.IsZero() || took != bound {
			t.Errorf("it took %s, error %v: %+v", took, err, now)
		}
	})
}
