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

// demo is the main job on the embedded space: a question travels to the page and its
// answer back.
type demo struct {
	Program
	scriptedAnswer string // "" waits for a person

	tempDir string // everything that the demo writes, removed at its end
	space   *space.Space
	baseURL string
}

// run opens the space in a folder of its own, has the question asked, and shows what its
// thread says.
func (d *demo) run(ctx context.Context, ask func(context.Context) error) (err error) {
	d.tempDir, err = os.MkdirTemp("", "gchat-hooks-demo-")
	if err != nil {
		return err
	}
	defer func() {
		endPollers(d.userEnv) // which the hooks started
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
	// it outlives Ctrl-C: the hooks have something left to send
	go space.Serve(context.WithoutCancel(ctx), ln, d.space)
	fmt.Fprintf(d.out, "The chat page:  %s\n", d.space.PageURL(d.baseURL))
	askCtx, cancelAsk := context.WithCancelCause(ctx)
	defer cancelAsk(nil)
	if d.scriptedAnswer != "" {
		go d.replyWhenAsked(askCtx, cancelAsk)
	}
	err = ask(askCtx)
	// what the hooks left unsent
	_ = d.command(context.WithoutCancel(ctx), "flush", "--timeout", "3s").Run()
	_, text := d.findMessage("[Answered]")
	if text != "" {
		fmt.Fprintf(d.out, "\nThe thread says:\n%s\n", strings.TrimSpace(text))
		fmt.Fprintf(
			d.out,
			"\nThe demo has ended, and so has its page. Next:  %s\n",
			d.nextCommand(),
		)
	} else if askCtx.Err() != nil && ctx.Err() == nil {
		err = exitError(context.Cause(askCtx), "gchat-hooks demo --answer 2", exitFailed)
	} else if err == nil && ctx.Err() == nil {
		err = errors.New("the session ended without an answer")
		err = exitError(err, "run claude in this folder: it says what it waits for", exitFailed)
	}
	return err
}

// nextCommand is what a person types after the demo: the source's program is gone when it
// ends.
func (d *demo) nextCommand() string {
	if _, err := (installer{Program: d.Program}).programPath(); err != nil {
		return "./install.sh"
	}
	return d.shellName() + " setup"
}

// userEnv is the environment in which the demo's folder has the user's state.
func (d *demo) userEnv(name string) string {
	return map[string]string{"XDG_STATE_HOME": filepath.Join(d.tempDir, "user")}[name]
}

// replyWhenAsked answers the question for a script, as a person would: in its thread,
// from the page's sender. It refuses the reply where the thread says that it was not
// used: nobody is there to send another one.
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

// findMessage is the space's first message with that beginning, and its thread.
func (d *demo) findMessage(prefix string) (thread, text string) {
	for _, m := range d.space.Messages() {
		if text := cmp.Or(m.Text, m.FallbackText); strings.HasPrefix(text, prefix) {
			return m.Thread.Name, text
		}
	}
	return "", ""
}

// spaceEnv are the variables that point a hook to the demo's space, and its files to the
// demo's folder.
func (d *demo) spaceEnv() []string {
	return []string{
		"GOOGLE_CHAT_SPACE_ID=" + space.Name, "GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
		"GCHAT_API_ENDPOINT=" + d.space.APIEndpoint(
			d.baseURL,
		), "GCHAT_PUBSUB_ENDPOINT=" + d.space.APIEndpoint(d.baseURL),
		"GCHAT_ALLOWED_USERS=" + space.PersonName, "GCHAT_STATE_DIR=" + filepath.Join(d.tempDir, "state"),
		"XDG_STATE_HOME=" + filepath.Join(
			d.tempDir,
			"user",
		), "GCHAT_POLLER_INTERVAL=1", "GCHAT_ASK_MODE=native",
	}
}

// command runs this program as a command or a hook. Nothing of this machine's
// configuration gets in.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(
		d.spaceEnv(),
		"PATH="+os.Getenv("PATH"),
		"HOME="+d.tempDir,
		"CLAUDE_PROJECT_DIR="+filepath.Join(d.tempDir, "demo"),
	)
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

// runHook runs a hook as Claude Code 2.1.329 does: the event on stdin, with the tool
// input before or after the answer.
func (d *demo) runHook(
	ctx context.Context,
	name, event string,
	input json.RawMessage,
) (printed []byte, err error) {
	b, _ := json.Marshal(map[string]any{
		"session_id": "b1e91434-d410-4fbe-b382-0fbc1f1c23d3", "cwd": filepath.Join(d.tempDir, "demo"), "permission_mode": "default",
		"hook_event_name": event, "tool_name": "AskUserQuestion", "tool_use_id": "toolu_demo",
		"tool_input": input, "tool_response": input,
	})
	cmd := d.command(ctx, "hook", name)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(b), os.Stderr
	return cmd.Output()
}

// askRecorded has the question asked by events as Claude Code sends them.
func (d *demo) askRecorded(ctx context.Context) error {
	fmt.Fprintf(d.out, "\nClaude Code asks: \"Which deployment approach should we use?\"\n")
	if d.scriptedAnswer == "" {
		fmt.Fprintf(
			d.out,
			"Open the page and tap an option, or type a reply. Ctrl-C ends the demo.\n",
		)
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

// demoPrompt makes Claude ask. It is the one thing of the demo that a model has to do.
const demoPrompt = "This is a test of AskUserQuestion. Ask me one question with it: which deployment approach we should use, " +
	"with the options Blue-green, Rolling and Canary. Then say in one sentence what I chose, and stop."

// askInClaude has the question asked by the person's own Claude Code, in a tmux server of
// its own, in this folder.
func (d *demo) askInClaude(ctx context.Context) error {
	if _, err := exec.LookPath("claude"); err != nil { // tmux would end at once, and not say why
		return fmt.Errorf("find Claude Code: %w", err)
	}
	socket, file := filepath.Join(d.tempDir, "tmux"), filepath.Join(d.tempDir, "settings.json")
	hooks, err := settings.PresetHooks("answer")
	entries, _ := settings.EntriesFor(d.self, settings.Version{}, hooks)
	if d.scriptedAnswer != "" { // for a script the session ends with the turn
		entries = append(
			entries,
			settings.Entry{
				Event:   "Stop",
				Command: "tmux -S " + state.QuoteForShell(socket) + " kill-server",
			},
		)
	}
	b, err2 := settings.Install(nil, entries)
	if err := errors.Join(err, err2, os.WriteFile(file, b, 0o600)); err != nil {
		return err
	}
	args := []string{
		"-S",
		socket,
		"-f",
		os.DevNull,
		"new-session",
		"-d",
		"-s",
		"gchat-hooks-demo",
		"-x",
		"110",
		"-y",
		"40",
	}
	for _, variable := range d.spaceEnv() {
		args = append(args, "-e", variable)
	}
	cmd := exec.CommandContext(
		ctx,
		"tmux",
		append(args, "claude", "--settings", file, demoPrompt)...)
	cmd.Env = append(os.Environ(), "TMUX=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start tmux: %w: %s", err, strings.TrimSpace(string(out)))
	}
	defer func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() }()
	fmt.Fprintf(
		d.out,
		"Claude Code runs in tmux: tmux -S %s attach\nIts question will be on the page and in the terminal; "+
			"the first answer wins.\nThe demo ends with the session, or with Ctrl-C.\n",
		socket,
	)
	workDir, _ := os.Getwd()
	if isTrusted, _ := state.IsFolderTrusted(os.Getenv, workDir); !isTrusted {
		fmt.Fprintf(
			d.out,
			"Claude Code first asks whether you trust %s: answer in its terminal, with that command. "+
				"The page stays empty until then.\n",
			workDir,
		)
	}
	// The server ends with Claude Code. Waiting for that with wait-for hangs where it
	// ends at this moment (tmux 3.3a).
	for exec.CommandContext(ctx, "tmux", "-S", socket, "has-session").Run() == nil {
		state.Sleep(ctx, 200*time.Millisecond)
	}
	return nil
}
