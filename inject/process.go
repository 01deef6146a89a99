package inject

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// process is one line of the machine's process table.
type process struct {
	pid, parent int
	group       int
	foreground  int    // the process group that has its terminal's keyboard; 0 or less without a terminal
	terminal    string // "" without one
	stopped     bool
	dead        bool   // ended, and its parent has not asked for its end yet
	name        string // comm: what the kernel calls it
}

// hasKeyboard says whether keys typed into the process's own terminal reach it.
func (p process) hasKeyboard() bool {
	return p.terminal != "" && p.foreground > 0 && p.group == p.foreground && !p.dead
}

// isClaude says whether a process is a Claude Code. The kernel calls it "claude" (2.1.329; cli.js has node call
// itself so, after its first second), or, as macOS names a program by the file behind a link, by its version; then it is
// argv[0] that says claude. args is asked only where the name leaves it open.
func (p process) isClaude(args func(pid int) []string) bool {
	name := filepath.Base(p.name)
	if p.dead {
		return false
	}
	if name == "claude" {
		return true
	}
	engine := name == "node" || name == "nodejs" || name == "bun"
	version := name != "" && name[0] >= '0' && name[0] <= '9'
	if !engine && !version {
		return false
	}
	argv := args(p.pid)
	if len(argv) > 1 && engine { // the package's script, or the link to it on the PATH
		return filepath.Base(argv[1]) == "claude" || slices.ContainsFunc(argv[1:], func(arg string) bool {
			return arg == "claude-code/cli.js" || strings.HasSuffix(arg, "/claude-code/cli.js")
		})
	}
	return len(argv) > 0 && version && filepath.Base(argv[0]) == "claude"
}

// farthestClaude is how many processes stand at most between a hook and its Claude Code: shells, wrappers.
const farthestClaude = 6

// ClaudeAbove is the Claude Code that started this process; 0 when there is none. Before 2.1.214 no variable names it.
func ClaudeAbove() int {
	of := lookUp()
	pid := os.Getppid()
	for range farthestClaude {
		p, ok := of(pid)
		if !ok || pid <= 1 {
			return 0
		}
		if p.isClaude(argsOf) {
			return pid
		}
		pid = p.parent
	}
	return 0
}

// below is the tree of a process, the process itself first, then its children, then theirs. The table was read while
// processes came and went: a pid may stand for two, and parents may form a ring.
func below(root int, all map[int]process) []process {
	children := map[int][]int{}
	for pid, p := range all {
		children[p.parent] = append(children[p.parent], pid)
	}
	var tree []process
	seen := map[int]bool{}
	for level := []int{root}; len(level) > 0; {
		var next []int
		for _, pid := range level {
			if p, ok := all[pid]; ok && !seen[pid] {
				seen[pid] = true
				tree = append(tree, p)
				next = append(next, children[pid]...)
			}
		}
		level = next
	}
	return tree
}
