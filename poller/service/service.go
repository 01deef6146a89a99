// Package service keeps the daemon running for a person, from login to login: as a launchd agent on macOS, as a systemd
// user unit on Linux.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/google/renameio/v2"

	"gchat-hooks/state"
)

// Name is what the daemon is called: in the log, in the process list, and by systemd.
const Name = "gchat-response-poller"

const (
	commandTimeout = 100 * time.Second // for one launchctl or systemctl: the daemon may take 90 s to end
	startTimeout   = 5 * time.Second   // from a start to the daemon's pid
	lookAgain      = 250 * time.Millisecond
)

// Service is the daemon as the system starts it.
type Service struct {
	Env  state.Getenv
	Self string    // the program that is started: a path that outlasts an upgrade
	UID  int       // whose service it is
	Out  io.Writer // what was done is said here
	GOOS string
	// Run runs a program to its end and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) (output []byte, err error)
}

// New is the service of the person who runs this process.
func New(env state.Getenv, self string, out io.Writer) *Service {
	run := func(ctx context.Context, name string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C") // what it says is read here
		cmd.WaitDelay = time.Second
		return cmd.CombinedOutput()
	}
	return &Service{Env: env, Self: self, UID: os.Getuid(), Out: out, GOOS: runtime.GOOS, Run: run}
}

// supervisor is the program that starts others for a person: launchd or systemd.
type supervisor interface {
	file() string                           // where it looks for the service's file
	contents(env []string) string           // of that file; env is what the daemon is to find in its environment
	status(context.Context) (status, error) // fails where the supervisor cannot be reached
	start(context.Context) error            // loads the file afresh; the daemon starts now and at each login
	stop(context.Context) error             // until the next login
	remove(context.Context) error           // removes the file, and what leads to it
}

// status is what the supervisor knows of the service.
type status struct {
	loaded string // the launchd domain, or systemd's word for it; "" when it does not know the service
	pid    int    // 0: not running
	ended  string // how it failed the last time
}

// Install writes the service's file, has the daemon start at each login, and starts it, anew if it runs.
func (s *Service) Install(ctx context.Context) error {
	sup, st, err := s.reach(ctx)
	if err != nil {
		return err
	}
	if strings.Contains(s.Self, "/go-build") {
		return &state.UserError{Err: errors.New("`go run` removes its program when it ends"), Hint: "go build -o ~/.local/bin/gchat-hooks .", Code: 1}
	}
	env := s.carried()
	if !filepath.IsAbs(s.Env("HOME")) {
		return errors.New("HOME is not set, so the service has no place")
	}
	if paths := append(env, s.Self, s.Env("HOME")); strings.ContainsFunc(strings.Join(paths, ""), unicode.IsControl) {
		return fmt.Errorf("a service file cannot hold control characters: %q", paths) // XML cannot write them, systemd refuses them
	}
	if err := s.write(sup.file(), sup.contents(env)); err != nil {
		return fmt.Errorf("write the service file: %w", err)
	}
	if err := sup.start(ctx); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(lookAgain) {
		if st, err = sup.status(ctx); err != nil || st.pid > 0 || st.ended != "" {
			break
		}
	}
	s.say("installed; it takes its settings from %s, not from this shell", state.ConfigFile(s.Env))
	return s.Status(ctx, time.Now())
}

// Uninstall stops the service and removes its file. State, logs and configuration stay.
func (s *Service) Uninstall(ctx context.Context) error {
	path, there := s.Installed()
	sup, st, err := s.reach(ctx)
	switch {
	case sup == nil:
		return err
	case !there && st.loaded == "":
		s.say("not installed: nothing to remove")
		return nil
	case err != nil:
		s.say("the service cannot be stopped: %v", err)
	case st.loaded != "":
		if err := sup.stop(ctx); err != nil {
			return fmt.Errorf("stop the service: %w", err)
		}
	}
	if err := sup.remove(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the service: %w", err)
	}
	s.say("removed %s; state and logs stay", path)
	return nil
}

// Status says whether the service is installed, whether it runs, and when it last looked for replies.
func (s *Service) Status(ctx context.Context, now time.Time) error {
	_, st, err := s.reach(ctx)
	path, there := s.Installed()
	switch {
	case err != nil:
		s.say("service:   %v", err)
	case !there:
		s.say("service:   not installed; gchat-hooks poller install")
	case st.pid > 0:
		s.say("service:   running (pid %d), from %s", st.pid, path)
	case st.ended != "":
		s.say("service:   installed as %s, not running: %s; gchat-hooks logs", path, st.ended)
	default: // it ended with 0: a person has to change something first
		s.say("service:   installed as %s, not running: gchat-hooks logs says why, gchat-hooks poller install starts it", path)
	}
	dir := state.UserState(s.Env)
	if pid := state.DaemonPID(dir); pid != st.pid && state.DaemonRuns(dir) {
		s.say("daemon:    another one runs (pid %d), so the service's ends at once: end it, then gchat-hooks poller install", pid)
	}
	line, _ := Health(s.Env, now)
	s.say("health:    %s\nlog:       %s", line, state.LogPath(s.Env))
	return nil
}

// Installed is the service's file, and whether it is there.
func (s *Service) Installed() (path string, ok bool) {
	path = s.supervisor().file()
	_, err := os.Lstat(path)
	return path, err == nil
}

func (s *Service) supervisor() supervisor {
	if s.GOOS == "darwin" {
		return launchd{s}
	}
	return systemd{s} // elsewhere there is no such program, which its error says
}

// reach is the supervisor, and what it knows of the service. One that does not answer comes with an error, none with a refusal.
func (s *Service) reach(ctx context.Context) (supervisor, status, error) {
	if s.UID == 0 && s.Env("SUDO_USER") != "" {
		return nil, status{}, &state.UserError{Err: errors.New("the service is a person's own, and sudo makes it root's"), Hint: "run it without sudo", Code: 1}
	}
	sup := s.supervisor()
	st, err := sup.status(ctx)
	if err != nil {
		err = &state.UserError{
			Err:  fmt.Errorf("no service can be set up here: %w", err),
			Hint: "start `gchat-hooks poller` yourself, by @reboot in a crontab or in a tmux session of its own", Code: 1,
		}
	}
	return sup, st, err
}

// carried are the variables that lead the daemon to the person's programs, state, configuration, Claude Code and tmux server.
// They hold paths: the settings stay in the configuration, since some are secret and anybody may read a service's file.
func (s *Service) carried() []string {
	path := "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if tmux, err := exec.LookPath("tmux"); err == nil {
		path = filepath.Dir(tmux) + ":" + path // a tmux of another version does not talk to the person's server
	}
	env := []string{"PATH=" + path}
	for _, name := range []string{
		"XDG_STATE_HOME", "XDG_CONFIG_HOME", "GCHAT_CONFIG", "GCHAT_STATE_DIR", "GCHAT_POLLER_PENDING_DIR",
		"CLAUDE_CONFIG_DIR", "TMUX_TMPDIR",
	} {
		if value := s.Env(name); filepath.IsAbs(value) { // another one would lead elsewhere from the service's folder
			env = append(env, name+"="+value)
		}
	}
	return env
}

// write has path hold text. Another file that was there is kept as .bak, .bak-2 and so on: a person may have changed it.
func (s *Service) write(path, text string) error {
	was, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	case err == nil && string(was) == text:
		return nil
	case err == nil:
		kept := path + ".bak"
		err = os.Link(path, kept)
		for n := 2; errors.Is(err, fs.ErrExist); n++ {
			kept = fmt.Sprintf("%s.bak-%d", path, n)
			err = os.Link(path, kept)
		}
		s.say("the service file that was there is kept as %s", kept)
	}
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(path, []byte(text), 0o644, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // renameio keeps an older file's, and launchd does not load what others may write to
}

func (s *Service) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// run runs a command of the supervisor. Its error names the command and the first line of what it said.
func (s *Service) run(ctx context.Context, name string, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, err := s.Run(ctx, name, args...)
	if err != nil {
		said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return string(out), err
}
