package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// TestThePollerIsKilledWhileItBringsWords kills -9 the daemon at a step of bringing what
// a person wrote to a session: one that is idle, and one that has ended and is resumed
// for it. Another daemon follows. Claude has the words once, or their thread is told; and
// no session is started twice.
//
// A few of the steps by default; GCHAT_E2E_KILLS=all takes more of them.
func TestThePollerIsKilledWhileItBringsWords(t *testing.T) {
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
