package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

func (p Program) demoCommand() *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "see a question arrive on a page in your browser, and your answer go back",
		Description: "Try it:   gchat-hooks demo\nScripted: gchat-hooks demo --answer 2\nReal:     gchat-hooks demo --claude",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:  "answer",
				Usage: "reply with `TEXT` instead of waiting for one from the page",
			},
			&cli.BoolFlag{
				Name:  "claude",
				Usage: "in a real Claude Code session (needs claude and tmux)",
			},
		},
		Action: func(c *cli.Context) error {
			d := demo{Program: p, scriptedAnswer: c.String("answer")}
			ask := d.askRecorded
			if c.Bool("claude") {
				ask = d.askInClaude
			}
			return d.run(c.Context, ask)
		},
	}
}

// demo shows the program's main job on an embedded space of its own: a question travels
// to the page, and its answer back.
type demo struct {
	Program
	scriptedAnswer string // "" waits for a person

	tempDir string // the demo writes only here, and removes it at its end
	space   *space.Space
	baseURL string
}

// run opens the space, has the question asked, and prints what its thread says then.
func (d *demo) run(ctx context.Context, ask func(context.Context) error) (err error) {
	d.tempDir, err = os.MkdirTemp("", "gchat-hooks-demo-")
	if err != nil {
		return err
	}
	defer func() {
		endPollers(d.userEnv) // the hooks started them
		_ = removeUntilGone(d.tempDir)
	}()
	d.space, err = space.Open(space.Options{DataDir: filepath.Join(d.tempDir, "space"), IsDirect: true})
	if err != nil {
		return err
	}
	defer d.space.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the demo stays on this machine
	if err != nil {
		return err
	}
	defer ln.Close()
	d.baseURL = "http://" + ln.Addr().String()
	if err := listenForUser(d.userEnv, d.space, ln.Addr().(*net.TCPAddr).Port); err != nil {
		return err
	}
	// The space outlives Ctrl-C: the hooks may have something to send after it.
	go space.Serve(context.WithoutCancel(ctx), ln, d.space)
	fmt.Fprintf(d.out, "The page:  %s\n", d.space.PageURL(d.baseURL))
	askCtx, cancelAsk := context.WithCancelCause(ctx)
	defer cancelAsk(nil)
	if d.scriptedAnswer != "" {
		go d.replyWhenAsked(askCtx, cancelAsk)
	}
	err = ask(askCtx)
	// Send what the hooks have left in the outbox.
	_ = d.command(context.WithoutCancel(ctx), "flush", "--timeout", "3s").Run()
	_, text := d.findMessage("[Answered]")
	if text != "" {
		fmt.Fprintf(d.out, "\nThe thread says:\n%s\n", strings.TrimSpace(text))
		fmt.Fprintf(d.out, "\nThe demo has ended, and so has its page. Next:  %s\n", d.nextCommand())
	} else if askCtx.Err() != nil && ctx.Err() == nil {
		err = exitError(context.Cause(askCtx), "gchat-hooks demo --answer 2", exitFailed)
	} else if err == nil && ctx.Err() == nil {
		err = errors.New("the session ended without an answer")
		err = exitError(err, "run claude in this folder: it says what it waits for", exitFailed)
	}
	return err
}

// nextCommand is what a person types after the demo. The program of `go run` is removed
// when it ends: then it is the installation.
func (d *demo) nextCommand() string {
	if _, err := (installer{Program: d.Program}).programPath(); err != nil {
		return "./install.sh"
	}
	return d.shellName() + " setup"
}

// userEnv is an environment with the user's state in the demo's folder.
func (d *demo) userEnv(name string) string {
	return map[string]string{"XDG_STATE_HOME": filepath.Join(d.tempDir, "user")}[name]
}

// replyWhenAsked replies in the question's thread as the page's person, for a demo in a
// script. If the thread says that the reply was not used, it cancels the question: nobody
// is there to send another reply.
func (d *demo) replyWhenAsked(ctx context.Context, cancelAsk context.CancelCauseFunc) {
	for hasReplied := false; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		thread, question := d.findMessage("[AskUserQuestion]")
		if question == "" {
			continue
		}
		if !hasReplied {
			_, _ = d.space.PostAs(space.Person(), thread, d.scriptedAnswer)
			hasReplied = true
		}
		if _, note := d.findMessage("[Not "); note != "" {
			cancelAsk(errors.New("the reply was not used: " + note))
		}
	}
}

// findMessage finds the space's first message that begins with prefix, and its thread.
func (d *demo) findMessage(prefix string) (thread, text string) {
	for _, m := range d.space.Messages() {
		if text := cmp.Or(m.Text, m.FallbackText); strings.HasPrefix(text, prefix) {
			return m.Thread.Name, text
		}
	}
	return "", ""
}

// spaceEnv are the variables by which a hook uses the demo's space and the demo's folder.
func (d *demo) spaceEnv() []string {
	return []string{
		"GOOGLE_CHAT_SPACE_ID=" + space.Name,
		"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
		"GCHAT_API_ENDPOINT=" + d.space.APIEndpoint(d.baseURL),
		"GCHAT_PUBSUB_ENDPOINT=" + d.space.APIEndpoint(d.baseURL),
		"GCHAT_ALLOWED_USERS=" + space.PersonName,
		"GCHAT_STATE_DIR=" + filepath.Join(d.tempDir, "state"),
		"XDG_STATE_HOME=" + filepath.Join(d.tempDir, "user"),
		"GCHAT_POLLER_INTERVAL=1",
		"GCHAT_ASK_MODE=native",
	}
}

// command runs this program as a command or a hook, without this machine's configuration.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	projectDir := filepath.Join(d.tempDir, "demo")
	cmd.Env = append(d.spaceEnv(), "PATH="+os.Getenv("PATH"), "HOME="+d.tempDir, "CLAUDE_PROJECT_DIR="+projectDir)
	return cmd
}

// demoToolInput is the tool input of the question that the demo asks.
var demoToolInput = json.RawMessage(`{"questions": [{
	"question": "Which deployment approach should we use?", "header": "Deploy", "multiSelect": false,
	"options": [
		{"label": "Blue-green deployment", "description": "Zero downtime with instant rollback."},
		{"label": "Rolling deployment", "description": "Gradual rollout."},
		{"label": "Canary", "description": "Small slice first."}
	]}]}`)

// runHook runs a hook as Claude Code 2.1.329 does, with the event on stdin. After the
// answer, input is the tool input with the answer in it.
func (d *demo) runHook(
	ctx context.Context, name, event string, input json.RawMessage,
) (printed []byte, err error) {
	b, _ := json.Marshal(map[string]any{
		"session_id":      "b1e91434-d410-4fbe-b382-0fbc1f1c23d3",
		"cwd":             filepath.Join(d.tempDir, "demo"),
		"permission_mode": "default",
		"hook_event_name": event,
		"tool_name":       "AskUserQuestion",
		"tool_use_id":     "toolu_demo",
		"tool_input":      input,
		"tool_response":   input,
	})
	cmd := d.command(ctx, "hook", name)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(b), os.Stderr
	return cmd.Output()
}

// askRecorded asks the question by running the hooks, with events as Claude Code sends
// them.
func (d *demo) askRecorded(ctx context.Context) error {
	fmt.Fprintf(d.out, "\nClaude Code asks: \"Which deployment approach should we use?\"\n")
	if d.scriptedAnswer == "" {
		fmt.Fprintln(d.out, "Open the page and tap an option, or type a reply. Ctrl-C ends the demo.")
	}
	if _, err := d.runHook(ctx, "gchat-ask-user-forward", "PreToolUse", demoToolInput); err != nil {
		return err
	}
	printed, err := d.runHook(ctx, "gchat-ask-user-forward", "PermissionRequest", demoToolInput)
	if ctx.Err() != nil {
		return nil // the person ended it
	}
	var decision struct {
		HookSpecificOutput struct {
			Decision struct{ UpdatedInput json.RawMessage }
		}
	}
	err = errors.Join(err, json.Unmarshal(printed, &decision))
	if err != nil {
		return fmt.Errorf("the hook printed no decision: %w", err)
	}
	input := decision.HookSpecificOutput.Decision.UpdatedInput
	_, err = d.runHook(ctx, "gchat-ask-user-answered", "PostToolUse", input)
	return err
}

// demoPrompt makes Claude ask a question.
const demoPrompt = "This is a test of AskUserQuestion. Ask me one question with it: which deployment approach we should use, " +
	"with the options Blue-green, Rolling and Canary. Then say in one sentence what I chose, and stop."

// askInClaude starts the person's own Claude Code in this folder, in a tmux server of its
// own, and has it ask the question.
func (d *demo) askInClaude(ctx context.Context) error {
	if _, err := exec.LookPath("claude"); err != nil { // else tmux ends at once and says no reason
		return fmt.Errorf("find Claude Code: %w", err)
	}
	socket, file := filepath.Join(d.tempDir, "tmux"), filepath.Join(d.tempDir, "settings.json")
	hooks, err := settings.PresetHooks("answer")
	entries, _ := settings.EntriesFor(d.self, settings.Version{}, hooks)
	if d.scriptedAnswer != "" { // in a script the session ends with its first turn
		killServer := "tmux -S " + state.QuoteForShell(socket) + " kill-server"
		entries = append(entries, settings.Entry{Event: "Stop", Command: killServer})
	}
	b, err2 := settings.Install(nil, entries)
	if err := errors.Join(err, err2, os.WriteFile(file, b, 0o600)); err != nil {
		return err
	}
	args := []string{
		"-S", socket, "-f", os.DevNull,
		"new-session", "-d", "-s", "gchat-hooks-demo", "-x", "110", "-y", "40",
	}
	for _, variable := range d.spaceEnv() {
		args = append(args, "-e", variable)
	}
	args = append(args, "claude", "--settings", file, demoPrompt)
	cmd := exec.CommandContext(ctx, "tmux", args...)
	cmd.Env = append(os.Environ(), "TMUX=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start tmux: %w: %s", err, strings.TrimSpace(string(out)))
	}
	defer func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() }()
	fmt.Fprintf(d.out, "Claude Code runs in tmux: tmux -S %s attach\n"+
		"Its question will be on the page and in the terminal; the first answer wins.\n"+
		"The demo ends with the session, or with Ctrl-C.\n", socket)
	workDir, _ := os.Getwd()
	if isTrusted, _ := state.IsFolderTrusted(os.Getenv, workDir); !isTrusted {
		fmt.Fprintf(d.out, "Claude Code first asks whether you trust %s: answer in its terminal, "+
			"with that command. The page stays empty until then.\n", workDir)
	}
	// The tmux server ends with Claude Code. tmux's own wait-for is no help: it hangs if
	// the server ends at that moment (tmux 3.3a).
	for exec.CommandContext(ctx, "tmux", "-S", socket, "has-session").Run() == nil {
		state.Sleep(ctx, 200*time.Millisecond)
	}
	return nil
}
