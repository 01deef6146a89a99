package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// otherSettings make another environment than a shell's.
const otherSettings = "GCHAT_FORMAT=builtin"

// After a restart of the machine nothing runs. The first command that the person uses
// starts a poller, which writes into the thread that the session is gone. This includes
// questions that were asked under settings that a shell does not have.
func TestPollerStart_AfterARestart(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "answer", "send words"} {
		for _, other := range [][]string{nil, {otherSettings}} {
			h := newProjectHome(t, noChat)
			q := h.recordDeadSession("127.0.0.1:1/spaces/A/threads/T", other...)
			h.run(strings.Fields(command)...) // no Chat is there
			h.awaitClosed(q, command)
		}
	}
}

// If a session accepts commands, status and answer start a killed poller again, even
// without an open question.
func TestPollerStart_AfterAKill(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "answer"} {
		h := newProjectHome(t, noChat)
		synctest.Test(t, func(t *testing.T) {
			lock, err := state.LockPoller(h.getenv)
			kit.NoError(t, err)
			time.AfterFunc(5*time.Millisecond, lock.Unlock) // it is just dying
			err = Program{env: h.getenv, self: "/no/program"}.startPoller()
			kit.True(t, err != nil, "the lock of a dying poller is not looked at again")
		})
		kit.NoError(t,
			state.WriteHeartbeat(h.getenv, state.Heartbeat{PID: endedPID(t), BeatAt: time.Now()}))
		sessions := state.SessionsIn(state.UserStateDir(h.getenv))
		_, err := sessions.Change("s", func(s *state.Session) {
			s.Name, s.AcceptsCommands, s.StartedAt, s.LastSeen = "shop", true, time.Now(), time.Now()
			s.Environment = state.Environment(h.getenv)
			s.ThreadName, s.Chat = "spaces/A/threads/T", "127.0.0.1:1/spaces/A"
		})
		kit.NoError(t, err)
		h.mustRun(command)
		bound.Until(t, "a poller runs after "+command, h.isPollerAlive)
	}
}

// After everything was killed, a resumed session starts a poller before anybody writes a
// prompt.
func TestPollerStart_ForAResumedSession(t *testing.T) {
	t.Parallel()
	h := newProjectHome(t, noChat)
	q := h.recordDeadSession("127.0.0.1:1/spaces/A/threads/T")
	beat := ".local/state/gchat-hooks/pollers/" + state.Environment(h.getenv) + ".json"
	h.writeFile(beat, fmt.Sprintf(`{"pid": %d}`, q.ClaudePID))
	const resumed = `{"session_id": "s-other", "hook_event_name": "SessionStart", "source": ` +
		`"resume"}`
	h.runHook("gchat-ask-user-answered", resumed)
	h.awaitClosed(q, "the session is resumed")
}

// Status leaves a question to the living poller of another environment.
func TestPollerStart_LeavesOtherEnvironments(t *testing.T) {
	t.Parallel()
	h := newProjectHome(t)
	q := h.recordDeadSession("127.0.0.1:1/spaces/A/threads/T", otherSettings)
	other := getenvOf(append(slices.Clone(h.env), otherSettings))
	lock, err := state.LockPoller(other)
	kit.NoError(t, err)
	defer lock.Unlock()
	h.mustRun("status")
	entry, err := state.ReadIndexEntry(state.IndexFile(h.getenv, q.Path))
	kit.NoError(t, err)
	kit.Equalf(t, entry.Environment, state.Environment(other), "its environment")
}

// If a question's message was under way when everything was killed, its thread is
// unknown. A poller of another environment finds the thread and writes a note.
func TestPollerStart_QuestionWithoutAThread(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	_, end := p.runSpace()
	defer end()
	const other = "ANTHROPIC_API_KEY=x"
	q := p.recordDeadSession(p.address+"/spaces/local/threads/T", other)
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.IsMessageSent, q.ThreadName, q.Chat = false, "", ""
		return nil
	})
	kit.NoError(t, err)
	now := time.Now().UTC()
	m := &state.Message{
		ID: state.MessageID("question", q.QuestionID), Key: "question-" + q.QuestionID,
		Type: state.MessageQuestion, Question: q.Path, ThreadKey: q.ThreadKey,
		Parts: []string{"Which DB?"}, CreatedAt: now, FirstTriedAt: now,
	}
	box := state.OutboxIn(state.UserStateDir(p.getenv))
	_, _, err = box.Enqueue(getenvOf(append(slices.Clone(p.env), other)), m, 0)
	kit.NoError(t, err)
	p.run("status")
	bound.Until(t, "its thread has the note", func() bool {
		_, after, _ := strings.Cut(p.readFile(messagesFile), "Which DB?")
		return strings.Contains(after, "The session is gone")
	})
}

// The page's server starts a poller when it begins, and when somebody writes on the
// page.
func TestPollerStart_ByThePage(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	for _, when := range []string{"it begins", "somebody writes"} {
		page, end := p.runSpace()
		out, _ := p.run("send", "--json", "words")
		thread := threadIn(out)
		if when == "it begins" {
			end()
		}
		q := p.recordDeadSession(p.address + "/" + thread)
		if when == "it begins" {
			_, end = p.runSpace()
		} else {
			p.replyOnPage(page, thread, "2")
		}
		bound.Until(t, "the thread has the note when "+when, func() bool {
			for line := range strings.Lines(p.readFile(messagesFile)) {
				if strings.Contains(line, thread) && strings.Contains(line, "The session is gone") {
					return true
				}
			}
			return false
		})
		end()
		endPollersIn(p.dir)
		_ = os.Remove(q.Path)
	}
}

// A login makes replies readable, so it starts a poller for what is open.
func TestPollerStart_AfterALogin(t *testing.T) {
	g := newFakeGoogle(t)
	g.project = g.dir
	g.env = append(g.env, "CLAUDE_PROJECT_DIR="+g.dir, "GOOGLE_CHAT_WEBHOOK_URL="+g.webhookURL)
	q := g.recordDeadSession("127.0.0.1:1/spaces/A/threads/T")
	dialog := g.startDialog(g.program, "login", "--no-browser", "--client-id-file",
		g.writeClientFile())
	g.agreeToLogin(dialog)
	dialog.expect("logged in: users/7")
	g.awaitClosed(q, "the login")
}
