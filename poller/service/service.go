// Package service keeps the daemon and the embedded space running for a person from
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

// DaemonName is the daemon's name in the log, in the process list, and in systemd.
const DaemonName = "gchat-response-poller"

// StartSpaceCommand is the command that installs and starts the embedded space's
// service.
const StartSpaceCommand = "gchat-hooks setup --space --service (for a phone, with --phone)"

const (
	// The daemon may take 90 s to end, and launchd or systemd a little longer to
	// notice.
	stopTimeout    = 100 * time.Second
	stopCheckPause = 250 * time.Millisecond
)

// Service is a command of this program that launchd or systemd starts.
type Service struct {
	Name        string   // in systemd's process list; launchd's has it after "com.claude."
	Args        []string // the command's arguments
	Env         state.Getenv
	ProgramPath string    // the program to start: a path that stays valid after an upgrade
	UID         int       // the user that the service belongs to
	Out         io.Writer // for messages about what was done
	GOOS        string
	// Run runs a program to its end and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) (output []byte, err error)
}

// NewSpace returns the service of the embedded space, which is started with args.
func NewSpace(env state.Getenv, self string, out io.Writer, args ...string) *Service {
	s := NewDaemon(env, self, out)
	s.Name = "gchat-hooks-space"
	s.Args = slices.Concat([]string{"space"}, args, []string{"--service"})
	return s
}

// IsSpaceDown reports whether the embedded space's service is installed, but no space
// runs.
func IsSpaceDown(env state.Getenv) bool {
	_, isInstalled := NewSpace(env, "", nil).FindFile()
	return isInstalled && !state.IsLocked(filepath.Join(state.UserStateDir(env), "space", "lock"))
}

func (s *Service) isDaemon() bool { return s.Name == DaemonName }

// commandLine returns the command that a person can type instead of using the service.
func (s *Service) commandLine() string { return "gchat-hooks " + strings.Join(s.Args, " ") }

// NewDaemon returns the daemon's service for the person who runs this process.
func NewDaemon(env state.Getenv, self string, out io.Writer) *Service {
	return &Service{
		Name:        DaemonName,
		Args:        []string{"poller"},
		Env:         env,
		ProgramPath: self,
		UID:         os.Getuid(),
		Out:         out,
		GOOS:        runtime.GOOS,
		Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return exec.CommandContext(ctx, name, args...).CombinedOutput()
		},
	}
}

// supervisor is the system's program that starts and restarts services for a person:
// launchd or systemd.
type supervisor interface {
	filePath() string // the path at which it looks for the service's file
	// fileText returns that file's text. env is the service's environment.
	fileText(env []string) string
	// checkReachable returns why the supervisor cannot be used here.
	checkReachable(context.Context) error
	// start loads the file again, starts the service, and has it start at each login.
	start(context.Context) error
	// stop stops the service for good.
	stop(context.Context) error
}

func (s *Service) supervisor() supervisor {
	if s.GOOS == "darwin" {
		return launchd{s}
	}
	return systemd{s} // on another system it does not exist, and its error says so
}

// Install writes the service's file, has the service start at each login, and starts or
// restarts it.
func (s *Service) Install(ctx context.Context) error {
	sup := s.supervisor()
	if err := sup.checkReachable(ctx); err != nil {
		args := strings.TrimSuffix(strings.Join(s.Args, " "), " --service")
		command := state.QuoteForShell(s.ProgramPath) + " " + args
		hint := "start `" + command + "` yourself, with @reboot in a crontab, " +
			"or in a tmux session of its own"
		return withHint(fmt.Errorf("nothing can be started at login here: %w", err), hint)
	}
	dir := filepath.Dir(sup.filePath())
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		text := sup.fileText(s.environmentForService())
		err = renameio.WriteFile(sup.filePath(), []byte(text), 0o644, renameio.WithTempDir(dir))
	}
	if err != nil {
		return fmt.Errorf("write the service file: %w", err)
	}
	state.NewLog(s.Env, s.Name).Info().Str("file", sup.filePath()).Msg("service installed")
	if err := sup.start(ctx); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	path := sup.filePath()
	s.print("installed as %s, and started; gchat-hooks status shows whether it runs", path)
	if s.isDaemon() {
		s.print("its settings come from %s, not from this shell", state.ConfigFile(s.Env))
	}
	return nil
}

// Uninstall stops the service and removes its file, even where no supervisor runs.
// State, logs and configuration stay.
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

// FindFile returns the path of the service's file, and whether the file exists.
func (s *Service) FindFile() (path string, isInstalled bool) {
	path = s.supervisor().filePath()
	_, err := os.Lstat(path)
	return path, err == nil
}

// environmentForService returns the variables that the service needs to find the
// person's programs, state, configuration, Claude Code and tmux server. They hold only
// paths. The settings stay in the configuration: some are secret, and anybody may read
// a service's file.
func (s *Service) environmentForService() []string {
	path := "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	if tmux, err := exec.LookPath("tmux"); err == nil {
		// The service must find the person's tmux: another version does not talk to
		// their server.
		path = filepath.Dir(tmux) + ":" + path
	}
	env := []string{"PATH=" + path}
	names := []string{
		"XDG_STATE_HOME",
		"XDG_CONFIG_HOME",
		"GCHAT_CONFIG",
		"GCHAT_STATE_DIR",
		"GCHAT_POLLER_PENDING_DIR",
		"CLAUDE_CONFIG_DIR",
		"TMUX_TMPDIR",
	}
	for _, name := range names {
		// The service has another working folder, so a relative path would be wrong. XML
		// cannot hold control characters.
		value := s.Env(name)
		if filepath.IsAbs(value) && !strings.ContainsFunc(value, unicode.IsControl) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func withHint(err error, hint string) error {
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}

func (s *Service) print(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// run runs a command of the supervisor. Its error has the command and what the command
// printed.
func (s *Service) run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	output, err := s.Run(ctx, name, args...)
	if err != nil {
		printed := strings.Join(strings.Fields(string(output)), " ")
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, printed)
	}
	return err
}

// Exit codes of the health check.
const (
	ExitHealthy = 0
	ExitStale   = 1 // the last poll was too long ago
	ExitNever   = 2 // there was no poll yet
)

// LastPoll returns when the daemon last looked for replies. The time is in the
// project's state folder, or else in the user's.
func LastPoll(env state.Getenv) time.Time {
	if last := state.ReadLastPoll(state.ProjectStateDir(env)); !last.IsZero() {
		return last
	}
	return state.ReadLastPoll(state.UserStateDir(env))
}

// Health reports in one line, for monitoring programs, when the daemon last looked for
// replies. It is healthy if that is at most twice the time between two marks ago. The
// daemon leaves a mark once a poll interval, but at most once a HeartbeatInterval.
func Health(env state.Getenv, now time.Time) (line string, exitCode int) {
	lastPoll := LastPoll(env)
	if lastPoll.IsZero() {
		return "WARN: Health file not found — daemon may not have run yet", ExitNever
	}
	cfg := config.Load(env, state.ProjectDir(env))
	threshold := 2 * max(cfg.PollInterval, state.HeartbeatInterval)
	// A time in the future is not healthy either: the clock was set back.
	age := now.Sub(lastPoll).Truncate(time.Second).Abs()
	line = fmt.Sprintf("Last poll %vs ago (threshold: %vs)", age.Seconds(), threshold.Seconds())
	if age > threshold {
		return "WARN: " + line + " — daemon may be stuck", ExitStale
	}
	return "OK: " + line, ExitHealthy
}

// loadTimeout is how long start repeats `launchctl bootstrap`. For about 5 s after the
// old job is gone, it fails with "5: Input/output error".
const loadTimeout = 20 * time.Second

type launchd struct{ *Service }

// domain is launchd's domain of the agent. It exists while the person is logged in at
// the Mac's screen.
func (l launchd) domain() string { return fmt.Sprintf("gui/%d", l.UID) }

func (l launchd) label() string  { return "com.claude." + l.Name }
func (l launchd) target() string { return l.domain() + "/" + l.label() }
func (l launchd) filePath() string {
	return filepath.Join(l.Env("HOME"), "Library/LaunchAgents", l.label()+".plist")
}

// fileText returns the agent's property list; its keys are those of launchd.plist(5).
//
// launchd restarts the daemon after a crash or an error, but not after exit code 0.
// With 0 the daemon ends when it is stopped, or when a restart would not help. The
// daemon gets more than launchd's 5 s to end, because it finishes what it types. The
// log shows a crash; launchd starts nothing if the log's folder is missing. A person
// waits for the daemon, so it is Interactive: otherwise launchd throttles its CPU and
// disk. The umask is 077, written in decimal.
func (l launchd) fileText(env []string) string {
	var vars strings.Builder
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		value = html.EscapeString(value)
		fmt.Fprintf(&vars, "\t\t<key>%s</key> <string>%s</string>\n", name, value)
	}
	home := html.EscapeString(l.Env("HOME"))
	log := html.EscapeString(state.LogPath(l.Env))
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
		return fmt.Errorf("launchd needs you to be logged in at the Mac's screen: %w", err)
	}
	return nil
}

func (l launchd) start(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	// An agent that was ever disabled, even by an older install, is not loaded until it
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

// stop unloads the agent, and waits until it is gone: bootout returns earlier, with an
// error, and a bootstrap that comes too early fails. `bootout --wait` does not help:
// newer versions of launchctl reject it.
func (l launchd) stop(ctx context.Context) error {
	_ = l.run(ctx, "launchctl", "bootout", l.target())
	for deadline := time.Now().Add(stopTimeout); ; time.Sleep(stopCheckPause) {
		if err := l.run(ctx, "launchctl", "print", l.target()); err != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return withHint(errors.New("launchd does not unload the agent"),
				"launchctl kill SIGKILL "+l.target())
		}
	}
}

type systemd struct{ *Service }

func (s systemd) unit() string { return s.Name + ".service" }
func (s systemd) filePath() string {
	return filepath.Join(filepath.Dir(state.ConfigDir(s.Env)), "systemd/user", s.unit())
}

// fileText returns the unit's text. With Type=exec, a start fails if the program does
// not exist. With KillMode=process, the stop signal goes only to the daemon: not to the
// tmux command that may be typing a reply, and not to the tmux server of the sessions
// that the daemon started. Nothing hides files, such as PrivateTmp: the person's tmux
// sockets are in /tmp, and their projects can be anywhere.
func (s systemd) fileText(env []string) string {
	var vars strings.Builder
	for _, variable := range env {
		vars.WriteString("Environment=" + quoteUnitWord(variable) + "\n")
	}
	var words []string
	for _, word := range append([]string{s.ProgramPath}, s.Args...) {
		words = append(words, quoteUnitWord(word))
	}
	if s.isDaemon() { // the space's server would end on SIGHUP
		vars.WriteString("ExecReload=/bin/kill -HUP $MAINPID\n")
	} else { // the space prints its links, and others may read the journal
		vars.WriteString("StandardOutput=null\nStandardError=journal\n")
	}
	return fmt.Sprintf(unitTemplate, s.commandLine(), strings.Join(words, " "), vars.String())
}

//go:embed systemd.service
var unitTemplate string

// quoteUnitWord quotes one word of a unit file. Specifiers are expanded even in quotes.
// $ has no special meaning in a program's path and in Environment=.
func quoteUnitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// checkReachable fails if systemctl exists but no manager runs for this user: in
// containers, in WSL 1, in a shell of su or sudo.
func (s systemd) checkReachable(ctx context.Context) error {
	err := s.run(ctx, "systemctl", "--user", "show", s.unit(), "--property=MainPID")
	if err != nil {
		return fmt.Errorf("systemd does not run for you: %w", err)
	}
	return nil
}

func (s systemd) start(ctx context.Context) error {
	// The unit is named by its path, because the manager may have another
	// XDG_CONFIG_HOME and look elsewhere. enable makes the manager read all units
	// again.
	if err := s.run(ctx, "systemctl", "--user", "enable", s.filePath()); err != nil {
		return err
	}
	// after ten starts systemd would refuse the next one
	_ = s.run(ctx, "systemctl", "--user", "reset-failed", s.unit())
	return s.run(ctx, "systemctl", "--user", "restart", s.unit())
}

// stop also removes the links that start the daemon, even if no manager runs.
func (s systemd) stop(ctx context.Context) error {
	return s.run(ctx, "systemctl", "--user", "disable", "--now", s.unit())
}

// KeepAwake keeps the machine awake until ctx or this process ends, however it ends:
// caffeinate watches this process's pid, and cat reads until its standard input is
// closed.
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
