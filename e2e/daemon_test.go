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
	"gchat-hooks/state"
)

// typed is a session whose answers the daemon types.
func typed(t *testing.T, c claude, script ...turn) *bridge {
	t.Helper()
	return connect(t, c, config{Env: []string{"GCHAT_ASK_MODE=inject"}, Script: script}, all...)
}

// A daemon is a gchat-response-poller beside a session, with the session's configuration.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan error
}

// daemon starts one; the end of the test ends it.
func (b *bridge) daemon(args ...string) *daemon {
	b.t.Helper()
	return b.daemonTo(os.Stdout, args...)
}

func (b *bridge) daemonTo(out io.Writer, args ...string) *daemon {
	b.t.Helper()
	cmd := exec.Command(built(b.t), append([]string{"gchat-response-poller"}, args...)...)
	cmd.Env = append(b.tmux.env, "CLAUDE_PROJECT_DIR="+b.Dir, "TMUX="+b.TMUX())
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Dir = b.Dir
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	d := &daemon{b.t, cmd, make(chan error, 1)}
	go func() { d.done <- cmd.Wait() }()
	b.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Signal(syscall.SIGTERM)
			d.wait()
		}
	})
	return d
}

// polls waits until the daemon has taken over from the poller that the hooks started.
func (d *daemon) polls() {
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
	bound.Until(d.t, "the daemon takes over", func() bool { return slices.ContainsFunc(state.Pollers(env), its) })
}

// wait waits until the daemon has ended.
func (d *daemon) wait() error {
	select {
	case err := <-d.done:
		d.done <- err
		return err
	case <-time.After(patience):
		d.t.Errorf("the daemon did not end:\n%s", bound.End(d.cmd.Process.Pid)) // its goroutines are on our standard error
		return <-d.done
	}
}

// questions are the session's, as they stand on disk, oldest first.
func (b *bridge) questions() (qs []*state.Question) {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.Dir, ".claude", "state", "pending-questions", "*.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, file := range files {
		q, err := state.LoadQuestion(file)
		if err != nil {
			b.t.Fatal(err)
		}
		qs = append(qs, q)
	}
	// Not by file name: of two questions of one second, "-2.json" stands before ".json".
	slices.SortFunc(qs, func(a, b *state.Question) int { return a.AskedAt.Compare(b.AskedAt) })
	return qs
}

// becomes waits until the session's only question is in that state.
func (b *bridge) becomes(want string, ok func(*state.Question) bool) *state.Question {
	b.t.Helper()
	var last []*state.Question
	became := bound.Soon(bound.Patience, func() bool {
		last = b.questions()
		return len(last) == 1 && ok(last[0])
	})
	if !became {
		raw, _ := json.Marshal(last)
		b.t.Fatalf("the question did not become %s: %s", want, raw)
	}
	return last[0]
}

func TestTypedAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asks  []question
		reply string
		told  []string
		says  []string
	}{
		"single choice": {[]question{deploy}, "2", []string{`"="Rolling deployment"`}, []string{"Selected: Rolling deployment"}},
		"multi-select":  {[]question{features}, "1,3", []string{`"="Auth, Search"`}, []string{"Selected: Auth, Search"}},
		"two questions": {[]question{database, features}, "Q1: sqlite\nQ2: 3, 1", []string{`"Which DB?"="SQLite"`, `"="Auth, Search"`},
			[]string{"Selected: SQLite", "Selected: Auth, Search"}},
		"free text": {[]question{deploy}, "neither: use \"$(rm -rf ~)\" & 'wait'; C-c Enter {} 日本語 ✅;",
			[]string{"neither: use \"$(rm -rf ~)\" & 'wait'; C-c Enter {} 日本語 ✅;"}, []string{"Custom response:", "日本語"}},
		"a remark": {[]question{deploy}, "2 - but keep the old one", []string{"Rolling deployment", "but keep the old one"}, []string{"Rolling deployment", "but keep the old one"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, both, func(t *testing.T, cl claude) {
				b := typed(t, cl, turn{say("A question."), ask(c.asks...)}, thanks)
				b.daemon()
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]", c.asks[0].Question)
				b.reply(q, c.reply)
				b.told(1, c.told...)
				if got := b.await("[Answered]", c.says...); got.Thread.Name != q.Thread.Name {
					t.Errorf("confirmed in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
				b.WaitScreen("Thanks, understood.")
				done := b.becomes("resolved by typing", func(q *state.Question) bool {
					return q.Status == state.Resolved && q.InjectionSucceeded != nil // the hook may close it first
				})
				if done.ResolvedBy != "chat" || !done.InjectionAttempted || !*done.InjectionSucceeded {
					t.Errorf("resolved by %q, attempted %v, succeeded %v", done.ResolvedBy, done.InjectionAttempted, *done.InjectionSucceeded)
				}
			})
		})
	}
}

// A session that was started before the hooks: what is known of its question is what another program wrote down.
func TestTypedAnswerOfAnotherProgramsQuestion(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := connect(t, c, config{Script: []turn{{ask(features)}, thanks}})
		b.Prompt("go ahead")
		b.WaitScreen("Submit")
		dir := filepath.Join(b.Dir, ".claude", "state", "pending-questions")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		options, err := json.Marshal(features.Options)
		if err != nil {
			t.Fatal(err)
		}
		record := fmt.Sprintf(`{"question_id": "0b5e3c9a-0a57-4a3e-9a11-2f6a4a1f0003", "session_id": "orch-epic4", "tmux_session": "claude", "asked_at": %q,
			"gchat_thread_key": "ask-user-0b5e3c9a", "gchat_message_sent": false, "gchat_message_name": null, "questions": [{"question": %q, "header": "Features",
			"options": %s, "multiSelect": true, "option_count": 3}], "status": "pending", "resolved_at": null, "response": null, "response_type": null,
			"injection_attempted": false, "injection_succeeded": null}`, time.Now().UTC().Format(time.RFC3339), features.Question, options)
		b.daemon("--pending-dir", dir)
		path := filepath.Join(dir, "orch-epic4-1.json")
		if err := os.WriteFile(path+".tmp", []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
		b.reply(b.await("[AskUserQuestion]", "orch-epic4"), "2, 3")
		b.told(1, `"="Billing, Search"`)
		b.await("[Answered]", "Selected: Billing, Search") // which no hook says here
		b.becomes("resolved", func(q *state.Question) bool { return q.Status == state.Resolved })
	})
}

// The hook that waited beside the dialog is gone: the daemon takes its place.
func TestTypedAnswerWhereTheHookWasKilled(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := connect(t, c, config{Script: []turn{{ask(deploy)}, thanks}}, all...)
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		for _, p := range marked(sessionVar + "=" + b.mark) {
			if strings.Contains(p.String(), "gchat-ask-user-forward") {
				p.Signal(syscall.SIGKILL)
			}
			p.Close()
		}
		b.noWaiter()
		b.daemon()
		b.reply(q, "3")
		b.told(1, "Canary")
		b.await("[Answered]", "Selected: Canary")
	})
}

// What the daemon would have typed is said, and nothing is typed, neither then nor when it has ended: that takes another reply. It is
// so, too, for a session of other settings, which a poller of its own serves.
func TestDryRunTypesNothing(t *testing.T) {
	t.Parallel()
	for name, other := range map[string][]string{"same settings": nil, "other settings": {"GCHAT_FORMAT=builtin"}} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, ours, func(t *testing.T, c claude) {
				b := typed(t, c, turn{ask(deploy)}, thanks)
				env := b.tmux.env
				b.tmux.env = slices.Concat(env, other)
				var said bytes.Buffer
				d := b.daemonTo(&said, "--dry-run")
				b.tmux.env = env
				d.polls()
				b.Prompt("go ahead")
				b.WaitScreen("Rolling deployment")
				q := b.await("[AskUserQuestion]")
				b.reply(q, "2")
				b.await("[Not used]", "--dry-run")
				d.cmd.Process.Signal(syscall.SIGTERM)
				if err := d.wait(); err != nil {
					t.Error(err)
				}
				want := "project, pane " + b.Pane() + ": would type: Rolling deployment\n"
				if other == nil && said.String() != want {
					t.Errorf("it said %q, want %q", said.String(), want)
				}
				b.daemon()
				b.reply(q, "3")
				b.told(1, "Canary")
			})
		})
	}
}

// The daemon has none of the variables of Anthropic's that Claude Code runs with: it serves the
// session all the same, and no poller begins beside it.
func TestOnePollerWithAndWithoutAKey(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := typed(t, c, turn{ask(deploy)}, thanks)
		env := b.tmux.env
		b.tmux.env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })
		if len(b.tmux.env) != len(env)-2 {
			t.Fatalf("the daemon has %q", b.tmux.env)
		}
		b.daemon().polls()
		b.tmux.env = env
		b.Prompt("go ahead")
		b.WaitScreen("Rolling deployment")
		b.reply(b.await("[AskUserQuestion]"), "3")
		b.told(1, "Canary")
		home := func(name string) string { return map[string]string{"HOME": b.Home}[name] }
		if all := state.Pollers(home); len(all) != 1 || !all[0].Daemon {
			t.Errorf("the pollers are %+v", all)
		}
	})
}

// Two dialogs queue; the second one's answer waits until its dialog is on the screen, however early it comes.
func TestTypedAnswersOfQueuedQuestions(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := typed(t, c, turn{ask(database), ask(deploy)}, thanks)
		b.daemon()
		b.Prompt("go ahead")
		shown, hidden := b.await("[AskUserQuestion]", database.Question), b.await("[AskUserQuestion]", deploy.Question)
		answers := map[*chat.Message]string{shown: "2", hidden: "3"}
		if strings.Contains(b.WaitScreen("Esc to cancel"), deploy.Question) { // their hooks race for who comes first
			shown, hidden = hidden, shown
		}
		b.reply(hidden, answers[hidden])
		waits := b.await("[Waiting]", "another question is open")
		if waits.Thread.Name != hidden.Thread.Name {
			t.Errorf("said in %s, asked in %s", waits.Thread.Name, hidden.Thread.Name)
		}
		b.reply(shown, answers[shown])
		b.toldOfBoth(`"Which DB?"="SQLite"`, `"Which deployment approach should we use?"="Canary"`)
	})
}
