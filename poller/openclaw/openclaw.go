// Package openclaw delivers messages to OpenClaw's agents with the program openclaw.
package openclaw

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// maxArgument is how long a message in a command line may be, in bytes. Linux takes
	// 128 KiB in one argument.
	maxArgument = 32 << 10
	// turnTimeout ends an openclaw that hangs. openclaw waits for the agent's whole
	// turn, and ends the turn itself after ten minutes.
	turnTimeout = 15 * time.Minute
	// maxAnswer is how long an agent's answer may be, in bytes.
	maxAnswer = 4 << 20
)

var (
	// ErrNotFound means that the program openclaw was not found.
	ErrNotFound = errors.New("openclaw is not in PATH")
	// ErrTurnFailed means that the gateway has the message, and the agent's turn on it
	// failed. Most probably its model failed.
	ErrTurnFailed = errors.New("the agent has the message, but its turn failed")
)

// InformAgent delivers a message to its agent and waits for the agent's turn. It
// returns the agent's answer if the message asks for one. An error means that the agent
// may not have the message, or could not act on it (ErrTurnFailed). openclaw cannot say
// what an agent has already got: if a poller is killed, an agent may get a message
// twice.
func InformAgent(
	ctx context.Context,
	env state.Getenv,
	message *state.Message,
) (answer string, err error) {
	folders := programFolders(env, message.Wake)
	program, err := findProgram(folders)
	if err != nil {
		return "", err
	}
	args := slices.Clone(message.Wake.Args)
	text := ""
	if i := slices.Index(args, "--message"); i >= 0 && i+1 < len(args) {
		text = args[i+1]
		if len(text) > maxArgument {
			file := strings.TrimSuffix(message.Path, ".json") + ".txt"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return "", fmt.Errorf("write the message file: %w", err)
			}
			defer os.Remove(file)
			args[i], args[i+1] = "--message-file", file
		}
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// The session's own folder may be deleted while openclaw runs.
	cmd.Env, cmd.Dir = childEnvironment(folders), state.Home(env)
	stdout, stderr := &limitedBuffer{limit: maxAnswer}, &limitedBuffer{limit: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// openclaw gets a process session of its own, so that its children end with it:
	// node starts some.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for a child that keeps our pipe open
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // it succeeded, and left a child behind
		err = nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("openclaw did not end within %s", state.DescribeDuration(turnTimeout))
	case err != nil:
		err = explainFailure(err, text, stdout.String(), stderr.String())
	}
	if !message.Wake.NeedsReply {
		return "", err
	}
	return stdout.String(), err
}

// explainFailure explains an exit code other than 0. It returns nil if the agent has
// the message and needs no second one. It goes by what openclaw 2026.9.6 prints with
// exit code 1.
func explainFailure(err error, text, stdout, stderr string) error {
	output := stdout + "\n" + stderr
	if text != "" {
		output = strings.ReplaceAll(output, text, "") // the message is not openclaw's own output
	}
	why := state.OneLine(cmp.Or(strings.TrimSpace(stderr), strings.TrimSpace(stdout), "no output"))
	why = strings.ToValidUTF8(why[:min(len(why), 300)], "")
	switch {
	case strings.Contains(output, "Agent couldn't generate a response"):
		// The agent chose to say nothing. A second message would cause another turn.
		return nil
	case strings.Contains(output, "\"runId\"") || strings.Contains(output, "⚠️"):
		return fmt.Errorf("openclaw: %w: %s", ErrTurnFailed, why)
	}
	return fmt.Errorf("openclaw: %w: %s", err, why)
}

// programFolders returns the folders in which openclaw, and the node beside it, are
// looked for: the PATH of the message's hook, our own PATH, and where npm and Homebrew
// install them, since daemons get a short PATH on some machines. Relative folders are
// left out: a project's own folder must not provide programs.
func programFolders(env state.Getenv, wake *state.Wake) []string {
	dirs := append(filepath.SplitList(wake.SearchPath), filepath.SplitList(env("PATH"))...)
	home := state.Home(env)
	dirs = append(
		dirs,
		filepath.Join(home, ".npm-global", "bin"),
		filepath.Join(home, ".local", "bin"),
		"/opt/homebrew/bin",
		"/usr/local/bin",
		"/usr/bin",
	)
	return slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
}

// findProgram returns the path of openclaw. It may have been installed after the
// message was enqueued.
func findProgram(folders []string) (string, error) {
	for _, dir := range folders {
		if path, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return path, nil
		}
	}
	return "", ErrNotFound
}

// childEnvironment returns our environment without our own settings, which hold secrets
// that openclaw must not have.
func childEnvironment(folders []string) []string {
	ourSettings := config.FileVariables()
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		isChatSetting := strings.HasPrefix(name, "GOOGLE_CHAT_") &&
			slices.Contains(ourSettings, name)
		return name == "PATH" || strings.HasPrefix(name, "GCHAT_") || isChatSetting
	})
	return append(env, "PATH="+strings.Join(folders, string(filepath.ListSeparator)))
}

// Hint returns what a person can do about a failure.
func Hint(err error) string {
	switch {
	case errors.Is(err, ErrNotFound):
		return "run `npm install -g openclaw`, " +
			"or add its folder to the PATH that Claude Code runs with"
	case strings.Contains(err.Error(), "inter-session attribution"):
		return "an agent's own command started this session, " +
			"and openclaw refuses messages from it; " +
			"start the session with: env -u OPENCLAW_SHELL tmux new-session ..."
	}
	return "gchat-hooks tries again; `gchat-hooks status` shows what waits"
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if space := b.limit - b.Len(); space > 0 {
		b.Buffer.Write(p[:min(space, len(p))])
	}
	return len(p), nil
}
