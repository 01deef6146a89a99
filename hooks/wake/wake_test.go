package wake

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

const quiet = "echo ready; exec sleep 600"

// If a hook is not meant, it sends nothing and leaves nothing behind.
func TestWake_IrrelevantEvents(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	stop := recorded(t, "single-07-Stop")
	for name, c := range map[string]struct {
		hook    string
		event   []byte
		env     map[string]string
		session string // of the registry
	}{
		"sent back already":         {"stop-hook", recorded(t, "single-07-Stop", "stop_hook_active", true), nil, "warden-main"},
		"not in tmux":               {"stop-hook", stop, map[string]string{"TMUX": ""}, "warden-main"},
		"unknown session":           {"stop-hook", stop, nil, "other"},
		"another event":             {"stop-hook", recorded(t, "timing-09-Notification"), nil, "warden-main"},
		"a subagent's end":          {"stop-hook", recorded(t, "single-07-Stop", "hook_event_name", "SubagentStop"), nil, "warden-main"},
		"another tool":              {"pre-tool-use-hook", recorded(t, "single-03-PreToolUse", "tool_name", "Bash"), nil, "warden-main"},
		"another notification":      {"notification-idle-hook", recorded(t, "timing-05-Notification"), nil, "warden-main"},
		"another notification, too": {"notification-permission-hook", recorded(t, "timing-09-Notification"), nil, "warden-main"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			w.env = map[string]string{}
			for k, v := range map[string]string{"HOME": t.TempDir(), "GCHAT_WAKE_REGISTRY": filepath.Join(t.TempDir(), "r.json"), "PATH": os.Getenv("PATH"), "TMUX": w.path("s") + ",1,0", "TMUX_PANE": w.pane} {
				w.env[k] = v
			}
			for k, v := range c.env {
				w.env[k] = v
			}
			w.must(os.WriteFile(w.env["GCHAT_WAKE_REGISTRY"], []byte(`{"agents":[`+agentJSON("zarden", c.session, "")+`]}`), 0o600))
			kit.Equalf(t, w.runHook(c.hook, c.event), "", "printed")
			kit.Equalf(t, len(w.wakeMessages()), 0, "messages")
			if log, _ := os.ReadFile(state.LogPath(w.getenv)); len(log) > 0 {
				t.Errorf("not silent: %s", log)
			}
			if dirs, _ := filepath.Glob(filepath.Join(w.userState(), "wake", "sessions", "*")); len(dirs) > 0 {
				t.Errorf("left %q", dirs)
			}
		})
	}
}

// An event without a name counts as the hook's own event.
func TestWake_UnnamedEvent(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	for i, c := range []struct {
		hook, event, trigger string
		name                 any
	}{
		{"stop-hook", "single-07-Stop", "response_complete", ""}, {"pre-tool-use-hook", "single-03-PreToolUse", "ask_user_question", nil},
		{"notification-idle-hook", "timing-09-Notification", "idle_prompt", nil}, {"notification-permission-hook", "timing-05-Notification", "permission_prompt", nil},
		{"session-end-hook", "timing-10-SessionEnd", "session_end", nil}, {"pre-compact-hook", "timing-10-SessionEnd", "pre_compact", nil},
	} {
		w.writeSettings("warden-main", `{"dedup_enabled":false}`)
		w.runHook(c.hook, recorded(t, c.event, "hook_event_name", c.name))
		if all := w.wakeMessages(); len(all) != i+1 || all[i].Wake.Trigger != c.trigger {
			t.Fatalf("%s: %d messages\n%s", c.hook, len(all), w.errorLines())
		}
	}
	w.runHook("stop-hook", []byte(`{"last_assistant_message":"words"}`))
	if all := w.wakeMessages(); len(all) != 7 || section(w.lastMessageText(), "CONTENT") != "words" {
		t.Errorf("%d messages\n%s", len(all), w.errorLines())
	}
	// What stops an event that has a name stops one that has none, too.
	w.runHook("stop-hook", []byte(`{"stop_hook_active":true}`))
	w.runHook("pre-tool-use-hook", []byte(`{"tool_name":"Bash"}`))
	w.runHook("notification-idle-hook", []byte(`{"notification_type":"permission_prompt"}`))
	if all := w.wakeMessages(); len(all) != 7 || w.errorLines() != "" {
		t.Errorf("%d messages\n%s", len(all), w.errorLines())
	}
}

// If no other hook is registered, this one records what status says about a session.
func TestWake_RecordsTheSession(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	project, _ := filepath.Abs(state.ProjectDir(w.getenv))
	all, _ := state.SessionsIn(w.userState()).All()
	if len(all) != 1 || all[0].StartedAt.IsZero() || all[0].ProjectDir != project || all[0].TmuxSession != "warden-main" {
		t.Errorf("got %+v", all)
	}
}

// What the agent knows is not sent again. What is new is sent, whichever hook runs first.
func TestWake_KnownTextIsNotRepeated(t *testing.T) {
	w := newWorld(t, "warden-main", "echo ready; while read l; do echo \"$l\"; done")
	w.awaitOnPane("ready")
	said := func(text string) []byte { return recorded(t, "single-07-Stop", "last_assistant_message", text) }
	idle := recorded(t, "timing-09-Notification")
	step := func(what, hook string, event []byte, want int) {
		t.Helper()
		before := len(w.wakeMessages())
		if w.runHook(hook, event); len(w.wakeMessages())-before != want {
			t.Errorf("%s: %d messages, want %d", what, len(w.wakeMessages())-before, want)
		}
	}
	typed := 0
	typing := func() {
		typed++
		w.runTmux("send-keys", "-t", w.pane, "-l", fmt.Sprintf("typed %d", typed))
		w.runTmux("send-keys", "-t", w.pane, "Enter")
		w.waitUntil("the line is echoed", func() bool {
			return strings.Count(w.runTmux("capture-pane", "-p", "-t", w.pane), fmt.Sprintf("typed %d", typed)) == 2
		})
	}
	step("the first", "stop-hook", said("one"), 1)
	step("the same", "stop-hook", said("one"), 0)
	step("idle after it", "notification-idle-hook", idle, 0)
	step("other words", "stop-hook", said("two"), 1)
	typing()
	step("the same words, another screen", "stop-hook", said("two"), 1)
	typing()
	step("idle, another screen", "notification-idle-hook", idle, 1)
	if last := w.lastMessageText(); !strings.Contains(section(last, "CONTENT"), "typed 2") {
		t.Errorf("told\n%s", last)
	}
	step("words after the screen was told", "stop-hook", said("three"), 1)
	step("the end is always told", "session-end-hook", recorded(t, "timing-10-SessionEnd"), 1)
	ask := recorded(t, "single-03-PreToolUse")
	step("a question", "pre-tool-use-hook", ask, 1)
	step("from a second install", "pre-tool-use-hook", ask, 0)
	step("asked again", "pre-tool-use-hook", recorded(t, "single-03-PreToolUse", "tool_use_id", "other"), 1)
	w.writeSettings("warden-main", `{"dedup_enabled":false}`)
	step("without dedup", "stop-hook", said("three"), 1)
	step("without dedup again", "stop-hook", said("three"), 1)

	type logLine struct {
		State, Pressure, Outcome, Trigger string
		AgentID                           string  `json:"agent_id"`
		Content                           string  `json:"content_source"`
		DurationMS                        float64 `json:"duration_ms"`
	}
	var fires []logLine
	for line := range strings.Lines(w.infoLines()) {
		var f logLine
		w.must(json.Unmarshal([]byte(line), &f))
		if f.State == "" || f.Pressure != "unknown" || f.Content == "" || f.DurationMS <= 0 || f.AgentID != "warden" {
			t.Errorf("log line %s", line)
		}
		fires = append(fires, f)
	}
	if len(fires) != 13 || fires[1].Outcome != "unchanged" || fires[0].Outcome != "queued" || fires[0].Trigger != "response_complete" {
		t.Errorf("%d lines: %+v", len(fires), fires)
	}
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
	stop, idle := recorded(t, "single-07-Stop", "last_assistant_message", nil), recorded(t, "timing-09-Notification")
	w.runHook("stop-hook", stop)
	first := len(w.wakeMessages())
	for run := range runs {
		key := fmt.Sprintf("run-%d", run)
		w.runTmux("send-keys", "-t", w.pane, "-l", key)
		var both sync.WaitGroup
		for _, fire := range []func(){
			func() { w.runHook("stop-hook", stop) }, func() { w.runHook("notification-idle-hook", idle) },
			func() { w.runTmux("send-keys", "-t", w.pane, "Enter") }, // the lines come in between
		} {
			both.Go(fire)
		}
		both.Wait()
		w.awaitOnPane(key + " 12.")
		w.runHook("stop-hook", stop)
	}
	var told strings.Builder
	for _, message := range w.wakeMessages()[first:] {
		told.WriteString(section(messageText(message), "CONTENT") + "\n")
	}
	for run := range runs {
		for n := 1; n <= 12; n++ {
			line := fmt.Sprintf("\nrun-%d %d.\n", run, n)
			if got := strings.Count("\n"+told.String(), line); got != 1 {
				t.Fatalf("line %q is told %d times", strings.TrimSpace(line), got)
			}
		}
	}
}

// Any name of a session stays inside our folder, and is sent as tmux has it.
func TestWake_AnySessionName(t *testing.T) {
	w := newWorld(t, "plain", quiet)
	for _, name := range []string{"two words", "two  blanks", " around ", "a/b", "../../up", "..", "emoji 🙂", strings.Repeat("x", 200), "it's $(touch x)", "-dash", "%5", "épic"} {
		w.runTmux("rename-session", "-t", w.pane, "--", name)
		// tmux keeps no dots
		name = w.runTmux("display-message", "-p", "-t", w.pane, "#{session_name}")
		b, _ := json.Marshal(name)
		w.writeRegistry(`{"agents":[{"agent_id":"a","tmux_session_name":` + string(b) + `,"openclaw_session_id":"x","hook_settings":{"dedup_enabled":false}}]}`)
		before := len(w.wakeMessages())
		w.runHook("stop-hook", recorded(t, "single-07-Stop"))
		all := w.wakeMessages()
		if len(all) != before+1 {
			t.Errorf("%q: %d messages", name, len(all)-before)
			continue
		}
		message := messageText(all[before])
		kit.Containsf(t, message, "tmux_session_name: "+name+"\n", "%q", name)
		// The actions are commands for a shell, which has to produce the name unchanged.
		action := strings.Split(section(message, "AVAILABLE ACTIONS"), "\n")[6]
		if got := w.runShell("set -- " + strings.TrimPrefix(action, "menu-driver.sh ") + `; printf %s "$1"`); got != name && (got != w.pane || !strings.ContainsAny(name[:1], "-%")) {
			// which menu-driver would take for something else
			t.Errorf("%q comes out of %q as %q", name, action, got)
		}
	}
	w.wantWritesOnlyIn(w.path("home"))
}

func TestRegistry_FindsTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ registry, session, want string }{
		"exact":                        {`{"agents":[{"agent_id":"a","tmux_session_name":"a-main"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "b"},
		"by the agent's id":            {`{"agents":[{"agent_id":"a","tmux_session_name":"zzz"}]}`, "a-main-2", "a"},
		"the id alone is no beginning": {`{"agents":[{"agent_id":"a"}]}`, "a", ""},
		"another word":                 {`{"agents":[{"agent_id":"a"}]}`, "ab-main", ""},
		"the longest":                  {`{"agents":[{"agent_id":"a"},{"agent_id":"a-b"},{"agent_id":"a-b-c-d"}]}`, "a-b-c", "a-b"},
		"exact before longest":         {`{"agents":[{"agent_id":"a-b"},{"agent_id":"q","tmux_session_name":"a-b-c"}]}`, "a-b-c", "q"},
		"disabled":                     {`{"agents":[{"agent_id":"a","enabled":false,"tmux_session_name":"a-x"},{"agent_id":"q"}]}`, "a-x", ""},
		"disabled twin":                {`{"agents":[{"agent_id":"a","enabled":false,"tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "b"},
		"twins":                        {`{"agents":[{"agent_id":"a","tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":"x"}]}`, "x", "a"},
		"odd entries":                  {`{"agents":[null,3,"x",[],{"agent_id":7},{"tmux_session_name":"x"},{"agent_id":"b","tmux_session_name":["x"]},{"agent_id":"c","tmux_session_name":"x"}]}`, "x", "x"},
		"no id, exact":                 {`{"agents":[{"agent_id":"a","tmux_session_name":"y"},{"tmux_session_name":"x"}]}`, "x", "x"},
		"no id is no beginning":        {`{"agents":[{"tmux_session_name":"x"}]}`, "x-main", ""},
		"no id, disabled":              {`{"agents":[{"tmux_session_name":"x","enabled":false}]}`, "x", ""},
		"no id, no session":            {`{"agents":[{"enabled":true}]}`, "", ""},
		"twins, one to nobody":         {`{"agents":[{"agent_id":"a","tmux_session_name":"x","openclaw_session_id":""},{"agent_id":"b","tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "b"},
		"twins, one to Chat":           {`{"agents":[{"agent_id":"a","tmux_session_name":"x","hook_settings":{"deliver":"chat"}},{"agent_id":"b","tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "a"},
		"twins, the usable one is off": {`{"agents":[{"agent_id":"a","tmux_session_name":"x"},{"agent_id":"b","enabled":false,"tmux_session_name":"x","openclaw_session_id":"1"}]}`, "x", "a"},
		"a byte order mark":            {"\xef\xbb\xbf" + `{"agents":[{"agent_id":"a","tmux_session_name":"x"}]}`, "x", "a"},
		"no agents":                    {`{}`, "x", ""},
		"null":                         {`{"agents":null,"hook_settings":null}`, "x", ""},
	} {
		r, err := parseRegistry([]byte(c.registry))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		a, ok := r.agentForSession(c.session)
		if ok != (c.want != "") || ok && a.id != c.want {
			t.Errorf("%s: %q %v, want %q", name, a.id, ok, c.want)
		}
	}
	r, err := parseRegistry([]byte(`{"agents":[{"agent_id":"a"},{"agent_id":"a","openclaw_session_id":"1"}]}`))
	kit.NoError(t, err)
	if a, _ := r.agentForSession("a-main"); a.openclawSession != "1" {
		t.Errorf("of two with one id: %+v", a)
	}
	for _, off := range []string{"false", "0", "null", "[]", `"no"`, `"false"`, `"off"`, `"No"`, `"OFF"`, `""`, `"0"`, `1`, `"yes"`} {
		r, err := parseRegistry([]byte(`{"agents":[{"agent_id":"a","tmux_session_name":"x","enabled":` + off + `}]}`))
		kit.NoError(t, err)
		if _, ok := r.agentForSession("x"); ok || (len(r.problems) == 1) == (off == "false") {
			t.Errorf("enabled: %s: %v %q", off, ok, r.problems)
		}
	}
	for _, broken := range []string{"", "{", "null", "[]", `"x"`, "null x", `{"agents":{}}`, `{"agents":3}`} {
		if _, err := parseRegistry([]byte(broken)); err == nil || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "struct") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestRegistry_ReadsSettings(t *testing.T) {
	r, err := parseRegistry([]byte(`{"hook_settings":{"pane_capture_lines":7,"hook_mode":"bidirectional","transcript_extract_chars":30,"other":1},
		"agents":[{"agent_id":"a","hook_settings":{"pane_capture_lines":9,"min_context_lines":0,"dedup_enabled":false,"deliver":"both"}},
		{"agent_id":"b","hook_settings":{"pane_capture_lines":"many","hook_mode":"x","dedup_enabled":1,"context_pressure_threshold":-4,"min_context_lines":1.5e9,"deliver":"fax"}},
		{"agent_id":"c","hook_settings":[]}, {"agent_id":"d","hook_settings":{"deliver":"chat","transcript_extract_chars":2000000000}}]}`))
	kit.NoError(t, err)
	global := defaultSettings
	global.paneLines, global.isBidirectional, global.transcriptChars = 7, true, 30
	a, d := global, global
	a.paneLines, a.minPaneLines, a.skipsKnown, a.toChat = 9, 0, false, true
	d.toAgent, d.toChat, d.transcriptChars = false, true, maxMessageChars
	for i, want := range []settings{a, global, global, d} {
		kit.Equalf(t, r.agents[i].settings, want, "agent %d", i)
	}
	kit.Equalf(t, len(r.problems), 7, "problems: %q", r.problems)
}

// Whatever is wrong with what a hook reads, it ends with 0 and logs that once.
func TestWake_BadInputIsLoggedOnce(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	good, err := os.ReadFile(w.path("registry.json"))
	w.must(err)
	stop := recorded(t, "single-07-Stop")
	lines := func() int { return strings.Count(w.errorLines(), "\n") }
	step := func(what string, event []byte, messages, logged int) {
		t.Helper()
		sent, said := len(w.wakeMessages()), lines()
		w.runHook("stop-hook", event)
		if n := len(w.wakeMessages()) - sent; n != messages {
			t.Errorf("%s: %d messages, want %d", what, n, messages)
		}
		if n := lines() - said; n != logged {
			t.Errorf("%s: %d lines in the log, want %d:\n%s", what, n, logged, w.errorLines())
		}
	}
	w.must(os.Remove(w.path("registry.json")))
	step("no registry", stop, 0, 1)
	w.writeRegistry("{")
	step("a broken registry at first", stop, 0, 1)
	w.must(os.Remove(w.path("registry.json")))
	w.must(syscall.Mkfifo(w.path("registry.json"), 0o600))
	step("a pipe for a registry", stop, 0, 1)
	w.must(os.Remove(w.path("registry.json")))
	w.writeRegistry(string(good))
	step("mended", stop, 1, 0)
	w.writeRegistry(string(good[:len(good)/2]))
	step("broken by an edit", recorded(t, "single-07-Stop", "last_assistant_message", "while broken"), 0, 1)
	w.writeRegistry(`{"agents":[` + agentJSON("warden", "warden-main", `{"pane_capture_lines":"x"}`) + `]}`)
	step("an odd setting", recorded(t, "single-07-Stop", "last_assistant_message", "odd"), 1, 1)
	w.writeRegistry(strings.Replace(string(good), "11111111-2222", "", 1))
	step("nobody to tell", recorded(t, "single-07-Stop", "last_assistant_message", "to nobody"), 0, 1)
	w.writeRegistry(`{"agents":[{"openclaw_session_id":"1"},{"agent_id":7,"tmux_session_name":["warden-main"]},3]}`)
	step("entries that are passed over", recorded(t, "single-07-Stop", "last_assistant_message", "to nobody"), 0, 3)
	w.writeRegistry(`{"agents":[{"agent_id":"warden","enabled":"no","tmux_session_name":"warden-main"}]}`)
	step("disabled in a word", recorded(t, "single-07-Stop", "last_assistant_message", "to nobody"), 0, 1)
	w.writeRegistry(`{"agents":[{"tmux_session_name":"warden-main","openclaw_session_id":"1"}]}`)
	step("no agent_id", recorded(t, "single-07-Stop", "last_assistant_message", "to the session"), 1, 0)
	if all := w.wakeMessages(); all[len(all)-1].Wake.AgentName != "warden-main" || !strings.Contains(w.lastMessageText(), "agent_id: warden-main\n") {
		t.Errorf("told\n%s", w.lastMessageText())
	}
	w.writeRegistry(string(good))
	step("told when it is known whom", recorded(t, "single-07-Stop", "last_assistant_message", "to nobody"), 1, 0)
	for _, odd := range []string{``, `{`, `[]`, `{"hook_event_name":7}`} {
		step("stdin "+odd, []byte(odd), 0, 1)
	}
	step("members of odd types", []byte(`{"hook_event_name":"Stop","last_assistant_message":{"a":1},"transcript_path":[1],"stop_hook_active":"no"}`), 0, 0)
	step("no transcript there", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", "/nowhere/x.jsonl"), 0, 0)
	step("a folder for a transcript", recorded(t, "single-07-Stop", "last_assistant_message", nil, "transcript_path", t.TempDir()), 0, 1)
	w.runTmux("kill-server")
	step("tmux is gone", recorded(t, "single-07-Stop", "last_assistant_message", "and yet"), 1, 1)
	if m := w.lastMessageText(); !strings.Contains(m, "[CONTENT]\nand yet\n") || !strings.Contains(m, "state: error") {
		t.Errorf("told\n%s", m)
	}
	step("tmux is gone, and the session unknown", recorded(t, "single-07-Stop", "session_id", "another"), 0, 1)
}

// A tmux that hangs is not waited for.
func TestWake_HangingTmux(t *testing.T) {
	w := newWorld(t, "warden-main", quiet)
	w.awaitOnPane("ready")
	w.runHook("stop-hook", recorded(t, "single-07-Stop"))
	var pid int
	_, err := fmt.Sscan(w.runTmux("display-message", "-p", "#{pid}"), &pid)
	w.must(err)
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	w.runHook("stop-hook", recorded(t, "single-07-Stop", "last_assistant_message", "while it hangs"))
	if m := w.wakeMessages(); len(m) != 2 || section(w.lastMessageText(), "CONTENT") != "while it hangs" {
		t.Errorf("%d messages", len(m))
	}
}

func TestWakeMessage_TextIsCut(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "bcd"}, {"äöü", 2, "öü"}, {"🙂🙃", 1, "🙃"}} {
		kit.Equalf(t, lastChars(c.s, c.n), c.want, "%q to %d", c.s, c.n)
	}
	kit.Equal(t, firstChars("🙂🙃", 1), "🙂")
}

// The table in docs/openclaw.md matches the code that reads the settings: the same
// members, their defaults, and a value that each of them refuses.
func TestRegistry_SettingsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/openclaw.md")
	kit.NoError(t, err)
	code, err := os.ReadFile("registry.go")
	kit.NoError(t, err)
	unknown := map[string]bool{}
	for _, m := range regexp.MustCompile(`in\["(\w+_\w+|deliver)"\]|\{"(\w+)", &s\.`).FindAllStringSubmatch(string(code), -1) {
		unknown[m[1]+m[2]] = true
	}
	for _, entry := range []string{"agent_id", "tmux_session_name", "openclaw_session_id", "hook_settings"} {
		delete(unknown, entry)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		name, value := row[1], row[2]
		delete(unknown, name)
		if !json.Valid([]byte(value)) {
			value = strconv.Quote(value)
		}
		with := func(value string) (settings, []string) {
			r := &registry{}
			return r.readSettings(defaultSettings, json.RawMessage(fmt.Sprintf(`{%q: %s}`, name, value)), "here"), r.problems
		}
		if is, problems := with(value); is != defaultSettings || len(problems) > 0 {
			t.Errorf("%s: %s is not its default: %+v %q", name, value, is, problems)
		}
		if _, problems := with(`"nonsense"`); len(problems) != 1 || !strings.HasPrefix(problems[0], "here."+name+" is not") {
			t.Errorf("%s: nonsense is not refused: %q", name, problems)
		}
	}
	for _, example := range regexp.MustCompile(`"hook_settings": (\{[^}]*\})`).FindAllStringSubmatch(string(page), -1) {
		set, ok := objectMembers([]byte(example[1]))
		for name := range set {
			ok = ok && slices.ContainsFunc(rows, func(row []string) bool { return row[1] == name })
		}
		if !ok {
			t.Errorf("the page shows %s", example[1])
		}
	}
	if len(rows) != 8 || len(unknown) > 0 {
		t.Errorf("%d rows; the code also reads %v", len(rows), unknown)
	}
}
