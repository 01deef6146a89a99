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
	"syscall"
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
	if _, err := exec.LookPath("strace"); err != nil {
		skip(t, "needs strace to kill at system calls")
	}
	every := os.Getenv("GCHAT_E2E_KILLS") == "all"
	var steps []killStep
	for call, most := range map[string]int{"renameat,renameat2": 10, "fsync": 16, "waitid,wait4": 20, "clone,clone3,vfork": 24} {
		if every {
			for n := 1; n <= most; n++ {
				steps = append(steps, killStep{call, n})
			}
			continue
		}
		// Every answer makes the first quarter of these calls; how many more, depends on
		// the machine.
		steps = append(steps, killStep{call, 1 + rand.IntN(most/4)}, killStep{call, 1 + rand.IntN(most)})
	}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		var script []turn
		for n := range steps {
			script = append(script, turn{questionCall(roundQuestion(n))}, turn{textBlock(fmt.Sprintf("Noted %d.", n))})
		}
		b := startInject(t, c, script...)
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
		t.Logf("%d answers typed, the daemon killed in %d of them; %d times a person was told to look", len(steps), killed, looked)
		if killed == 0 {
			t.Error("it was never killed: the test does not do what it says")
		}
	})
}

// A killStep is the n-th of a kind of system call.
type killStep struct {
	call string
	n    int
}

func roundQuestion(n int) question {
	return question{Question: fmt.Sprintf("Round %d: which approach?", n), Header: "Round",
		Options: []option{{Label: "Blue-green", Description: "a"}, {Label: "Rolling", Description: "b"}, {Label: "Canary", Description: "c"}}}
}

// logTmux puts a tmux before the real one that writes down what it is called with. It
// returns the keys sent so far.
func (b *hookedSession) logTmux() func() []string {
	b.t.Helper()
	tmux, err := exec.LookPath("tmux")
	kit.NoError(b.t, err)
	dir := b.t.TempDir()
	log := filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >>%s\nexec %s \"$@\"\n", log, tmux)
	kit.NoError(b.t, os.WriteFile(filepath.Join(dir, "tmux"), []byte(script), 0o700))
	b.tmux.env = append(b.tmux.env, "PATH="+dir+":"+os.Getenv("PATH"))
	return func() (keys []string) {
		raw, _ := os.ReadFile(log)
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
func (b *hookedSession) answerWhileDying(n int, at killStep, keys func() []string) (died, looked bool) {
	b.t.Helper()
	before := len(keys())
	victim := b.startDaemon()
	q := b.awaitPost("[AskUserQuestion]", roundQuestion(n).Question)
	b.killAt(victim, at)
	b.reply(q, "2")
	name := fmt.Sprintf("round %d (%s %d)", n, at.call, at.n)
	record := func() *state.Question { return b.loadQuestions()[n] }
	bound.WaitFor(bound.Patience, func() bool {
		select {
		case err := <-victim.done:
			victim.done <- err
			died = true
		default:
		}
		return died || record().Status == state.Resolved
	})
	if !died {
		victim.cmd.Process.Signal(syscall.SIGTERM)
		victim.waitExit()
	} else {
		next := b.startDaemon()
		over := bound.WaitFor(bound.Patience, func() bool {
			r := record()
			looked = r.Status != state.Resolved && r.InjectionSucceeded != nil && !*r.InjectionSucceeded
			return looked || r.Status == state.Resolved
		})
		if !over {
			b.t.Fatalf("%s: neither resolved nor reported: %+v", name, record())
		}
		if looked {
			b.awaitPost("[Look]", "only partly typed")
			b.Choose("3. "+roundQuestion(n).Options[2].Label, "3") // the person does
		}
		next.cmd.Process.Signal(syscall.SIGTERM)
		next.waitExit()
	}
	told := b.API.WaitToolResult(b.t, n+1).Text
	want := `"="Rolling"`
	if looked {
		want = `"="Canary"`
	}
	kit.Containsf(b.t, told, want, "%s: told", name)
	seen := map[string]bool{}
	for _, key := range keys()[before:] {
		if seen[key] {
			b.t.Errorf("%s: sent twice: %q", name, key)
		}
		seen[key] = true
	}
	return died, looked
}

// killAt has a running daemon killed at that step from now on.
func (b *hookedSession) killAt(d *daemon, at killStep) {
	b.t.Helper()
	strace := exec.Command("strace", "-f", "-b", "execve", "-o", os.DevNull, "-p", strconv.Itoa(d.cmd.Process.Pid), "-e", "trace="+at.call,
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

// TestDaemon_KilledWhileDeliveringPrompts kills -9 the daemon at a step of bringing what
// a person wrote to a session: one that is idle, and one that has ended and is resumed
// for it. Another daemon follows. Claude has the words once, or their thread is told; and
// no session is started twice.
//
// A few of the steps by default; GCHAT_E2E_KILLS=all takes more of them.
func TestDaemon_KilledWhileDeliveringPrompts(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		skip(t, "needs strace to kill at system calls")
	}
	var steps []killStep
	for call, most := range map[string]int{"renameat,renameat2": 8, "fsync": 12, "clone,clone3,vfork": 8} {
		if os.Getenv("GCHAT_E2E_KILLS") == "all" {
			for n := 1; n <= most; n++ {
				steps = append(steps, killStep{call, n})
			}
			continue
		}
		steps = append(steps, killStep{call, 1 + rand.IntN(most)})
	}
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		script := []turn{askBackTurn}
		for range 3 * len(steps) {
			script = append(script, turn{textBlock("Done.")})
		}
		b := startApproving(t, c, config{Prepare: allowStarts(t, nil), Env: []string{"GCHAT_IDLE=asks"}, Script: script})
		b.Prompt("go ahead")
		thread := b.awaitPost("[Waiting for you]")
		killed := 0
		said := 0
		for _, at := range steps {
			for _, ended := range []bool{false, true} {
				windows := b.windowCount()
				if ended {
					b.killAllOurs()
				}
				said++
				words := fmt.Sprintf("words number %d.", said)
				victim := b.startDaemon()
				victim.awaitPolling()
				b.killAt(victim, at)
				b.reply(thread, words)
				over := func() bool { return b.API.maxCount(words) > 0 || b.isLossTold() }
				died := false
				bound.WaitFor(bound.Patience, func() bool {
					select {
					case err := <-victim.done:
						victim.done <- err
						died = true
					default:
					}
					return died || over()
				})
				if !died {
					victim.cmd.Process.Signal(syscall.SIGTERM)
					victim.waitExit()
				}
				next := b.startDaemon()
				name := fmt.Sprintf("%s, ended %v (%s %d, died %v)", words, ended, at.call, at.n, died)
				if !bound.WaitFor(2*bound.Patience, over) {
					t.Fatalf("%s: neither said nor told", name)
				}
				if n := b.API.maxCount(words); n > 1 {
					t.Errorf("%s: Claude has it %d times", name, n)
				}
				if started := b.windowCount() - windows; ended && started > 1 {
					t.Errorf("%s: started %d times", name, started)
				}
				if died {
					killed++
				}
				if b.API.maxCount(words) > 0 {
					bound.Until(t, "the words are told of", func() bool {
						return b.countPosts("[Sent]")+b.countPosts("[Look]")+b.countPosts("[Not started]")+b.countPosts("[Cancelled]")+b.countPosts("[Not used]") >= said
					})
				}
				next.cmd.Process.Signal(syscall.SIGTERM)
				next.waitExit()
			}
		}
		t.Logf("the daemon was killed in %d of %d", killed, said)
		if killed == 0 {
			t.Error("it was never killed: the test does not do what it says")
		}
	})
}

// isLossTold says whether the last message tells that words are not with Claude, or that
// a person has to look.
func (b *hookedSession) isLossTold() bool {
	ms := b.space.Messages()
	last := ms[len(ms)-1].Text
	return slices.ContainsFunc([]string{"[Not started]", "[Look]", "came too late", "[Not used]"}, func(s string) bool { return strings.Contains(last, s) })
}

// windowCount is how many windows the session's server and our own have.
func (b *hookedSession) windowCount() int {
	out, _ := b.tmux.run("list-windows", "-a")
	return strings.Count(out+"\n", "\n")
}

// killAllOurs ends every Claude Code in the session's tmux, and leaves its first window.
func (b *hookedSession) killAllOurs() {
	b.t.Helper()
	if b.process != nil && !b.process.Exited(0) {
		b.Quit()
		return
	}
	if out, err := b.tmux.run("kill-window", "-a", "-t", "=claude:0"); err != nil {
		b.t.Fatal(out, err)
	}
	bound.Until(b.t, "its process is gone", func() bool {
		all, _ := state.SessionsIn(filepath.Join(b.Home, ".local", "state", "gchat-hooks")).All()
		return !slices.ContainsFunc(all, func(s *state.Session) bool { return s.ClaudePID > 0 && !inject.HasEnded(s.ClaudePID, s.ClaudeStart) })
	})
}
