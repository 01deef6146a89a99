package claudecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// commandTimeout is how long a call of tmux may take.
	commandTimeout = 10 * time.Second
	// screenInterval is the time between two looks at a screen or a space, at first.
	screenInterval = 50 * time.Millisecond
)

// scene says how a session is started. The contracts of one scene share sessions.
type scene struct {
	args    []string // for Claude Code
	env     []string
	presets []string // whose hooks are registered
	// outsideTmux hides tmux from Claude Code.
	outsideTmux bool
	// hasForms registers an MCP server whose tool asks for a form.
	hasForms bool
}

// session is a real Claude Code in a tmux server of its own, with a home folder, a model
// and an embedded space of its own.
type session struct {
	check *Check
	scene scene
	dir   string // everything of the session is in it
	home  string
	// project is the folder in which Claude Code runs.
	project string
	env     []string
	model   *fakemodel.Server
	chat    *space.Space
	servers []*http.Server
}

// startSession starts a session and waits until it takes a prompt.
func (c *Check) startSession(ctx context.Context, s scene) (*session, error) {
	dir, err := os.MkdirTemp(c.dir, "s")
	if err != nil {
		return nil, err
	}
	started := &session{
		check: c, scene: s, dir: dir,
		home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"),
		model: fakemodel.New(),
	}
	started.model.Project = started.project
	started.chat, err = space.Open(space.Options{IsDirect: true})
	if err != nil {
		return nil, err
	}
	chatURL := ""
	modelURL, err := started.serve(started.model)
	if err == nil {
		chatURL, err = started.serve(started.chat.Handler())
	}
	if err == nil {
		started.env = started.environment(modelURL, chatURL)
		err = started.writeFiles()
	}
	if err == nil {
		err = started.openPane(ctx)
	}
	if err == nil {
		err = started.awaitPrompt(ctx)
	}
	if err != nil {
		started.close()
		return nil, err
	}
	return started, nil
}

// serve serves a handler on a free port of this machine until the session is closed, and
// returns its address. The package net/http/httptest would do the same, but costs each
// hook a part of its start.
func (s *session) serve(handler http.Handler) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler}
	s.servers = append(s.servers, server)
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// environment returns all variables that the session's processes get. None of the
// person's own reaches them, but for PATH.
func (s *session) environment(modelURL, chatURL string) []string {
	endpoint := s.chat.APIEndpoint(chatURL)
	return slices.Concat([]string{
		"HOME=" + s.home, "TMPDIR=" + s.dir, "PATH=" + os.Getenv("PATH"), "SHELL=/bin/sh",
		"LANG=C.UTF-8", "TERM=screen-256color",
		"GOOGLE_CHAT_SPACE_ID=" + space.Name, "GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
		"GCHAT_API_ENDPOINT=" + endpoint, "GCHAT_PUBSUB_ENDPOINT=" + endpoint,
		"GCHAT_ALLOWED_USERS=" + space.PersonName, "GCHAT_POLLER_INTERVAL=0.2",
		markVariable + "=" + s.check.mark,
	}, fakemodel.Environment(modelURL), s.scene.env)
}

// writeFiles writes the files of the home folder and of the project.
func (s *session) writeFiles() error {
	own, err := settings.PresetHooks(s.scene.presets...)
	if err != nil {
		return err
	}
	entries, _ := settings.EntriesFor(s.check.Program, s.check.version, own)
	for _, event := range recordedEvents {
		entries = append(entries, settings.Entry{
			Event: event, Command: "cat >>" + state.QuoteForShell(filepath.Join(s.dir, event)),
		})
	}
	base := fakemodel.Settings()
	base["enableAllProjectMcpServers"] = true
	b, _ := json.Marshal(base) // it always encodes
	registered, err := settings.Install(b, entries)
	if err != nil {
		return err
	}
	err = errors.Join(
		os.MkdirAll(s.project, 0o700),
		os.MkdirAll(filepath.Join(s.home, ".claude"), 0o700),
		os.WriteFile(filepath.Join(s.home, ".claude", "settings.json"), registered, 0o600),
		writeJSON(filepath.Join(s.home, ".claude.json"), fakemodel.PersonState(s.project)),
	)
	if err == nil && s.scene.hasForms {
		server := map[string]any{"command": s.check.Program, "args": s.check.FormServerArgs}
		err = writeJSON(filepath.Join(s.project, ".mcp.json"), map[string]any{
			"mcpServers": map[string]any{"form": server},
		})
	}
	return err
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// paneScript runs Claude Code as the foreground job of a shell, as in life.
const paneScript = `set -m; "$@"; echo "claude exited: $?"; exec sh -i`

// openPane starts the tmux server and Claude Code in it.
func (s *session) openPane(ctx context.Context) error {
	args := []string{
		"new-session", "-d", "-s", "claude", "-x", "110", "-y", "40", "-c", s.project,
		"sh", "-c", paneScript, "claude",
	}
	if s.scene.outsideTmux {
		args = append(args, "env", "-u", "TMUX", "-u", "TMUX_PANE")
	}
	args = append(append(args, s.check.Claude), s.scene.args...)
	_, err := s.tmux(ctx, args...)
	return err
}

func (s *session) socket() string { return filepath.Join(s.dir, "tmux") }

// tmux gives the session's tmux server one command.
func (s *session) tmux(ctx context.Context, args ...string) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	commandCtx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(commandCtx, "tmux",
		append([]string{"-S", s.socket(), "-f", os.DevNull}, args...)...)
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// pane is the tmux target of the session's pane.
const pane = "=claude:"

// readScreen returns the screen as text, and as inject reads it.
func (s *session) readScreen(ctx context.Context) (text string, screen inject.Screen, err error) {
	capture, err := s.tmux(ctx, "capture-pane", "-p", "-e", "-t", pane)
	text = state.EscapeSequencePattern().ReplaceAllString(capture, "")
	return text, inject.ReadScreen(capture), err
}

// errNoPrompt means that Claude Code shows no prompt.
var errNoPrompt = errors.New("no prompt of Claude Code appeared")

// awaitPrompt waits until Claude Code is idle at its prompt.
func (s *session) awaitPrompt(ctx context.Context) error {
	var text string
	err := s.until(ctx, func() bool {
		var screen inject.Screen
		text, screen, _ = s.readScreen(ctx)
		return screen.Shows == inject.Prompt && !screen.Busy
	})
	if errors.Is(err, errPatience) {
		return fmt.Errorf("%w: %s", errNoPrompt, lastLine(text))
	}
	return err
}

// lastLine returns the last line of a screen that has letters.
func lastLine(screen string) (last string) {
	for line := range strings.Lines(screen) {
		if strings.ContainsFunc(line, func(r rune) bool { return r > ' ' && r != '─' }) {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

// errPatience means that something that was waited for did not happen.
var errPatience = errors.New("it did not happen in time")

// until waits until ok returns true.
func (s *session) until(ctx context.Context, ok func() bool) error {
	deadline := time.Now().Add(s.check.Patience)
	interval := screenInterval
	for !ok() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errPatience
		}
		state.Sleep(ctx, interval)
		interval = min(interval*5/4, 5*screenInterval)
	}
	return nil
}

// close ends the session's processes, as far as they end by themselves when their
// terminal is gone. The check's end kills the others.
func (s *session) close() {
	_, _ = s.tmux(context.Background(), "kill-server")
	for _, server := range s.servers {
		_ = server.Close()
	}
	_ = s.chat.Close()
}
