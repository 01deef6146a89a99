package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Three environments with 300 open questions in 30 projects share one space: one of their
// pollers reads it for all, once a second. GCHAT_ENVIRONMENTS, in seconds, also prints
// what each poller takes over so long.
func TestThreeEnvironmentsReadASpaceOnce(t *testing.T) {
	const environments, projects, questions = 3, 30, 300
	dir := t.TempDir()
	program := filepath.Join(dir, "gchat-hooks")
	if err := bound.Build(program); err != nil { // without what watches locks, which takes time
		t.Fatal(err)
	}
	chat, err := space.Open(space.Options{})
	kit.NoError(t, err)
	var lists atomic.Int64
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/messages") {
			lists.Add(1)
		}
		chat.Handler().ServeHTTP(w, r)
	}), strict.Embedded))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); chat.Close() })
	envOf := func(environment int) []string {
		return []string{
			"HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "PATH=" + os.Getenv("PATH"),
			"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL),
			"GCHAT_API_ENDPOINT=" + chat.APIEndpoint(server.URL),
			fmt.Sprintf("GCHAT_ALLOWED_USERS=%s,users/%d", space.PersonName, environment),
		}
	}
	for n := range questions {
		project := filepath.Join(dir, fmt.Sprint("project-", n%projects))
		at := time.Now().UTC()
		key := fmt.Sprintf("%08d", n)
		q := &state.Question{
			QuestionID: key + "-0000-4000-8000-000000000000", ThreadKey: "ask-user-" + key, SessionID: "s-" + key,
			Mode: state.ModeNative, Status: state.Pending, AskedAt: at, PostedAt: &at, IsMessageSent: true, ProjectDir: project,
			Space: space.Name, Chat: strings.TrimPrefix(server.URL, "http://") + "/" + space.Name,
			ThreadName: space.Name + "/threads/" + key, MessageName: space.Name + "/messages/" + key,
			SubQuestions: []state.SubQuestion{{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}}},
		}
		folder := state.QuestionsIn(filepath.Join(project, ".claude", "state"))
		q, err := folder.Record(q.SessionID, func([]*state.Question) *state.Question { return q })
		if err == nil {
			err = state.AddQuestionToIndex(getenvOf(envOf(n%environments)), q)
		}
		kit.NoError(t, err)
	}
	var pids []int
	for n := range environments {
		cmd := exec.Command(program, "poller") // the end of the test ends it
		cmd.Env = envOf(n)
		kit.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
		pids = append(pids, cmd.Process.Pid)
	}
	bound.Until(t, "all pollers serve what is theirs", func() bool {
		all := state.ReadHeartbeats(getenvOf(envOf(0)))
		serves := func(h state.Heartbeat) bool { return h.OpenQuestions == questions/environments }
		return len(all) == environments && !slices.ContainsFunc(all, func(h state.Heartbeat) bool { return !serves(h) })
	})
	began, before := time.Now(), lists.Load()
	bound.Until(t, "the space is read", func() bool { return lists.Load() >= before+4 })
	if n, took := lists.Load()-before, time.Since(began); float64(n) > took.Seconds()+2 {
		t.Errorf("%d lists within %s", n, took)
	}
	long, _ := strconv.Atoi(os.Getenv("GCHAT_ENVIRONMENTS"))
	if long == 0 {
		return
	}
	took := func() (used []time.Duration) {
		for _, pid := range pids {
			used = append(used, processorTime(t, pid))
		}
		return used
	}
	began, before = time.Now(), lists.Load()
	first := took()
	time.Sleep(time.Duration(long) * time.Second)
	last, span := took(), time.Since(began)
	for i, pid := range pids {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, _ := strings.Cut(string(status), "VmRSS:")
		rss, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
		t.Logf("poller %d: %.4f core, %s", i, (last[i]-first[i]).Seconds()/span.Seconds(), rss)
	}
	t.Logf("%.2f lists a second", float64(lists.Load()-before)/span.Seconds())
}

// processorTime is what a process has used of a core.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	kit.NoError(t, err)
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // there are 100 ticks a second
}
