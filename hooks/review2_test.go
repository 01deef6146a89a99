package hooks_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/state"
)

func TestS1NotesStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, "a"), "GOOGLE_CHAT_WEBHOOK_URL", "http://127.0.0.1:9/v1/spaces/AAA/messages?key=k&token=tttttttt")
	os.MkdirAll(a.env["CLAUDE_PROJECT_DIR"], 0o755)
	a.run(forward, recorded(t, "two-calls-03-PreToolUse", "session_id", "sess-a")) // A's Chat is down; A's flusher stays
	// B: Chat fine, webhook in its environment
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	ans := w.answers(p.end())
	w.run(answered, recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": ans}))
	if !within(t, 20*time.Second, func() bool { return len(w.messages("[Answered]")) > 0 }) {
		box, _ := state.OutboxIn(filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks")).Waiting()
		for _, m := range box {
			t.Logf("outbox: %s tries %d %s", m.Chat, m.Tries, m.LastError)
		}
		t.Errorf("20 s after PostToolUse: no confirmation in B's thread, B's Chat is fine; flushers %d", len(flushers(w.env["XDG_STATE_HOME"])))
	}
	w.stopFlushers()
}

// full disk
func tmpfs(t *testing.T, dir, size string) {
	os.MkdirAll(dir, 0o700)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
}

func fill(dir string) func() {
	f, _ := os.Create(filepath.Join(dir, "fill"))
	b := make([]byte, 4096)
	for {
		if _, err := f.Write(b); err != nil {
			break
		}
	}
	f.Close()
	return func() { os.Remove(f.Name()) }
}

func TestS2FullProjectDiskAtAsking(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
	tmpfs(t, dir, "256k")
	os.MkdirAll(filepath.Join(dir, "pending-questions", ".locks"), 0o700)
	free := fill(dir)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	if !within(t, 6*time.Second, func() bool { return len(w.messages("[AskUserQuestion]")) > 0 }) {
		t.Errorf("the project's disk is full, the person's own state is not: the question never reaches Chat")
	}
	select {
	case <-p.done:
		t.Logf("hook ended: %q", &p.out)
	default:
	}
	free()
	t.Log(w.run(answered, recorded(t, "single-07-Stop")))
	_ = p.Process.Kill()
	<-p.done
	w.endFlusher()
	exec.Command("umount", "-l", dir).Run()
}

func TestS3FullDiskAtReply(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state")
	tmpfs(t, dir, "256k")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	w.until("sent", func() bool { return w.question().MessageSent })
	free := fill(dir)
	w.say(ann, th, "2")
	time.Sleep(3 * time.Second)
	free()
	select {
	case <-p.done:
		t.Logf("%q", &p.out)
	case <-time.After(8 * time.Second):
		t.Errorf("disk is free again, reply is not used: %+v", w.question().Replies)
	}
	_ = p.Process.Kill()
	<-p.done
	w.endFlusher()
	exec.Command("umount", "-l", dir).Run()
}

// full user state disk (outbox): hammering
func TestS4FullUserDisk(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.env["XDG_STATE_HOME"], "gchat-hooks")
	tmpfs(t, dir, "256k,nr_inodes=60")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			rw.WriteHeader(503)
			return true
		}
		return false
	})
	w.say(bob, th, "2")
	w.until("refused", func() bool { return len(w.question().Replies) > 0 && w.question().Replies[0].Verdict != "" })
	// inodes run out
	var made []string
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint("x", i)))
		if err != nil {
			break
		}
		f.Close()
		made = append(made, f.Name())
	}
	w.trace.set(nil)
	before, _ := w.trace.counts()
	terminate(p)
	p.end()
	time.Sleep(5 * time.Second)
	after, _ := w.trace.counts()
	t.Logf("posts in 5 s with no inode left: %d; in space %d", after-before, len(w.messages("[Not used]")))
	for _, f := range made {
		os.Remove(f)
	}
	w.until("drained", func() bool { w.flush(); return true })
	w.endFlusher()
	exec.Command("umount", "-l", dir).Run()
}

// a reply that another hook's inbox wrote down while no waiter lives, then closed: never judged
func TestS5UnreadForever(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	other := w.start(forward, recorded(t, "two-calls-05-PermissionRequest"))
	w.thread(2)
	_ = p.Process.Kill()
	<-p.done
	w.say(ann, th, "2")
	var q *state.Question
	find := func() *state.Question {
		for _, x := range w.questions() {
			if x.Questions[0].Question == single {
				return x
			}
		}
		return nil
	}
	w.until("written down", func() bool { q = find(); return len(q.Replies) > 0 })
	if !within(t, 5*time.Second, func() bool { return find().Status != state.Pending }) {
		t.Logf("5 s: still %s, verdict %q (nobody judges)", find().Status, find().Replies[0].Verdict)
	}
	w.run(answered, recorded(t, "single-05-PostToolUse"))
	time.Sleep(4 * time.Second)
	if find().Replies[0].Verdict == "" {
		t.Errorf("closed, reply never judged; late notes: %d, status %s", len(w.messages("[Not used]")), find().Status)
	}
	_ = other
}

// same session id in two terminals (claude --resume twice)
func TestS6SameSessionTwoTerminals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.with("CLAUDE_PID", fmt.Sprint(os.Getpid()))
	p := one.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	sleeper := exec.Command("sleep", "60")
	sleeper.Start()
	defer func() { sleeper.Process.Kill(); sleeper.Wait() }()
	two := w.with("CLAUDE_PID", fmt.Sprint(sleeper.Process.Pid))
	two.run(answered, recorded(t, "single-07-Stop"))
	time.Sleep(time.Second)
	if q := w.question(); q.Status != state.Pending {
		t.Errorf("another process's Stop closed it: %s by %s", q.Status, q.ResolvedBy)
	}
	_ = p
}

func TestS7Exit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// stdout's reader is gone
	r, wr, _ := os.Pipe()
	cmd := exec.Command(program, "hook", forward)
	cmd.Env, cmd.Dir = w.environ(), w.env["CLAUDE_PROJECT_DIR"]
	cmd.Stdin = strings.NewReader(string(recorded(t, "single-04-PermissionRequest")))
	cmd.Stdout = wr
	cmd.Start()
	wr.Close()
	r.Close()
	w.say(ann, w.thread(1), "2")
	err := cmd.Wait()
	t.Logf("stdout closed: %v; %s", err, w.question().Status)
	if err != nil {
		t.Errorf("exit: %v", err)
	}
}

func TestS8HungCommandAndCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := w.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	writeFile(t, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url_command":"sleep 47; echo %s"}`, "x"))
	_ = url
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	time.Sleep(time.Second)
	start := time.Now()
	terminate(p)
	p.end()
	out, _ := exec.Command("pgrep", "-fa", "^sleep 47").Output()
	t.Logf("SIGTERM with a hung command: %v; left: %q; %s", time.Since(start), out, w.question().Status)
}

func TestS9NoCredentialsSIGTERM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["GCHAT_API_ENDPOINT"] = "https://chat.googleapis.com/"
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	time.Sleep(200 * time.Millisecond)
	start := time.Now()
	terminate(p)
	p.end()
	t.Logf("SIGTERM while looking for credentials: %v", time.Since(start))
}

func TestS10HeldRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := &state.Question{Path: filepath.Join(dir, "q.json")}
	var refused, n atomic.Int64
	stop := time.Now().Add(5 * time.Second)
	go func() {
		for time.Now().Before(stop) {
			state.HasWaiter(q)
		}
	}()
	for time.Now().Before(stop) {
		os.Remove(filepath.Join(dir, ".locks", "q.json.waiter"))
		l, err := state.LockWaiter(q)
		n.Add(1)
		if err != nil {
			refused.Add(1)
			continue
		}
		l.Unlock()
	}
	t.Logf("LockWaiter of a question nobody waits for, refused %d of %d while HasWaiter probes", refused.Load(), n.Load())
}

// stale or unremovable by-hand file
func TestS11StaleByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "user-input-queue", "b1e91434-d410-4fbe-b382-0fbc1f1c23d3.txt")
	var sid string
	{
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.thread(1)
		sid = w.question().SessionID
		f = filepath.Join(filepath.Dir(f), sid+".txt")
		terminate(p)
		p.end()
	}
	writeFile(t, f, "2\n")
	start := time.Now()
	p := w.start(forward, recorded(t, "single-04-PermissionRequest", "prompt_id", "another"))
	p.end()
	_, lists := w.trace.counts()
	t.Logf("file there before: used after %v, %d messages, lists %d", time.Since(start), len(w.messages("[AskUserQuestion]")), lists)
}

// Esc while Retry-After etc.: config file rewritten in place at the wrong moment
func TestS12ConfigHalfWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json")
	url := w.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
	delete(w.env, "GCHAT_ALLOWED_USERS")
	good := fmt.Sprintf(`{"webhook_url":%q,"allowed_users":["users/ann"]}`, url)
	writeFile(t, cfg, good)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	th := w.thread(1)
	time.Sleep(300 * time.Millisecond)
	writeFile(t, cfg, good[:30]) // being edited
	w.say(ann, th, "2")
	time.Sleep(1500 * time.Millisecond)
	writeFile(t, cfg, good)
	select {
	case <-p.done:
	case <-time.After(6 * time.Second):
		t.Errorf("reply of an allowed person refused for good while the config did not parse: verdict %s; told %d", w.question().Replies[0].Verdict, len(w.messages("[Not used]")))
		for _, m := range w.messages("[Not used]") {
			t.Log(m.Text)
		}
	}
	_ = p
}
