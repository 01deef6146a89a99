package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// slowTmux is a PATH on which each call of tmux that has this word in it comes so late,
// once the file off is taken away.
func slowTmux(t *testing.T, word, delay string) (path, off string) {
	t.Helper()
	dir := putTmux(t,
		fmt.Sprintf(`case "$*" in *%s*) [ -e "$(dirname "$0")/off" ] || sleep %s ;; esac`, word,
			delay))
	off = filepath.Join(dir, "off")
	kit.WriteFile(t, off, "", 0o600)
	return "PATH=" + dir + ":" + os.Getenv("PATH"), off
}

// trialCount is how often a trial is made: once, or as GCHAT_E2E_TRIALS says.
func trialCount() int {
	n, _ := strconv.Atoi(os.Getenv("GCHAT_E2E_TRIALS"))
	return max(n, 1)
}

// A prompt that is under way when a dialog opens answers no question and allows no
// permission, however late tmux comes to a call. What is kept is delivered afterwards,
// once.
func TestTyping_LatePromptDecidesNothing(t *testing.T) {
	delays := []string{"2.2"} // without a delay it is what other tests do
	if trialCount() > 1 {
		delays = []string{"0", "0.15", "0.4", "2.2"}
	}
	type late struct{ word, delay string }
	cases := map[string]late{}
	for _, word := range []string{"capture-pane", "paste-buffer", "send-keys"} {
		for _, delay := range delays {
			cases[word+" "+delay] = late{word, delay}
		}
	}
	eachCase(t, testedVersions, cases, func(t *testing.T, c claude, l late) {
		for next := 0; next < trialCount(); {
			t.Run(fmt.Sprintf("from %d on", next), func(t *testing.T) {
				runTrials(t, c, l.word, l.delay, &next)
			})
		}
	})
}

// runTrials makes trials in one session, from the next on: until one fails, and not too
// many, since each request of a session repeats all of it.
func runTrials(t *testing.T, c claude, word, delay string, next *int) {
	const mostTrials = 20
	path, off := slowTmux(t, word, delay)
	b := startApproving(t, c, config{
		Env:    []string{path},
		Args:   []string{"--allowedTools", "Bash(sleep:*)"},
		Script: []turn{askBackTurn},
	})
	b.Prompt("go ahead")
	w := &lateTyping{hookedSession: b, thread: b.awaitPost("[Waiting for you]"), off: off}
	for *next < trialCount() && len(w.prompts) < mostTrials && !t.Failed() {
		// The dialog opens four seconds after the prompt at most; a later trial writes
		// later.
		before := 4 * time.Second * time.Duration(*next) / time.Duration(trialCount())
		if trialCount() == 1 {
			before = 3 * time.Second // what a late send-keys needs to press Enter in the dialog
		}
		t.Logf("trial %d writes after %v", *next, before)
		*next++
		w.trial(*next, before)
	}
	for _, prompt := range w.prompts {
		kit.Equalf(t, w.countInLast(prompt), 1, "in the end Claude has %q", prompt)
	}
}

// lateTyping makes trials in one session, each with names of its own.
type lateTyping struct {
	*hookedSession
	thread  *chat.Message
	off     string   // while this file is there, tmux is quick
	prompts []string // of each trial so far
}

func (w *lateTyping) trial(number int, before time.Duration) {
	var (
		t      = w.t
		name   = fmt.Sprintf("%03d", number)
		pause  = "sleep 4." + name
		folder = "one-" + name
		made   = "Made " + name + "."
		prompt = "yes, delete it all, " + name
		which  = deployQuestion
	)
	which.Question = "Which deployment is for " + name + "?"
	asked := len(w.API.ToolResults())
	w.prompts = append(w.prompts, prompt)
	w.API.AddTurns(turn{bash(pause)}, turn{questionCall(which)}, turn{bash("mkdir " + folder)},
		turn{textBlock(made)})
	w.reply(w.thread, "yes, go on with "+name)
	w.WaitScreen(pause)
	kit.NoError(t, os.Remove(w.off))
	time.Sleep(before)
	w.reply(w.thread, prompt)
	q := w.awaitPost("[AskUserQuestion]", which.Question)
	// Where the prompt came into the dialog's field for own text, it is taken out again.
	w.WaitScreenFunc("the dialog without the prompt", func(screen string) bool {
		return strings.Contains(screen, "1. Blue-green deployment") &&
			!strings.Contains(screen, "4. "+prompt)
	})
	kit.NoError(t, os.WriteFile(w.off, nil, 0o600))
	w.reply(q, "2")
	p := w.awaitPost("[Permission]", "mkdir "+folder)
	w.checkMade(false, folder)
	w.reply(p, "yes")
	w.WaitScreen(made)
	bound.Until(t, "Claude has the prompt", func() bool { return w.countInLast(prompt) > 0 })
	w.WaitIdle()
	kit.Equalf(t, w.countInLast(prompt), 1, "Claude has the prompt")
	kit.Containsf(t, w.API.WaitToolResult(t, asked+2).Text, "Rolling deployment",
		"Claude was told of the question")
}

// countInLast is how often a text stands in all that Claude has.
func (w *lateTyping) countInLast(text string) int {
	return strings.Count(w.API.lastMainText(), text)
}

// The keys that take a text out of the input box take it out of a question's field for
// own words, too.
func TestTyping_ClearsAQuestionsField(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		s := startSession(t, c, config{Script: deployScript})
		s.Prompt("go ahead")
		s.WaitScreen(firstOption)
		for range len(deployQuestion.Options) {
			s.Keys("Down")
		}
		s.WaitScreen("❯ 4. Type something")
		// Claude Code loses what is typed in the moment after it drew the cursor there
		// (2.1.332).
		bound.Until(t, "the words stand in the field", func() bool {
			s.Type("yes, delete it all")
			return bound.WaitFor(3*time.Second, func() bool {
				return strings.Contains(s.Screen(), "4. yes, delete it all")
			})
		})
		s.Keys("C-u")
		s.WaitScreenFunc("an empty field", func(screen string) bool {
			return strings.Contains(screen, "❯ 4. Type something") &&
				!strings.Contains(screen, "delete it all")
		})
	})
}

// A digit that is under way to a question decides nothing about the permission that
// stands next, where the question is answered in the terminal just before tmux comes to
// the digit: by a person, or by what tmux does not see.
func TestTyping_LateDigitAllowsNothing(t *testing.T) {
	// A permission takes a key after 0.4 s (2.1.332), or at once (2.1.197). $3 is the
	// server's socket, and $6 the pane.
	const lateDigit = `case "$*" in *"send-keys -t %"*" 2"*)
	dir=$(dirname "$0")
	if mkdir "$dir/once" 2>/dev/null; then
		. "$dir/answer"
		sleep 0.5
		$tmux "$@"
		touch "$dir/came"
		exit
	fi
esac`
	eachCase(t, bothVersions, map[string]bool{
		"by a person": true, "by a program": false,
	}, func(t *testing.T, c claude, byPerson bool) {
		dir := putTmux(t, lateDigit)
		b := startApproving(t, c, config{
			Env:    []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "GCHAT_ASK_MODE=inject"},
			Script: []turn{{questionCall(deployQuestion), bash("mkdir one")}, {textBlock("Made.")}},
		})
		answer := `$tmux -S "$3" send-keys -t "$6" 3`
		if byPerson {
			b.sitDown(t)
			answer = fmt.Sprintf("TMUX_TMPDIR=%s $tmux -L %s-desk -f /dev/null send-keys 3",
				b.tmux.dir, b.tmux.socket)
		}
		kit.WriteFile(t, filepath.Join(dir, "answer"), answer, 0o600)
		b.Prompt("go ahead")
		b.reply(b.awaitPost("[AskUserQuestion]", deployQuestion.Question), "2")
		bound.Until(t, "tmux came to the digit",
			func() bool { return fileExists(filepath.Join(dir, "came")) })
		b.awaitPost("[Answered]", "Canary")
		p := b.awaitPost("[Permission]", "mkdir one")
		b.checkMade(false, "one")
		b.WaitScreen(permissionDialog)
		b.reply(p, "yes")
		b.awaitPost("[Answered]", "Allowed: Bash: mkdir one")
	})
}
