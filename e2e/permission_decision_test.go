package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

func TestPermission_DecidedInChat(t *testing.T) {
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

func TestPermission_AlwaysAsksNoMore(t *testing.T) {
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

func TestPermission_TerminalFirst(t *testing.T) {
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

func TestPermission_EndsWithItsSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startApproving(t, c, config{Script: []turn{{bash("mkdir out")}, thanksTurn}})
		b.Prompt("go ahead")
		b.awaitPost("[Permission]")
		b.Kill(syscall.SIGKILL)
		b.awaitPost("[Cancelled]", "Claude Code has ended.")
	})
}

// Whatever of ours dies or hangs, the dialog in the terminal answers.
func TestPermission_DialogNeedsNoneOfOurs(t *testing.T) {
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

// What a person answers at the terminal at once never reaches Chat; a session at which no
// person sits asks there at once.
func TestPermission_GraceKeepsChatQuiet(t *testing.T) {
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
func TestPermission_GrantForAWhile(t *testing.T) {
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

// From a worktree, "always" says whose rules are written, as this version does it.
func TestPermission_AlwaysNamesTheWorktreesFile(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		main := ""
		b := startApproving(t, c, config{Script: []turn{{bash("make one")}, thanksTurn}, Prepare: func(home, project string) {
			main = filepath.Join(filepath.Dir(project), "main")
			script := `git init -q "$0" && cd "$0" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q "$1"`
			cmd := bound.Command(t, "sh", "-c", script, main, project)
			cmd.Env = append(os.Environ(), "HOME="+home)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}})
		said, file, other := "in the main checkout ("+filepath.Join(main, ".claude", "settings.local.json")+")", main, b.Dir
		if c.Version == olderVersion {
			said, file, other = "in this worktree (.claude/settings.local.json)", b.Dir, main
		}
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[Permission]", "make one", said), "always")
		b.awaitResult(1)
		b.awaitPost("[Answered]", "Always allowed from now on:", said)
		kit.Containsf(t, readFiles(t, filepath.Join(file, ".claude", "settings.local.json")), "make", "the file")
		if _, err := os.Stat(filepath.Join(other, ".claude", "settings.local.json")); err == nil {
			t.Error("it was written there, too")
		}
	})
}
