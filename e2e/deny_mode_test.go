package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// awaitDenial checks that the model's n-th call was denied, with what it needs to know.
func (b *hookedSession) awaitDenial(n int) {
	b.t.Helper()
	got := b.API.WaitToolResult(b.t, n)
	if !got.IsError || !containsAll(got.Text, []string{
		"Question forwarded to the chat page (thread: ask-", "gchat-hooks wait --question-id ask-",
	}) {
		b.t.Errorf("the model was told %q", got.Text)
	}
}

// The reply comes although the process that waited for it was killed: the session's next
// turn brings it.
func TestDeny_NextTurnReplacesKilledWaiter(t *testing.T) {
	eachSession(t, testedVersions, startDenying, config{
		Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(databaseQuestion)}, goOnTurn, actTurn,
			actTurn,
		},
	}, func(t *testing.T, b *hookedSession) {
		first := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		second := b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		b.WaitDone("I go on meanwhile.")
		b.killWaiterOf(first)
		b.reply(first, "2")
		b.reply(second, "1")
		b.API.WaitText(t, `="Postgres"`)
		b.API.WaitText(t, `="Rolling deployment"`)
		b.awaitPost("[Answered]", "Selected: Rolling deployment")
		b.awaitPost("[Answered]", "Selected: Postgres")
	})
}

// eachDenied runs a test with a session whose question was denied and which has gone on
// without its answer, and with the message that asks it.
func eachDenied(t *testing.T, test func(*testing.T, *hookedSession, *chat.Message)) {
	eachSession(t, testedVersions, startDenying, config{Script: denyScript},
		func(t *testing.T, b *hookedSession) {
			q := b.awaitPost("[AskUserQuestion]")
			b.WaitDone("I go on meanwhile.")
			test(t, b, q)
		})
}

// No other process waits: the next prompt brings it.
func TestDeny_NextPromptReplacesKilledWaiter(t *testing.T) {
	eachDenied(t, func(t *testing.T, b *hookedSession, q *chat.Message) {
		b.killWaiters()
		b.reply(q, "2")
		b.awaitPost("[Kept]")
		b.Prompt("any news?")
		b.API.WaitText(t, `="Rolling deployment"`)
		b.WaitScreen("Acting on it.")
	})
}

// rewakers are the session's processes that wait for replies.
func (b *hookedSession) rewakers() (all []*process) {
	for _, p := range markedProcesses(b.mark()) {
		if strings.Contains(p.String(), "gchat-hooks hook gchat-ask-user-rewake") &&
			!strings.Contains(p.String(), "sh -c") {
			all = append(all, p)
		} else {
			p.Close()
		}
	}
	return all
}

// killWaiters kills all that wait for replies, also what takes a wait over, as the hook
// of the turn's end may still do.
func (b *hookedSession) killWaiters() {
	for quiet := 0; quiet < 10; quiet++ {
		for _, p := range b.rewakers() {
			p.Signal(syscall.SIGKILL)
			p.Exited(patience)
			quiet = 0
		}
		time.Sleep(2 * pollInterval)
	}
}

// killWaiterOf kills the process that waits for a question: the one that has its lock
// open.
func (b *hookedSession) killWaiterOf(q *chat.Message) {
	b.t.Helper()
	id := q.Text[strings.LastIndex(q.Text, "ask-"):]
	record := filepath.Join(b.Dir, ".claude", "state", "gchat-forwarded-ask", id+".json")
	waiter := strings.TrimSuffix(filepath.Base(state.IndexFile(os.Getenv, record)), ".open") +
		".waiter"
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

// checkNoRewaker checks that nobody waits any more.
func (b *hookedSession) checkNoRewaker() {
	b.t.Helper()
	b.WaitScreenFunc("the end of the waiting hook",
		func(string) bool { return len(b.rewakers()) == 0 })
}

// The session ended before the reply came: it gets it when it is resumed.
func TestDeny_ResumedSessionGetsReply(t *testing.T) {
	eachDenied(t, func(t *testing.T, b *hookedSession, q *chat.Message) {
		b.Quit()
		b.checkNoRewaker()
		d := b.startDaemon()
		d.awaitPolling()
		b.reply(q, "2")
		b.awaitPost("[Kept]", "when it is resumed")
		kit.NoError(t, d.stop())
		b.Restart("--continue")
		b.Prompt("where were we?")
		b.API.WaitText(t, `GCHAT_RESPONSE: The user has answered your question`)
		b.API.WaitText(t, `="Rolling deployment"`)
		b.awaitPost("[Answered]", "Selected: Rolling deployment")
	})
}

// Chat does not answer: the question is asked in the terminal, and from there it goes on
// as in native mode. It stays one record.
func TestDeny_AsksInTerminalWhileChatHangs(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startDenying(t, c, config{Script: deployScript})
		b.gate.holdBack()
		b.Prompt("go ahead")
		b.WaitScreen(firstOption)
		b.gate.open()
		b.reply(b.awaitPost("[AskUserQuestion]"), "2")
		b.awaitResult(1, "Rolling deployment")
		b.awaitPost("[Answered]", "Selected: Rolling deployment")
		b.checkPosts(1, "[AskUserQuestion]")
		b.checkNoRewaker()
		b.checkOneRecord(state.Resolved)
	})
}

// checkOneRecord checks that the session has one question, which was to be denied, and
// that it ended so.
func (b *hookedSession) checkOneRecord(as state.Status) {
	b.t.Helper()
	dir := filepath.Join(b.Dir, ".claude", "state")
	pending, bad := state.QuestionsIn(dir).All()
	kit.Equalf(b.t, len(pending)+len(bad), 0, "records that were not to be denied")
	questions, bad := state.MarkersIn(dir).All()
	if len(questions) != 1 || len(bad) > 0 || questions[0].Status != as ||
		questions[0].Mode != state.ModeNative {
		b.t.Errorf("records %+v, %v", questions, bad)
	}
}

// A guarded session that wants to stop is sent back to ask; its question, which waits in
// the space, then lets it stop.
func TestDeny_StopGateAsksFirst(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		h := denyHooks(t)
		h["Stop"] = append(h["Stop"],
			hook{Command: builtProgram(t) + " hook gchat-stop-gate", Timeout: 10})
		b := startDenying(t, c, config{
			Hooks: h,
			Script: []turn{
				{textBlock("All is done.")}, {questionCall(deployQuestion)}, goOnTurn, actTurn,
			},
			Env: []string{"CLAUDE_SESSION_ID=s3-live-1"},
		})
		b.Prompt("go ahead")
		b.API.WaitText(t, "Ask with the AskUserQuestion tool what comes next")
		q := b.awaitPost("[AskUserQuestion] Session: s3-live-1")
		b.WaitDone("I go on meanwhile.")
		b.checkNotShown("Acting on it.")
		b.reply(q, "3")
		b.API.WaitText(t, `="Canary"`)
		b.WaitScreen("Acting on it.")
	})
}
