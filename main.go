// gchat-hooks lets a person answer Claude Code's questions from Google Chat. It is
// installed under several names and picks its job from the name it was called by, or from
// its first word: a hook of Claude Code, or a command for people.
package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"gchat-hooks/cli"
	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
)

func main() {
	program, err := os.Executable()
	if err != nil {
		program = programPath(os.Args[0])
	}
	// Hooks are decided before the command line's library runs: it prints usage errors to
	// stdout, which is the protocol.
	if name, ok := hookName(os.Args); ok {
		h := &hooks.Hook{
			Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Self: program, Args: os.Args,
			ReadPolicy: gchat.ReadPolicy,
		}
		if hooks.IsName(name) || wake.SetJob(h) { // a hook of another version is ignored in silence
			os.Exit(h.Run())
		}
		return
	}
	cli.Main(program)
}

// programPath is the path of the program that was called so. Without /proc Linux tells no
// other way.
func programPath(calledName string) (path string) {
	path, err := exec.LookPath(calledName)
	if err != nil {
		return calledName
	}
	path, _ = filepath.Abs(path)
	return path
}

// hookName is the hook that this process was called as: by its own name, as `gchat-hooks
// hook NAME`, or as `gchat-hooks NAME`.
func hookName(args []string) (name string, ok bool) {
	isKnown := func(name string) bool { return hooks.IsName(name) || wake.IsName(name) }
	name = hooks.JobName(filepath.Base(args[0]))
	if isKnown(name) {
		return name, true
	}
	if len(args) > 2 && args[1] == "hook" && args[2] != "--help" && args[2] != "-h" {
		return hooks.JobName(args[2]), true
	}
	if len(args) > 1 && isKnown(hooks.JobName(args[1])) {
		return hooks.JobName(args[1]), true
	}
	return "", false
}
