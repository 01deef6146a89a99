package inject

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// ErrNoClaude says that keys typed into a pane would not reach a Claude Code, or not the intended one. What the
// error says besides is for a person.
var ErrNoClaude = errors.New("no Claude Code to type to")

// Claude finds the Claude Code that has the keyboard of this pane: in the process tree of what tmux started there and in
// the foreground of its terminal. Where a program in between opened a terminal of its own (script, sudo), that program
// must have the keyboard of the pane. wantPID 0 takes any Claude Code, and of several the outermost; else it must be that
// very process, which started at wantStart in the words of StartOf ("" is unknown).
func (p Pane) Claude(wantPID int, wantStart string) (int, error) {
	if p.Dead || p.PID <= 0 {
		return 0, fmt.Errorf("%w: what ran in the pane has ended", ErrNoClaude)
	}
	all, err := processes()
	if err != nil {
		return 0, err
	}
	root, ok := all[p.PID]
	if !ok || root.dead {
		return 0, fmt.Errorf("%w: what ran in the pane has ended", ErrNoClaude)
	}
	tree := below(p.PID, all)
	if wantPID != 0 {
		if err := meant(wantPID, wantStart, tree, all); err != nil {
			return 0, err
		}
		return wantPID, nil
	}
	var away process // a Claude Code that is there, but without the keyboard
	for _, c := range tree {
		if !c.isClaude(argsOf) {
			continue
		}
		if typedTo(c, root, all) && !c.stopped {
			return c.pid, nil
		}
		if away.pid == 0 && c.terminal != "" {
			away = c
		}
	}
	if away.pid != 0 && away.stopped {
		return 0, fmt.Errorf("%w: Claude Code is stopped (Ctrl-Z), %s", ErrNoClaude, runs(root, tree))
	}
	if away.pid != 0 {
		return 0, fmt.Errorf("%w: Claude Code (pid %d) is in the background, %s", ErrNoClaude, away.pid, runs(root, tree))
	}
	return 0, fmt.Errorf("%w: %s", ErrNoClaude, runs(root, tree))
}

// meant says why keys would not reach this process, nil when they would.
func meant(pid int, start string, tree []process, all map[int]process) error {
	p, ok := all[pid]
	if !ok || p.dead || start != "" && StartOf(pid) != start {
		return fmt.Errorf("%w: the Claude Code that asked (pid %d) has ended, %s", ErrNoClaude, pid, runs(tree[0], tree))
	}
	asker := fmt.Sprintf("the Claude Code that asked (pid %d)", pid)
	switch {
	case !slices.ContainsFunc(tree, func(t process) bool { return t.pid == pid }):
		return fmt.Errorf("%w: %s is not in this pane, %s", ErrNoClaude, asker, runs(tree[0], tree))
	case !p.isClaude(argsOf):
		return fmt.Errorf("%w: pid %d is %s, not Claude Code", ErrNoClaude, pid, filepath.Base(p.name))
	case p.stopped:
		return fmt.Errorf("%w: Claude Code is stopped (Ctrl-Z), %s", ErrNoClaude, runs(tree[0], tree))
	case !typedTo(p, tree[0], all):
		return fmt.Errorf("%w: %s is in the background, %s", ErrNoClaude, asker, runs(tree[0], tree))
	}
	return nil
}

// typedTo says whether keys typed into the pane reach p: it has the keyboard of its terminal, and so has, up to the
// pane's own terminal, every program that opened the next one.
func typedTo(p, root process, all map[int]process) bool {
	if !p.hasKeyboard() {
		return false
	}
	at := p
	for range len(all) { // the table can hold a ring
		if at.terminal == root.terminal {
			return true
		}
		above, ok := all[at.parent]
		if !ok || at.pid == root.pid {
			return false
		}
		if above.terminal != at.terminal && !above.hasKeyboard() {
			return false
		}
		at = above
	}
	return false
}

// runs says what has the keyboard of the pane instead.
func runs(root process, tree []process) string {
	var front process
	for _, p := range tree {
		if p.terminal == root.terminal && p.hasKeyboard() && (front.pid == 0 || p.pid == p.foreground) {
			front = p
		}
	}
	if front.pid == 0 {
		front = root
	}
	return fmt.Sprintf("the pane runs %s (pid %d)", filepath.Base(cmp.Or(front.name, "a program")), front.pid)
}
