package wake

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Reviewers found these faults: each once lost a message, sent one twice, or sent it to
// the wrong agent.

// A person who watches has a session of the same group, and tmux names the session that
// was used last.
func TestWake_SessionOfAGroup(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.runTmux("new-session", "-d", "-t", "warden-main", "-s", "person")
	if name := w.runTmux("display-message", "-p", "-t", w.pane, "#{session_name}"); name != "person" {
		t.Logf("tmux says %q", name)
	}
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	kit.Containsf(t, w.lastMessageText(), "tmux_session_name: warden-main\n", "told")
}

// A notification does not repeat what the agent knows. It shows what the session waits
// for.
func TestWakeMessage_PermissionAfterText(t *testing.T) {
	w := newWorld(t, "warden-main", readScreenFile("permission-02-open"))
	w.awaitOnPane("Esc to cancel")
	transcript := w.path("project/t.jsonl")
	w.must(os.WriteFile(transcript, []byte(`{"type":"user","uuid":"u","message":{"content":"go"}}
{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Let me look around first."}]}}
{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}
`), 0o600))
	w.runHook("notification-permission-hook", recorded(t, "timing-05-Notification", "transcript_path", transcript))
	if m := w.wakeMessages(); len(m) != 1 || !strings.Contains(section(w.lastMessageText(), "CONTENT"), "rm -rf build") {
		t.Errorf("told %+v", m)
	}
}

// A text whose blanks an event trimmed is the same text.
func TestWake_TrimmedTextIsTheSame(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	transcript := w.path("project/t.jsonl")
	w.must(os.WriteFile(transcript, []byte(`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"\n\nHello there"}]}}`+"\n"), 0o600))
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "Hello there"))
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", transcript))
	w.runHook("notification-idle-hook", recorded(t, "timing-09-Notification", "transcript_path", transcript))
	kit.Equalf(t, len(w.wakeMessages()), 1, "messages")
}

// A message that a killed hook left is sent even if the next event brings nothing new.
func TestWake_SendsWhatAKilledHookLeft(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	w.runStopWith("done") // without a poller
	w.must(os.WriteFile(w.path("bin/poller"), []byte("#!/bin/sh\n: > "+w.path("project/started")+"\n"), 0o700))
	w.runHookWith(w.path("bin/poller"), "stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "done"))
	w.waitUntil("a poller is started", func() bool { _, err := os.Stat(w.path("project/started")); return err == nil })
}

// openclaw gets exactly Claude's text, without control characters for a terminal.
func TestWakeMessage_TextIsExact(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.runStopWith("He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s\x00\x1b[31m")
	kit.Equalf(t, section(w.lastMessageText(), "CONTENT"), "He said: \"it's $(done)\" `now`\n\n\t- äöü 🙂 \\ %s", "content")
}

// An agent runs the commands of its message outside of tmux. menu-driver learns from the
// session which tmux server to use.
func TestWake_ServerIsRemembered(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.runStopWith("done")
	if got := state.SessionsIn(w.userState()).TmuxSockets("warden-main"); !slices.Equal(got, []string{w.path("s")}) {
		t.Errorf("%q", got)
	}
}

// A hook that is killed at any step has enqueued its message, or its next event does.
func TestWake_KilledHookSends(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("strace is missing")
		}
		t.Skip("needs strace")
	}
	self, err := os.Executable()
	kit.NoError(t, err)
	w := newWorld(t, "warden-main", quiet)
	killed := 0
	for _, step := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat", "write", "openat"} {
		for nth := 1; nth <= 9; nth += 2 {
			when := nth
			if step == "openat" {
				when += 6 // the first ones belong to the loader and the runtime
			}
			text := fmt.Sprint(step, " ", nth)
			event := recorded(t, "single-07-Stop", "last_assistant_message", text)
			kill := fmt.Sprintf("inject=%s:signal=KILL:when=%d", step, when)
			cmd := bound.Command(t, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+step, "-e", kill, self)
			cmd.Env = []string{hookNameVariable + "=stop-hook"}
			for k, v := range w.env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			cmd.Stdin = bytes.NewReader(event)
			if cmd.Run() != nil {
				killed++
			}
			w.runHook("stop-hook", event)
			told := 0
			for _, message := range w.wakeMessages() {
				if section(messageText(message), "CONTENT") == text {
					told++
				}
			}
			if told < 1 || told > 2 {
				t.Errorf("killed at %s %d: told %d times", step, nth, told)
			}
		}
	}
	if killed < 8 { // how many files a hook opens depends on its threads
		t.Errorf("only %d hooks were killed: the test does not do what it says", killed)
	}
}
