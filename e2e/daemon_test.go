package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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
	done chan error
}

// startDaemon starts one; the end of the test ends it.
func (b *hookedSession) startDaemon(args ...string) *daemon {
	b.t.Helper()
	return b.startDaemonTo(os.Stdout, args...)
}

func (b *hookedSession) startDaemonTo(out io.Writer, args ...string) *daemon {
	b.t.Helper()
	cmd := exec.Command(builtProgram(b.t), append([]string{"gchat-response-poller"}, args...)...)
	cmd.Env = append(b.tmux.env, "CLAUDE_PROJECT_DIR="+b.Dir, "TMUX="+b.TMUX())
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Dir = b.Dir
	kit.NoError(b.t, cmd.Start())
	d := &daemon{b.t, cmd, make(chan error, 1)}
	go func() { d.done <- cmd.Wait() }()
	b.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Signal(syscall.SIGTERM)
			d.waitExit()
		}
	})
	return d
}

// awaitPolling waits until the daemon has taken over from the poller that the hooks
// started.
func (d *daemon) awaitPolling() {
	d.t.Helper()
	env := func(name string) string {
		for _, pair := range slices.Backward(d.cmd.Env) {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value
			}
		}
		return ""
	}
	its := func(h state.Heartbeat) bool { return h.PID == d.cmd.Process.Pid }
	bound.Until(d.t, "the daemon takes over", func() bool { return slices.ContainsFunc(state.ReadHeartbeats(env), its) })
}

// waitExit waits until the daemon has ended.
func (d *daemon) waitExit() error {
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

func TestDaemon_TypesAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asks  []question
		reply string
		told  []string
		says  []string
	}{
		"single choice": {[]question{deployQuestion}, "2", []string{`"="Rolling deployment"`}, []string{"Selected: Rolling deployment"}},
		"multi-select":  {[]question{featuresQuestion}, "1,3", []string{`"="Auth, Search"`}, []string{"Selected: Auth, Search"}},
		"two questions": {[]question{databaseQuestion, featuresQuestion}, "Q1: sqlite\nQ2: 3, 1", []string{`"Which DB?"="SQLite"`, `"="Auth, Search"`},
			[]string{"Selected: SQLite", "Selected: Auth, Search"}},
		"free text": {[]question{deployQuestion}, "neither: use \"$(rm -rf ~)\" & 'wait'; C-c Enter {} 日本語 ✅;",
			[]string{"neither: use \"$(rm -rf ~)\" & 'wait'; C-c Enter {} 日本語 ✅;"}, []string{"Custom response:", "日本語"}},
		"a remark": {[]question{deployQuestion}, "2 - but keep the old one", []string{"Rolling deployment", "but keep the old one"}, []string{"Rolling deployment", "but keep the old one"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, cl claude) {
				b := startInject(t, cl, turn{textBlock("A question."), questionCall(c.asks...)}, thanksTurn)
				b.startDaemon()
				b.Prompt("go ahead")
				q := b.awaitPost("[AskUserQuestion]", c.asks[0].Question)
				b.reply(q, c.reply)
				b.awaitResult(1, c.told...)
				if got := b.awaitPost("[Answered]", c.says...); got.Thread.Name != q.Thread.Name {
					t.Errorf("confirmed in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
				b.WaitScreen("Thanks, understood.")
				done := b.awaitQuestion("resolved by typing", func(q *state.Question) bool {
					// the hook may close it first
					return q.Status == state.Resolved && q.InjectionSucceeded != nil
				})
				if done.ResolvedBy != "chat" || !done.InjectionAttempted || !*done.InjectionSucceeded {
					t.Errorf("resolved by %q, attempted %v, succeeded %v", done.ResolvedBy, done.InjectionAttempted, *done.InjectionSucceeded)
				}
			})
		})
	}
}

// A session that was started before the hooks: what is known of its question is what
// another program wrote down.
func TestDaemon_AnswersAnotherProgramsQuestion(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: []turn{{questionCall(featuresQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		b.WaitScreen("Submit")
		dir := filepath.Join(b.Dir, ".claude", "state", "pending-questions")
		kit.NoError(t, os.MkdirAll(dir, 0o700))
		options, err := json.Marshal(featuresQuestion.Options)
		kit.NoError(t, err)
		record := fmt.Sprintf(`{"question_id": "0b5e3c9a-0a57-4a3e-9a11-2f6a4a1f0003", "session_id": "orch-epic4", "tmux_session": "claude", "asked_at": %q,
			"gchat_thread_key": "ask-user-0b5e3c9a", "gchat_message_sent": false, "gchat_message_name": null, "questions": [{"question": %q, "header": "Features",
			"options": %s, "multiSelect": true, "option_count": 3}], "status": "pending", "resolved_at": null, "response": null, "response_type": null,
			"injection_attempted": false, "injection_succeeded": null}`, time.Now().UTC().Format(time.RFC3339), featuresQuestion.Question, options)
		b.startDaemon("--pending-dir", dir)
		path := filepath.Join(dir, "orch-epic4-1.json")
		kit.NoError(t, os.WriteFile(path+".tmp", []byte(record), 0o600))
		kit.NoError(t, os.Rename(path+".tmp", path))
		b.reply(b.awaitPost("[AskUserQuestion]", "orch-epic4"), "2, 3")
		b.awaitResult(1, `"="Billing, Search"`)
		b.awaitPost("[Answered]", "Selected: Billing, Search") // which no hook says here
		b.awaitQuestion("resolved", func(q *state.Question) bool { return q.Status == state.Resolved })
	})
}

// The hook that waited beside the dialog is gone: the daemon takes its place.
func TestDaemon_AnswersAfterHookKilled(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}}, questionEvents...)
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		for _, p := range markedProcesses(sessionVariable + "=" + b.processMark) {
			if strings.Contains(p.String(), "gchat-ask-user-forward") {
				p.Signal(syscall.SIGKILL)
			}
			p.Close()
		}
		b.checkNoWaiter()
		b.startDaemon()
		b.reply(q, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Answered]", "Selected: Canary")
	})
}

// What the daemon would have typed is said, and nothing is typed, neither then nor when
// it has ended: that takes another reply. It is so, too, for a session of other settings,
// which a poller of its own serves.
func TestDaemon_DryRunTypesNothing(t *testing.T) {
	t.Parallel()
	for name, other := range map[string][]string{"same settings": nil, "other settings": {"GCHAT_FORMAT=builtin"}} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, testedVersions, func(t *testing.T, c claude) {
				b := startInject(t, c, turn{questionCall(deployQuestion)}, thanksTurn)
				env := b.tmux.env
				b.tmux.env = slices.Concat(env, other)
				var said bytes.Buffer
				d := b.startDaemonTo(&said, "--dry-run")
				b.tmux.env = env
				d.awaitPolling()
				b.Prompt("go ahead")
				b.WaitScreen("Rolling deployment")
				q := b.awaitPost("[AskUserQuestion]")
				b.reply(q, "2")
				b.awaitPost("[Not used]", "--dry-run")
				d.cmd.Process.Signal(syscall.SIGTERM)
				if err := d.waitExit(); err != nil {
					t.Error(err)
				}
				want := "project, pane " + b.Pane() + ": would type: Rolling deployment\n"
				if other == nil && said.String() != want {
					t.Errorf("it said %q, want %q", said.String(), want)
				}
				b.startDaemon()
				b.reply(q, "3")
				b.awaitResult(1, "Canary")
			})
		})
	}
}

// The daemon has none of the variables of Anthropic's that Claude Code runs with: it
// serves the session all the same, and no poller begins beside it.
func TestDaemon_ServesSessionsWithAKey(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, turn{questionCall(deployQuestion)}, thanksTurn)
		env := b.tmux.env
		b.tmux.env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })
		if len(b.tmux.env) != len(env)-2 {
			t.Fatalf("the daemon has %q", b.tmux.env)
		}
		b.startDaemon().awaitPolling()
		b.tmux.env = env
		b.Prompt("go ahead")
		b.WaitScreen("Rolling deployment")
		b.reply(b.awaitPost("[AskUserQuestion]"), "3")
		b.awaitResult(1, "Canary")
		home := func(name string) string { return map[string]string{"HOME": b.Home}[name] }
		if all := state.ReadHeartbeats(home); len(all) != 1 || !all[0].IsDaemon {
			t.Errorf("the pollers are %+v", all)
		}
	})
}

// Two dialogs queue; the second one's answer waits until its dialog is on the screen,
// however early it comes.
func TestDaemon_TypesIntoQueuedDialogs(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startInject(t, c, turn{questionCall(databaseQuestion), questionCall(deployQuestion)}, thanksTurn)
		b.startDaemon()
		b.Prompt("go ahead")
		shown, hidden := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question), b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		answers := map[*chat.Message]string{shown: "2", hidden: "3"}
		if strings.Contains(b.WaitScreen("Esc to cancel"), deployQuestion.Question) {
			// their hooks race for who comes first
			shown, hidden = hidden, shown
		}
		b.reply(hidden, answers[hidden])
		waits := b.awaitPost("[Waiting]", "another question is open")
		if waits.Thread.Name != hidden.Thread.Name {
			t.Errorf("said in %s, asked in %s", waits.Thread.Name, hidden.Thread.Name)
		}
		b.reply(shown, answers[shown])
		b.awaitResults(`"Which DB?"="SQLite"`, `"Which deployment approach should we use?"="Canary"`)
	})
}
