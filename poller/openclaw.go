package poller

import (
	"bytes"
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

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// inArgument is how long a message may be in a command line, in bytes: Linux takes 128 KiB in one argument.
	inArgument = 32 << 10
	// turnBound ends an openclaw that hangs. It waits for the agent's whole turn, which it ends itself after ten minutes.
	turnBound = 15 * time.Minute
	// longestAnswer bounds an agent's answer, in bytes.
	longestAnswer = 4 << 20

	// oldWake is how long a message that was tried often enough is kept.
	oldWake = 24 * time.Hour
	// An agent whose turns fail on a message that it has is given it again for so long, and so often at least.
	failingTurns    = 8
	failingTurnsFor = time.Hour
)

// wakePauses are how long a message for an agent waits after each try that failed.
var wakePauses = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

var (
	// errNoOpenClaw says that there is no openclaw to give a message to.
	errNoOpenClaw = errors.New("openclaw is not in PATH")
	// errTurnFailed says that the gateway has the message, and the agent's turn on it failed: its model did, most probably.
	errTurnFailed = errors.New("the agent has the message, and its turn failed")
)

// openclaw is the transport to OpenClaw's agents.
type openclaw struct{ env state.Getenv }

// find never finds one: openclaw cannot be asked what an agent was told. After a poller that was killed, an agent may be told
// twice.
func (o openclaw) find(context.Context, *state.Message) (receipt, bool) { return receipt{}, false }

// deliver gives a message to the agent and waits for its turn. An error means that the agent may not have it, or that it could
// not act on it (errTurnFailed).
func (o openclaw) deliver(ctx context.Context, m *state.Message) (receipt, error) {
	program, err := o.program(m.Wake)
	if err != nil {
		return receipt{}, err
	}
	args, text := slices.Clone(m.Wake.Args), ""
	if i := slices.Index(args, "--message"); i >= 0 && i+1 < len(args) {
		text = args[i+1]
		if len(text) > inArgument {
			file := strings.TrimSuffix(m.Path, ".json") + ".txt"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				return receipt{}, fmt.Errorf("message file: %w", err)
			}
			defer os.Remove(file)
			args[i], args[i+1] = "--message-file", file
		}
	}
	ctx, cancel := context.WithTimeout(ctx, turnBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = o.environment(m.Wake), state.Home(o.env) // the session's own folder may be gone before it ends
	out, errs := &bounded{most: longestAnswer}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = out, errs
	// In a session of its own, so that it ends with its children: node starts some.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for a child that keeps our pipe open
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and left a child behind
		err = nil
	case ctx.Err() != nil:
		return receipt{}, fmt.Errorf("openclaw did not end within %s", state.InWords(turnBound))
	case err != nil:
		err = wakeFailed(err, text, out.String(), errs.String())
	}
	if !m.Wake.Reply {
		return receipt{}, err
	}
	return receipt{Answer: out.String()}, err
}

// wakeFailed is what an exit code other than 0 means, nil when the agent has the message and wants no other. It goes by what
// openclaw 2026.9.6 prints with exit code 1.
func wakeFailed(err error, text, out, errs string) error {
	said := out + "\n" + errs
	if text != "" {
		said = strings.ReplaceAll(said, text, "") // whose words are none of openclaw's
	}
	why := firstWords(errs, out)
	switch {
	case strings.Contains(said, "Agent couldn't generate a response"): // it chose to say nothing; again would be another turn
		return nil
	case strings.Contains(said, "\"runId\"") || strings.Contains(said, "⚠️"):
		return fmt.Errorf("openclaw: %w: %s", errTurnFailed, why)
	}
	return fmt.Errorf("openclaw: %w: %s", err, why)
}

// folders are where openclaw, and node beside it, are looked for: on the PATH of the message's hook, on ours, and where npm and
// Homebrew put them on machines whose daemons get a short PATH. A project's own folder is no place to take programs from.
func (o openclaw) folders(w *state.Wake) []string {
	dirs := append(filepath.SplitList(w.Path), filepath.Dir(w.Program))
	dirs = append(dirs, filepath.SplitList(o.env("PATH"))...)
	home := state.Home(o.env)
	dirs = append(dirs, filepath.Join(home, ".npm-global", "bin"), filepath.Join(home, ".local", "bin"),
		"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin")
	return slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
}

// program is openclaw as the message's hook found it, else as it would find it now: it may have been installed meanwhile.
func (o openclaw) program(w *state.Wake) (string, error) {
	if filepath.IsAbs(w.Program) {
		if path, err := exec.LookPath(w.Program); err == nil {
			return path, nil
		}
	}
	for _, dir := range o.folders(w) {
		if path, err := exec.LookPath(filepath.Join(dir, "openclaw")); err == nil {
			return path, nil
		}
	}
	return "", errNoOpenClaw
}

// environment is ours without our own settings, secrets that are none of openclaw's.
func (o openclaw) environment(w *state.Wake) []string {
	ours := config.Variables()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		forChat := strings.HasPrefix(name, "GOOGLE_CHAT_") && slices.Contains(ours, name)
		return name == "PATH" || strings.HasPrefix(name, "GCHAT_") || forChat
	})
	return append(env, "PATH="+strings.Join(o.folders(w), string(filepath.ListSeparator)))
}

// notTaken writes down that a message could not be given to its agent, and when it is tried again.
func (s *sender) notTaken(m *state.Message, cause error) step {
	why := s.Log.Clean(cause.Error())
	line := s.Log.Error()
	if m.Tries > 0 {
		line = s.Log.Warn()
	}
	line.Str("error", why).Str("session", m.SessionID).Str("agent", m.Wake.To).Str("trigger", m.Wake.Trigger).
		Int("tries", m.Tries+1).Str("hint", wakeHint(cause)).Msg("wake message not delivered; it waits in the outbox")
	age := s.now().Sub(m.CreatedAt)
	old := age > oldWake || age > failingTurnsFor && errors.Is(cause, errTurnFailed)
	if m.Tries+1 >= failingTurns && old {
		return s.setAside(m, "the agent does not take it: "+why)
	}
	pause := wakePauses[min(m.Tries, len(wakePauses)-1)]
	return s.failed(m, why, false, step{until: s.now().Add(pause)})
}

func wakeHint(err error) string {
	switch {
	case errors.Is(err, errNoOpenClaw):
		return "npm install -g openclaw, or put it into the PATH that Claude Code runs with"
	case strings.Contains(err.Error(), "inter-session attribution"):
		return "the session was started by an agent's own command, and openclaw refuses what such a one sends; " +
			"start it with: env -u OPENCLAW_SHELL tmux new-session ..."
	}
	return "it is tried again; `gchat-hooks status` shows what waits"
}

// firstWords is the beginning of the first text that says something.
func firstWords(texts ...string) string {
	for _, t := range texts {
		if t = strings.Join(strings.Fields(gchat.CleanReply(t)), " "); t != "" {
			return gchat.Cut(t, 300)
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
