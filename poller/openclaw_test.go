package poller

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// installAgent installs an openclaw on the machine. It does what a shell script says,
// and logs its arguments.
func (o *sendTest) installAgent(script string) (program string) {
	o.t.Helper()
	dir := filepath.Join(o.vars["HOME"], "bin")
	program = filepath.Join(dir, "openclaw")
	text := "#!/bin/sh\nfor a; do echo \"$a\"; done >>" + dir + "/args\nenv >" + dir +
		"/env\npwd >" + dir + "/pwd\n" + script + "\n"
	kit.WriteFile(o.t, program, text, 0o700)
	return program
}

func (o *sendTest) agentFile(name string) string {
	b, _ := os.ReadFile(filepath.Join(o.vars["HOME"], "bin", name))
	return string(b)
}

func (o *sendTest) enqueueWake(program, text string, also ...func(*state.Message)) *state.Message {
	o.t.Helper()
	message := &state.Message{
		ID: state.MessageID("wake", text), Type: state.MessageWake, SessionID: "s",
		CreatedAt: o.now(),
		Wake: &state.Wake{
			Args:         []string{"agent", "--session-id", "boss", "--message", text},
			AgentSession: "boss", Trigger: "stop",
			SearchPath: filepath.Dir(program) + ":/usr/bin:/bin:relative",
		},
	}
	for _, f := range also {
		f(message)
	}
	message, _, err := o.outbox().Enqueue(o.env, message, 0)
	kit.NoError(o.t, err)
	return message
}

func TestOpenClaw_AgentGetsMessage(t *testing.T) {
	t.Setenv("GCHAT_ALLOWED_USERS", "users/secret")
	o := newSendTest(t)
	program := o.installAgent("echo done")
	first := o.enqueueWake(program, "one two")
	answered := o.enqueueWake(program, "three", func(message *state.Message) {
		message.Wake.NeedsReply = true
	})
	o.send()
	first, answered = o.reloadMessage(first), o.reloadMessage(answered)
	kit.True(t, !first.SentAt.IsZero() && first.AgentAnswer == "" &&
		answered.AgentAnswer == "done\n",
		"answers %q and %q", first.AgentAnswer, answered.AgentAnswer)
	const call = "agent\n--session-id\nboss\n--message\n"
	want := call + "one two\n" + call + "three\n"
	kit.Equalf(t, o.agentFile("args"), want, "openclaw's arguments")
	path := "PATH=" + filepath.Dir(program) + ":/usr/bin:/bin:"
	env := o.agentFile("env")
	kit.True(t, !strings.Contains(env, "secret") && strings.Contains(env, path),
		"openclaw's environment: %s", env)
	kit.Equalf(t, strings.TrimSpace(o.agentFile("pwd")), o.vars["HOME"], "it works in")
}

// If gchat-send acts as the poller, it starts no agent's turn: the turn would end with
// gchat-send, and start again.
func TestOpenClaw_SendNowStartsNoTurn(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueWake(o.installAgent("sleep 1"), "hello")
	r := o.enqueueReport("", "x")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	now, err := SendNow(ctx, Options{Env: o.env, Log: o.poller.Log, Now: time.Now},
		config.Load(o.env, r.ProjectDir), r)
	kit.Must(t, err == nil && !now.SentAt.IsZero(), "%v %v", now, err)
	message = o.reloadMessage(message)
	kit.True(t, message.FirstTriedAt.IsZero() && o.agentFile("args") == "" && ctx.Err() == nil,
		"the agent got %q; the message: %+v", o.agentFile("args"), message)
}

func TestOpenClaw_LongMessageGoesByFile(t *testing.T) {
	o := newSendTest(t)
	program := o.installAgent(`while [ "$1" != --message-file ]; do shift; done; cat "$2"`)
	message := o.enqueueWake(program, strings.Repeat("long ", 20_000),
		func(message *state.Message) {
			message.Wake.NeedsReply = true
		})
	o.send()
	message = o.reloadMessage(message)
	kit.True(t, message.AgentAnswer == strings.Repeat("long ", 20_000),
		"the agent got %d bytes", len(message.AgentAnswer))
	left, err := filepath.Glob(filepath.Join(o.poller.userStateDir, "outbox", "*.txt"))
	kit.True(t, err == nil && len(left) == 0, "left behind: %q, %v", left, err)
}

func TestOpenClaw_FailedTurnIsRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		sent         bool
		why          string
		pauses       []time.Duration
	}{
		{"says nothing", `echo "⚠️ Agent couldn't generate a response"; exit 1`, true, "", nil},
		{
			"its turn fails", `echo '{"runId": 1}'; exit 1`, false, "its turn failed",
			[]time.Duration{agentRetryPause, 2 * agentRetryPause, 4 * agentRetryPause},
		},
		{
			"gateway down", `echo "connection refused" >&2; exit 1`, false, "connection refused",
			[]time.Duration{agentRetryPause},
		},
		{"leaves a child", `sleep 5 & exit 0`, true, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newSendTest(t)
			message := o.enqueueWake(o.installAgent(c.script), "hello")
			behind := o.enqueueWake(o.installAgent(c.script), "behind")
			for _, want := range append(slices.Clone(c.pauses), 0) {
				next := o.send()
				message = o.reloadMessage(message)
				kit.True(t, strings.Contains(message.LastError, c.why) &&
					message.IsFinal() == c.sent,
					"last error %q, final %v", message.LastError, message.IsFinal())
				if want == 0 {
					break
				}
				kit.Equalf(t, next.Sub(o.now()).Round(time.Second), want, "next in")
				o.advance(want)
			}
			kit.True(t, strings.Contains(o.agentFile("args"), "behind") == c.sent &&
				o.reloadMessage(behind).IsFinal() == c.sent,
				"the messages of one agent keep no order")
		})
	}
}

func TestOpenClaw_FailingAgentIsGivenUp(t *testing.T) {
	o := newSendTest(t)
	message := o.enqueueWake(o.installAgent("exit 1"), "hello")
	for range minFailedTurns + 2 {
		o.send()
		o.advance(5 * time.Minute)
	}
	message = o.reloadMessage(message)
	kit.True(t, message.SetAsideReason == "",
		"set aside after %d tries: %s", message.FailedTries, message.SetAsideReason)
	o.sendAfter(maxAgentMessageAge)
	message = o.reloadMessage(message)
	kit.True(t, message.SetAsideReason != "", "it is tried for ever")
}

func TestOpenClaw_InstalledLaterIsFound(t *testing.T) {
	o := newSendTest(t)
	o.vars["PATH"] = filepath.Join(o.vars["HOME"], "bin")
	message := o.enqueueWake("", "hello")
	if program, err := exec.LookPath("openclaw"); err == nil {
		t.Skip("this machine has an openclaw: " + program)
	}
	o.send()
	message = o.reloadMessage(message)
	kit.True(t, strings.Contains(message.LastError, "not in PATH"),
		"last error %q", message.LastError)
	o.installAgent("")
	o.sendAfter(5 * time.Second)
	message = o.reloadMessage(message)
	kit.True(t, !message.SentAt.IsZero(), "not sent: %s", message.LastError)
}

func (hangingChat) Post(ctx context.Context, _ gchat.Post) (gchat.PostedMessage, error) {
	<-ctx.Done()
	return gchat.PostedMessage{}, ctx.Err()
}
