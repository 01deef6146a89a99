package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// After a restart of the machine nothing runs. Whatever the person does first starts a
// poller, which tells the thread that the session is gone; also where the question was
// asked under settings that a shell does not have.
func TestPollerStart_AfterARestart(t *testing.T) {
	t.Parallel()
	webhook := "GOOGLE_CHAT_WEBHOOK_URL=http://127.0.0.1:1/v1/spaces/A/messages?key=k&token=t"
	for _, command := range []string{"status", "answer", "send words"} {
		for _, other := range [][]string{nil, {"GCHAT_FORMAT=builtin"}} {
			program, env, folder := newMachineWithQuestions(t, 0)
			env = append(env, webhook)
			q := recordDeadSession(t, env, other, folder, "127.0.0.1:1/spaces/A/threads/T")
			cmd := bound.Command(t, program, strings.Fields(command)...)
			cmd.Env = env
			_, _ = cmd.CombinedOutput() // no Chat is there
			bound.Until(t, "the question is closed after "+command, func() bool {
				is, err := state.LoadQuestion(q.Path)
				return err == nil && is.ResolvedBy == "claude_gone"
			})
		}
	}
}

// After kill -9 of everything, the session that is resumed starts a poller, before
// anybody writes a prompt.
func TestPollerStart_ForAResumedSession(t *testing.T) {
	t.Parallel()
	program, env, folder := newMachineWithQuestions(t, 0)
	env = append(env, "GOOGLE_CHAT_WEBHOOK_URL=http://127.0.0.1:1/v1/spaces/A/messages?key=k&token=t")
	q := recordDeadSession(t, env, nil, folder, "127.0.0.1:1/spaces/A/threads/T")
	beat := filepath.Join(state.UserStateDir(getenvOf(env)), "pollers", state.Environment(getenvOf(env))+".json")
	killed := []byte(fmt.Sprintf(`{"pid": %d}`, q.ClaudePID))
	kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(beat), 0o700), os.WriteFile(beat, killed, 0o600)))
	cmd := bound.Command(t, program, "hook", "gchat-ask-user-answered")
	cmd.Stdin = strings.NewReader(`{"session_id": "s-other", "hook_event_name": "SessionStart", "source": "resume"}`)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	bound.Until(t, "the question is closed", func() bool {
		is, err := state.LoadQuestion(q.Path)
		return err == nil && is.ResolvedBy == "claude_gone"
	})
}

// What a living poller of other settings serves stays with it, and what may still be
// answered, too.
func TestPollerStart_LeavesOtherEnvironments(t *testing.T) {
	t.Parallel()
	program, env, folder := newMachineWithQuestions(t, 0)
	other := []string{"GCHAT_FORMAT=builtin"}
	q := recordDeadSession(t, env, other, folder, "127.0.0.1:1/spaces/A/threads/T")
	lock, err := state.LockPoller(getenvOf(slices.Concat(other, env)))
	kit.NoError(t, err)
	defer lock.Unlock()
	mustRun(t, env, program, "status")
	o, err := state.ReadIndexEntry(state.IndexFile(getenvOf(env), q.Path))
	if err != nil || o.Environment != state.Environment(getenvOf(slices.Concat(other, env))) {
		t.Errorf("it is of %+v by now: %v", o, err)
	}
}

// The question's message may have been under way when all was killed: then its thread is
// not known yet. It is found under other settings, too, and told.
func TestPollerStart_QuestionWithoutAThread(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	_, end := p.runSpace()
	defer end()
	env, other := p.env(), []string{"ANTHROPIC_API_KEY=x"}
	folder := state.QuestionsIn(filepath.Join(p.home, "project", ".claude", "state"))
	q := recordDeadSession(t, env, other, folder, p.address+"/spaces/local/threads/T")
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.IsMessageSent, q.ThreadName, q.Chat = false, "", ""
		return nil
	})
	now := time.Now().UTC()
	m := &state.Message{
		ID: state.MessageID("question", q.QuestionID), Key: "question-" + q.QuestionID, Type: state.MessageQuestion,
		Question: q.Path, ThreadKey: q.ThreadKey, Parts: []string{"Which DB?"}, CreatedAt: now, FirstTriedAt: now,
	}
	_, _, perr := state.OutboxIn(state.UserStateDir(getenvOf(env))).Enqueue(getenvOf(slices.Concat(other, env)), m, 0)
	kit.NoError(t, errors.Join(err, perr))
	p.run("status")
	p.awaitText("its thread is told", func() string {
		b, _ := os.ReadFile(filepath.Join(p.home, "state/gchat-hooks/space/messages.jsonl"))
		_, told, _ := strings.Cut(string(b), "Which DB?")
		if !strings.Contains(told, "The session is gone") {
			return ""
		}
		return told
	})
}

// The page's own server starts a poller when it begins, and when somebody writes there.
func TestPollerStart_ByThePage(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	folder := state.QuestionsIn(filepath.Join(p.home, "project", ".claude", "state"))
	for _, when := range []string{"it begins", "somebody writes"} {
		page, end := p.runSpace()
		out, _ := p.run("send", "--json", "words")
		thread := regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(out)
		if when == "it begins" {
			end()
		}
		q := recordDeadSession(t, p.env(), nil, folder, p.address+"/"+thread)
		if when == "it begins" {
			_, end = p.runSpace()
		} else {
			p.reply(page, thread, "2")
		}
		p.awaitText("the thread is told when "+when, func() string {
			b, _ := os.ReadFile(filepath.Join(p.home, "state/gchat-hooks/space/messages.jsonl"))
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, thread) && strings.Contains(line, "The session is gone") {
					return line
				}
			}
			return ""
		})
		end()
		endPollersIn(p.home)
		_ = os.Remove(q.Path)
	}
}

// Who logs in lets replies be read: what is open is served again.
func TestPollerStart_AfterALogin(t *testing.T) {
	g := newFakeGoogle(t)
	t.Cleanup(func() { endPollersIn(g.home) })
	folder := state.QuestionsIn(filepath.Join(g.home, ".claude", "state"))
	env := append(g.env, "CLAUDE_PROJECT_DIR="+g.home, "GOOGLE_CHAT_WEBHOOK_URL="+g.webhookURL)
	q := recordDeadSession(t, env, nil, folder, "127.0.0.1:1/spaces/A/threads/T")
	dialog := startInTerminal(t, env, g.program, "login", "--no-browser", "--client-id-file", g.writeClientFile())
	g.agreeToLogin(dialog)
	dialog.expect("logged in: users/7")
	bound.Until(t, "the question is closed", func() bool {
		is, err := state.LoadQuestion(q.Path)
		return err == nil && is.ResolvedBy == "claude_gone"
	})
}

// A poller that was killed is started again by status and by answer where a session
// listens, also without an open question.
func TestStatus_StartsAKilledPoller(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "answer"} {
		program, env, _ := newMachineWithQuestions(t, 0)
		env = append(env, "GOOGLE_CHAT_WEBHOOK_URL=http://127.0.0.1:1/v1/spaces/A/messages?key=k&token=t")
		of := getenvOf(env)
		gone := exec.Command("true")
		kit.NoError(t, gone.Run())
		lock, err := state.LockPoller(of)
		kit.NoError(t, err)
		time.AfterFunc(5*time.Millisecond, lock.Unlock) // it is just dying
		if (Program{env: of, self: "/no/program"}).startPoller() == nil {
			t.Error("the lock of a dying poller is not looked at again")
		}
		kit.NoError(t, state.WriteHeartbeat(of, state.Heartbeat{PID: gone.Process.Pid, BeatAt: time.Now()}))
		if _, err := state.SessionsIn(state.UserStateDir(of)).Change("s", func(s *state.Session) {
			s.Name, s.AcceptsCommands, s.StartedAt, s.LastSeen, s.Environment = "shop", true, time.Now(), time.Now(), state.Environment(of)
			s.ThreadName, s.Chat = "spaces/A/threads/T", "127.0.0.1:1/spaces/A"
		}); err != nil {
			t.Fatal(err)
		}
		mustRun(t, env, program, command)
		bound.Until(t, "a poller runs after "+command, func() bool { return state.ReadHeartbeat(of, state.Environment(of)).IsAlive })
	}
}
