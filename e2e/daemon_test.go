package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A daemon is a gchat-response-poller beside a session, with the session's configuration.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  bytes.Buffer // what it said, once it has ended
	done chan error
}

// startDaemon starts one; the end of the test ends it.
func (b *hookedSession) startDaemon(args ...string) *daemon {
	b.t.Helper()
	cmd := exec.Command(builtProgram(b.t), append([]string{"gchat-response-poller"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = b.Dir,
		append(b.tmux.env, "CLAUDE_PROJECT_DIR="+b.Dir, "TMUX="+b.TMUX()), os.Stderr
	d := &daemon{t: b.t, cmd: cmd, done: make(chan error, 1)}
	cmd.Stdout = &d.out
	kit.NoError(b.t, cmd.Start())
	go func() { d.done <- cmd.Wait() }()
	b.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			d.stop()
		}
	})
	return d
}

// awaitPolling waits until the daemon has taken over from the poller that the hooks
// started.
func (d *daemon) awaitPolling() {
	d.t.Helper()
	its := func(h state.Heartbeat) bool { return h.PID == d.cmd.Process.Pid }
	bound.Until(d.t, "the daemon takes over", func() bool {
		return slices.ContainsFunc(state.ReadHeartbeats(lookupIn(d.cmd.Env)), its)
	})
}

// stop asks the daemon to end, and waits until it has.
func (d *daemon) stop() error {
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-d.done:
		d.done <- err
		return err
	case <-time.After(patience):
		// its goroutines are on our standard error
		d.t.Errorf("the daemon did not end:\n%s", bound.Kill(d.cmd.Process.Pid))
		return <-d.done
	}
}

// hasEnded reports whether the daemon has ended.
func (d *daemon) hasEnded() bool { return len(d.done) > 0 }

func TestDaemon_TypesAnswers(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, config{Script: answerScript()})
		b.startDaemon()
		b.answerInChat(func(n int) {
			bound.Until(t, "resolved by typing", func() bool {
				all := b.loadQuestions()
				return len(all) == n && !slices.ContainsFunc(all, func(q *state.Question) bool {
					return q.Status != state.Resolved || q.ResolvedBy != "chat" ||
						!q.InjectionAttempted || q.InjectionSucceeded == nil || !*q.InjectionSucceeded
				})
			})
		})
	})
}

// A session that was started before the hooks: what is known of its question is what
// another program wrote down.
func TestDaemon_AnswersAnotherProgramsQuestion(t *testing.T) {
	eachSession(t, testedVersions, startAsking, config{
		Hooks:  hooks{},
		Script: []turn{{questionCall(featuresQuestion)}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		b.WaitScreen("Submit")
		dir := filepath.Join(b.Dir, ".claude", "state", "pending-questions")
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		options := kit.JSON(t, featuresQuestion.Options)
		record := fmt.Sprintf(`{"question_id": "0b5e3c9a-0a57-4a3e-9a11-2f6a4a1f0003", "session_id": "orch-epic4", "tmux_session": "claude", "asked_at": %q,
			"gchat_thread_key": "ask-user-0b5e3c9a", "gchat_message_sent": false, "gchat_message_name": null, "questions": [{"question": %q, "header": "Features",
			"options": %s, "multiSelect": true, "option_count": 3}], "status": "pending", "resolved_at": null, "response": null, "response_type": null,
			"injection_attempted": false, "injection_succeeded": null}`, time.Now().UTC().Format(time.RFC3339), featuresQuestion.Question, options)
		b.startDaemon("--pending-dir", dir)
		writeFile(t, filepath.Join(dir, "orch-epic4-1.json"), json.RawMessage(record))
		b.reply(b.awaitPost("[AskUserQuestion]", "orch-epic4"), "2, 3")
		b.awaitResult(1, `"="Billing, Search"`)
		b.awaitPost("[Answered]", "Selected: Billing, Search") // which no hook says here
		b.awaitQuestion("resolved",
			func(q *state.Question) bool { return q.Status == state.Resolved })
	})
}

// The hook that waited beside the dialog is gone: the daemon takes its place.
func TestDaemon_AnswersAfterHookKilled(t *testing.T) {
	eachAsked(t, startAsking, func(t *testing.T, b *hookedSession, q *chat.Message) {
		b.killProcess("gchat-ask-user-forward")
		b.checkNoWaiter()
		b.startDaemon()
		b.reply(q, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Answered]", "Selected: Canary")
	})
}

// What the daemon would have typed is said, and nothing is typed, neither then nor when
// it has ended: that takes another reply.
func TestDaemon_DryRunTypesNothing(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, config{Script: deployScript})
		d := b.startDaemon("--dry-run")
		d.awaitPolling()
		b.Prompt("go ahead")
		b.WaitScreen("Rolling deployment")
		q := b.awaitPost("[AskUserQuestion]")
		b.reply(q, "2")
		b.awaitPost("[Not used]", "--dry-run")
		kit.NoError(t, d.stop())
		kit.Equalf(t, d.out.String(),
			"project, pane "+b.Pane()+": would type: Rolling deployment\n", "it said")
		b.startDaemon()
		b.reply(q, "3")
		b.awaitResult(1, "Canary")
	})
}

// The daemon has none of the variables of Anthropic's that Claude Code runs with: it
// serves the session all the same, and no poller begins beside it.
func TestDaemon_ServesSessionsWithAKey(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, config{Script: deployScript})
		env := b.tmux.env
		b.tmux.env = slices.DeleteFunc(slices.Clone(env),
			func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })
		if len(b.tmux.env) != len(env)-2 {
			t.Fatalf("the daemon has %q", b.tmux.env)
		}
		b.startDaemon().awaitPolling()
		b.tmux.env = env
		b.Prompt("go ahead")
		b.WaitScreen("Rolling deployment")
		b.reply(b.awaitPost("[AskUserQuestion]"), "3")
		b.awaitResult(1, "Canary")
		if all := state.ReadHeartbeats(lookupIn([]string{"HOME=" + b.Home})); len(all) != 1 ||
			!all[0].IsDaemon {
			t.Errorf("the pollers are %+v", all)
		}
	})
}

// Two dialogs queue; the second one's answer waits until its dialog is on the screen,
// however early it comes.
func TestDaemon_TypesIntoQueuedDialogs(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, config{
			Script: []turn{
				{questionCall(databaseQuestion), questionCall(deployQuestion)}, thanksTurn,
			},
		})
		b.startDaemon()
		b.Prompt("go ahead")
		shown, hidden := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question),
			b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		answers := map[*chat.Message]string{shown: "2", hidden: "3"}
		if strings.Contains(b.WaitScreen("Esc to cancel"), deployQuestion.Question) {
			// their hooks race for who comes first
			shown, hidden = hidden, shown
		}
		b.reply(hidden, answers[hidden])
		b.awaitPostInThread(hidden, "[Waiting]", "another question is open")
		b.reply(shown, answers[shown])
		b.awaitResults(`"Which DB?"="SQLite"`,
			`"Which deployment approach should we use?"="Canary"`)
	})
}
