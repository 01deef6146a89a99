package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/state"

	"google.golang.org/api/chat/v1"
)

// meanwhile are the hooks of deny mode: those of questions, and the one that wakes the session, beside them.
func meanwhile(t testing.TB) hooks {
	h := asking(t, all...)
	rewake := hook{Command: built(t) + " hook gchat-ask-user-rewake", Timeout: 86400, AsyncRewake: true}
	h["Stop"] = append(h["Stop"], rewake)
	rewake.Matcher = "AskUserQuestion"
	h["PreToolUse"] = append(h["PreToolUse"], rewake)
	h["SessionStart"] = []hook{{Command: built(t) + " hook gchat-session-event", Timeout: 10}}
	return h
}

// denying is a session in deny mode.
func denying(t *testing.T, c claude, cfg config) *bridge {
	t.Helper()
	if cfg.Hooks == nil {
		cfg.Hooks = meanwhile(t)
	}
	cfg.Env = append(cfg.Env, "GCHAT_ASK_MODE=deny")
	return bridged(t, c, cfg)
}

var (
	goOn = turn{say("I go on meanwhile.")}
	acts = turn{say("Acting on it.")}
)

// denied checks that the model's n-th call was denied, with what it needs to know.
func (b *bridge) denied(n int) {
	b.t.Helper()
	got := b.API.WaitToolResult(b.t, n)
	if !got.IsError || !holdsAll(got.Text, []string{"Question forwarded to Google Chat (thread: ask-", "gchat-hooks wait --question-id ask-"}) {
		b.t.Errorf("the model was told %q", got.Text)
	}
}

func TestDeniedSessionGoesOnAndIsWokenByTheReply(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, goOn, acts}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", "Thread key: ask-")
		b.denied(1)
		b.WaitScreen("I go on meanwhile.")
		b.WaitIdle()
		b.reply(q, "2")
		b.API.WaitText(t, fmt.Sprintf(`GCHAT_RESPONSE: The user has answered your question from the chat page: "%s"="Rolling deployment"`, deploy.Question))
		b.WaitScreen("Acting on it.")
		if got := b.await("[Answered]", "Selected: Rolling deployment"); got.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", got.Thread.Name, q.Thread.Name)
		}
		b.noRewaker()
	})
}

func TestDeniedSessionHearsThatNobodyReplied(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, goOn, acts}, Env: []string{"GCHAT_REPLY_TIMEOUT=2", "GCHAT_TIMEOUT_POLICY=recommended"}})
		b.Prompt("go ahead")
		b.await("[AskUserQuestion]")
		b.API.WaitText(t, "GCHAT_TIMEOUT: No response in 2 seconds. The timeout policy chose, not the user: ")
		b.WaitScreen("Acting on it.")
		b.await("[Timeout]", "Chosen by the timeout policy, not by you: Blue-green deployment")
	})
}

// Without a hook that could wake the session, nothing is denied: the question is in the terminal and in its thread.
func TestDenyWithoutARewakeHookAsksInTheTerminal(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, thanks}, Hooks: asking(t, all...)})
		b.Prompt("go ahead")
		b.WaitScreen(firstOption)
		b.reply(b.await("[AskUserQuestion]"), "2")
		b.told(1, "Rolling deployment")
		b.await("[Answered]", "Selected: Rolling deployment")
	})
}

// The reply comes although the process that waited for it was killed: the session's next turn brings it.
func TestKilledWaiterIsTakenOver(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, {ask(database)}, goOn, acts, acts}})
		b.Prompt("go ahead")
		first := b.await("[AskUserQuestion]", deploy.Question)
		second := b.await("[AskUserQuestion]", database.Question)
		b.WaitScreen("I go on meanwhile.")
		b.WaitIdle()
		b.killWaiterOf(first)
		b.reply(first, "2")
		b.reply(second, "1")
		b.API.WaitText(t, `="Postgres"`)
		b.API.WaitText(t, `="Rolling deployment"`)
		b.await("[Answered]", "Selected: Rolling deployment")
		b.await("[Answered]", "Selected: Postgres")
	})
}

// No other process waits: the next prompt brings it.
func TestKilledWaiterIsTakenOverByTheNextPrompt(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, goOn, acts}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		b.WaitScreen("I go on meanwhile.")
		b.WaitIdle()
		b.killWaiters()
		b.reply(q, "2")
		b.await("[Kept]")
		b.Prompt("any news?")
		b.API.WaitText(t, `="Rolling deployment"`)
		b.WaitScreen("Acting on it.")
	})
}

// rewakers are the session's processes that wait for replies.
func (b *bridge) rewakers() (all []*process) {
	for _, p := range marked(sessionVar + "=" + b.mark) {
		if strings.Contains(p.String(), "gchat-hooks hook gchat-ask-user-rewake") && !strings.Contains(p.String(), "sh -c") {
			all = append(all, p)
		} else {
			p.Close()
		}
	}
	return all
}

// killWaiters kills all that wait for replies, also what takes a wait over, as the hook of the turn's end may still do.
func (b *bridge) killWaiters() {
	for quiet := 0; quiet < 10; quiet++ {
		for _, p := range b.rewakers() {
			p.Signal(syscall.SIGKILL)
			p.Exited(patience)
			quiet = 0
		}
		time.Sleep(2 * glance)
	}
}

// killWaiterOf kills the process that waits for a question: the one that has its lock open.
func (b *bridge) killWaiterOf(q *chat.Message) {
	b.t.Helper()
	id := q.Text[strings.LastIndex(q.Text, "ask-"):]
	record := filepath.Join(b.Dir, ".claude", "state", "gchat-forwarded-ask", id+".json")
	waiter := strings.TrimSuffix(filepath.Base(state.OpenFile(os.Getenv, record)), ".open") + ".waiter"
	for _, p := range b.rewakers() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, f := range files {
			if to, _ := os.Readlink(f); filepath.Base(to) == waiter {
				p.Signal(syscall.SIGKILL)
				p.Exited(patience)
				return
			}
		}
	}
	b.t.Fatalf("nobody waits for %s", id)
}

// noRewaker checks that nobody waits any more.
func (b *bridge) noRewaker() {
	b.t.Helper()
	var left []*process
	defer func() {
		if len(left) > 0 {
			b.t.Logf("waiting: %s", left)
		}
	}()
	b.WaitScreenFunc("the end of the waiting hook", func(string) bool { left = b.rewakers(); return len(left) == 0 })
}

// Two sessions ask two questions each; the replies come crosswise.
func TestRepliesReachTheSessionThatAsked(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		a := denying(t, c, config{Script: []turn{{ask(deploy), ask(database)}, goOn, acts, acts}, Env: []string{"CLAUDE_SESSION_ID=s3-a"}})
		b := a.beside(config{Script: []turn{{ask(deploy), ask(database)}, goOn, acts, acts}, Hooks: meanwhile(t), Env: []string{"CLAUDE_SESSION_ID=s3-b", "GCHAT_ASK_MODE=deny"}})
		a.Prompt("go ahead")
		b.Prompt("go ahead")
		a2 := a.await("[AskUserQuestion] Session: s3-a", database.Question)
		b1 := a.await("[AskUserQuestion] Session: s3-b", deploy.Question)
		a1 := a.await("[AskUserQuestion] Session: s3-a", deploy.Question)
		b2 := a.await("[AskUserQuestion] Session: s3-b", database.Question)
		for _, s := range []*bridge{a, b} {
			s.WaitScreen("I go on meanwhile.")
		}
		a.reply(b2, "2")
		a.reply(a1, "1")
		a.reply(a2, "1")
		a.reply(b1, "3")
		a.API.WaitText(t, `="Blue-green deployment"`)
		a.API.WaitText(t, `="Postgres"`)
		b.API.WaitText(t, `="Canary"`)
		b.API.WaitText(t, `="SQLite"`)
		for s, wrong := range map[*bridge][]string{a: {`="Canary"`, `="SQLite"`}, b: {`="Blue-green deployment"`, `="Postgres"`}} {
			for _, w := range wrong {
				if n := s.API.count(w); n > 0 {
					t.Errorf("%s reached the wrong session", w)
				}
			}
		}
	})
}

// The session ended before the reply came: it gets it when it is resumed.
func TestResumedSessionGetsTheReply(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, goOn, acts}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		b.WaitScreen("I go on meanwhile.")
		b.WaitIdle()
		b.Quit()
		b.noRewaker()
		d := b.daemon()
		d.polls()
		b.reply(q, "2")
		b.await("[Kept]", "when it is resumed")
		d.cmd.Process.Signal(syscall.SIGTERM)
		if err := d.wait(); err != nil {
			t.Error(err)
		}
		b.Again("--continue")
		b.Prompt("where were we?")
		b.API.WaitText(t, `GCHAT_RESPONSE: The user has answered your question`)
		b.API.WaitText(t, `="Rolling deployment"`)
		b.await("[Answered]", "Selected: Rolling deployment")
	})
}

// Chat does not answer: the question is asked in the terminal, and from there it goes on as in native mode. It stays one record.
func TestNothingIsDeniedIntoTheVoid(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, thanks}})
		b.gate.shut()
		b.Prompt("go ahead")
		b.WaitScreen(firstOption)
		b.gate.open()
		b.reply(b.await("[AskUserQuestion]"), "2")
		b.told(1, "Rolling deployment")
		b.await("[Answered]", "Selected: Rolling deployment")
		asked := 0
		for _, m := range b.chat.Messages() {
			if strings.HasPrefix(m.Text, "[AskUserQuestion]") {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		b.noRewaker()
		b.oneRecord(state.Resolved)
	})
}

// Nobody may answer in Chat: the question is answered in the terminal, by the same record.
func TestWhatNobodyMayAnswerIsAskedInTheTerminal(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		b := denying(t, c, config{Script: []turn{{ask(deploy)}, thanks}, Env: []string{"GCHAT_ALLOWED_USERS="}})
		b.Prompt("go ahead")
		b.WaitScreen(firstOption)
		b.await("[AskUserQuestion]")
		b.Keys("2")
		b.told(1, "Rolling deployment")
		b.await("[Answered]", "Rolling deployment")
		b.noRewaker()
		b.oneRecord(state.Resolved)
	})
}

// oneRecord checks that the session has one question, which was to be denied, and that it ended so.
func (b *bridge) oneRecord(as state.Status) {
	b.t.Helper()
	dir := filepath.Join(b.Dir, ".claude", "state")
	for _, folder := range []state.Questions{state.QuestionsIn(dir), state.MarkersIn(dir)} {
		qs, bad := folder.All()
		want := 0
		if state.AmongMarkers(filepath.Join(folder.Dir, "q.json")) {
			want = 1
		}
		if len(qs) != want || len(bad) > 0 {
			b.t.Errorf("%d records in %s, %v", len(qs), folder.Dir, bad)
		}
		for _, q := range qs {
			if q.Status != as || q.Mode != state.Native {
				b.t.Errorf("%s, %s by %q", q.Mode, q.Status, q.ResolvedBy)
			}
		}
	}
}
