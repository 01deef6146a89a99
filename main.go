// gchat-hooks lets a person answer Claude Code's questions from Google Chat. The program
// is installed under several names. The name it is called by, or else its first argument,
// says whether it is a hook of Claude Code or a command for people.
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
	// A hook must not reach the command line's library: urfave/cli v2 prints usage errors
	// to stdout, where Claude Code reads the hook's decision.
	if name, ok := hookName(os.Args); ok {
		h := &hooks.Hook{
			Name:       name,
			Args:       os.Args,
			Self:       program,
			Env:        os.Getenv,
			Stdin:      os.Stdin,
			Stdout:     os.Stdout,
			Stderr:     os.Stderr,
			ReadPolicy: gchat.ReadPolicy,
		}
		// The name may be that of another version's hook: it does nothing, in silence.
		if hooks.IsName(name) || wake.SetJob(h) {
			os.Exit(h.Run())
		}
		return
	}
	cli.Main(program)
}

// programPath is the path of the program that was called as calledName. On Linux without
// /proc os.Executable fails, and the name is all there is.
func programPath(calledName string) (path string) {
	path, err := exec.LookPath(calledName)
	if err != nil {
		return calledName
	}
	path, _ = filepath.Abs(path)
	return path
}

// hookName is the hook that this process is called as: by the program's own name, as
// `gchat-hooks hook NAME`, or as `gchat-hooks NAME`.
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
