package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gchat-hooks/state"
)

const (
	serviceName  = "gchat-response-poller"
	serviceLabel = "com.claude." + serviceName // launchd's name for it
	// commandPatience bounds one launchctl or systemctl: a restart waits until the daemon has finished its cycle.
	commandPatience = 90 * time.Second
)

// Service keeps the daemon running for a person, from login to login: as a launchd agent on macOS, as a systemd user
// unit on Linux. Where neither runs, it says what to do by hand.
type Service struct {
	Env  state.Getenv
	Self string    // the program that the service starts, of StableProgram
	UID  int       // whose service it is; 0 is root
	Out  io.Writer // nil: says nothing
	GOOS string    // "": this system
	Home string    // "": $HOME
	// Run runs a program to its end and returns what it printed on stdout and stderr. nil: a real process.
	Run func(ctx context.Context, name string, args ...string) (output string, err error)
	Now func() time.Time // nil: time.Now
}

// ServiceOptions are the daemon's flags that the service passes on.
type ServiceOptions struct {
	PollInterval string   // seconds, or "10s"; "" leaves it to the configuration
	PendingDirs  []string // empty: the questions of all projects
}

// supervisor is the program that starts others for a person: launchd or systemd.
type supervisor interface {
	// start has the service running, now and after each login. reload says that its file or its program is new.
	start(ctx context.Context, reload bool) error
	stop(ctx context.Context) error
	// remove stops the service, removes its file and has it forgotten.
	remove(ctx context.Context) error
	state(ctx context.Context) (serviceState, error)
}

// serviceState is what the supervisor knows of the service.
type serviceState struct {
	loaded bool   // it knows the service
	active bool   // it runs it, or is about to start it again
	pid    int    // 0: not running
	ended  string // how it ended the last time; "" when it did not, or did well
}

func (s *Service) supervisor(ctx context.Context) (supervisor, error) {
	switch s.goos() {
	case "darwin":
		return s.launchd(ctx)
	case "linux":
		return s.systemd(ctx)
	}
	return nil, &noSupervisor{why: "neither launchd nor systemd runs on " + s.goos()}
}

// file is where the service's file stands.
func (s *Service) file() string {
	if s.goos() == "darwin" {
		return filepath.Join(s.home(), "Library", "LaunchAgents", serviceLabel+".plist")
	}
	dir := s.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.home(), ".config")
	}
	return filepath.Join(dir, "systemd", "user", serviceName+".service")
}

// Installed is the service's file, and whether it is there.
func (s *Service) Installed() (path string, ok bool) {
	_, err := os.Lstat(s.file())
	return s.file(), err == nil
}

func (s *Service) goos() string { return cmp.Or(s.GOOS, runtime.GOOS) }

func (s *Service) home() string {
	return cmp.Or(s.Home, state.Home(s.Env))
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Service) say(format string, args ...any) {
	if s.Out != nil {
		fmt.Fprintf(s.Out, format+"\n", args...)
	}
}

// run runs a command of the supervisor. Its error is a *commandError.
func (s *Service) run(ctx context.Context, name string, args ...string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	run := s.Run
	if run == nil {
		run = runProgram
	}
	if output, err = run(ctx, name, args...); err != nil {
		return output, &commandError{command: name + " " + strings.Join(args, " "), output: output, err: err}
	}
	return output, nil
}

func runProgram(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C") // what it says is read here
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// commandError is a command of the supervisor that failed.
type commandError struct {
	command, output string
	err             error
}

func (e *commandError) Error() string {
	said, _, _ := strings.Cut(strings.TrimSpace(e.output), "\n")
	return fmt.Sprintf("%s: %s", e.command, cmp.Or(Printable(said), e.err.Error()))
}

func (e *commandError) Unwrap() error { return e.err }

// exitCodeOf is the exit code of a command that failed; -1 when it did not get as far as that.
func exitCodeOf(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return -1
}

// noSupervisor says that nothing here starts programs for a person.
type noSupervisor struct {
	why  string
	hint string
	err  error
}

func (e *noSupervisor) Error() string { return "no service can be set up here: " + e.why }
func (e *noSupervisor) Hint() string  { return e.hint }
func (e *noSupervisor) Unwrap() error { return e.err }

// serviceError is something that a person can do something about.
type serviceError struct {
	error
	hint string
}

func (e *serviceError) Hint() string  { return e.hint }
func (e *serviceError) Unwrap() error { return e.error }
