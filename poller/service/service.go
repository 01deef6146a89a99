// Package service keeps the daemon and the embedded space running for a person, from login to login: as launchd agents on macOS,
// as systemd user units on Linux. It also keeps the machine awake.
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

// Name is what the daemon is called: in the log, in the process list, and by systemd.
const Name = "gchat-response-poller"

// StartSpace is the command that installs and starts the embedded space's service.
const StartSpace = "gchat-hooks setup --space --service (for a phone, with --phone)"

const (
	stopTimeout = 100 * time.Second // the daemon may take 90 s to end, and its supervisor some more to let go of it
	lookAgain   = 250 * time.Millisecond
)

// Service is a command of this program as the system starts it.
type Service struct {
	Name string   // in the process list of systemd, and behind "com.claude." in launchd's
	Args []string // of the command
	Env  state.Getenv
	Self string    // the program that is started: a path that outlasts an upgrade
	UID  int       // whose service it is
	Out  io.Writer // what was done is said here
	GOOS string
	// Run runs a program to its end and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) (output []byte, err error)
}

// Space is the service of the embedded space, which is started with args.
func Space(env state.Getenv, self string, out io.Writer, args ...string) *Service {
	s := New(env, self, out)
	s.Name, s.Args = "gchat-hooks-space", slices.Concat([]string{"space"}, args, []string{"--service"})
	return s
}

// SpaceDown says that the embedded space's service is installed, and no space runs.
func SpaceDown(env state.Getenv) bool {
	_, there := Space(env, "", nil).Installed()
	return there && !state.IsLocked(filepath.Join(state.UserStateDir(env), "space", "lock"))
}

func (s *Service) daemon() bool { return s.Name == Name }

// command is what a person types in place of the service.
func (s *Service) command() string { return "gchat-hooks " + strings.Join(s.Args, " ") }

// New is the daemon's service of the person who runs this process.
func New(env state.Getenv, self string, out io.Writer) *Service {
	run := func(ctx context.Context, name string, args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, name, args...).CombinedOutput()
	}
	return &Service{
		Name: Name, Args: []string{"poller"}, Env: env, Self: self, UID: os.Getuid(), Out: out, GOOS: runtime.GOOS, Run: run,
	}
}

// supervisor is the program that starts others for a person: launchd or systemd.
type supervisor interface {
	file() string                 // where it looks for the service's file
	contents(env []string) string // of that file; env is what the service is to find in its environment
	reach(context.Context) error  // why it cannot be talked to here
	start(context.Context) error  // loads the file afresh; the service starts now and at each login
	stop(context.Context) error   // for good
}

func (s *Service) supervisor() supervisor {
	if s.GOOS == "darwin" {
		return launchd{s}
	}
	return systemd{s} // elsewhere there is no such program, which its error says
}

// Install writes the service's file, has the service start at each login, and starts it, anew if it runs.
func (s *Service) Install(ctx context.Context) error {
	sup := s.supervisor()
	if err := sup.reach(ctx); err != nil {
		command := state.QuoteForShell(s.Self) + " " + strings.TrimSuffix(strings.Join(s.Args, " "), " --service")
		hint := "start `" + command + "` yourself, by @reboot in a crontab or in a tmux session of its own"
		return hinted(fmt.Errorf("nothing can be started at login here: %w", err), hint)
	}
	dir := filepath.Dir(sup.file())
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = renameio.WriteFile(sup.file(), []byte(sup.contents(s.carried())), 0o644, renameio.WithTempDir(dir))
	}
	if err != nil {
		return fmt.Errorf("write the service file: %w", err)
	}
	state.NewLog(s.Env, s.Name).Info().Str("file", sup.file()).Msg("service installed")
	if err := sup.start(ctx); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	s.say("installed as %s, and started; gchat-hooks status says whether it runs", sup.file())
	if s.daemon() {
		s.say("it takes its settings from %s, not from this shell", state.ConfigFile(s.Env))
	}
	return nil
}

// Uninstall stops the service and removes its file, also where no supervisor runs. State, logs and configuration stay.
func (s *Service) Uninstall(ctx context.Context) error {
	path, there := s.Installed()
	if !there {
		s.say("not installed: nothing to remove")
		return nil
	}
	if err := s.supervisor().stop(ctx); err != nil {
		s.say("the service cannot be stopped: %v", err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the service: %w", err)
	}
	s.say("removed %s; state and logs stay", path)
	return nil
}

// Installed is the service's file, and whether it is there.
func (s *Service) Installed() (path string, ok bool) {
	path = s.supervisor().file()
	_, err := os.Lstat(path)
	return path, err == nil
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
		value := s.Env(name) // a relative path would lead elsewhere from the service's folder; XML has no control characters
		if filepath.IsAbs(value) && !strings.ContainsFunc(value, unicode.IsControl) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func hinted(err error, hint string) error { return &state.UserError{Err: err, Hint: hint, Code: 1} }

func (s *Service) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// run runs a command of the supervisor. Its error names the command and what it said.
func (s *Service) run(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	out, err := s.Run(ctx, name, args...)
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.Join(strings.Fields(string(out)), " "))
	}
	return err
}

// Exit codes of the health check.
const (
	Healthy = 0
	Stale   = 1 // the last good cycle is too long ago
	Never   = 2 // there was none
)

// ReadLastPoll is when the daemon last looked for replies: the project's state folder tells it, or else the user's.
func LastPoll(env state.Getenv) time.Time {
	if last := state.ReadLastPoll(state.ProjectStateDir(env)); !last.IsZero() {
		return last
	}
	return state.ReadLastPoll(state.UserStateDir(env))
}

// Health says when the daemon last looked for replies, in one line that monitors read. It is Healthy when that was
// within twice the time from one mark to the next: the poll interval, but no mark is written sooner than HeartbeatInterval.
func Health(env state.Getenv, now time.Time) (line string, exitCode int) {
	last := LastPoll(env)
	if last.IsZero() {
		return "WARN: Health file not found — daemon may not have run yet", Never
	}
	threshold := 2 * max(config.Load(env, state.ProjectDir(env)).PollInterval, state.HeartbeatInterval)
	age := now.Sub(last).Truncate(time.Second).Abs() // of either sign: a clock that was set back is no good cycle
	line = fmt.Sprintf("Last poll %vs ago (threshold: %vs)", age.Seconds(), threshold.Seconds())
	if age > threshold {
		return "WARN: " + line + " — daemon may be stuck", Stale
	}
	return "OK: " + line, Healthy
}

// loadTimeout is how long bootstrap is tried: for about 5 s after the old job is gone, it fails with "5: Input/output error".
const loadTimeout = 20 * time.Second

type launchd struct{ *Service }

// domain is where the agent runs: it is there while the person is logged in at the screen.
func (l launchd) domain() string { return fmt.Sprintf("gui/%d", l.UID) }

func (l launchd) label() string { return "com.claude." + l.Name }
func (l launchd) agent() string { return l.domain() + "/" + l.label() }
func (l launchd) file() string {
	return filepath.Join(l.Env("HOME"), "Library/LaunchAgents", l.label()+".plist")
}

// contents is the agent's file; the keys are those of launchd.plist(5). The daemon is started again after a crash and an
// error, not after an end with 0: so it is stopped, and so it says that a new start would not help. To end, it may need longer
// than launchd's 5 s: it finishes what it types. A crash is told in the
// log; launchd starts nothing where the log's folder is missing. A person waits for it: as anything but Interactive, launchd
// throttles its CPU and disk. Its umask is 077, in decimal.
func (l launchd) contents(env []string) string {
	var vars strings.Builder
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&vars, "\t\t<key>%s</key> <string>%s</string>\n", name, html.EscapeString(value))
	}
	home, log := html.EscapeString(l.Env("HOME")), html.EscapeString(state.LogPath(l.Env))
	words := ""
	for _, word := range append([]string{l.Self}, l.Args...) {
		words += "<string>" + html.EscapeString(word) + "</string> "
	}
	return fmt.Sprintf(plist, l.label(), words, vars.String(), home, log)
}

//go:embed launchd.plist
var plist string

func (l launchd) reach(ctx context.Context) error {
	if err := l.run(ctx, "launchctl", "print", l.domain()); err != nil {
		return fmt.Errorf("launchd starts programs only for who is logged in at the Mac's screen: %w", err)
	}
	return nil
}

func (l launchd) start(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	// An agent that was disabled once, also of an older install, is not loaded until it is enabled.
	if err := l.run(ctx, "launchctl", "enable", l.agent()); err != nil {
		return err
	}
	for end := time.Now().Add(loadTimeout); ; time.Sleep(time.Second) {
		err := l.run(ctx, "launchctl", "bootstrap", l.domain(), l.file())
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// stop unloads the agent, and waits until it is gone: bootout returns before that, with an error, and a bootstrap that comes
// too early fails. `bootout --wait` is no way: newer versions do not take it.
func (l launchd) stop(ctx context.Context) error {
	_ = l.run(ctx, "launchctl", "bootout", l.agent())
	for end := time.Now().Add(stopTimeout); ; time.Sleep(lookAgain) {
		if err := l.run(ctx, "launchctl", "print", l.agent()); err != nil {
			return nil
		}
		if time.Now().After(end) {
			return hinted(errors.New("launchd does not let go of the agent"), "launchctl kill SIGKILL "+l.agent())
		}
	}
}

type systemd struct{ *Service }

func (s systemd) unit() string { return s.Name + ".service" }
func (s systemd) file() string {
	return filepath.Join(filepath.Dir(state.ConfigDir(s.Env)), "systemd/user", s.unit())
}

// contents is the unit. Type=exec has a start fail when there is no such program. KillMode=process: the signal is for the daemon,
// not for the tmux command that is just typing a reply, nor for the tmux server of the sessions that it started. There is no
// PrivateTmp and nothing else that hides files: the person's tmux sockets are in /tmp, and their projects anywhere.
func (s systemd) contents(env []string) string {
	var vars strings.Builder
	for _, v := range env {
		vars.WriteString("Environment=" + unitWord(v) + "\n")
	}
	var words []string
	for _, word := range append([]string{s.Self}, s.Args...) {
		words = append(words, unitWord(word))
	}
	if s.daemon() { // SIGHUP ends the space
		vars.WriteString("ExecReload=/bin/kill -HUP $MAINPID\n")
	} else { // it prints its links, and others may read the journal
		vars.WriteString("StandardOutput=null\nStandardError=journal\n")
	}
	return fmt.Sprintf(unit, s.command(), strings.Join(words, " "), vars.String())
}

//go:embed systemd.service
var unit string

// unitWord quotes one word of a unit file. Specifiers are expanded in quotes, too; $ is nothing special in a program's path
// and in Environment=.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// reach fails where there is a systemctl and no manager to talk to: in containers, in WSL 1, in a shell of su or sudo.
func (s systemd) reach(ctx context.Context) error {
	if err := s.run(ctx, "systemctl", "--user", "show", s.unit(), "--property=MainPID"); err != nil {
		return fmt.Errorf("systemd does not run for you: %w", err)
	}
	return nil
}

func (s systemd) start(ctx context.Context) error {
	// By its path: the manager may have an XDG_CONFIG_HOME of its own, and looks elsewhere. It reads all units anew for it.
	if err := s.run(ctx, "systemctl", "--user", "enable", s.file()); err != nil {
		return err
	}
	_ = s.run(ctx, "systemctl", "--user", "reset-failed", s.unit()) // after ten starts it refuses this one, too
	return s.run(ctx, "systemctl", "--user", "restart", s.unit())
}

// stop removes the links that start the daemon also where no manager runs.
func (s systemd) stop(ctx context.Context) error {
	return s.run(ctx, "systemctl", "--user", "disable", "--now", s.unit())
}

// KeepsAwake has the machine stay awake until ctx ends, or this process does, however that ends: caffeinate looks for its pid, and
// cat reads to the end of what it holds.
func KeepAwake(ctx context.Context) error {
	args := []string{"systemd-inhibit", "--what=idle", "--who=gchat-hooks", "--why=Claude Code waits for an answer", "cat"}
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
