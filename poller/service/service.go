// Package service keeps the daemon and the embedded space running for a person, from
// login to login: as launchd agents on macOS, as systemd user units on Linux. It also
// keeps the machine awake.
package service

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/renameio/v2"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// DaemonName is what the daemon is called: in the log, in the process list, and by
// systemd.
const DaemonName = "gchat-response-poller"

// StartSpaceCommand is the command that installs and starts the embedded space's service.
const StartSpaceCommand = "gchat-hooks setup --space --service (for a phone, with --phone)"

const (
	// the daemon may take 90 s to end, and its supervisor some more to let go of it
	stopTimeout    = 100 * time.Second
	stopCheckPause = 250 * time.Millisecond
)

// Service is a command of this program as the system starts it.
type Service struct {
	Name        string   // in the process list of systemd, and behind "com.claude." in launchd's
	Args        []string // of the command
	Env         state.Getenv
	ProgramPath string    // the program that is started: a path that outlasts an upgrade
	UID         int       // whose service it is
	Out         io.Writer // what was done is said here
	GOOS        string
	// Run runs a program to its end and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) (output []byte, err error)
}

// NewSpace is the service of the embedded space, which is started with args.
func NewSpace(env state.Getenv, self string, out io.Writer, args ...string) *Service {
	s := NewDaemon(env, self, out)
	s.Name, s.Args = "gchat-hooks-space", slices.Concat(
		[]string{"space"},
		args,
		[]string{"--service"},
	)
	return s
}

// IsSpaceDown says that the embedded space's service is installed, and no space runs.
func IsSpaceDown(env state.Getenv) bool {
	_, isInstalled := NewSpace(env, "", nil).FindFile()
	return isInstalled && !state.IsLocked(filepath.Join(state.UserStateDir(env), "space", "lock"))
}

func (s *Service) isDaemon() bool { return s.Name == DaemonName }

// commandLine is what a person types in place of the service.
func (s *Service) commandLine() string { return "gchat-hooks " + strings.Join(s.Args, " ") }

// NewDaemon is the daemon's service of the person who runs this process.
func NewDaemon(env state.Getenv, self string, out io.Writer) *Service {
	run := func(ctx context.Context, name string, args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, name, args...).CombinedOutput()
	}
	return &Service{
		Name: DaemonName, Args: []string{"poller"}, Env: env, ProgramPath: self, UID: os.Getuid(), Out: out, GOOS: runtime.GOOS, Run: run,
	}
}

// supervisor is the program that starts others for a person: launchd or systemd.
type supervisor interface {
	filePath() string // where it looks for the service's file
	// of that file; env is what the service is to find in its environment
	fileText(env []string) string
	checkReachable(context.Context) error // why it cannot be talked to here
	// loads the file afresh; the service starts now and at each login
	start(context.Context) error
	stop(context.Context) error // for good
}

func (s *Service) supervisor() supervisor {
	if s.GOOS == "darwin" {
		return launchd{s}
	}
	return systemd{s} // elsewhere there is no such program, which its error says
}

// Install writes the service's file, has the service start at each login, and starts it,
// anew if it runs.
func (s *Service) Install(ctx context.Context) error {
	sup := s.supervisor()
	if err := sup.checkReachable(ctx); err != nil {
		command := state.QuoteForShell(
			s.ProgramPath,
		) + " " + strings.TrimSuffix(
			strings.Join(s.Args, " "),
			" --service",
		)
		hint := "start `" + command + "` yourself, by @reboot in a crontab or in a tmux session of its own"
		return withHint(fmt.Errorf("nothing can be started at login here: %w", err), hint)
	}
	dir := filepath.Dir(sup.filePath())
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = renameio.WriteFile(
			sup.filePath(),
			[]byte(sup.fileText(s.environmentForService())),
			0o644,
			renameio.WithTempDir(dir),
		)
	}
	if err != nil {
		return fmt.Errorf("write the service file: %w", err)
	}
	state.NewLog(s.Env, s.Name).Info().Str("file", sup.filePath()).Msg("service installed")
	if err := sup.start(ctx); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	s.print("installed as %s, and started; gchat-hooks status says whether it runs", sup.filePath())
	if s.isDaemon() {
		s.print("it takes its settings from %s, not from this shell", state.ConfigFile(s.Env))
	}
	return nil
}

// Uninstall stops the service and removes its file, also where no supervisor runs. State,
// logs and configuration stay.
func (s *Service) Uninstall(ctx context.Context) error {
	path, isInstalled := s.FindFile()
	if !isInstalled {
		s.print("not installed: nothing to remove")
		return nil
	}
	if err := s.supervisor().stop(ctx); err != nil {
		s.print("the service cannot be stopped: %v", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the service: %w", err)
	}
	s.print("removed %s; state and logs stay", path)
	return nil
}

// FindFile is the service's file, and whether it is there.
func (s *Service) FindFile() (path string, isInstalled bool) {
	path = s.supervisor().filePath()
	_, err := os.Lstat(path)
	return path, err == nil
}

// environmentForService are the variables that lead the daemon to the person's programs,
// state, configuration, Claude Code and tmux server. They hold paths: the settings stay
// in the configuration, since some are secret and anybody may read a service's file.
func (s *Service) environmentForService() []string {
	path := "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if tmux, err := exec.LookPath("tmux"); err == nil {
		// a tmux of another version does not talk to the person's server
		path = filepath.Dir(tmux) + ":" + path
	}
	env := []string{"PATH=" + path}
	for _, name := range []string{
		"XDG_STATE_HOME", "XDG_CONFIG_HOME", "GCHAT_CONFIG", "GCHAT_STATE_DIR", "GCHAT_POLLER_PENDING_DIR",
		"CLAUDE_CONFIG_DIR", "TMUX_TMPDIR",
	} {
		// a relative path would lead elsewhere from the service's folder; XML has no
		// control characters
		value := s.Env(name)
		if filepath.IsAbs(value) && !strings.ContainsFunc(value, unicode.IsControl) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func withHint(
	err error,
	hint string,
) error {
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}

func (s *Service) print(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// run runs a command of the supervisor. Its error names the command and what it said.
func (s *Service) run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	output, err := s.Run(ctx, name, args...)
	if err != nil {
		err = fmt.Errorf(
			"%s %s: %w: %s",
			name,
			strings.Join(args, " "),
			err,
			strings.Join(strings.Fields(string(output)), " "),
		)
	}
	return err
}

// Exit codes of the health check.
const (
	ExitHealthy = 0
	ExitStale   = 1 // the last good cycle is too long ago
	ExitNever   = 2 // there was none
)

// ReadLastPoll is when the daemon last looked for replies: the project's state folder
// tells it, or else the user's.
func LastPoll(env state.Getenv) time.Time {
	if last := state.ReadLastPoll(state.ProjectStateDir(env)); !last.IsZero() {
		return last
	}
	return state.ReadLastPoll(state.UserStateDir(env))
}

// Health says when the daemon last looked for replies, in one line that monitors read. It
// is Healthy when that was within twice the time from one mark to the next: the poll
// interval, but no mark is written sooner than HeartbeatInterval.
func Health(env state.Getenv, now time.Time) (line string, exitCode int) {
	lastPoll := LastPoll(env)
	if lastPoll.IsZero() {
		return "WARN: Health file not found — daemon may not have run yet", ExitNever
	}
	threshold := 2 * max(
		config.Load(env, state.ProjectDir(env)).PollInterval,
		state.HeartbeatInterval,
	)
	// of either sign: a clock that was set back is no good cycle
	age := now.Sub(lastPoll).Truncate(time.Second).Abs()
	line = fmt.Sprintf("Last poll %vs ago (threshold: %vs)", age.Seconds(), threshold.Seconds())
	if age > threshold {
		return "WARN: " + line + " — daemon may be stuck", ExitStale
	}
	return "OK: " + line, ExitHealthy
}

// loadTimeout is how long bootstrap is tried: for about 5 s after the old job is gone, it
// fails with "5: Input/output error".
const loadTimeout = 20 * time.Second

type launchd struct{ *Service }

// domain is where the agent runs: it is there while the person is logged in at the
// screen.
func (l launchd) domain() string { return fmt.Sprintf("gui/%d", l.UID) }

func (l launchd) label() string  { return "com.claude." + l.Name }
func (l launchd) target() string { return l.domain() + "/" + l.label() }
func (l launchd) filePath() string {
	return filepath.Join(l.Env("HOME"), "Library/LaunchAgents", l.label()+".plist")
}

// fileText is the agent's file; the keys are those of launchd.plist(5). The daemon is
// started again after a crash and an error, not after an end with 0: so it is stopped,
// and so it says that a new start would not help. To end, it may need longer than
// launchd's 5 s: it finishes what it types. A crash is told in the log; launchd starts
// nothing where the log's folder is missing. A person waits for it: as anything but
// Interactive, launchd throttles its CPU and disk. Its umask is 077, in decimal.
func (l launchd) fileText(env []string) string {
	var vars strings.Builder
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(
			&vars,
			"\t\t<key>%s</key> <string>%s</string>\n",
			name,
			html.EscapeString(value),
		)
	}
	home, log := html.EscapeString(l.Env("HOME")), html.EscapeString(state.LogPath(l.Env))
	words := ""
	for _, word := range append([]string{l.ProgramPath}, l.Args...) {
		words += "<string>" + html.EscapeString(word) + "</string> "
	}
	return fmt.Sprintf(plistTemplate, l.label(), words, vars.String(), home, log)
}

//go:embed launchd.plist
var plistTemplate string

func (l launchd) checkReachable(ctx context.Context) error {
	if err := l.run(ctx, "launchctl", "print", l.domain()); err != nil {
		return fmt.Errorf(
			"launchd starts programs only for who is logged in at the Mac's screen: %w",
			err,
		)
	}
	return nil
}

func (l launchd) start(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	// An agent that was disabled once, also of an older install, is not loaded until it
	// is enabled.
	if err := l.run(ctx, "launchctl", "enable", l.target()); err != nil {
		return err
	}
	for deadline := time.Now().Add(loadTimeout); ; time.Sleep(time.Second) {
		err := l.run(ctx, "launchctl", "bootstrap", l.domain(), l.filePath())
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// stop unloads the agent, and waits until it is gone: bootout returns before that, with
// an error, and a bootstrap that comes too early fails. `bootout --wait` is no way: newer
// versions do not take it.
func (l launchd) stop(ctx context.Context) error {
	_ = l.run(ctx, "launchctl", "bootout", l.target())
	for deadline := time.Now().Add(stopTimeout); ; time.Sleep(stopCheckPause) {
		if err := l.run(ctx, "launchctl", "print", l.target()); err != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return withHint(
				errors.New("launchd does not let go of the agent"),
				"launchctl kill SIGKILL "+l.target(),
			)
		}
	}
}

type systemd struct{ *Service }

func (s systemd) unit() string { return s.Name + ".service" }
func (s systemd) filePath() string {
	return filepath.Join(filepath.Dir(state.ConfigDir(s.Env)), "systemd/user", s.unit())
}

// fileText is the unit. Type=exec has a start fail when there is no such program.
// KillMode=process: the signal is for the daemon, not for the tmux command that is just
// typing a reply, nor for the tmux server of the sessions that it started. There is no
// PrivateTmp and nothing else that hides files: the person's tmux sockets are in /tmp,
// and their projects anywhere.
func (s systemd) fileText(env []string) string {
	var vars strings.Builder
	for _, variable := range env {
		vars.WriteString("Environment=" + quoteUnitWord(variable) + "\n")
	}
	var words []string
	for _, word := range append([]string{s.ProgramPath}, s.Args...) {
		words = append(words, quoteUnitWord(word))
	}
	if s.isDaemon() { // SIGHUP ends the space
		vars.WriteString("ExecReload=/bin/kill -HUP $MAINPID\n")
	} else { // it prints its links, and others may read the journal
		vars.WriteString("StandardOutput=null\nStandardError=journal\n")
	}
	return fmt.Sprintf(unitTemplate, s.commandLine(), strings.Join(words, " "), vars.String())
}

//go:embed systemd.service
var unitTemplate string

// quoteUnitWord quotes one word of a unit file. Specifiers are expanded in quotes, too; $
// is nothing special in a program's path and in Environment=.
func quoteUnitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// checkReachable fails where there is a systemctl and no manager to talk to: in
// containers, in WSL 1, in a shell of su or sudo.
func (s systemd) checkReachable(ctx context.Context) error {
	if err := s.run(ctx, "systemctl", "--user", "show", s.unit(), "--property=MainPID"); err != nil {
		return fmt.Errorf("systemd does not run for you: %w", err)
	}
	return nil
}

func (s systemd) start(ctx context.Context) error {
	// By its path: the manager may have an XDG_CONFIG_HOME of its own, and looks
	// elsewhere. It reads all units anew for it.
	if err := s.run(ctx, "systemctl", "--user", "enable", s.filePath()); err != nil {
		return err
	}
	// after ten starts it refuses this one, too
	_ = s.run(ctx, "systemctl", "--user", "reset-failed", s.unit())
	return s.run(ctx, "systemctl", "--user", "restart", s.unit())
}

// stop removes the links that start the daemon also where no manager runs.
func (s systemd) stop(ctx context.Context) error {
	return s.run(ctx, "systemctl", "--user", "disable", "--now", s.unit())
}

// KeepsAwake has the machine stay awake until ctx ends, or this process does, however
// that ends: caffeinate looks for its pid, and cat reads to the end of what it holds.
func KeepAwake(ctx context.Context) error {
	args := []string{
		"systemd-inhibit",
		"--what=idle",
		"--who=gchat-hooks",
		"--why=Claude Code waits for an answer",
		"cat",
	}
	if runtime.GOOS == "darwin" {
		args = []string{"caffeinate", "-i", "-w", strconv.Itoa(os.Getpid())}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	_, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Run()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
