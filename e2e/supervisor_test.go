package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// wakeHooks are all wake hooks, as a person registers them.
func wakeHooks(t testing.TB) hooks {
	on := func(name, matcher string) []hook {
		return []hook{{Matcher: matcher, Command: builtProgram(t) + " " + name, Timeout: 60}}
	}
	return hooks{
		"Stop": on("stop-hook", ""), "PreToolUse": on("pre-tool-use-hook", "AskUserQuestion"),
		"SessionEnd": on("session-end-hook", ""), "PreCompact": on("pre-compact-hook", ""),
		"Notification": append(on("notification-idle-hook", "idle_prompt"),
			on("notification-permission-hook", "permission_prompt")...),
	}
}

// stagedOpenClaw stands in for the agent's CLI: it keeps each message in a file of its
// own. hang and reply say what else it does.
const stagedOpenClaw = `
f=$(mktemp "$WAKE_E2E/messages/$(date +%s%N)-XXXXXX")
printf '%s' "$5" > "$f" && mv "$f" "$f.txt"
[ ! -e "$WAKE_E2E/hang" ] || exec sleep 600
[ ! -e "$WAKE_E2E/reply" ] || cat "$WAKE_E2E/reply"
`

// supervisedSession is a session with an agent that is told of it.
type supervisedSession struct {
	*session
	dir string
}

func startSupervised(t *testing.T, c claude, settings string, hang bool,
	script ...turn) supervisedSession {
	t.Helper()
	dir := t.TempDir()
	kit.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	kit.NoError(t, os.Mkdir(filepath.Join(dir, "messages"), 0o700))
	writeScript(t, filepath.Join(dir, "bin/openclaw"), stagedOpenClaw)
	kit.WriteFile(t, filepath.Join(dir, "registry.json"),
		`{"hook_settings":`+settings+
			`,"agents":[{"agent_id":"warden","enabled":true,"tmux_session_name":"claude",`+
			`"openclaw_session_id":"1111-2222"}]}`, 0o600)
	if hang {
		kit.WriteFile(t, filepath.Join(dir, "hang"), "", 0o600)
	}
	kit.NoError(t, os.Symlink(builtProgram(t), filepath.Join(dir, "bin", "menu-driver.sh")))
	s := supervisedSession{dir: dir}
	s.session = startSession(t, c, config{
		Hooks:  wakeHooks(t),
		Script: script,
		Files:  map[string]string{personalConfig: `{"menu_decides": true}`},
		Env: []string{
			"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "WAKE_E2E=" + dir,
			"GCHAT_WAKE_REGISTRY=" + filepath.Join(dir, "registry.json"),
		},
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent was told:\n%s", strings.Join(s.wakeMessages(), "\n"))
		}
	})
	return s
}

func (s supervisedSession) wakeMessages() (all []string) {
	files, _ := filepath.Glob(filepath.Join(s.dir, "messages", "*.txt"))
	slices.Sort(files)
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all = append(all, string(b))
	}
	return all
}

// awaitWake waits for a message of this trigger that holds these parts.
func (s supervisedSession) awaitWake(trigger string, parts ...string) (told string) {
	s.t.Helper()
	bound.Until(s.t, fmt.Sprintf("the agent is told of %s with %q", trigger, parts), func() bool {
		for _, m := range s.wakeMessages() {
			if strings.Contains(m, "[TRIGGER]\ntype: "+trigger+"\n") && containsAll(m, parts) {
				told = m
				return true
			}
		}
		return false
	})
	return told
}

// runAction runs a line of a message's actions in a shell, as the agent would.
func (s supervisedSession) runAction(message, action string, more ...string) {
	s.t.Helper()
	_, actions, _ := strings.Cut(message, "[AVAILABLE ACTIONS]\n")
	for line := range strings.Lines(actions) {
		if !strings.Contains(line, " "+action) {
			continue
		}
		command, _, _ := strings.Cut(strings.TrimSpace(line), " <")
		env := append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"),
			"TMUX="+s.TMUX(), "HOME="+s.Home)
		runIn(s.t, "", env, "sh", "-c", strings.Join(append([]string{command}, more...), " "))
		return
	}
	s.t.Fatalf("no action %q in\n%s", action, message)
}

func TestSupervisor_HearsLastOutput(t *testing.T) {
	prompt := "The **last** words: \"ü\" 🙂 `x`\n\n- one\n- two"
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := startSupervised(t, c, "{}", false, turn{textBlock("The first words.")}, turn{
			textBlock("Let me look."),
			toolCall("Bash", map[string]any{"command": "true", "description": "Look"}),
		}, turn{textBlock(prompt)})
		s.Prompt("go ahead")
		m := s.awaitWake("response_complete",
			"[CONTENT]\nThe first words.\n\n[STATE HINT]\nstate: idle\n",
			"tmux_session_name: claude\n")
		s.WaitIdle()
		s.runAction(m, "type", "'and now'")
		s.awaitWake("response_complete", "[CONTENT]\n"+prompt+"\n\n[STATE HINT]\nstate: idle\n")
		s.WaitIdle()
		kit.Equalf(s.t, len(s.wakeMessages()), 2, "messages for two turns")
		s.Quit()
		checkLacks(t, s.awaitWake("session_end", "state: terminated"), "menu-driver")
	})
}

// The agent sees the question before it is answered, the dialog does not wait for the
// agent, and the message's own lines answer it.
func TestSupervisor_AnswersQuestion(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := startSupervised(t, c, "{}", true, turn{questionCall(deployQuestion)}, thanksTurn)
		s.Prompt("go ahead")
		s.WaitScreen(firstOption)
		m := s.awaitWake("ask_user_question",
			"[ASK USER QUESTION]\nQuestion: "+deployQuestion.Question+"\nHeader: "+
				deployQuestion.Header+"\nMulti-select: no\nOptions:\n  1. "+
				deployQuestion.Options[0].Label,
			"state: awaiting_user_input")
		s.runAction(m, "snapshot")
		s.runAction(m, "choose", "2")
		s.awaitResult(1,
			fmt.Sprintf(`"%s"="%s"`, deployQuestion.Question, deployQuestion.Options[1].Label))
		s.WaitIdle()
	})
}

// A decision to block sends the session on, once.
func TestSupervisor_SendsSessionOn(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := startSupervised(t, c, `{"hook_mode":"bidirectional"}`, false,
			turn{textBlock("I stop here.")}, turn{textBlock("Then I go on.")})
		reply := `{"result":{"payloads":[{"text":"{\"decision\":\"block\",\"reason\":\"Do F2.2 of the plan, too.\"}"}]}}`
		kit.NoError(t, os.WriteFile(filepath.Join(s.dir, "reply"), []byte(reply), 0o600))
		s.Prompt("go ahead")
		s.API.WaitText(t, "Do F2.2 of the plan, too.")
		s.WaitDone("Then I go on.")
		kit.Equalf(t, len(s.wakeMessages()), 1, "messages: the agent decides once")
	})
}

// Claude Code notifies of every dialog some seconds after it is drawn. The agent hears of
// a tool's permission, and sees what Claude wants to run, but not twice of a question.
func TestSupervisor_SeesPermission(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := startSupervised(t, c, "{}", false, turn{questionCall(deployQuestion)}, turn{
			toolCall("Bash", map[string]any{
				"command": "mkdir -p out/of/reach", "description": "Make a folder",
			}),
		}, thanksTurn)
		s.Prompt("go ahead")
		m := s.awaitWake("ask_user_question")
		s.awaitLog(`"trigger":"permission_prompt"`, `"outcome":"unchanged"`)
		kit.Equalf(t, len(s.wakeMessages()), 1, "messages for one question")
		s.runAction(m, "type", "'whatever is quick'")
		s.awaitResult(1, fmt.Sprintf(`"%s"="whatever is quick"`, deployQuestion.Question))
		m = s.awaitWake("permission_prompt", "[CONTENT]\n", "mkdir -p out/of/reach",
			"state: permission_prompt")
		s.runAction(m, "choose", "1")
		s.API.WaitToolResult(t, 2)
		s.WaitIdle()
	})
}

// awaitLog waits for a line of the hooks' log with these parts.
func (s supervisedSession) awaitLog(parts ...string) {
	s.t.Helper()
	bound.Until(s.t, fmt.Sprintf("the hooks log a line with %q", parts), func() bool {
		for line := range strings.Lines(s.readLog("gchat-hooks.log")) {
			if containsAll(line, parts) {
				return true
			}
		}
		return false
	})
}

// checkSendsClaudeOn is the whole way with both real ends: Claude Code wants to stop, its
// OpenClaw agent reads its words and sends it on.
func checkSendsClaudeOn(t *testing.T, c claude, o *openClaw) {
	o.setAnswer("Not yet:\n```json\n{\"decision\": \"block\", \"reason\": \"Do F2.2 of the plan, too.\"}\n```")
	registry := filepath.Join(t.TempDir(), "registry.json")
	agents := `{"hook_settings":{"hook_mode":"bidirectional","reply_seconds":120},"agents":[{"agent_id":"warden","tmux_session_name":"claude","openclaw_session_id":"supervisor"}]}`
	kit.NoError(t, os.WriteFile(registry, []byte(agents), 0o600))
	h := wakeHooks(t)
	h["Stop"][0].Timeout = 150
	s := startSession(t, c, config{
		Hooks:  h,
		Script: []turn{{textBlock("I stop here.")}, {textBlock("Then I go on.")}},
		Env: []string{
			"PATH=" + o.Bin + ":" + os.Getenv("PATH"), "GCHAT_WAKE_REGISTRY=" + registry,
		},
	})
	s.Prompt("go ahead")
	if heard := o.awaitMessage(t, "[TRIGGER]\ntype: response_complete",
		"[CONTENT]\nI stop here.\n\n[STATE HINT]"); !strings.HasPrefix(heard,
		"[SESSION IDENTITY]\nagent_id: warden\ntmux_session_name: claude\n") {
		t.Errorf("the agent heard %q", heard)
	}
	s.API.WaitText(t, "Do F2.2 of the plan, too.")
	s.WaitDone("Then I go on.")
}
