package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// demoPrompt makes Claude ask. It is the one thing of the demo that a model has to do.
const demoPrompt = "This is a test of AskUserQuestion. Ask me one question with it: which deployment approach we should use, " +
	"with the options Blue-green, Rolling and Canary. Then say in one sentence what I chose, and stop."

// runClaude is the demo in a real session: the person's own Claude Code, in a tmux server of its own, in this folder.
func (d *demo) runClaude(ctx context.Context) error {
	for _, program := range []string{"claude", "tmux"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("demo --claude needs %s: %w", program, err)
		}
	}
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	settings, stopped := filepath.Join(d.dir, "settings.json"), filepath.Join(d.dir, "stopped")
	hooks := hookSettings(d.self)
	hooks["Stop"] = append(hooks["Stop"], map[string]any{"hooks": []any{map[string]any{"type": "command", "command": "touch '" + stopped + "'"}}})
	b, err := json.MarshalIndent(map[string]any{"hooks": hooks}, "", "  ")
	if err == nil {
		err = os.WriteFile(settings, b, 0o600)
	}
	if err != nil {
		return err
	}
	socket := filepath.Join(d.dir, "tmux")
	args := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-s", "gchat-hooks-demo", "-x", "110", "-y", "40"}
	for _, kv := range d.settings() {
		args = append(args, "-e", kv)
	}
	cmd := exec.CommandContext(ctx, "tmux", append(args, "claude", "--settings", settings, demoPrompt)...)
	cmd.Env = append(os.Environ(), "TMUX=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start tmux: %w: %s", err, strings.TrimSpace(string(out)))
	}
	defer func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() }()
	fmt.Fprintf(d.out, "The embedded space is at  %s\n", d.chat.PageURL(d.base))
	fmt.Fprintf(d.out, "Claude Code runs in tmux: tmux -S %s attach\n", socket)
	fmt.Fprintf(d.out, "Its question will be on the page and in the terminal; the first answer wins. Ctrl-C ends the demo.\n")
	if d.answer != "" {
		go d.reply(ctx)
	}
	text, err := d.awaitEnd(ctx, socket)
	if err != nil || text == "" {
		return err
	}
	fmt.Fprintf(d.out, "\nThe thread says:\n%s\n", strings.TrimSpace(text))
	d.awaitStop(ctx, stopped)
	if d.answer == "" {
		fmt.Fprintf(d.out, "\nLook at the session, then end the demo with Ctrl-C.\n")
		<-ctx.Done()
	}
	return nil
}

// awaitEnd waits until the question has its answer, or the session is gone.
func (d *demo) awaitEnd(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := errors.New("the session ended")
	go func() {
		for ctx.Err() == nil {
			if exec.CommandContext(ctx, "tmux", "-S", socket, "has-session", "-t", "=gchat-hooks-demo").Run() != nil {
				cancel(ended)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	text := d.await(ctx, "[Answered]")
	if errors.Is(context.Cause(ctx), ended) && text == "" {
		return "", ended
	}
	return text, nil
}

// awaitStop lets Claude end its turn, half a minute at most: it says what was chosen.
func (d *demo) awaitStop(ctx context.Context, file string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// hookSettings are the entries of Claude Code's settings.json that answer questions. All their events are known to
// 2.1.45, which refuses a file with one that it does not know.
func hookSettings(self string) map[string][]any {
	entry := func(name, matcher string, timeout int) []any {
		e := map[string]any{"hooks": []any{map[string]any{
			"type": "command", "command": "'" + strings.ReplaceAll(self, "'", `'\''`) + "' hook " + name, "timeout": timeout,
		}}}
		if matcher != "" {
			e["matcher"] = matcher
		}
		return []any{e}
	}
	const ask, done, day = "gchat-ask-user-forward", "gchat-ask-user-answered", 86400
	return map[string][]any{
		"PreToolUse":        entry(ask, "AskUserQuestion", 10),
		"PermissionRequest": entry(ask, "AskUserQuestion", day),
		"PostToolUse":       entry(done, "AskUserQuestion", 10),
		"UserPromptSubmit":  entry(done, "", 10),
		"Stop":              entry(done, "", 10),
		"SessionEnd":        entry(done, "", 10),
	}
}
