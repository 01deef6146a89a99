package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
)

// slowTmux is a PATH on which each call of tmux that has this word in it comes so late, once
// the file off is taken away.
func slowTmux(t *testing.T, word, delay string) (path, off string) {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	off = filepath.Join(dir, "off")
	if err := os.WriteFile(off, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *%s*) [ -e %s ] || sleep %s ;; esac\nexec %s \"$@\"\n", word, off, delay, tmux)
	if err := os.WriteFile(filepath.Join(dir, "tmux"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH"), off
}

// trials is how often a trial is made: once, or as GCHAT_E2E_TRIALS says.
func trials() int {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_E2E_TRIALS"))
	return max(n, 1)
}

// Words for Claude that are under way when a dialog opens answer no question and allow no
// permission, however late tmux comes to a call. What is kept is delivered afterwards.
func TestWordsUnderWayDecideNothing(t *testing.T) {
	t.Parallel()
	delays := []string{"2.2"} // without a delay it is what other tests do
	if trials() > 1 {
		delays = []string{"0", "0.15", "0.4", "2.2"}
	}
	for _, word := range []string{"capture-pane", "paste-buffer", "send-keys"} {
		for _, delay := range delays {
			for trial := range trials() {
				// The dialog opens four seconds after the words at most; a later trial writes later.
				before := 4 * time.Second * time.Duration(trial) / time.Duration(trials())
				if trials() == 1 {
					before = 3 * time.Second // what a late send-keys needs to press Enter in the dialog
				}
				t.Run(fmt.Sprintf("%s %s after %v", word, delay, before), func(t *testing.T) {
					wordsUnderWay(t, word, delay, before)
				})
			}
		}
	}
}

func wordsUnderWay(t *testing.T, word, delay string, before time.Duration) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		path, off := slowTmux(t, word, delay)
		b := approve(t, c, config{
			Env:  []string{path},
			Args: []string{"--allowedTools", "Bash(sleep:*)"},
			Script: []turn{
				asksBack, {bash("sleep 4")}, {ask(deploy)}, {bash("mkdir one")}, {say("Made.")}, {say("Heard.")}, {say("Heard.")},
			},
		})
		b.Prompt("go ahead")
		q := b.await("[Waiting for you]")
		b.reply(q, "yes")
		b.WaitScreen("sleep 4")
		if err := os.Remove(off); err != nil {
			t.Fatal(err)
		}
		time.Sleep(before)
		b.reply(q, "yes, delete it all")
		asked := b.await("[AskUserQuestion]", deploy.Question)
		// Where the words came into the dialog's field for own words, they are taken out again.
		b.WaitScreenFunc("the dialog without the words", func(screen string) bool {
			return strings.Contains(screen, "1. Blue-green deployment") && !strings.Contains(screen, "4. yes, delete it all")
		})
		if err := os.WriteFile(off, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.reply(asked, "2")
		p := b.await("[Permission]", "mkdir one")
		if _, err := os.Stat(filepath.Join(b.Dir, "one")); err == nil {
			t.Error("the permission was allowed")
		}
		b.reply(p, "yes")
		bound.Until(t, "Claude has the words", func() bool { return b.API.count("yes, delete it all") > 0 })
		if n := b.API.count("yes, delete it all"); n != 1 {
			t.Errorf("Claude has the words %d times", n)
		}
		if told := b.API.WaitToolResult(t, 2).Text; !strings.Contains(told, "Rolling deployment") {
			t.Errorf("Claude was told of the question: %q", told)
		}
	})
}

// The keys that take a text out of the input box take it out of a question's field for own words, too.
func TestAQuestionsFieldIsEmptied(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		s := start(t, c, config{Script: []turn{{ask(deploy)}, thanks}})
		s.Prompt("go ahead")
		s.WaitScreen(firstOption)
		for range len(deploy.Options) {
			s.Keys("Down")
		}
		s.WaitScreen("❯ 4. Type something")
		s.Type("yes, delete it all")
		s.WaitScreen("4. yes, delete it all")
		s.Keys("C-u", "BSpace")
		s.WaitScreenFunc("an empty field", func(screen string) bool {
			return strings.Contains(screen, "❯ 4. Type something") && !strings.Contains(screen, "delete it all")
		})
	})
}
