package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestPermission_DecidedInChat(t *testing.T) {
	type testCase struct {
		reply, told, says string
		made              bool
	}
	eachCase(t, bothVersions, map[string]testCase{
		"allowed":              {"yes", "", "Allowed: Bash: mkdir out", true},
		"denied with a reason": {"no, use git mv", "use git mv", "Reason: use git mv", false},
		"denied":               {"N", "denied this from the chat page", "Denied: Bash: mkdir out", false},
	}, func(t *testing.T, cl claude, c testCase) {
		b := startApproving(t, cl, config{
			Script: []turn{{textBlock("A folder."), bash("mkdir out")}, thanksTurn},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission] Session:", "Bash: make a folder", "mkdir out",
			"Reply yes or no")
		b.WaitScreen(permissionDialog) // the dialog stands open beside it
		b.reply(q, "sure thing")
		b.awaitPost("[Not used]", "yes or no")
		b.reply(q, c.reply)
		b.awaitResult(1, c.told)
		b.awaitPostInThread(q, "[Answered]", c.says)
		b.WaitScreen("Thanks, understood.")
		b.checkMade(c.made, "out")
	})
}

func TestPermission_AlwaysAsksNoMore(t *testing.T) {
	eachSession(t, bothVersions, startApproving, config{
		Script: []turn{{bash("mkdir -p out/x")}, {bash("mkdir -p out/y")}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Permission]", "out/x", `"always" allows:`)
		b.reply(q, "Always")
		b.awaitResult(2)
		b.awaitPost("[Answered]", "Always allowed")
		b.WaitScreen("Thanks, understood.")
		b.checkPosts(1, "[Permission]")
	})
}

func TestPermission_TerminalFirst(t *testing.T) {
	type testCase struct{ key, tag, says string }
	eachCase(t, bothVersions, map[string]testCase{
		"allowed":   {"1", "[Answered]", "in the terminal"},
		"dismissed": {"Escape", "[Cancelled]", "Dismissed"},
	}, func(t *testing.T, cl claude, c testCase) {
		b := startApproving(t, cl, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]")
		b.Choose("❯ 1. Yes", c.key)
		b.awaitPostInThread(q, c.tag, c.says)
	})
}

func TestPermission_EndsWithItsSession(t *testing.T) {
	eachSession(t, testedVersions, startApproving, config{
		Script: []turn{{bash("mkdir out")}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		b.awaitPost("[Permission]")
		b.Kill(syscall.SIGKILL)
		b.awaitPost("[Cancelled]", "Claude Code has ended.")
	})
}

// Whatever of ours dies or hangs, the dialog in the terminal answers.
func TestPermission_DialogNeedsNoneOfOurs(t *testing.T) {
	eachCase(t, bothVersions, map[string]string{
		"Chat hangs": "", "the hook is killed": "hook gchat-ask-user-forward",
		"the poller is killed": "poller --detached",
	}, func(t *testing.T, c claude, victim string) {
		b := startApproving(t, c, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
		if victim == "" {
			b.gate.holdBack()
		}
		b.Prompt("go ahead")
		b.WaitScreen(permissionDialog)
		if victim != "" {
			b.awaitPost("[Permission]")
			b.killProcess(victim)
		}
		b.Choose("❯ 1. Yes", "1")
		b.WaitScreen("Thanks, understood.")
		b.checkMade(true, "out")
	})
}

// What a person answers at the terminal at once never reaches Chat; a session at which no
// person sits asks there at once.
func TestPermission_GraceKeepsChatQuiet(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Env:    []string{"GCHAT_GRACE=10m"},
			Script: []turn{{bash("mkdir one")}, thanksTurn},
		})
		desk := b.sitDown(t)
		desk("send-keys", "go ahead")
		b.WaitScreen("go ahead")
		desk("send-keys", "Enter")
		b.WaitScreen(permissionDialog)
		other := b.startBeside(config{
			Env:    []string{"GCHAT_GRACE=10m"},
			Hooks:  approveHooks(t),
			Script: []turn{{bash("mkdir two")}, thanksTurn},
		})
		other.Prompt("go ahead")
		other.reply(other.awaitPost("[Permission]", "mkdir two"), "yes")
		desk("send-keys", "1")
		b.WaitScreen("Thanks, understood.")
		other.WaitScreen("Thanks, understood.")
		b.checkNoPost("mkdir one")
	})
}

// "yes 10m" allows what the session asks next in silence, and the terminal says so; /ask
// in the session's thread ends it.
func TestPermission_GrantForAWhile(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Script: []turn{
				{bash("mkdir one")}, {bash("mkdir two")}, {bash("mkdir three")},
				{textBlock("Three.")}, {bash("mkdir four")}, thanksTurn,
			},
			Files: map[string]string{personalConfig: `{"timed_yes": true}`},
		})
		thread := b.startSteering()
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "mkdir one")
		b.reply(q, "yes 10m")
		b.awaitPostInThread(q, "[Allowed]", "until", "/ask")
		b.WaitScreen("Three.")
		b.WaitScreen("Allowed by")
		b.WaitScreen("(the chat page)")
		b.checkMade(true, "one", "two", "three")
		b.checkPosts(1, "[Permission]")
		log := b.readLog("gchat-hooks-audit.log")
		kit.Equalf(t, strings.Count(log, `"replied":"yes, by the grant of `), 2,
			"decisions by the grant in %s", log)
		kit.Equalf(t, strings.Count(log, `"tool":`), 3, "decisions in %s", log)
		b.post(thread, "/ask")
		b.awaitPost("[Asks again]")
		b.Prompt("go on")
		b.reply(b.awaitPost("[Permission]", "mkdir four"), "no, not four")
		b.WaitScreen("Thanks, understood.")
		b.checkMade(false, "four")
	})
}

// From a worktree, "always" says whose rules are written, as this version does it.
func TestPermission_AlwaysNamesTheWorktreesFile(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{
			Script: []turn{{bash("make one")}, thanksTurn},
			Prepare: func(t *testing.T, _, project string) {
				root := filepath.Dir(project)
				git(t, root, "init", "-q", "main")
				git(t, filepath.Join(root, "main"), "commit", "-q", "--allow-empty", "-m", "x")
				git(t, filepath.Join(root, "main"), "worktree", "add", "-q", project)
			},
		})
		worktree, main := filepath.Join(b.Dir, ".claude/settings.local.json"),
			filepath.Join(b.Dir, "../main/.claude/settings.local.json")
		output, file, other := "in the main checkout ("+main+")", main, worktree
		if c.Version == olderVersion {
			output, file, other = "in this worktree (.claude/settings.local.json)", worktree, main
		}
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Permission]", "make one", output), "always")
		b.awaitResult(1)
		b.awaitPost("[Answered]", "Always allowed", output)
		kit.Containsf(t, readText(t, file), "make", "the file")
		kit.Equalf(t, fileExists(other), false, "it is written to %s, too", other)
	})
}
