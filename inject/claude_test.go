package inject

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// copyProgram makes a program that only sleeps and that the kernel and ps know by this
// name.
func (w testTmux) copyProgram(name string) string {
	w.t.Helper()
	sleep, err := exec.LookPath("sleep")
	kit.NoError(w.t, err)
	path := filepath.Join(w.dir, name)
	kit.WriteFile(w.t, path, kit.ReadFile(w.t, sleep), 0o700)
	return path
}

// awaitProcess waits for a program in the process tree of the pane and returns its pid.
func (w testTmux) awaitProcess(p Pane, name string) (pid int) {
	w.t.Helper()
	bound.Until(w.t, name+" runs in the pane", func() bool {
		all, err := listProcesses()
		kit.NoError(w.t, err)
		for _, c := range all {
			if depth(p.PID, c.pid, all) >= 0 && filepath.Base(c.name) == name && !c.dead {
				pid = c.pid
			}
		}
		return pid != 0
	})
	return pid
}

// awaitKeyboard waits until a Claude Code has the keyboard of a pane.
func (w testTmux) awaitKeyboard(pane string, pid int) {
	w.t.Helper()
	bound.Until(w.t, "it has the keyboard", func() bool {
		found, _ := w.pane(pane).FindClaude(0, "")
		return found == pid
	})
}

// awaitNoClaude waits until a pane has no Claude Code in front, which says why.
func (w testTmux) awaitNoClaude(pane string, pid int, why string) {
	w.t.Helper()
	bound.Until(w.t, why, func() bool {
		found, err := w.pane(pane).FindClaude(pid, "")
		return found == 0 && errors.Is(err, ErrNoClaude) && strings.Contains(err.Error(), why)
	})
}

func TestClaude_HasTheKeyboard(t *testing.T) {
	for name, command := range map[string]string{
		"alone":          `exec ./claude 600`,
		"in a shell":     `./claude 600; :`,
		"deep":           `sh -c 'sh -c "env A=b sh -c \"./claude 600; :\"; :"; :'; :`,
		"job of a shell": `set -m; sh -c './claude 600; :'; :`,
		"in a pipe":      `./claude 600 | cat`,
		"beside others":  `set -m; sleep 600 & ./claude 600; :`,
	} {
		t.Run(name, func(t *testing.T) {
			w, first := newTestTmux(t, "exec sleep 600")
			w.copyProgram("claude")
			p := w.newSession("claude", command)
			pid := w.awaitProcess(p, "claude")
			w.awaitProcess(first, "sleep")
			w.awaitKeyboard(p.ID, pid)
			start := ProcessStart(pid)
			for _, start := range []string{"", start} {
				got, err := w.pane(p.ID).FindClaude(pid, start)
				kit.True(t, err == nil && got == pid, "asked for: %d, %v; want %d", got, err, pid)
			}
			const notInFront = "or is not in front, the pane runs sleep"
			for name, c := range map[string]struct {
				pane       Pane
				pid        int
				start, why string
			}{
				"one of the same number elsewhere":   {p, pid, start + "1", "another container"},
				"another process of the same number": {p, pid, "1" + start, "has ended"},
				"another pane":                       {first, pid, start, notInFront},
				"no Claude Code, by its number":      {first, first.PID, "", notInFront},
				"another program":                    {first, 0, "", "the pane runs sleep"},
			} {
				_, err := w.pane(c.pane.ID).FindClaude(c.pid, c.start)
				kit.True(t, errors.Is(err, ErrNoClaude) && strings.Contains(err.Error(), c.why),
					"%s: %v", name, err)
			}
		})
	}
}

func TestClaude_WithoutTheKeyboard(t *testing.T) {
	for _, c := range []struct {
		name, command string
		stop          bool
		says          string
	}{
		{"in the background", `set -m; ./claude 600 & ./editor 600; :`, false,
			"the pane runs editor"},
		{"stopped behind", `set -m; ./claude 600 & ./editor 600; :`, true, "the pane runs editor"},
		{"stopped in front", `./claude 600 & ./editor 600; :`, true, "the pane runs "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := newTestTmux(t, "exec sleep 600")
			w.copyProgram("claude")
			w.copyProgram("editor")
			p := w.newSession("claude", c.command)
			pid := w.awaitProcess(p, "claude")
			w.awaitProcess(p, "editor")
			if c.stop {
				kit.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			}
			for _, want := range []int{0, pid} {
				w.awaitNoClaude(p.ID, want, c.says)
			}
			kit.True(t, isAlive(pid), "a stopped process counts as ended")
		})
	}
}

// A person presses Ctrl-Z in Claude Code and then enters fg in the shell.
func TestClaude_AfterCtrlZ(t *testing.T) {
	kit.NeedProgram(t, "bash")
	w, _ := newTestTmux(t, "exec sleep 600")
	w.copyProgram("claude")
	p := w.newSession("claude", "exec bash --norc --noprofile -i")
	w.tmux("send-keys", "-t", p.ID, "./claude 600", "Enter")
	pid := w.awaitProcess(p, "claude")
	w.awaitKeyboard(p.ID, pid)
	w.tmux("send-keys", "-t", p.ID, "C-z")
	w.awaitNoClaude(p.ID, 0, "the pane runs bash") // it is stopped
	w.tmux("send-keys", "-t", p.ID, "fg", "Enter")
	w.awaitKeyboard(p.ID, pid)
	w.tmux("send-keys", "-t", p.ID, "C-c")
	w.awaitNoClaude(p.ID, pid, "has ended or is not in front, the pane runs bash")
	bound.Until(t, "its parent has asked for its end",
		func() bool { return !isAlive(pid) && ProcessStart(pid) == "" })
}

func TestClaude_ProcessesOfTheNpmPackage(t *testing.T) {
	args := func(argv ...string) func(int) []string { return func(int) []string { return argv } }
	for name, c := range map[string]struct {
		p    process
		argv []string
		want bool
	}{
		"its title":  {process{name: "claude"}, nil, true},
		"path by ps": {process{name: "/opt/homebrew/bin/claude"}, nil, true},
		"its first second": {process{name: "node"},
			[]string{"node", "/x/node_modules/@anthropic-ai/claude-code/cli.js", "-c"}, true},
		"the link": {process{name: "node"}, []string{"node", "/usr/local/bin/claude"}, true},
		"with options": {process{name: "node"},
			[]string{"node", "--no-warnings", "/x/claude-code/cli.js"}, true},
		"by version on macOS": {process{name: "2.1.329"}, []string{"claude", "--continue"}, true},
		"other node": {process{name: "node"}, []string{"node", "server.js", "claude"},
			false},
		"other folder": {process{name: "node"},
			[]string{"node", "/x/not-claude-code/cli.js"}, false},
		"npm's on macOS":     {process{name: "claude.exe"}, nil, true},
		"its title on macOS": {process{name: "node"}, []string{"claude", "", ""}, true},
		"other version":      {process{name: "2.1.329"}, []string{"./2.1.329"}, false},
		"editor of its name": {process{name: "vim"}, []string{"vim", "claude"}, false},
		"claude-squad":       {process{name: "claude-squad"}, nil, false},
		"no argv":            {process{name: "node"}, nil, false},
		"no name":            {process{}, nil, false},
		"zombie":             {process{name: "claude", dead: true}, nil, false},
	} {
		kit.Equalf(t, c.p.isClaude(args(c.argv...)), c.want, "%s", name)
	}
}

// This is what macOS reports about a process. Its start is formatted as `ps` prints it,
// because open records of earlier releases contain that.
func TestClaude_ProcessListOfMacOS(t *testing.T) {
	east := time.FixedZone("", 2*3600)
	kit.Equalf(t, formatLstart(time.Date(2026, 1, 2, 1, 4, 5, 999, east)),
		"Thu Jan 1 23:04:05 2026", "start")
	argc := "\x03\x00\x00\x00"
	for raw, want := range map[string][]string{
		argc + "/opt/node\x00\x00\x00\x00node\x00a b\x00\x00HOME=/h\x00": {"node", "a b", ""},
		argc + "/opt/node\x00\x00claude\x00\x00\x00HOME=/h\x00":          {"claude", "", ""},
		argc + "/opt/node\x00node\x00":                                   nil,
		argc + "/opt/node":                                               nil,
		argc:                                                             nil,
		"\xff\xff\xff\xff/opt/node\x00node\x00":                          nil,
		"\x00\x00\x00\x00":                                               {},
		"\x03":                                                           nil,
		"":                                                               nil,
	} {
		got := splitProcArgs([]byte(raw))
		kit.True(t, slices.Equal(got, want), "%q: %q, want %q", raw, got, want)
	}
}

// While we read the process table, the kernel reuses pids, so a process can seem to be
// its own grandparent.
func TestClaude_ProcessTreeEnds(t *testing.T) {
	ring := map[int]process{
		10: {pid: 10, parent: 12, group: 10, foreground: 11, terminal: "1", name: "sh"},
		11: {pid: 11, parent: 10, group: 11, foreground: 11, terminal: "2", name: "claude"},
		12: {pid: 12, parent: 11, group: 11, foreground: 11, terminal: "3", name: "claude"},
		13: {pid: 13, parent: 13, name: "x"},
		14: {pid: 14, parent: 15, group: 14, foreground: 14, terminal: "4", name: "claude"},
		15: {pid: 15, parent: 14, group: 14, foreground: 14, terminal: "4", name: "claude"},
	}
	for root, want := range map[int]int{10: 3, 11: 3, 13: 1, 14: 2, 99: 0} {
		got := 0
		for pid := range ring {
			if depth(root, pid, ring) >= 0 {
				got++
			}
		}
		kit.Equalf(t, got, want, "%d", root)
	}
	for p, want := range map[process]bool{
		{group: 5, foreground: 5, terminal: "1"}:             true,
		{group: 5, foreground: 5, terminal: "1", dead: true}: false,
		{group: 5, foreground: 6, terminal: "1"}:             false,
		{group: -1, foreground: -1, terminal: "1"}:           false,
		{group: 5, foreground: 5}:                            false,
		{group: 5, foreground: 5, terminal: "2"}:             false,
	} {
		kit.Equalf(t, p.hasKeyboard("1"), want, "%+v", p)
	}
}

func TestClaude_RunningAndStart(t *testing.T) {
	kit.True(t, isAlive(os.Getpid()) && ProcessStart(os.Getpid()) != "",
		"this process is not there")
	for _, pid := range []int{0, -1, 1 << 30} {
		kit.True(t, !isAlive(pid) && ProcessStart(pid) == "", "%d is there", pid)
	}
	cmd := bound.Command(t, "true")
	kit.NoError(t, cmd.Start())
	bound.Until(t, "an ended child counts as ended before its parent asks",
		func() bool { return !isAlive(cmd.Process.Pid) })
	kit.NoError(t, cmd.Process.Signal(syscall.Signal(0))) // it is a zombie
	_ = cmd.Wait()
	for _, want := range []int{0, os.Getpid()} {
		_, err := Pane{ID: "%0", PID: 1 << 30}.FindClaude(want, "")
		kit.True(t, errors.Is(err, ErrNoClaude), "%d: %v", want, err)
	}
}
