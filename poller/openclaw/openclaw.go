// Package openclaw gives messages to OpenClaw's agents, with the program openclaw.
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
	// maxArgument is how long a message may be in a command line, in bytes: Linux takes
	// 128 KiB in one argument.
	maxArgument = 32 << 10
	// turnTimeout ends an openclaw that hangs. It waits for the agent's whole turn, which
	// it ends itself after ten minutes.
	turnTimeout = 15 * time.Minute
	// maxAnswer bounds an agent's answer, in bytes.
	maxAnswer = 4 << 20
)

var (
	// ErrNotFound says that there is no openclaw to give a message to.
	ErrNotFound = errors.New("openclaw is not in PATH")
	// ErrTurnFailed says that the gateway has the message, and the agent's turn on it
	// failed: its model did, most probably.
	ErrTurnFailed = errors.New("the agent has the message, and its turn failed")
)

// InformAgent gives a message to its agent, waits for the agent's turn, and returns what
// it answered where the message wants that. An error means that the agent may not have
// it, or that it could not act on it (ErrTurnFailed). openclaw cannot be asked what an
// agent was told: after a poller that was killed, an agent may be told twice.
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
	args, text := slices.Clone(message.Wake.Args), ""
	if i := slices.Index(args, "--message"); i >= 0 && i+1 < len(args) {
		text = args[i+1]
		if len(text) > maxArgument {
			file := strings.TrimSuffix(message.Path, ".json") + ".txt"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return "", fmt.Errorf("message file: %w", err)
			}
			defer os.Remove(file)
			args[i], args[i+1] = "--message-file", file
		}
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// the session's own folder may be gone before it ends
	cmd.Env, cmd.Dir = childEnvironment(folders), state.Home(env)
	stdout, stderr := &limitedBuffer{limit: maxAnswer}, &limitedBuffer{limit: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// In a session of its own, so that it ends with its children: node starts some.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for a child that keeps our pipe open
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and left a child behind
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

// explainFailure is what an exit code other than 0 means, nil when the agent has the
// message and wants no other. It goes by what openclaw 2026.9.6 prints with exit code 1.
func explainFailure(err error, text, stdout, stderr string) error {
	output := stdout + "\n" + stderr
	if text != "" {
		output = strings.ReplaceAll(output, text, "") // whose words are none of openclaw's
	}
	why := state.OneLine(
		cmp.Or(strings.TrimSpace(stderr), strings.TrimSpace(stdout), "it said nothing"),
	)
	why = strings.ToValidUTF8(why[:min(len(why), 300)], "")
	switch {
	case strings.Contains(output, "Agent couldn't generate a response"):
		// it chose to say nothing; again would be another turn
		return nil
	case strings.Contains(output, "\"runId\"") || strings.Contains(output, "⚠️"):
		return fmt.Errorf("openclaw: %w: %s", ErrTurnFailed, why)
	}
	return fmt.Errorf("openclaw: %w: %s", err, why)
}

// programFolders are where openclaw, and node beside it, are looked for: on the PATH of
// the message's hook, on ours, and where npm and Homebrew put them on machines whose
// daemons get a short PATH. A project's own folder is no place to take programs from.
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

// findProgram is openclaw, which may have been installed since the message was put.
func findProgram(folders []string) (string, error) {
	for _, dir := range folders {
		if path, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return path, nil
		}
	}
	return "", ErrNotFound
}

// childEnvironment is ours without our own settings, secrets that are none of openclaw's.
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

// Hint is what a person can do about a failure.
func Hint(err error) string {
	switch {
	case errors.Is(err, ErrNotFound):
		return "npm install -g openclaw, or put it into the PATH that Claude Code runs with"
	case strings.Contains(err.Error(), "inter-session attribution"):
		return "the session was started by an agent's own command, and openclaw refuses what such a one sends; " +
			"start it with: env -u OPENCLAW_SHELL tmux new-session ..."
	}
	return "it is tried again; `gchat-hooks status` shows what waits"
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
