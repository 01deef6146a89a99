package wake

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// What hostile readers found: each of these once lost a message, told one twice, or told the wrong one.

// A person who looks in has a session of the same group, and tmux names the one that was used last.
func TestGroupedSession(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.tmux("new-session", "-d", "-t", "warden-main", "-s", "person")
	if name := w.tmux("display-message", "-p", "-t", w.pane, "#{session_name}"); name != "person" {
		t.Logf("tmux says %q", name)
	}
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	if m := w.waiting(); len(m) != 1 || m[0].Session != "warden-main" {
		t.Errorf("told: %+v", m)
	}
}

// Two panes of a session are told of apart.
func TestTwoPanes(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	other := w.tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", w.pane, "sh", "-c", "echo other; exec sleep 600")
	first := w.pane
	stop := recorded(t, "single-07-Stop", "last_assistant_message", nil)
	for i, pane := range []string{first, other, first, other} {
		w.env["TMUX_PANE"] = pane
		w.until("the pane shows something", func() bool { return w.tmux("capture-pane", "-p", "-t", pane) != "" })
		w.fire("stop-hook", stop)
		if n := len(w.waiting()); n != min(i+1, 2) {
			t.Errorf("after %d: %d messages", i+1, n)
		}
	}
}

// openclaw does not work in the session's folder, which can be gone by then, and takes no programs from there.
func TestFolderIsGone(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	gone := w.path("worktree")
	w.must(os.MkdirAll(filepath.Join(gone, "node_modules", ".bin"), 0o700))
	w.must(os.WriteFile(filepath.Join(gone, "node_modules", ".bin", "sh"), []byte("#!/bin/sh\ntouch $WAKE_TEST/ran\n"), 0o700))
	w.env["PATH"] = "node_modules/.bin:" + w.env["PATH"]
	w.write("bin/openclaw", strings.Replace(standIn, "n=$(", "pwd > \"$WAKE_TEST/calls/../pwd\"; n=$(", 1))
	w.write("fail", "")
	cmd := exec.Command(program(w), "stop-hook")
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Dir, cmd.Stdin = gone, strings.NewReader(string(recorded(t, "single-07-Stop")))
	w.must(cmd.Run())
	w.until("a try failed", func() bool { m := w.waiting(); return len(m) == 1 && m[0].Tries > 0 })
	w.must(os.RemoveAll(gone))
	w.must(os.Remove(w.path("fail")))
	w.idle()
	if b, _ := os.ReadFile(w.path("pwd")); strings.TrimSpace(string(b)) != w.path("home") {
		t.Errorf("openclaw worked in %s", b)
	}
	if _, err := os.Stat(w.path("ran")); err == nil {
		t.Error("a program of the project was run")
	}
}

// An unchanged event starts a courier for what a killed one left.
func TestLeftByAKilledCourier(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.fire("stop-hook", recorded(t, "single-07-Stop")) // without a courier
	w.told("Thanks, understood.")
	w.idle()
	// Unchanged are an unchanged pane and unchanged words: where a busy machine draws the pane between the two events (4 of 150
	// runs), the second one is told as well.
	if n := len(w.calls()); n != 1 && n != 2 {
		t.Errorf("%d calls", n)
	}
}

// What cannot be taken out of the outbox is not given to the agent again and again, and a courier never spins.
func TestCannotBeTakenOut(t *testing.T) {
	if os.Getuid() == 0 && !unprivileged(t) {
		t.Skip("needs a folder that cannot be written")
	}
	w := newWorld(t, "warden-main", quiet)
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	for name, v := range w.env {
		t.Setenv(name, v)
	}
	m := w.waiting()[0]
	c := &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: m.Path}
	slept := 0
	ctx, cancel := context.WithCancel(t.Context())
	c.Sleep = func(context.Context, time.Duration) {
		if slept++; slept > 20 {
			cancel()
		}
	}
	lock, err := state.WakeOutboxIn(w.user()).Claim(m) // the files of a claim are there
	w.must(err)
	lock.Unlock()
	undo := immutable(t, filepath.Dir(m.Path))
	c.Run(ctx)
	undo()
	if n := len(w.calls()); n != 1 {
		t.Errorf("%d calls of openclaw", n)
	}

	w.must(os.Remove(m.Path))
	w.must(os.Symlink("/nowhere", filepath.Join(filepath.Dir(m.Path), "00-x-dangling.json")))
	w.must(os.Mkdir(filepath.Join(filepath.Dir(m.Path), "01-x-folder.json"), 0o700))
	c = &Courier{Env: w.getenv, Log: state.NewLog(w.getenv, "wake"), First: filepath.Join(filepath.Dir(m.Path), "00-x-dangling.json")}
	done := make(chan bool)
	go func() { c.Run(t.Context()); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the courier goes on and on")
	}
	if n := strings.Count(w.log(), "\n"); n > 10 {
		t.Errorf("%d lines in the log", n)
	}
}

// The message is given to openclaw once where nothing can be written, with one line in the log.
func TestNothingCanBeWritten(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.must(os.MkdirAll(w.path("home/.local"), 0o700))
	w.write("home/.local/state", "a file where a folder should be")
	w.told("one")
	if got := contents(w.heard(1)); got[0] != "one" {
		t.Errorf("heard %q", got)
	}
	if n := strings.Count(w.log(), "\n"); n != 1 || !strings.Contains(w.log(), "it is sent once") {
		t.Errorf("%d lines:\n%s", n, w.log())
	}
}

// A message whose own words look like openclaw's is not taken for delivered.
func TestErrorThatEchoes(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.write("bin/openclaw", "#!/bin/sh\necho \"cannot send: $5\" >&2; exit 1\n")
	w.told("⚠️ Agent couldn't generate a response, said the log.\nAgent couldn't generate a response")
	w.until("the try is written down", func() bool { m := w.waiting(); return len(m) == 1 && m[0].Tries > 0 })
	w.endCourier()
}

// One agent's openclaw that hangs in its retrier does not hold up another agent's messages.
func TestAgentsApart(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.registry(`{"agents":[` + entry("warden", "warden-main", "") + `,{"agent_id":"scout","tmux_session_name":"scout-main","openclaw_session_id":"3333"}]}`)
	w.write("fail", "")
	w.told("one")
	w.until("a try failed", func() bool { m := w.waiting(); return len(m) == 1 && m[0].Tries > 0 })
	w.must(os.Remove(w.path("fail")))
	w.write("hang", "")
	w.hung(1) // in the retrier of the first agent
	w.must(os.Remove(w.path("hang")))
	w.write("fail", "")
	w.env["TMUX_PANE"] = w.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", "scout-main", "sleep", "600")
	w.told("two")
	w.until("a try failed", func() bool { m := w.waiting(); return len(m) == 2 && m[1].Tries > 0 })
	w.must(os.Remove(w.path("fail")))
	w.until("the second agent has its message", func() bool { m := w.waiting(); return len(m) == 1 && m[0].AgentID == "warden" })
	w.endCourier()
	w.endStandIns()
}

// The gateway that is meant is the one of the session that spoke, whoever hands the message over; secrets are not written down.
func TestGatewayOfTheSession(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.env["OPENCLAW_STATE_DIR"], w.env["OPENCLAW_GATEWAY_TOKEN"] = "/a", "hush-hush"
	w.write("fail", "")
	w.told("one")
	w.until("a try failed", func() bool { m := w.waiting(); return len(m) == 1 && m[0].Tries > 0 })
	if b, err := os.ReadFile(w.waiting()[0].Path); err != nil || strings.Contains(string(b), "hush-hush") {
		t.Errorf("written down: %s %v", b, err)
	}
	w.endCourier()
	w.must(os.Remove(w.path("fail")))
	w.env["OPENCLAW_STATE_DIR"] = "/b"
	if out, code := w.command("wake"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	calls := w.calls()
	if env := strings.Join(calls[len(calls)-1].env, "\n"); !strings.Contains(env, "OPENCLAW_STATE_DIR=/a") || strings.Contains(env, "=/b") || !strings.Contains(env, "TOKEN=hush-hush") {
		t.Errorf("openclaw got\n%s", env)
	}
}

// A notification does not repeat what is known, and shows what the session waits for.
func TestPermissionAfterWords(t *testing.T) {
	w := newWorld(t, "warden-main", screen("permission-02-open"))
	w.shows("Esc to cancel")
	transcript := w.path("project/t.jsonl")
	w.must(os.WriteFile(transcript, []byte(`{"type":"user","uuid":"u","message":{"content":"go"}}
{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Let me look around first."}]}}
{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}
`), 0o600))
	w.fire("notification-permission-hook", recorded(t, "timing-05-Notification", "transcript_path", transcript))
	if m := w.waiting(); len(m) != 1 || !strings.Contains(section(m[0].Message, "CONTENT"), "rm -rf build") {
		t.Errorf("told %+v", m)
	}
}

// Words that an event trims are the same words.
func TestTrimmedWords(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.shows("ready")
	transcript := w.path("project/t.jsonl")
	w.must(os.WriteFile(transcript, []byte(`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"\n\nHello there"}]}}`+"\n"), 0o600))
	w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "Hello there"))
	w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", transcript))
	w.fire("notification-idle-hook", recorded(t, "timing-09-Notification", "transcript_path", transcript))
	if n := len(w.waiting()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// Words of an earlier turn that no message has carried are better than none.
func TestWordsOfAnEarlierTurn(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.shows("ready")
	transcript := w.path("project/t.jsonl")
	w.must(os.WriteFile(transcript, []byte(`{"type":"user","uuid":"u1","message":{"content":"go"}}
{"type":"assistant","uuid":"a1","message":{"id":"m1","content":[{"type":"text","text":"before the prompt"}]}}
{"type":"user","uuid":"u9","message":{"content":"and then?"}}
`), 0o600))
	w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", transcript))
	if m := w.waiting(); len(m) != 1 || section(m[0].Message, "CONTENT") != "before the prompt" {
		t.Errorf("told %+v", m)
	}
}

// A registry that an editor has just moved away.
func TestRegistryMovedAway(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	w.must(os.Rename(w.path("registry.json"), w.path("r")))
	go func() { time.Sleep(goneFor / 4); _ = os.Rename(w.path("r"), w.path("registry.json")) }()
	w.fire("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "meanwhile"))
	if n := len(w.waiting()); n != 2 {
		t.Errorf("%d messages:\n%s", n, w.log())
	}
}

// unprivileged says whether a folder can be made immutable here.
func unprivileged(t *testing.T) bool {
	dir := t.TempDir()
	if exec.Command("chattr", "+i", dir).Run() != nil {
		return false
	}
	return exec.Command("chattr", "-i", dir).Run() == nil
}

// immutable keeps anybody from changing a folder, root too, until undo.
func immutable(t *testing.T, dir string) (undo func()) {
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		return func() { _ = os.Chmod(dir, 0o700) }
	}
	if out, err := exec.Command("chattr", "+i", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func() { _ = exec.Command("chattr", "-i", dir).Run() }
}

// An agent runs the lines of its message outside of tmux, where nothing says which server the session is on.
func TestActionsOutsideOfTmux(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.shows("ready")
	w.fire("stop-hook", recorded(t, "single-07-Stop"))
	look := exec.Command(program(t), "menu", "warden-main", "snapshot")
	look.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMUX_TMPDIR=" + w.path("project")}
	if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), "ready") {
		t.Errorf("%v: %s", err, out)
	}
}
