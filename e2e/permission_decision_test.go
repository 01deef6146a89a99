package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestPermission_DecidedInChat(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		script, turns := []turn{}, []struct {
			reply, told, folder, says string
			made                      bool
		}{
			{"yes", "", "a", "Allowed: Bash: mkdir a", true},
			{"no, use git mv", "use git mv", "b", "Reason: use git mv", false},
			{"N", "denied this from the chat page", "c", "Denied: Bash: mkdir c", false},
		}
		for _, permission := range turns {
			call := bash("mkdir " + permission.folder)
			script = append(script, turn{textBlock("A folder."), call}, thanksTurn)
		}
		b := startApproving(t, c, config{Script: script})
		for i, permission := range turns {
			b.Prompt("go ahead")
			q := b.awaitPost("[Permission] Session:", "Bash: make a folder",
				"mkdir "+permission.folder, "Reply yes or no")
			b.WaitScreen(permissionDialog) // the dialog stands open beside it
			b.reply(q, "sure thing")
			b.awaitPostInThread(q, "[Not used]", "yes or no")
			b.reply(q, permission.reply)
			b.awaitResult(i+1, permission.told)
			b.awaitPostInThread(q, "[Answered]", permission.says)
			b.WaitDone("Thanks, understood.")
			b.checkMade(permission.made, permission.folder)
		}
	})
}

func TestPermission_TerminalFirst(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		no := "4"
		if c.Version == olderVersion {
			no = "3"
		}
		choices := []struct{ folder, key, tag, says string }{
			{"one", "1", "[Answered]", "in the terminal"},
			{"two", "Escape", "[Cancelled]", "Dismissed"},
			{"three", no, "[Cancelled]", "Dismissed"},
		}
		script := []turn{}
		for _, choice := range choices {
			script = append(script, turn{bash("mkdir " + choice.folder)})
			if choice.key == "1" {
				script = append(script, thanksTurn)
			}
		}
		script = append(script, turn{bash("mkdir four; sleep 1000")})
		b := startApproving(t, c, config{Script: script})
		for _, choice := range choices {
			b.Prompt("go ahead")
			q := b.awaitPost("[Permission]", "mkdir "+choice.folder)
			b.Choose("❯ 1. Yes", choice.key)
			b.awaitPostInThread(q, choice.tag, choice.says)
		}
		// It is allowed, and Esc interrupts it.
		b.Prompt("go ahead")
		q := b.awaitPost("[Permission]", "mkdir four")
		b.Choose("❯ 1. Yes", "1")
		b.awaitMade("four")
		b.Keys("Escape")
		b.awaitPostInThread(q, "[Answered]", "in the terminal")
		b.checkPosts(2, "[Cancelled]")
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
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		trouble := []struct{ folder, killed string }{
			{"hookless", "hook gchat-ask-user-forward"}, {"pollerless", "poller --detached"},
			{"chatless", ""}, // Chat hangs
		}
		script := []turn{}
		for _, trouble := range trouble {
			script = append(script, turn{bash("mkdir " + trouble.folder)}, thanksTurn)
		}
		b := startApproving(t, c, config{Script: script})
		for _, trouble := range trouble {
			if trouble.killed == "" {
				b.gate.holdBack()
			}
			b.Prompt("go ahead")
			b.WaitScreen(permissionDialog)
			if trouble.killed != "" {
				b.awaitPost("[Permission]", "mkdir "+trouble.folder)
				b.killProcess(trouble.killed)
			}
			b.Choose("❯ 1. Yes", "1")
			b.awaitMade(trouble.folder)
			b.WaitDone("Thanks, understood.")
		}
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
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
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
		kit.Containsf(t, kit.ReadFile(t, file), "make", "the file")
		kit.Equalf(t, fileExists(other), false, "it is written to %s, too", other)
	})
}
