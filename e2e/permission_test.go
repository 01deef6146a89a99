package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// approveHooks are the hooks of the preset approve.
func approveHooks(t testing.TB) hooks {
	all := questionHooks(t, "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd")
	exe := shellLine(builtProgram(t))
	all["PermissionRequest"] = []hook{{Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}}
	all[formEvent] = []hook{{Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}}
	for _, event := range []string{"PostToolBatch", "PermissionDenied", "SubagentStop", "ElicitationResult"} {
		all[event] = []hook{{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}}
	}
	const dialogs = "permission_prompt|worker_permission_prompt|agent_needs_input|elicitation_dialog|elicitation_url_dialog"
	all["Notification"] = []hook{{Matcher: dialogs, Command: exe + " hook gchat-ask-user-forward", Timeout: 10}}
	all["Stop"] = append(all["Stop"], hook{Command: exe + " hook gchat-ask-user-rewake", Timeout: 86400, AsyncRewake: true})
	all["UserPromptSubmit"] = append(all["UserPromptSubmit"], hook{Command: exe + " hook gchat-session-event", Timeout: 10})
	all["SessionStart"] = []hook{{Matcher: "fork|resume", Command: exe + " hook gchat-ask-user-answered", Timeout: 10}}
	return all
}

// startApproving starts a session whose permissions, plans and next instruction are
// answered from its space.
func startApproving(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	cfg.Hooks = approveHooks(t)
	return startHooked(t, c, cfg)
}

func bash(command string) block {
	return toolCall("Bash", map[string]string{"command": command, "description": "make a folder"})
}

func TestAPermissionIsDecidedFromChat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply, told, says string
		made              bool
	}{
		"allowed":              {"yes", "", "Allowed: Bash: mkdir out", true},
		"denied with a reason": {"no, use git mv", "use git mv", "Reason: use git mv", false},
		"denied":               {"N", "denied this from the chat page", "Denied: Bash: mkdir out", false},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, cl claude) {
				b := startApproving(t, cl, config{Script: []turn{{textBlock("A folder."), bash("mkdir out")}, thanksTurn}})
				b.Prompt("go ahead")
				q := b.awaitPost("[Permission] Session:", "Bash: make a folder", "mkdir out", "Reply yes or no")
				b.WaitScreen("Do you want to proceed?") // the dialog stands open beside it
				b.reply(q, "sure thing")
				b.awaitPost("[Not used]", "yes or no")
				b.reply(q, c.reply)
				b.awaitResult(1, c.told)
				if got := b.awaitPost("[Answered]", c.says); got.Thread.Name != q.Thread.Name {
					t.Errorf("confirmed in %s, asked in %s", got.Thread.Name, q.Thread.Name)
				}
				b.WaitScreen("Thanks, understood.")
				if _, err := os.Stat(filepath.Join(b.Dir, "out")); (err == nil) != c.made {
					t.Errorf("the folder: %v", err)
				}
			})
		})
	}
}

func TestAlwaysAsksNoMore(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{bash("mkdir -p out/x")}, {bash("mkdir -p out/y")}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "out/x", `"always" allows:`)
		b.reply(q, "Always")
		b.awaitResult(2)
		b.awaitPost("[Answered]", "Always allowed from now on:")
		b.WaitScreen("Thanks, understood.")
		for _, m := range b.space.Messages() {
			if strings.HasPrefix(m.Text, "[Permission]") && strings.Contains(m.Text, "out/y") {
				t.Error("it was asked for again")
			}
		}
	})
}

func TestAnEditIsShownAsADiff(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		cfg := config{Script: []turn{{}, {}, thanksTurn}}
		cfg.Prepare = func(_, project string) {
			file := filepath.Join(project, "a.txt")
			cfg.Script[0] = turn{toolCall("Read", map[string]string{"file_path": file})}
			cfg.Script[1] = turn{toolCall("Edit", map[string]string{"file_path": file, "old_string": "two\n", "new_string": "zwei\n"})}
			kit.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600))
		}
		b := startApproving(t, c, cfg)
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Permission]", "Edit: a.txt", "\n-two\n+zwei\n"), "1")
		b.awaitResult(2)
		b.awaitPost("[Answered]", "Allowed: Edit: a.txt")
	})
}

func TestAPermissionIsAnsweredInTheTerminalFirst(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"allowed": "1", "dismissed": "Escape"} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startApproving(t, c, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
				b.Prompt("go ahead")
				q := b.awaitPost("[Permission]")
				b.Choose("❯ 1. Yes", key)
				if name == "dismissed" {
					b.awaitPost("[Cancelled]", "Dismissed in the terminal.")
				} else {
					b.awaitPost("[Answered]", "mkdir out", "Answered in the terminal.")
					b.WaitScreen("Thanks, understood.")
				}
				if got := b.awaitPost("[Permission]"); got.Thread.Name != q.Thread.Name {
					t.Errorf("asked in %s and %s", q.Thread.Name, got.Thread.Name)
				}
			})
		})
	}
}

func TestAPlanIsDecidedFromChat(t *testing.T) {
	const text = "# The plan\n\n1. do *this*\n2. do that"
	plan := map[string]any{"plan": text}
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{
			{textBlock("Hm.")}, {toolCall("ExitPlanMode", plan)}, {toolCall("ExitPlanMode", plan)}, thanksTurn,
		}})
		b.awaitPlan(text)
		b.Prompt("go ahead")
		q := b.awaitPost("[Plan] Session:", "The plan", "do that")
		b.reply(q, "no, leave the second step out")
		b.awaitResult(1, "leave the second step out")
		b.awaitPost("[Answered]", "Sent the plan back.", "leave the second step out")
		b.reply(b.awaitPostInOtherThread(q, "[Plan] Session:"), "yes")
		b.awaitResult(2, "approved")
		b.awaitPost("[Answered]", "Approved the plan.")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestAPermissionEndsWithItsSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
		b.Prompt("go ahead")
		b.awaitPost("[Permission]")
		b.Kill(syscall.SIGKILL)
		b.awaitPost("[Cancelled]", "Claude Code has ended.")
	})
}

// awaitPostInOtherThread is await of a message in another thread.
func (b *hookedSession) awaitPostInOtherThread(message *chat.Message, beginning string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(beginning+" in another thread", func(m *chat.Message) bool {
		return strings.HasPrefix(m.Text, beginning) && m.Thread.Name != message.Thread.Name
	})
}

// "yes, auto" approves the plan, and edits need no permission from then on.
func TestAPlanIsApprovedWithItsEdits(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		cfg := config{Args: []string{"--permission-mode", "plan"}, Script: []turn{
			{textBlock("Hm.")}, {toolCall("ExitPlanMode", map[string]any{"plan": "# The plan"})}, {}, thanksTurn,
		}}
		cfg.Prepare = func(_, project string) {
			cfg.Script[2] = turn{toolCall("Write", map[string]string{"file_path": filepath.Join(project, "a.txt"), "content": "x"})}
		}
		b := startApproving(t, c, cfg)
		b.awaitPlan("# The plan")
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Plan] Session:", "common file commands"), "Yes, auto")
		b.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(b.Dir, "a.txt")); err != nil {
			t.Error(err)
		}
		b.awaitPost("[Answered]", "From now on edits and common file commands such as rm, mv and cp need no permission.")
		kit.Equalf(t, b.countPosts("[Permission]"), 0, "asked")
	})
}

// awaitPlan has a session in plan mode end a turn, which says "Hm.", with a plan in its
// file.
func (b *hookedSession) awaitPlan(plan string) {
	b.t.Helper()
	b.Prompt("think")
	b.WaitScreen("Hm.")
	b.WaitIdle()
	b.writePlan(plan)
}

// writePlan writes the plan into the file that the session keeps it in, as the model does
// (2.1.329).
func (b *hookedSession) writePlan(text string) {
	b.t.Helper()
	named := regexp.MustCompile(`"planFilePath":"([^"]+)"`)
	var plan string
	bound.Until(b.t, "the transcript names the plan's file", func() bool {
		files, _ := filepath.Glob(filepath.Join(b.Home, ".claude", "projects", "*", "*.jsonl"))
		for _, file := range files {
			raw, _ := os.ReadFile(file)
			if m := named.FindSubmatch(raw); m != nil {
				plan = string(m[1])
			}
		}
		return plan != ""
	})
	kit.NoError(b.t, errors.Join(os.MkdirAll(filepath.Dir(plan), 0o700), os.WriteFile(plan, []byte(text), 0o600)))
}

// Whatever of ours dies or hangs, the dialog in the terminal answers.
func TestThePermissionDialogNeedsNothingOfOurs(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(b *hookedSession){
		"Chat hangs": func(b *hookedSession) { b.gate.holdBack() },
		"the hook is killed": func(b *hookedSession) {
			b.awaitPost("[Permission]")
			b.killProcess("hook gchat-ask-user-forward")
		},
		"the poller is killed": func(b *hookedSession) {
			b.awaitPost("[Permission]")
			b.killProcess("poller --detached")
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				b := startApproving(t, c, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
				if name == "Chat hangs" {
					trouble(b)
				}
				b.Prompt("go ahead")
				b.WaitScreen("Do you want to proceed?")
				if name != "Chat hangs" {
					trouble(b)
				}
				b.Choose("❯ 1. Yes", "1")
				b.WaitScreen("Thanks, understood.")
				if _, err := os.Stat(filepath.Join(b.Dir, "out")); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// killProcess ends the session's processes that were started so.
func (b *hookedSession) killProcess(args string) {
	b.t.Helper()
	n := 0
	for _, p := range markedProcesses(sessionVariable + "=" + b.processMark) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), args) && p.Signal(syscall.SIGKILL) == nil {
			n++
		}
		p.Close()
	}
	if n == 0 {
		b.t.Errorf("no process %q", args)
	}
}

// never_remote is the person's: what it names is shown, and only the terminal allows it.
func TestNeverRemote(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{bash("cd . && mkdir out")}, thanksTurn}, Prepare: func(home, project string) {
			for path, text := range map[string]string{
				filepath.Join(home, ".config", "gchat-hooks", "config.json"): `{"never_remote": ["Bash(mkdir*)"]}`,
				filepath.Join(project, ".claude", "gchat-hooks.json"):        `{"never_remote": [], "approvers": ["users/9"]}`,
			} {
				kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
			}
		}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "Only the terminal can allow this.")
		for _, reply := range []string{"yes", "always", "1"} {
			b.reply(q, reply)
		}
		b.awaitPost("[Not used]", "Only the terminal can allow this")
		b.reply(q, "no, not now")
		b.awaitResult(1, "not now")
		if _, err := os.Stat(filepath.Join(b.Dir, "out")); err == nil {
			t.Error("it was allowed")
		}
	})
}

// What a person answers at the terminal at once never reaches Chat; a session at which no
// person sits asks there at once.
func TestWhatIsAnsweredAtOnceNeverReachesChat(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Env: []string{"GCHAT_GRACE=10m"}, Script: []turn{{bash("mkdir one")}, thanksTurn}})
		desk := b.sitDown(t)
		desk("send-keys", "go ahead")
		b.WaitScreen("go ahead")
		desk("send-keys", "Enter")
		b.WaitScreen("Do you want to proceed?")
		other := b.startBeside(config{Env: []string{"GCHAT_GRACE=10m"}, Hooks: approveHooks(t), Script: []turn{{bash("mkdir two")}, thanksTurn}})
		other.Prompt("go ahead")
		other.reply(other.awaitPost("[Permission]", "mkdir two"), "yes")
		desk("send-keys", "1")
		b.WaitScreen("Thanks, understood.")
		other.WaitScreen("Thanks, understood.")
		for _, m := range b.space.Messages() {
			if strings.Contains(m.Text, "mkdir one") {
				t.Errorf("the space has %q", m.Text)
			}
		}
	})
}

// "yes 10m" allows what the session asks next in silence, and the terminal says so; /ask
// in the session's thread ends it.
func TestAYesForAWhile(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Script: []turn{{bash("mkdir one")}, {bash("mkdir two")}, {bash("mkdir three")}, {textBlock("Three.")}, {bash("mkdir four")}, thanksTurn},
			Prepare: func(home, _ string) {
				path := filepath.Join(home, ".config", "gchat-hooks", "config.json")
				kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"timed_yes": true}`), 0o600)))
			},
		})
		thread := b.startSteering()
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "mkdir one")
		b.reply(q, "yes 10m")
		if m := b.awaitPost("[Allowed]", "until", "/ask"); m.Thread.Name != q.Thread.Name {
			t.Errorf("told in %s, asked in %s", m.Thread.Name, q.Thread.Name)
		}
		b.WaitScreen("Three.")
		b.WaitScreen("Allowed by")
		b.WaitScreen("(the chat page)")
		for _, name := range []string{"one", "two", "three"} {
			if _, err := os.Stat(filepath.Join(b.Dir, name)); err != nil {
				t.Error(err)
			}
		}
		kit.Equalf(t, b.countPosts("[Permission]"), 1, "asked")
		log, _ := os.ReadFile(filepath.Join(b.Home, ".claude", "logs", "gchat-hooks-audit.log"))
		if n := strings.Count(string(log), `"replied":"yes, by the grant of `); n != 2 || strings.Count(string(log), `"tool":`) != 3 {
			t.Errorf("the log of decisions has %s", log)
		}
		if _, err := b.space.PostAs(space.Person(), thread, "/ask"); err != nil {
			t.Fatal(err)
		}
		b.awaitPost("[Asks again]")
		b.Prompt("go on")
		b.reply(b.awaitPost("[Permission]", "mkdir four"), "no, not four")
		b.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(b.Dir, "four")); err == nil {
			t.Error("it was allowed")
		}
	})
}
