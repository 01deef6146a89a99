package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// A digit that is under way to a question decides nothing about the permission that
// stands next, where the question is answered in the terminal just before tmux comes to
// the digit: by a person, or by what tmux does not see.
func TestADigitForAQuestionAllowsNoPermission(t *testing.T) {
	for name, byPerson := range map[string]bool{"by a person": true, "by a program": false} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) { tryLateDigit(t, c, byPerson) })
		})
	}
}

func tryLateDigit(t *testing.T, c claude, byPerson bool) {
	const delay = "0.5" // a permission takes a key after 0.4 s (2.1.332), or at once (2.1.197)

	tmux, err := exec.LookPath("tmux")
	kit.NoError(t, err)
	dir := t.TempDir()
	write := func(name, script string) {
		t.Helper()
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	// $3 is the server's socket, and $6 the pane.
	write("tmux", fmt.Sprintf(`case "$*" in *"send-keys -t %%"*" 2"*)
	if mkdir %[1]s/once 2>/dev/null; then
		%[1]s/answer "$3" "$6"
		sleep %[2]s
		%[3]s "$@"
		touch %[1]s/came
		exit
	fi
esac
exec %[3]s "$@"`, dir, delay, tmux))
	write("answer", fmt.Sprintf(`%s -S "$1" send-keys -t "$2" 3`, tmux))
	b := startApproving(t, c, config{
		Env:    []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "GCHAT_ASK_MODE=inject"},
		Script: []turn{{questionCall(deployQuestion), bash("mkdir one")}, {textBlock("Made.")}},
	})
	if byPerson {
		b.sitDown(t)
		write("answer", fmt.Sprintf("TMUX_TMPDIR=%s %s -L %s-desk -f /dev/null send-keys 3", b.tmux.dir, tmux, b.tmux.socket))
	}
	b.Prompt("go ahead")
	b.reply(b.awaitPost("[AskUserQuestion]", deployQuestion.Question), "2")
	bound.Until(t, "tmux came to the digit", func() bool {
		_, err := os.Stat(filepath.Join(dir, "came"))
		return err == nil
	})
	b.awaitPost("[Answered]", "Canary")
	p := b.awaitPost("[Permission]", "mkdir one")
	if _, err := os.Stat(filepath.Join(b.Dir, "one")); err == nil {
		t.Fatal("the permission was allowed")
	}
	b.WaitScreen("Do you want to proceed?")
	b.reply(p, "yes")
	b.awaitPost("[Answered]", "Allowed: Bash: mkdir one")
}
