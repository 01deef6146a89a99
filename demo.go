package main

import (
	"bytes"
	"context"
	"embed"
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

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// recorded is a question as Claude Code 2.1.329 told its hooks of it.
//
//go:embed hooks/testdata/2.1.329/single-03-PreToolUse.json hooks/testdata/2.1.329/single-04-PermissionRequest.json hooks/testdata/2.1.329/single-05-PostToolUse.json
var recorded embed.FS

// demo is the main job on the embedded space: a question travels to the page and its answer back.
type demo struct {
	self   string // this program
	out    io.Writer
	answer string // "" waits for a person
	listen string

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
	events := map[string][]byte{}
	for event, file := range map[string]string{"PreToolUse": "03", "PermissionRequest": "04", "PostToolUse": "05"} {
		if events[event], err = recorded.ReadFile("hooks/testdata/2.1.329/single-" + file + "-" + event + ".json"); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "The embedded space is at  %s\n\n", d.chat.PageURL(d.base))
	fmt.Fprintf(d.out, "Claude Code asks: \"Which deployment approach should we use?\"\n")
	if d.answer == "" {
		fmt.Fprintf(d.out, "Open the page and tap an option, or type a reply. Ctrl-C ends the demo.\n")
	} else {
		go d.reply(ctx)
	}
	if _, err := d.hook(ctx, "gchat-ask-user-forward", events["PreToolUse"]); err != nil {
		return err
	}
	decision, err := d.hook(ctx, "gchat-ask-user-forward", events["PermissionRequest"])
	if ctx.Err() != nil {
		return nil // the person ended it
	}
	if err != nil || len(decision) == 0 {
		return errors.Join(err, errors.New("the hook printed no decision; its log was "+d.log()))
	}
	after, answer, err := withAnswers(events["PostToolUse"], decision)
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, decision, "", "  "); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nThe answer is: %s\n\nClaude Code receives:\n%s\n", answer, pretty.Bytes())
	if _, err := d.hook(ctx, "gchat-ask-user-answered", after); err != nil {
		return err
	}
	if text := d.await(ctx, "[Answered]"); text != "" {
		fmt.Fprintf(d.out, "The thread says:\n%s\n", strings.TrimSpace(text))
	}
	return nil
}

// withAnswers makes the PostToolUse event that Claude Code would send after that decision.
func withAnswers(event, decision []byte) (after []byte, answer string, err error) {
	var d struct {
		Output struct {
			Decision struct {
				Input map[string]any `json:"updatedInput"`
			} `json:"decision"`
		} `json:"hookSpecificOutput"`
	}
	var e map[string]any
	if err := errors.Join(json.Unmarshal(decision, &d), json.Unmarshal(event, &e)); err != nil {
		return nil, "", err
	}
	answers, _ := d.Output.Decision.Input["answers"].(map[string]any)
	for _, a := range answers {
		answer = fmt.Sprint(a)
	}
	e["tool_input"], e["tool_response"] = d.Output.Decision.Input, d.Output.Decision.Input
	after, err = json.Marshal(e)
	return after, answer, err
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
