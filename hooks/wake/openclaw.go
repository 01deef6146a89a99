package wake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gchat-hooks/state"
)

const (
	// inArgument is how long a message may be in a command line, in bytes: Linux takes 128 KiB in one argument.
	inArgument = 32 << 10

	// turnBound ends an openclaw that hangs. It waits for the agent's whole turn, which it ends itself after ten minutes.
	turnBound = 15 * time.Minute
)

// elsewhere is where npm and Homebrew put openclaw on machines whose daemons get a short PATH.
var elsewhere = []string{"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin"}

// errNoOpenClaw says that there is no openclaw to hand a message to.
var errNoOpenClaw = errors.New("openclaw is not in PATH")

// openclaw is the CLI as a message's hook would have found it.
func openclaw(env state.Getenv, searchPath string) (string, error) {
	dirs := append(filepath.SplitList(searchPath), filepath.SplitList(env("PATH"))...)
	if home := env("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".npm-global", "bin"), filepath.Join(home, ".local", "bin"))
	}
	for _, dir := range append(dirs, elsewhere...) {
		if !filepath.IsAbs(dir) { // a project's own folder is no place to take programs from
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return path, nil
		}
	}
	return "", errNoOpenClaw
}

// errTurnFailed says that the gateway has the message, and the agent's turn on it failed: its model did, most probably.
var errTurnFailed = errors.New("the agent has the message, and its turn failed")

// What openclaw 2026.9.6 prints and ends with exit code 1: of an agent that chose to say nothing, and of a turn that failed.
var (
	saidNothing = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)(^|"text": ?")(⚠️ )?Agent couldn't generate a response`)
	})
	turnFailed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^⚠️|"runId"`) })
)

// send gives a message to the agent and returns what openclaw printed. An error means that the agent may not have it, or
// that it could not act on it (errTurnFailed).
func send(ctx context.Context, env state.Getenv, w *state.WakeMessage) ([]byte, error) {
	program, err := openclaw(env, w.SearchPath)
	if err != nil {
		return nil, err
	}
	args := arguments(w)
	if len(w.Message) > inArgument {
		file, err := messageFile(w)
		if err != nil {
			return nil, err
		}
		defer os.Remove(file)
		args = []string{"agent", "--session-id", w.To, "--message-file", file}
	}
	if w.Reply {
		args = append(args, "--json")
	}
	ctx, cancel := context.WithTimeout(ctx, turnBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = environment(w, program), home(env)
	out, errs := &bounded{most: maxReply}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	// With its children: node starts some.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for a child that keeps our pipe open
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and left a child behind
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("openclaw did not end within %s", turnBound)
	case err == nil:
		return out.Bytes(), nil
	}
	return out.Bytes(), failed(w, err, out.String(), errs.String())
}

// failed is what an exit code other than 0 means, nil when the agent has the message and wants no other.
func failed(w *state.WakeMessage, err error, out, errs string) error {
	why := firstWords(errs, out)
	said := strings.ReplaceAll(out+"\n"+errs, w.Message, "") // whose words are none of openclaw's
	switch {
	case saidNothing().MatchString(said): // again would be another turn
		return nil
	case turnFailed().MatchString(said):
		return fmt.Errorf("openclaw: %w: %s", errTurnFailed, why)
	}
	return fmt.Errorf("openclaw: %w: %s", err, why)
}

func arguments(w *state.WakeMessage) []string {
	return []string{"agent", "--session-id", w.To, "--message", w.Message}
}

// startOpenClaw gives a message to the agent without waiting, in a session of its own: a shell, which costs less to start than
// we do, keeps the claim while openclaw runs and writes down how that ended. ok is false when a courier has to do it.
func startOpenClaw(env state.Getenv, w *state.WakeMessage) (shell *os.Process, ok bool) {
	box := state.WakeOutboxIn(state.UserState(env))
	program, err := openclaw(env, w.SearchPath)
	if err != nil || len(w.Message) > inArgument || w.Reply || !box.Alone(w) { // what waits goes first
		return nil, false
	}
	claim, err := box.ClaimFor(w)
	if err != nil {
		return nil, false
	}
	defer claim.Close() // the shell has it then
	out, err := box.Output(w)
	if err != nil {
		return nil, false
	}
	defer out.Close()
	// openclaw has the person's umask; what the shell writes is for this user only.
	const script = `e=$1; shift; "$@" 3>&-; c=$?; umask 077; echo $c >"$e"`
	cmd := &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "sh", box.EndPath(w), program}, arguments(w)...),
		Dir: home(env), Env: environment(w, program), Stdout: out, Stderr: out, ExtraFiles: []*os.File{claim},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if cmd.Start() != nil {
		return nil, false
	}
	return cmd.Process, true
}

// startUnkept gives openclaw a message that could not be written down, and leaves it at that.
func startUnkept(env state.Getenv, w *state.WakeMessage) error {
	program, err := openclaw(env, w.SearchPath)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: program, Args: append([]string{"openclaw"}, arguments(w)...),
		Dir: home(env), Env: environment(w, program), SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("openclaw: %w", err)
	}
	return cmd.Process.Release()
}

// messageFile puts a long message where only this user can read it.
func messageFile(w *state.WakeMessage) (string, error) {
	path := strings.TrimSuffix(w.Path, ".json") + ".txt"
	if err := os.WriteFile(path, []byte(w.Message), 0o600); err != nil {
		return "", fmt.Errorf("message file: %w", err)
	}
	return path, nil
}

// environment is ours without our own settings, secrets that are none of openclaw's; with the PATH of the hook, as far as that
// names no project's folders, and the gateway that was meant there.
func environment(w *state.WakeMessage, program string) []string {
	dirs := slices.DeleteFunc(filepath.SplitList(w.SearchPath), func(dir string) bool { return !filepath.IsAbs(dir) })
	if !slices.Contains(dirs, filepath.Dir(program)) { // a short PATH: where npm put openclaw, or beside it, its node is
		dirs = append(append(dirs, filepath.Dir(program)), elsewhere...)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		forChat := strings.HasPrefix(name, "GOOGLE_CHAT_") && slices.Contains(state.Variables(), name)
		return name == "PATH" || namesGateway(name) || strings.HasPrefix(name, "GCHAT_") || forChat
	})
	return append(append(env, "PATH="+strings.Join(dirs, string(filepath.ListSeparator))), w.OpenClaw...)
}

// whichGateway is what this process's environment says of the gateway, but for secrets.
func whichGateway() (vars []string) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); namesGateway(name) {
			vars = append(vars, v)
		}
	}
	return vars
}

func namesGateway(name string) bool {
	secret := slices.ContainsFunc([]string{"TOKEN", "PASSWORD", "SECRET", "KEY"}, func(part string) bool {
		return strings.Contains(name, part)
	})
	return strings.HasPrefix(name, "OPENCLAW_") && !secret
}

// firstWords is the beginning of the first text that says something.
func firstWords(texts ...string) string {
	for _, t := range texts {
		if t = strings.Join(strings.Fields(readable(t)), " "); t != "" {
			return cutEnd(t, 300)
		}
	}
	return "it said nothing"
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
