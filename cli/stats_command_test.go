package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// TestStats_EqualWhatChatHolds asks two hundred questions by real hooks, through a Chat
// that refuses or stumbles, while the machine is killed at random moments. A person
// answers most of them in their threads, some twice; the others are answered in the
// terminal. What stats then counts is what the space's own messages say, also when the
// records are gone.
func TestStats_EqualWhatChatHolds(t *testing.T) {
	t.Parallel()
	workers, each := 20, 10
	if !kit.IsThorough() {
		workers, each = 8, 3
	}
	m := newMachine(t, 6000)
	m.nextFault = func(r *rand.Rand) fault {
		faults := []fault{tooMany, serverError, storedThenServerError, storedThenConnectionCut}
		return append(make([]fault, 6), faults...)[r.IntN(10)]
	}
	m.env = append(m.env, "GCHAT_ALLOWED_USERS="+space.PersonName, "GCHAT_POLLER_INTERVAL=1s")
	stop := make(chan struct{})
	var beside, asking sync.WaitGroup
	beside.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1500+rand.IntN(3000)) * time.Millisecond):
				m.killAll()
				m.wantRun(0, "", "poller",
					"--once") // as the next hook of any session would start one
			}
		}
	})
	beside.Go(func() { m.answerQuestions(stop) })
	began := time.Now()
	for w := range workers {
		asking.Go(func() {
			for n := range each {
				m.liveQuestion(w, n)
			}
		})
	}
	asking.Wait()
	close(stop)
	beside.Wait()
	var all struct {
		Counts map[string]int
		Lost   []string
		Took   map[string]float64 `json:"posted_to_answered"`
	}
	settled := bound.WaitFor(bound.Patience, func() bool {
		m.wantRun(0, "", "poller", "--once")
		m.flush()
		questions, _ := state.ReadIndexedQuestions(m.getenv)
		return !slices.ContainsFunc(questions, func(q *state.Question) bool {
			return len(q.OwedNotes) > 0 || q.HasUnreadReply() || q.Status.IsOpen()
		})
	})
	if !settled {
		t.Error("the questions are not over")
	}
	read := func() {
		r := struct{ All any }{&all}
		kit.NoError(t, json.Unmarshal([]byte(m.mustRun("stats", "--json")), &r))
	}
	read()

	posted, answered := map[string]*chat.Message{}, map[string]bool{}
	var sent, replies, inTerminal int
	var delays state.Durations
	for _, msg := range m.space.Messages() {
		switch thread := msg.Thread.Name; {
		case msg.Sender.Type == "HUMAN":
			replies++
		case strings.HasPrefix(msg.Text, "[AskUserQuestion]"):
			posted[thread] = msg
		case strings.HasPrefix(msg.Text, "[Answered") && strings.Contains(msg.Text, "terminal"):
			inTerminal++
		case strings.HasPrefix(msg.Text, "[Answered"):
			answered[thread] = true
		}
		if msg.Sender.Type == "BOT" {
			sent++
		}
	}
	for _, msg := range m.space.Messages() { // the first reply counts
		if msg.Sender.Type == "HUMAN" && answered[msg.Thread.Name] {
			from, _ := time.Parse(time.RFC3339Nano, posted[msg.Thread.Name].CreateTime)
			to, _ := time.Parse(time.RFC3339Nano, msg.CreateTime)
			delays.Add(&from, &to)
			delete(answered, msg.Thread.Name)
		}
	}
	t.Logf("%d questions in %v, %d answered in Chat, %d in the terminal, %d replies, %d "+
		"messages; %d faults, %d killed: %v",
		len(posted), time.Since(began), len(delays), inTerminal, replies, sent, m.faults.Load(), m.killed.Load(), all.Counts)
	for what, want := range map[string]int{
		"questions": workers * each, "answered_in_chat": len(delays),
		"answered_in_the_terminal": inTerminal,
		"messages_sent":            sent, "open": 0, "unanswered": 0,
	} {
		kit.Equalf(t, all.Counts[what], want, "%s", what)
	}
	kit.Equalf(t, len(posted), workers*each, "questions posted")
	kit.Equalf(t, len(all.Lost), 0, "lost: %v", all.Lost)
	counted := all.Counts["answered_in_chat"] + all.Counts["late_replies"] +
		all.Counts["replies_not_used"]
	kit.Equalf(t, counted, replies, "replies")
	if f := all.Counts["messages_tried_again"]; f == 0 || f > int(m.faults.Load()) ||
		m.killed.Load() == 0 && kit.IsThorough() {
		// the short form may end before a kill
		t.Errorf("%d tries again after %d faults, %d killed", f, m.faults.Load(), m.killed.Load())
	}
	for percent, name := range map[int]string{50: "p50", 95: "p95"} {
		if d := all.Took[name] - delays.Percentile(percent); d > 0.01 || d < -0.01 {
			t.Errorf("%s: %.3f s, and Chat says %.3f s", name, all.Took[name],
				delays.Percentile(percent))
		}
	}
	endPollersIn(m.dir)
	for _, dir := range []string{
		filepath.Join(m.project, ".claude", "state"), state.UserStateDir(m.getenv),
	} {
		kit.NoError(t, os.RemoveAll(dir))
	}
	was := all.Counts
	all.Counts = nil
	read()
	kit.Equalf(t, fmt.Sprint(all.Counts), fmt.Sprint(was), "without the records: %v, before %v",
		all.Counts, was)
}

// A message without a project, or with the user's state for one, counts for its
// session's project. Sessions are listed by name.
func TestStats_ByProject(t *testing.T) {
	env := getenvOf([]string{"HOME=" + t.TempDir()})
	now := time.Now().UTC().Format(time.RFC3339Nano)
	sent := `{"time":"` + now + `","id":%q,"message":"` + state.LogMessageSent +
		`","project":%q,"session":%q}` + "\n"
	for path, text := range map[string]string{
		state.AuditPath(env): `{"message":"ended","id":"q","kind":"next","status":"cancelled",` +
			`"ended_by":"prompt",` +
			`"project":"/p/shop","session":"shop","session_id":"s-1",` +
			`"asked_at":"` + now + `"}` + "\n",
		state.LogPath(env): fmt.Sprintf(sent+sent, "1", "", "s-1", "2", state.UserStateDir(env),
			""),
	} {
		kit.WriteFile(t, path, text, 0o600)
	}
	text := state.ReadStats(env, time.Now().Add(-time.Hour)).Text("project", "session")
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = strings.Join(strings.Fields(row), " ")
	}
	for _, want := range []string{
		"instructions 1", "answered in the terminal 1", "late replies 0", "messages sent 2",
		"replies not used 0", "lost 0",
		"project asked answered in Chat in the terminal messages sent lost", "/p/shop 1 0 1 1 0",
		"shop s-1 1 0 1 1 0",
	} {
		kit.Equalf(t, slices.Contains(rows, want), true, "%q is a row of\n%s\nthis", want, text)
	}
	kit.Equalf(t, strings.Count(text, "s-1"), 1, "rows of the session")
}

// liveQuestion is the life of one question as Claude Code lives it: where its waiting
// hook prints no answer, it is answered in the terminal.
func (m *machine) liveQuestion(worker, n int) {
	text := fmt.Sprintf("Which way, %d of %d?", n, worker)
	hook := func(name, event, answer string) (out string, killed bool) {
		input, id := "", fmt.Sprintf(`"tool_use_id":"t%d-%d",`, worker, n)
		if answer != "" {
			input = fmt.Sprintf(`,"answers":{%q:%q}`, text, answer)
		}
		if event == "PermissionRequest" {
			id = ""
		}
		input = fmt.Sprintf(`{"questions":[{"question":%q,"header":"Way",`+
			`"options":[{"label":"Left"},{"label":"Right"}]}]%s}`, text, input)
		cmd := m.command(m.program, "hook", name)
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s%d","cwd":%q,`+
			`"hook_event_name":%q,`+
			`"tool_name":"AskUserQuestion",%s"tool_input":%s,`+
			`"tool_response":%[5]s}`, worker, m.project, event, id, input))
		var stdout strings.Builder
		cmd.Stdout = &stdout
		err := m.runKillable(cmd)
		if exit := (*exec.ExitError)(nil); err != nil &&
			(!errors.As(err, &exit) || exit.ExitCode() != -1) {
			m.Errorf("%s: %v", event, err)
		}
		return stdout.String(), err != nil
	}
	for killed := true; killed; {
		_, killed = hook("gchat-ask-user-forward", "PreToolUse", "")
	}
	answer := "Right"
	answers := make(chan string, 1)
	go func() {
		out, _ := hook("gchat-ask-user-forward", "PermissionRequest", "")
		answers <- out
	}()
	if (worker+n)%5 != 0 && strings.Contains(<-answers, "Left") {
		answer = "Left"
	}
	isPosted := bound.WaitFor(bound.Patience, func() bool {
		return slices.ContainsFunc(m.space.Messages(), func(msg *chat.Message) bool {
			return strings.Contains(msg.Text, text)
		})
	})
	kit.Equalf(m, isPosted, true, "posted is %s", text)
	for killed := true; killed; {
		_, killed = hook("gchat-ask-user-answered", "PostToolUse", answer)
	}
}

// answerQuestions answers the questions in their threads, but those that are answered in
// the terminal, and every third once more when it is over.
func (m *machine) answerQuestions(stop chan struct{}) {
	replied := map[string]int{}
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		for _, msg := range m.space.Messages() {
			var worker, n int
			_, rest, _ := strings.Cut(msg.Text, "Which way, ")
			_, err := fmt.Sscanf(rest, "%d of %d?", &n, &worker)
			thread, times := msg.Thread.Name, 0
			switch {
			case err != nil:
			case strings.HasPrefix(msg.Text, "[AskUserQuestion]") && (worker+n)%5 != 0:
				times = 1
			case strings.HasPrefix(msg.Text, "[Answered") && (worker+n)%3 == 0:
				times = 2
			}
			for ; replied[thread] < times; replied[thread]++ {
				if _, err := m.space.PostAs(nil, thread, "1"); err != nil {
					m.Error(err)
				}
			}
		}
	}
}
