package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

func (p Program) demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "ask a question on the embedded space and answer it from the page",
		Description: "Try it:   gchat-hooks demo\n" +
			"Scripted: gchat-hooks demo --answer 2\n" +
			"Real:     gchat-hooks demo --claude",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "answer", Usage: "reply with `TEXT` instead of waiting for one from the page"},
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDRESS` of the page"},
			&cli.BoolFlag{Name: "verbose", Usage: "also show the JSON that Claude Code receives"},
			&cli.BoolFlag{Name: "claude", Usage: "in a real Claude Code session (needs claude and tmux)"},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("answer") && c.String("answer") == "" {
				return usage(errors.New("--answer takes a text"), "")
			}
			d := demo{self: p.self, out: p.out, answer: c.String("answer"), listen: c.String("listen"), verbose: c.Bool("verbose")}
			if c.Bool("claude") {
				return d.runClaude(c.Context)
			}
			return d.run(c.Context)
		},
	}
}

// demoInput is the tool input of the question that the demo asks.
const demoInput = `{"questions": [{
	"question": "Which deployment approach should we use?", "header": "Deploy", "multiSelect": false,
	"options": [
		{"label": "Blue-green deployment", "description": "Zero downtime with instant rollback."},
		{"label": "Rolling deployment", "description": "Gradual rollout."},
		{"label": "Canary", "description": "Small slice first."}
	]}]}`

// event is what Claude Code 2.1.329 sends a hook on its stdin, with the tool input before or after the answer.
func (d *demo) event(name string, input json.RawMessage) []byte {
	b, _ := json.Marshal(map[string]any{
		"session_id": "b1e91434-d410-4fbe-b382-0fbc1f1c23d3", "cwd": filepath.Join(d.dir, "demo"), "permission_mode": "default",
		"hook_event_name": name, "tool_name": "AskUserQuestion", "tool_use_id": "toolu_demo", "tool_input": input, "tool_response": input,
	})
	return b
}

// demo is the main job on the embedded space: a question travels to the page and its answer back.
type demo struct {
	self    string // this program
	out     io.Writer
	answer  string // "" waits for a person
	listen  string
	verbose bool // also show the JSON that Claude Code receives

	dir  string // everything that the demo writes, removed at its end
	chat *space.Space
	base string
}

// start opens the space on a folder of its own.
func (d *demo) start(ctx context.Context) (stop func(), err error) {
	if d.dir, err = os.MkdirTemp("", "gchat-hooks-demo-"); err != nil {
		return nil, err
	}
	if d.chat, err = space.Open(space.Options{Data: filepath.Join(d.dir, "space")}); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", d.listen)
	if err != nil {
		return nil, err
	}
	if addr, ok := ln.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		ln.Close()
		return nil, errors.New("the demo stays on this machine: listen on 127.0.0.1")
	}
	d.base = "http://" + ln.Addr().String()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives Ctrl-C a little: see settle
	served := make(chan struct{})
	go func() { defer close(served); _ = space.Serve(serving, ln, d.chat) }()
	return func() {
		d.settle()
		cancel()
		<-served
		_ = d.chat.Close()
		d.remove()
	}, nil
}

// settle has what the demo's hooks left said while the space still stands, and waits, a few seconds at most, until
// their detached processes have ended: those may only just have been started.
func (d *demo) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	flush := exec.CommandContext(ctx, d.self, "flush", "--timeout", "2s")
	flush.Env = d.environment()
	_ = flush.Run()
	for quiet := 0; quiet < 3 && ctx.Err() == nil; quiet++ {
		locks, _ := filepath.Glob(filepath.Join(d.dir, "user", "gchat-hooks", "flusher-*.lock"))
		if slices.ContainsFunc(locks, state.Held) {
			quiet = -1
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// remove takes the demo's folder away, also when a process that was just ending writes there once more.
func (d *demo) remove() {
	for range 5 {
		_ = os.RemoveAll(d.dir)
		time.Sleep(30 * time.Millisecond)
		if _, err := os.Stat(d.dir); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}

// settings are the variables that point a hook to the demo's space, and its files to the demo's folder.
func (d *demo) settings() []string {
	return []string{
		"GOOGLE_CHAT_WEBHOOK_URL=" + d.chat.WebhookURL(d.base), "GCHAT_API_ENDPOINT=" + d.chat.APIEndpoint(d.base),
		"GCHAT_ALLOWED_USERS=" + space.Human, "GCHAT_STATE_DIR=" + filepath.Join(d.dir, "state"),
		"XDG_STATE_HOME=" + filepath.Join(d.dir, "user"), "GCHAT_POLLER_INTERVAL=1", "GCHAT_ASK_MODE=native",
	}
}

// environment is that of a recorded hook: nothing of this machine's configuration may get in.
func (d *demo) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		for _, p := range []string{"CLAUDE", "GCHAT_", "GOOGLE_", "TMUX", "HOME=", "XDG_"} {
			if strings.HasPrefix(kv, p) {
				return true
			}
		}
		return false
	})
	return append(append(env, "HOME="+d.dir, "CLAUDE_PROJECT_DIR="+filepath.Join(d.dir, "demo")), d.settings()...)
}

// hook runs this program as Claude Code runs it: the event on stdin, the decision on stdout.
func (d *demo) hook(ctx context.Context, name string, event []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.self, "hook", name)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env, cmd.Stdin, cmd.Stderr = d.environment(), bytes.NewReader(event), os.Stderr
	return cmd.Output()
}

func (d *demo) run(ctx context.Context) error {
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(d.out, "The embedded space is at  %s\n\n", d.chat.PageURL(d.base))
	fmt.Fprintf(d.out, "Claude Code asks: \"Which deployment approach should we use?\"\n")
	if d.answer == "" {
		fmt.Fprintf(d.out, "Open the page and tap an option, or type a reply. Ctrl-C ends the demo.\n")
	} else {
		go d.reply(ctx)
	}
	if _, err := d.hook(ctx, "gchat-ask-user-forward", d.event("PreToolUse", json.RawMessage(demoInput))); err != nil {
		return err
	}
	printed, err := d.hook(ctx, "gchat-ask-user-forward", d.event("PermissionRequest", json.RawMessage(demoInput)))
	if ctx.Err() != nil {
		return nil // the person ended it
	}
	var decision struct {
		Output struct {
			Decision struct {
				Input json.RawMessage `json:"updatedInput"`
			} `json:"decision"`
		} `json:"hookSpecificOutput"`
	}
	if err = errors.Join(err, json.Unmarshal(printed, &decision)); err != nil {
		return fmt.Errorf("the hook printed no decision: %w; its log was %s", err, d.log())
	}
	var input struct {
		Answers map[string]string `json:"answers"`
	}
	if err := json.Unmarshal(decision.Output.Decision.Input, &input); err != nil {
		return fmt.Errorf("read the decision: %w", err)
	}
	for _, answer := range input.Answers {
		fmt.Fprintf(d.out, "\nClaude goes on with: %s\n", answer)
	}
	if d.verbose {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, printed, "", "  "); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "\nClaude Code receives:\n%s\n", pretty.Bytes())
	}
	if _, err := d.hook(ctx, "gchat-ask-user-answered", d.event("PostToolUse", decision.Output.Decision.Input)); err != nil {
		return err
	}
	if text := d.await(ctx, "[Answered]"); text != "" {
		fmt.Fprintf(d.out, "\nThe thread says:\n%s\n", strings.TrimSpace(text))
	}
	fmt.Fprintf(d.out, "\nNext: `gchat-hooks demo --claude` asks in a real Claude Code session (it needs claude and tmux).\n")
	return nil
}

// reply answers the question for a script, as a person would: in its thread, from the page's sender.
func (d *demo) reply(ctx context.Context) {
	if d.await(ctx, "[AskUserQuestion]") == "" {
		return
	}
	for _, m := range d.chat.Messages() {
		if strings.HasPrefix(m.Text, "[AskUserQuestion]") {
			if _, err := d.chat.Say(space.Person(), m.Thread.Name, d.answer); err != nil {
				fmt.Fprintln(d.out, "reply:", err)
			}
			return
		}
	}
}

// await waits until the space holds a message with that beginning, and returns it; "" when ctx ended before.
func (d *demo) await(ctx context.Context, beginning string) string {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, m := range d.chat.Messages() {
			if strings.HasPrefix(m.Text, beginning) {
				return m.Text
			}
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

func (d *demo) log() string {
	b, err := os.ReadFile(filepath.Join(d.dir, ".claude", "logs", "gchat-hooks.log"))
	if err != nil {
		return "empty"
	}
	return string(b)
}

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
	file, stopped := filepath.Join(d.dir, "settings.json"), filepath.Join(d.dir, "stopped")
	b, err := hookSettings(d.self, stopped)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		return err
	}
	socket := filepath.Join(d.dir, "tmux")
	args := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-s", "gchat-hooks-demo", "-x", "110", "-y", "40"}
	for _, kv := range d.settings() {
		args = append(args, "-e", kv)
	}
	cmd := exec.CommandContext(ctx, "tmux", append(args, "claude", "--settings", file, demoPrompt)...)
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

// hookSettings is a settings file with the hooks of the preset answer, and one that touches stopped when the turn is over.
func hookSettings(self, stopped string) ([]byte, error) {
	hooks, err := settings.Hooks("answer")
	if err != nil {
		return nil, err
	}
	entries, _, err := settings.Program{Path: self}.Entries(hooks)
	if err != nil {
		return nil, err
	}
	return settings.Install(nil, nil, append(entries, settings.Entry{Event: "Stop", Command: "touch '" + stopped + "'"}))
}
