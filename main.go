// gchat-hooks lets a person answer Claude Code's questions from Google Chat. It is installed under several names and
// picks its job from the name it was called by, or from its first word: a hook of Claude Code, or a command for people.
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
	self, err := os.Executable()
	if err != nil {
		self = programOf(os.Args[0])
	}
	// Hooks are decided before the command line's library runs: it prints usage errors to stdout, which is the protocol.
	if name, ok := hookName(os.Args); ok {
		h := &hooks.Hook{
			Name: name, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Self: self, Args: os.Args,
			ReadPolicy: gchat.ReadPolicy,
		}
		if hooks.Known(name) || wake.Hook(h) { // a hook of another version is ignored in silence
			os.Exit(h.Run())
		}
		return
	}
	cli.Main(self)
}

// programOf is the path of the program that was called so. Without /proc Linux tells no other way.
func programOf(called string) (path string) {
	path, err := exec.LookPath(called)
	if err != nil {
		return called
	}
	path, _ = filepath.Abs(path)
	return path
}

// hookName is the hook that this process was called as: by its own name, as `gchat-hooks hook NAME`, or as
// `gchat-hooks NAME`.
func hookName(args []string) (name string, ok bool) {
	known := func(name string) bool { return hooks.Known(name) || wake.Known(name) }
	name = hooks.JobName(filepath.Base(args[0]))
	if known(name) {
		return name, true
	}
	if len(args) > 2 && args[1] == "hook" && args[2] != "--help" && args[2] != "-h" {
		return hooks.JobName(args[2]), true
	}
	if len(args) > 1 && known(hooks.JobName(args[1])) {
		return hooks.JobName(args[1]), true
	}
	return "", false
}
