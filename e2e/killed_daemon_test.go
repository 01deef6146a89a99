package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// TestDaemon_KilledWhileTyping kills -9 the daemon at each step of a typed answer
// that others can see: what it writes (a rename, a sync), and the tmux that it starts and
// waits for. Another daemon follows. No key is sent twice, and the question ends
// resolved, or a person was told to look.
//
// A few of the steps by default; GCHAT_E2E_KILLS=all takes all of them.
func TestDaemon_KilledWhileTyping(t *testing.T) {
	// Every answer makes the first quarter of these calls; how many more, depends on the
	// machine.
	steps := killSteps(t, map[string]int{
		"renameat,renameat2": 10,
		"fsync":              16,
		"waitid,wait4":       20,
		"clone,clone3,vfork": 24,
	}, 4, 1)
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		var script []turn
		for n := range steps {
			script = append(script, turn{questionCall(roundQuestion(n))},
				turn{textBlock(fmt.Sprintf("Noted %d.", n))})
		}
		b := startInject(t, c, config{Script: script})
		keys := b.logTmux()
		killed, looked := 0, 0
		for n, at := range steps {
			b.Prompt(fmt.Sprintf("go on %d", n))
			died, look := b.answerWhileDying(n, at, keys)
			if died {
				killed++
			}
			if look {
				looked++
			}
			b.WaitScreen(fmt.Sprintf("Noted %d.", n))
		}
		t.Logf(
			"%d answers typed, the daemon killed in %d of them; %d times a person was told to look",
			len(steps), killed, looked)
		kit.Equalf(t, killed > 0, true, "it was killed")
	})
}

// A killStep is the n-th of a kind of system call.
type killStep struct {
	call string
	n    int
}

// killSteps are steps out of the most of each call: one at random within each of these
// parts of them. With GCHAT_E2E_KILLS=all there is one for each call as well.
func killSteps(t *testing.T, calls map[string]int, parts ...int) (steps []killStep) {
	if _, err := exec.LookPath("strace"); err != nil {
		skip(t, "needs strace to kill at system calls")
	}
	for call, most := range calls {
		for n := 1; os.Getenv("GCHAT_E2E_KILLS") == "all" && n <= most; n++ {
			steps = append(steps, killStep{call, n})
		}
		for _, part := range parts {
			steps = append(steps, killStep{call, 1 + rand.IntN(most/part)})
		}
	}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	return steps
}

func roundQuestion(n int) question {
	return question{
		Question: fmt.Sprintf("Round %d: which approach?", n),
		Header:   "Round",
		Options: []option{
			{Label: "Blue-green", Description: "a"}, {Label: "Rolling", Description: "b"},
			{Label: "Canary", Description: "c"},
		},
	}
}

// logTmux puts a tmux before the real one that writes down what it is called with. It
// returns the keys sent so far.
func (b *hookedSession) logTmux() func() []string {
	b.t.Helper()
	dir := putTmux(b.t, `printf '%s\n' "$*" >>"$(dirname "$0")/log"`)
	b.tmux.env = append(b.tmux.env, "PATH="+dir+":"+os.Getenv("PATH"))
	return func() (keys []string) {
		raw, _ := os.ReadFile(filepath.Join(dir, "log"))
		for line := range strings.Lines(string(raw)) {
			if _, sent, ok := strings.Cut(line, "send-keys"); ok {
				keys = append(keys, strings.TrimSpace(sent))
			}
		}
		return keys
	}
}

// answerWhileDying has the n-th question answered with "2" while the daemon dies at that
// step.
func (b *hookedSession) answerWhileDying(n int, at killStep,
	keys func() []string) (died, looked bool) {
	b.t.Helper()
	before := len(keys())
	victim := b.startDaemon()
	q := b.awaitPost("[AskUserQuestion]", roundQuestion(n).Question)
	b.killAt(victim, at)
	b.reply(q, "2")
	name := fmt.Sprintf("round %d (%s %d)", n, at.call, at.n)
	record := func() *state.Question { return b.loadQuestions()[n] }
	bound.WaitFor(bound.Patience,
		func() bool { return victim.hasEnded() || record().Status == state.Resolved })
	died = victim.hasEnded()
	victim.stop()
	if died {
		next := b.startDaemon()
		over := bound.WaitFor(bound.Patience, func() bool {
			r := record()
			looked = r.Status != state.Resolved && r.InjectionSucceeded != nil &&
				!*r.InjectionSucceeded
			return looked || r.Status == state.Resolved
		})
		if !over {
			b.t.Fatalf("%s: neither resolved nor reported: %+v", name, record())
		}
		if looked {
			b.awaitPost("[Look]", "only partly typed")
			b.Choose("3. "+roundQuestion(n).Options[2].Label, "3") // the person does
		}
		next.stop()
	}
	want := `"="Rolling"`
	if looked {
		want = `"="Canary"`
	}
	b.awaitResult(n+1, want)
	sent := slices.Sorted(slices.Values(keys()[before:]))
	kit.Equalf(b.t, slices.Compact(slices.Clone(sent)), sent, "%s: sent once", name)
	return died, looked
}

// killAt has a running daemon killed at that step from now on.
func (b *hookedSession) killAt(d *daemon, at killStep) {
	b.t.Helper()
	strace := exec.Command("strace", "-f", "-b", "execve", "-o", os.DevNull,
		"-p", strconv.Itoa(d.cmd.Process.Pid), "-e", "trace="+at.call,
		"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", at.call, at.n))
	strace.Env = b.tmux.env
	says, err := strace.StderrPipe()
	kit.NoError(b.t, err)
	kit.NoError(b.t, strace.Start())
	lines := bufio.NewScanner(says)
	if !lines.Scan() || !strings.Contains(lines.Text(), "attached") {
		b.t.Fatalf("strace: %s", lines.Text())
	}
	go func() { // it ends with the daemon
		for lines.Scan() {
		}
		strace.Wait()
	}()
}

// TestDaemon_KilledWhileDeliveringPrompts kills -9 the daemon at a step of delivering
// what a person wrote to a session: one that is idle, and one that has ended and is
// resumed for it. Another daemon follows. Claude has the prompt once, or its thread is
// told; and no session is started twice.
//
// A few of the steps by default; GCHAT_E2E_KILLS=all takes more of them.
func TestDaemon_KilledWhileDeliveringPrompts(t *testing.T) {
	steps := killSteps(t, map[string]int{
		"renameat,renameat2": 8, "fsync": 12, "clone,clone3,vfork": 8,
	}, 1)
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		script := slices.Concat([]turn{askBackTurn},
			slices.Repeat([]turn{{textBlock("Done.")}}, 3*len(steps)))
		b := startApproving(t, c, config{
			Files:  allowStarts,
			Env:    []string{"GCHAT_IDLE=asks"},
			Script: script,
		})
		b.Prompt("go ahead")
		thread := b.awaitPost("[Waiting for you]")
		killed, sent := 0, 0
		for _, at := range steps {
			for _, ended := range []bool{false, true} {
				windows := b.windowCount()
				if ended {
					b.endAllClaudes()
				}
				sent++
				prompt := fmt.Sprintf("prompt number %d.", sent)
				victim := b.startDaemon()
				victim.awaitPolling()
				b.killAt(victim, at)
				b.reply(thread, prompt)
				over := func() bool { return b.API.CountText(prompt) > 0 || b.isLossNoted() }
				bound.WaitFor(bound.Patience, func() bool { return victim.hasEnded() || over() })
				died := victim.hasEnded()
				if died {
					killed++
				}
				victim.stop()
				next := b.startDaemon()
				name := fmt.Sprintf("%s, ended %v (%s %d, died %v)", prompt, ended, at.call, at.n,
					died)
				if !bound.WaitFor(2*bound.Patience, over) {
					t.Fatalf("%s: neither sent nor told", name)
				}
				count, started := b.API.CountText(prompt), b.windowCount()-windows
				if count > 1 || ended && started > 1 {
					t.Errorf("%s: Claude has it %d times, started %d times", name, count, started)
				}
				bound.Until(t, "the thread is told", func() bool {
					notes := b.countPosts("[Sent]") + b.countPosts("[Look]") +
						b.countPosts("[Not started]") + b.countPosts("[Cancelled]") +
						b.countPosts("[Not used]")
					return count == 0 || notes >= sent
				})
				next.stop()
			}
		}
		t.Logf("the daemon was killed in %d of %d", killed, sent)
		kit.Equalf(t, killed > 0, true, "it was killed")
	})
}

// isLossNoted says whether the last message tells that a prompt is not with Claude, or that
// a person has to look.
func (b *hookedSession) isLossNoted() bool {
	ms := b.space.Messages()
	last := ms[len(ms)-1].Text
	return slices.ContainsFunc([]string{
		"[Not started]", "[Look]", "came too late", "[Not used]",
	}, func(s string) bool { return strings.Contains(last, s) })
}

// windowCount is how many windows the session's server and our own have.
func (b *hookedSession) windowCount() int {
	out, _ := b.tmux.run("list-windows", "-a")
	return strings.Count(out+"\n", "\n")
}

// endAllClaudes ends every Claude Code in the session's tmux, and leaves its first window.
func (b *hookedSession) endAllClaudes() {
	b.t.Helper()
	if b.process != nil && !b.process.Exited(0) {
		b.Quit()
		return
	}
	b.runTmux("kill-window", "-a", "-t", "=claude:0")
	bound.Until(b.t, "its process is gone", func() bool {
		all, _ := state.SessionsIn(filepath.Join(b.Home, ".local", "state", "gchat-hooks")).All()
		return !slices.ContainsFunc(all,
			func(s *state.Session) bool {
				return s.ClaudePID > 0 && !inject.HasEnded(s.ClaudePID,
					s.ClaudeStart)
			})
	})
}
