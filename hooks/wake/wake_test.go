package wake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

// runShell returns what a script prints.
func (w *world) runShell(script string) string {
	w.Helper()
	cmd := bound.Command(w, "sh", "-c", script)
	cmd.Dir = w.path("project")
	out, err := cmd.Output()
	kit.NoError(w, err)
	return string(out)
}

// wantWritesOnlyIn checks that everything was written under these folders, readable by
// this user only.
func (w *world) wantWritesOnlyIn(dirs ...string) {
	w.Helper()
	kit.NoError(w, filepath.WalkDir(w.userState(),
		func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			kit.True(w, err != nil || info.Mode().Perm()&0o077 == 0, "%s is %s", path, info.Mode())
			return err
		}))
	kit.NoError(w, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		known := []string{"bin", "project", "registry.json", "s"}
		rel, _ := filepath.Rel(w.dir, path)
		first, _, _ := strings.Cut(rel, "/")
		kit.True(w, err != nil || rel == "." || slices.Contains(known, first) ||
			slices.ContainsFunc(dirs, func(dir string) bool {
				return strings.HasPrefix(path, dir)
			}), "%s was written", path)
		return err
	}))
}

// A person who watches has a session of the same group, and tmux names the session that
// was used last.
func TestWake_SessionOfAGroup(t *testing.T) {
	w := newQuietWorld(t)
	w.runTmux("new-session", "-d", "-t", "warden-main", "-s", "person")
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	kit.Containsf(t, w.lastMessageText(), "tmux_session_name: warden-main\n", "message")
}

// A text whose blanks an event trimmed is the same text.
func TestWake_TrimmedTextIsTheSame(t *testing.T) {
	w := newQuietWorld(t)
	transcript := w.path("project/t.jsonl")
	kit.NoError(w, os.WriteFile(transcript, []byte(`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"\n\nHello there"}]}}`+"\n"), 0o600))
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "Hello there"))
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", nil,
		"transcript_path", transcript))
	w.runHook("notification-idle-hook", recorded(t, "timing-09-Notification",
		"transcript_path", transcript))
	kit.Equalf(t, len(w.wakeMessages()), 1, "messages")
}

// A message that a killed hook left is sent even if the next event brings nothing new.
func TestWake_SendsWhatAKilledHookLeft(t *testing.T) {
	w := newQuietWorld(t)
	w.runStopWith("done") // without a poller
	kit.NoError(w, os.WriteFile(w.path("bin/poller"),
		[]byte("#!/bin/sh\n: > "+w.path("project/started")+"\n"), 0o700))
	w.runHookWith(w.path("bin/poller"), "stop-hook",
		recorded(t, "single-07-Stop", "last_assistant_message", "done"))
	w.waitUntil("a poller is started", func() bool {
		_,
			err := os.Stat(w.path("project/started"))
		return err == nil
	})
}

// An agent runs the commands of its message outside of tmux. menu-driver learns from the
// session which tmux server to use.
func TestWake_ServerIsRemembered(t *testing.T) {
	w := newQuietWorld(t)
	w.runStopWith("done")
	kit.Equal(t, state.SessionsIn(w.userState()).TmuxSockets("warden-main"), []string{w.path("s")})
}

// A hook that is killed at any step has enqueued its message, or its next event does.
func TestWake_KilledHookSends(t *testing.T) {
	kit.NeedProgram(t, "strace")
	self, err := os.Executable()
	kit.NoError(t, err)
	w := newQuietWorld(t)
	killed := 0
	for _, step := range []string{"flock", "linkat", "renameat,renameat2", "fsync", "unlinkat",
		"write", "openat"} {
		for nth := 1; nth <= 9; nth += 2 {
			when := nth
			if step == "openat" {
				when += 6 // the first ones belong to the loader and the runtime
			}
			text := fmt.Sprint(step, " ", nth)
			event := recorded(t, "single-07-Stop", "last_assistant_message", text)
			kill := fmt.Sprintf("inject=%s:signal=KILL:when=%d", step, when)
			cmd := bound.Command(t, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+step,
				"-e", kill, self)
			cmd.Env = []string{hookNameVariable + "=stop-hook"}
			for k, v := range w.env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			cmd.Stdin = bytes.NewReader(event)
			if cmd.Run() != nil {
				killed++
			}
			w.runHook("stop-hook", event)
			sent := 0
			for _, message := range w.wakeMessages() {
				if section(messageText(message), "CONTENT") == text {
					sent++
				}
			}
			kit.True(t, sent >= 1 && sent <= 2, "killed at %s %d: sent %d times", step, nth, sent)
		}
	}
	if killed < 8 { // how many files a hook opens depends on its threads
		t.Errorf("only %d hooks were killed: the test does not do what it says", killed)
	}
}

// Claude Code notifies of a question's dialog, too. The agent gets one message about it,
// and one about each other dialog.
func TestWake_QuestionIsSentOnce(t *testing.T) {
	w := newWorld(t, "warden-main", readScreenFile("single-02-open"))
	w.awaitOnPane("Esc to cancel")
	ask, notification := recorded(t, "single-03-PreToolUse"), recorded(t, "timing-05-Notification")
	var other map[string]any
	kit.NoError(w, json.Unmarshal([]byte(`{"questions":[{"question":"And then?","options":[]}]}`),
		&other))
	w.wantNew("a question", "pre-tool-use-hook", ask, 1)
	w.wantNew("the notification of it", "notification-permission-hook", notification, 0)
	w.wantNew("another question", "pre-tool-use-hook",
		recorded(t, "single-03-PreToolUse", "tool_input", other), 1)
	w.wantNew("a dialog that was not sent", "notification-permission-hook", notification, 1)
	w.runTmux("respawn-pane", "-k", "-t", w.pane, "sh", "-c", readScreenFile("permission-02-open"))
	w.awaitOnPane("git push --force")
	w.wantNew("a tool's permission", "notification-permission-hook", notification, 1)
	kit.Containsf(t, w.lastContent(), "rm -rf build && git push --force", "message")
}

// With deliver: chat the event is reported in Chat, instead of to the agent or as well.
func TestWake_DeliversToChat(t *testing.T) {
	for deliver, agents := range map[string]int{"chat": 0, "both": 1} {
		w := newQuietWorld(t)
		w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/S/messages?key=k&token=t"
		w.writeSettings("warden-main", `{"deliver":"`+deliver+`"}`)
		w.awaitOnPane("ready")
		w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message",
			"**done** <users/all>"))
		w.runHook("pre-tool-use-hook", recorded(t, "single-03-PreToolUse"))
		all, _ := state.OutboxIn(w.userState()).Waiting()
		all = slices.DeleteFunc(all, func(message *state.Message) bool { return message.Type != state.MessageReport })
		kit.Must(t, len(all) == 2 && len(w.wakeMessages()) == 2*agents,
			"%s: %d for Chat, %d for the agent", deliver, len(all), len(w.wakeMessages()))
		first, second := all[0].Report, all[1].Report
		kit.True(t, first.Prefix == "[Wake]" && first.SessionName == "warden-main" &&
			first.About == "response_complete, idle" && first.Text == "**done** <users/all>",
			"Chat gets %+v", first)
		kit.True(t, strings.HasPrefix(second.Text,
			"```\nQuestion: Which deployment approach should we use?") && second.RuleKind == "wake",
			"Chat gets %+v", second)
	}
}

func TestWake_NamesOfHooks(t *testing.T) {
	if got := Names(); len(got) != 6 || slices.ContainsFunc(got,
		func(name string) bool { return !IsName(name) || hooks.IsName(name) }) || IsName("stop") {
		t.Errorf("names %q", got)
	}
}

// If a hook is not meant, it sends nothing and leaves nothing behind.
func TestWake_IrrelevantEvents(t *testing.T) {
	w := newQuietWorld(t)
	stop := recorded(t, "single-07-Stop")
	for name, c := range map[string]struct {
		hook    string
		event   []byte
		env     map[string]string
		session string // of the registry
	}{
		"sent back already": {"stop-hook",
			recorded(t, "single-07-Stop", "stop_hook_active", true), nil, "warden-main"},
		"not in tmux": {"stop-hook", stop, map[string]string{"TMUX": ""},
			"warden-main"},
		"unknown session": {"stop-hook", stop, nil, "other"},
		"another event": {"stop-hook", recorded(t, "timing-09-Notification"), nil,
			"warden-main"},
		"a subagent's end": {"stop-hook",
			recorded(t, "single-07-Stop", "hook_event_name", "SubagentStop"), nil, "warden-main"},
		"another tool": {"pre-tool-use-hook",
			recorded(t, "single-03-PreToolUse", "tool_name", "Bash"), nil, "warden-main"},
		"another notification": {"notification-idle-hook",
			recorded(t, "timing-05-Notification"), nil, "warden-main"},
		"another notification, too": {"notification-permission-hook",
			recorded(t, "timing-09-Notification"), nil, "warden-main"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			w.env = map[string]string{
				"HOME": t.TempDir(), "GCHAT_WAKE_REGISTRY": filepath.Join(t.TempDir(), "r.json"),
				"PATH": os.Getenv("PATH"), "TMUX": w.path("s") + ",1,0", "TMUX_PANE": w.pane,
			}
			maps.Copy(w.env, c.env)
			kit.NoError(w, os.WriteFile(w.env["GCHAT_WAKE_REGISTRY"],
				[]byte(`{"agents":[`+agentJSON("zarden", c.session, "")+`]}`), 0o600))
			kit.Equalf(t, w.runHook(c.hook, c.event), "", "printed")
			kit.Equalf(t, len(w.wakeMessages()), 0, "messages")
			log, _ := os.ReadFile(state.LogPath(w.getenv))
			kit.Equalf(t, string(log), "", "log")
			left, _ := filepath.Glob(filepath.Join(w.userState(), "wake", "sessions", "*"))
			kit.Equalf(t, left, nil, "left files")
		})
	}
}

// An event without a name counts as the hook's own event.
func TestWake_UnnamedEvent(t *testing.T) {
	w := newQuietWorld(t)
	for i, c := range []struct {
		hook, event, trigger string
		name                 any
	}{
		{"stop-hook", "single-07-Stop", "response_complete", ""},
		{"pre-tool-use-hook", "single-03-PreToolUse", "ask_user_question", nil},
		{"notification-idle-hook", "timing-09-Notification", "idle_prompt", nil},
		{"notification-permission-hook", "timing-05-Notification", "permission_prompt", nil},
		{"session-end-hook", "timing-10-SessionEnd", "session_end", nil},
		{"pre-compact-hook", "timing-10-SessionEnd", "pre_compact", nil},
	} {
		w.writeSettings("warden-main", `{"dedup_enabled":false}`)
		w.wantNew(c.hook, c.hook, recorded(t, c.event, "hook_event_name", c.name), 1)
		kit.Equalf(t, w.wakeMessages()[i].Wake.Trigger, c.trigger, "%s", c.hook)
	}
	w.wantNew("its text", "stop-hook", []byte(`{"last_assistant_message":"words"}`), 1)
	kit.Equal(t, w.lastContent(), "words")
	// What stops an event that has a name stops one that has none, too.
	w.wantNew("sent back", "stop-hook", []byte(`{"stop_hook_active":true}`), 0)
	w.wantNew("another tool", "pre-tool-use-hook", []byte(`{"tool_name":"Bash"}`), 0)
	dialog := []byte(`{"notification_type":"permission_prompt"}`)
	w.wantNew("a dialog", "notification-idle-hook", dialog, 0)
	kit.Equalf(t, w.errorLines(), "", "log")
}

// If no other hook is registered, this one records what status says about a session.
func TestWake_RecordsTheSession(t *testing.T) {
	w := newQuietWorld(t)
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	project, _ := filepath.Abs(state.ProjectDir(w.getenv))
	all, _ := state.SessionsIn(w.userState()).All()
	kit.True(t, len(all) == 1 && !all[0].StartedAt.IsZero() && all[0].ProjectDir == project &&
		all[0].TmuxSession == "warden-main", "got %+v", all)
}

// What the agent knows is not sent again. What is new is sent, whichever hook runs first.
func TestWake_KnownTextIsNotRepeated(t *testing.T) {
	w := newWorld(t, "warden-main", "echo ready; while read l; do echo \"$l\"; done")
	w.awaitOnPane("ready")
	stop := func(text string) []byte {
		return recorded(t, "single-07-Stop",
			"last_assistant_message", text)
	}
	idle := recorded(t, "timing-09-Notification")
	typed := 0
	typing := func() {
		typed++
		w.runTmux("send-keys", "-t", w.pane, "-l", fmt.Sprintf("typed %d", typed))
		w.runTmux("send-keys", "-t", w.pane, "Enter")
		w.waitUntil("the line is echoed", func() bool {
			return strings.Count(w.runTmux("capture-pane", "-p", "-t", w.pane),
				fmt.Sprintf("typed %d", typed)) == 2
		})
	}
	w.wantNew("the first", "stop-hook", stop("one"), 1)
	w.wantNew("the same", "stop-hook", stop("one"), 0)
	w.wantNew("idle after it", "notification-idle-hook", idle, 0)
	w.wantNew("another text", "stop-hook", stop("two"), 1)
	typing()
	w.wantNew("the same text, another screen", "stop-hook", stop("two"), 1)
	typing()
	w.wantNew("idle, another screen", "notification-idle-hook", idle, 1)
	kit.Contains(t, w.lastContent(), "typed 2")
	w.wantNew("a text after the screen was sent", "stop-hook", stop("three"), 1)
	w.wantNew("the end is always sent", "session-end-hook", recorded(t, "timing-10-SessionEnd"), 1)
	ask := recorded(t, "single-03-PreToolUse")
	w.wantNew("a question", "pre-tool-use-hook", ask, 1)
	w.wantNew("from a second install", "pre-tool-use-hook", ask, 0)
	w.wantNew("asked again", "pre-tool-use-hook",
		recorded(t, "single-03-PreToolUse", "tool_use_id", "other"), 1)
	w.writeSettings("warden-main", `{"dedup_enabled":false}`)
	w.wantNew("without dedup", "stop-hook", stop("three"), 1)
	w.wantNew("without dedup again", "stop-hook", stop("three"), 1)

	type logLine struct {
		State, Pressure, Outcome, Trigger string
		AgentID                           string  `json:"agent_id"`
		Content                           string  `json:"content_source"`
		DurationMS                        float64 `json:"duration_ms"`
	}
	var fires []logLine
	for line := range strings.Lines(w.infoLines()) {
		var f logLine
		kit.NoError(w, json.Unmarshal([]byte(line), &f))
		kit.True(t, f.State != "" && f.Pressure == "unknown" && f.Content != "" &&
			f.DurationMS > 0 && f.AgentID == "warden", "log line %s", line)
		fires = append(fires, f)
	}
	kit.True(t, len(fires) == 13 && fires[1].Outcome == "unchanged" &&
		fires[0].Outcome == "queued" && fires[0].Trigger == "response_complete", "%d lines: %+v",
		len(fires), fires)
}

// Two hooks run at one moment, a hundred times: each line of the pane is sent once, and
// none is lost.
func TestWake_ConcurrentHooksSendOnce(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 10
	}
	w := newWorld(t, "warden-main", "echo ready; while read l; do for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo \"$l $n.\"; done; done")
	w.writeSettings("warden-main", `{"min_context_lines":0}`)
	w.awaitOnPane("ready")
	w.runTmux("set-option", "-t", "warden-main", "history-limit", "5000")
	stop, idle := recorded(t, "single-07-Stop", "last_assistant_message", nil),
		recorded(t, "timing-09-Notification")
	w.runHook("stop-hook", stop)
	first := len(w.wakeMessages())
	for run := range runs {
		key := fmt.Sprintf("run-%d", run)
		w.runTmux("send-keys", "-t", w.pane, "-l", key)
		var both sync.WaitGroup
		for _, fire := range []func(){
			func() { w.runHook("stop-hook", stop) },
			func() { w.runHook("notification-idle-hook", idle) },
			func() { w.runTmux("send-keys", "-t", w.pane, "Enter") }, // the lines come in between
		} {
			both.Go(fire)
		}
		both.Wait()
		w.awaitOnPane(key + " 12.")
		w.runHook("stop-hook", stop)
	}
	var sent strings.Builder
	for _, message := range w.wakeMessages()[first:] {
		sent.WriteString(section(messageText(message), "CONTENT") + "\n")
	}
	for run := range runs {
		for n := 1; n <= 12; n++ {
			line := fmt.Sprintf("\nrun-%d %d.\n", run, n)
			kit.Equalf(t, strings.Count("\n"+sent.String(), line), 1, "line %q is sent", line)
		}
	}
}

// Any name of a session stays inside our folder, and is sent as tmux has it.
func TestWake_AnySessionName(t *testing.T) {
	w := newWorld(t, "plain", quiet)
	for _, name := range []string{"two words", "two  blanks", " around ", "a/b", "../../up", "..",
		"emoji 🙂", strings.Repeat("x", 200), "it's $(touch x)", "-dash", "%5", "épic"} {
		w.runTmux("rename-session", "-t", w.pane, "--", name)
		// tmux keeps no dots
		name = w.runTmux("display-message", "-p", "-t", w.pane, "#{session_name}")
		b := kit.JSON(t, name)
		w.writeRegistry(`{"agents":[{"agent_id":"a","tmux_session_name":` + string(b) +
			`,"openclaw_session_id":"x","hook_settings":{"dedup_enabled":false}}]}`)
		w.wantNew(name, "stop-hook", recorded(t, "single-07-Stop"), 1)
		message := w.lastMessageText()
		kit.Containsf(t, message, "tmux_session_name: "+name+"\n", "%q", name)
		// The actions are commands for a shell, which has to produce the name unchanged.
		action := strings.Split(section(message, "AVAILABLE ACTIONS"), "\n")[6]
		if got := w.runShell("set -- " + strings.TrimPrefix(action,
			"menu-driver.sh ") + `; printf %s "$1"`); got != name &&
			(got != w.pane || !strings.ContainsAny(name[:1], "-%")) {
			// which menu-driver would take for something else
			t.Errorf("%q comes out of %q as %q", name, action, got)
		}
	}
	w.wantWritesOnlyIn(w.path("home"))
}

// Whatever is wrong with what a hook reads, it ends with 0 and logs that once.
func TestWake_BadInputIsLoggedOnce(t *testing.T) {
	w := newQuietWorld(t)
	good := kit.ReadFile(w, w.path("registry.json"))
	stop := recorded(t, "single-07-Stop")
	lines := func() int { return strings.Count(w.errorLines(), "\n") }
	step := func(what string, event []byte, messages, logged int) {
		t.Helper()
		before := lines()
		w.wantNew(what, "stop-hook", event, messages)
		kit.Equalf(t, lines()-before, logged, "%s: lines in the log:\n%s", what, w.errorLines())
	}
	kit.NoError(w, os.Remove(w.path("registry.json")))
	step("no registry", stop, 0, 1)
	w.writeRegistry("{")
	step("a broken registry at first", stop, 0, 1)
	kit.NoError(w, os.Remove(w.path("registry.json")))
	kit.NoError(w, syscall.Mkfifo(w.path("registry.json"), 0o600))
	step("a pipe for a registry", stop, 0, 1)
	kit.NoError(w, os.Remove(w.path("registry.json")))
	w.writeRegistry(good)
	step("mended", stop, 1, 0)
	w.writeRegistry(good[:len(good)/2])
	step("broken by an edit", recorded(t, "single-07-Stop", "last_assistant_message",
		"while broken"), 0, 1)
	w.writeRegistry(`{"agents":[` + agentJSON("warden", "warden-main",
		`{"pane_capture_lines":"x"}`) + `]}`)
	step("an odd setting", recorded(t, "single-07-Stop", "last_assistant_message", "odd"), 1, 1)
	w.writeRegistry(strings.Replace(good, "11111111-2222", "", 1))
	step("nobody to send to", recorded(t, "single-07-Stop", "last_assistant_message",
		"to nobody"), 0, 1)
	w.writeRegistry(`{"agents":[{"openclaw_session_id":"1"},{"agent_id":7,"tmux_session_name":["warden-main"]},3]}`)
	step("entries that are passed over", recorded(t, "single-07-Stop", "last_assistant_message",
		"to nobody"), 0, 3)
	w.writeRegistry(`{"agents":[{"agent_id":"warden","enabled":"no","tmux_session_name":"warden-main"}]}`)
	step("disabled in a word", recorded(t, "single-07-Stop", "last_assistant_message",
		"to nobody"), 0, 1)
	w.writeRegistry(`{"agents":[{"tmux_session_name":"warden-main","openclaw_session_id":"1"}]}`)
	step("no agent_id", recorded(t, "single-07-Stop", "last_assistant_message",
		"to the session"), 1, 0)
	all := w.wakeMessages()
	kit.Equalf(t, all[len(all)-1].Wake.AgentName, "warden-main", "agent")
	kit.Contains(t, w.lastMessageText(), "agent_id: warden-main\n")
	w.writeRegistry(good)
	step("sent when it is known whom", recorded(t, "single-07-Stop", "last_assistant_message",
		"to nobody"), 1, 0)
	for _, odd := range []string{``, `{`, `[]`, `{"hook_event_name":7}`} {
		step("stdin "+odd, []byte(odd), 0, 1)
	}
	step("members of odd types", []byte(`{"hook_event_name":"Stop","last_assistant_message":{"a":1},"transcript_path":[1],"stop_hook_active":"no"}`), 0, 0)
	step("no transcript there", recorded(t, "single-07-Stop", "last_assistant_message", nil,
		"transcript_path", "/nowhere/x.jsonl"), 0, 0)
	step("a folder for a transcript", recorded(t, "single-07-Stop", "last_assistant_message", nil,
		"transcript_path", t.TempDir()), 0, 1)
	w.runTmux("kill-server")
	step("tmux is gone", recorded(t, "single-07-Stop", "last_assistant_message", "and yet"), 1, 1)
	kit.Equal(t, w.lastContent(), "and yet")
	kit.Contains(t, w.lastMessageText(), "state: error")
	step("tmux is gone, and the session unknown",
		recorded(t, "single-07-Stop", "session_id", "another"), 0, 1)
}

// A tmux that hangs is not waited for.
func TestWake_HangingTmux(t *testing.T) {
	w := newQuietWorld(t)
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	var pid int
	_, err := fmt.Sscan(w.runTmux("display-message", "-p", "#{pid}"), &pid)
	kit.NoError(w, err)
	kit.NoError(w, syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message",
		"while it hangs"))
	kit.Equalf(t, len(w.wakeMessages()), 2, "messages")
	kit.Equal(t, w.lastContent(), "while it hangs")
}
