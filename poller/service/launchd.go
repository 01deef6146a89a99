package service

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state"
)

const (
	label       = "com.claude." + Name // launchd's name for the daemon
	goneTimeout = 100 * time.Second    // the daemon's ExitTimeOut, and some more to let go of the label
	loadTimeout = 20 * time.Second     // for about 5 s after the old job is gone, bootstrap fails with "5: Input/output error"
)

// launchctl's exit codes are errnos for the most part.
var (
	gone        = []int{3, 36, 113} // bootout: no such process, in progress, no such service
	busy        = []int{5, 36, 37}  // bootstrap: there already or not quite gone, in progress, bootstrapped already
	otherDomain = []int{125, 134}   // bootstrap: the domain, or sessions of its kind, cannot do that
)

type launchd struct{ *Service }

// domains are where an agent can run: gui/UID is there while the person is logged in at the screen, user/UID also when they
// only came by ssh.
func (l launchd) domains() []string {
	return []string{fmt.Sprintf("gui/%d", l.UID), fmt.Sprintf("user/%d", l.UID)}
}

func (l launchd) file() string {
	return filepath.Join(l.Env("HOME"), "Library", "LaunchAgents", label+".plist")
}

// contents is the agent's file; the keys are those of launchd.plist(5). The daemon is started again after a crash and an
// error, not after an end with 0: so it is stopped, and so it says that a new start would not help. To end, it may need longer
// than launchd's 5 s: it finishes what it types. Without Background, launchd refuses the agent on a Mac that is only reached
// by ssh ("Service cannot load in requested session").
func (l launchd) contents(env []string) string {
	var vars strings.Builder
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&vars, "\t\t<key>%s</key> <string>%s</string>\n", name, html.EscapeString(value))
	}
	home, logs := html.EscapeString(l.Env("HOME")), html.EscapeString(l.logs())
	return fmt.Sprintf(plist, html.EscapeString(l.Self), vars.String(), home, logs)
}

const plist = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- written by gchat-hooks poller install, which keeps a changed one as .bak -->
<plist version="1.0">
<dict>
	<key>Label</key> <string>` + label + `</string>
	<key>ProgramArguments</key> <array> <string>%s</string> <string>poller</string> </array>
	<key>EnvironmentVariables</key> <dict>
%s	</dict>
	<key>RunAtLoad</key> <true/>
	<key>KeepAlive</key> <dict> <key>Crashed</key> <true/> <key>SuccessfulExit</key> <false/> </dict>
	<key>ThrottleInterval</key> <integer>20</integer>
	<key>ExitTimeOut</key> <integer>90</integer>
	<key>LimitLoadToSessionType</key> <array> <string>Aqua</string> <string>Background</string> </array>
	<key>WorkingDirectory</key> <string>%s</string>
	<key>StandardErrorPath</key> <string>%s/` + Name + `.err</string>
</dict>
</plist>
`

func (l launchd) logs() string { return filepath.Dir(state.LogPath(l.Env)) }

func (l launchd) start(ctx context.Context) error {
	if err := os.MkdirAll(l.logs(), 0o700); err != nil { // launchd starts nothing whose log it cannot open
		return err
	}
	if err := l.stop(ctx); err != nil {
		return err
	}
	err := errors.New("launchd has no session of yours: log in at the screen or by ssh as yourself")
	for _, domain := range l.domains() {
		if _, perr := l.run(ctx, "launchctl", "print", domain); perr != nil {
			continue
		}
		// An agent that was disabled once, also of an older install, is not loaded until it is enabled.
		if _, err = l.run(ctx, "launchctl", "enable", domain+"/"+label); err == nil {
			err = l.bootstrap(ctx, domain)
		}
		if !slices.Contains(otherDomain, exitCode(err)) {
			return err
		}
	}
	return err
}

// bootstrap loads the agent, which starts it.
func (l launchd) bootstrap(ctx context.Context, domain string) error {
	for end := time.Now().Add(loadTimeout); ; time.Sleep(time.Second) {
		_, err := l.run(ctx, "launchctl", "bootstrap", domain, l.file())
		if err == nil || !slices.Contains(busy, exitCode(err)) || time.Now().After(end) {
			return err
		}
	}
}

// stop unloads the agent until the next login, and waits until it is gone: bootout returns before that, and a bootstrap
// that comes too early fails. `bootout --wait` is no way: newer versions do not take it.
func (l launchd) stop(ctx context.Context) error {
	asked := ""
	for end := time.Now().Add(goneTimeout); ; time.Sleep(lookAgain) {
		st, err := l.status(ctx)
		if err != nil || st.loaded == "" {
			return err
		}
		agent := st.loaded + "/" + label
		if time.Now().After(end) {
			return &state.UserError{Err: errors.New("launchd does not let go of the agent"), Hint: "launchctl kill SIGKILL " + agent, Code: 1}
		}
		if asked != agent {
			asked = agent
			if _, err := l.run(ctx, "launchctl", "bootout", agent); err != nil && !slices.Contains(gone, exitCode(err)) {
				return err
			}
		}
	}
}

func (l launchd) remove(context.Context) error { return os.Remove(l.file()) }

// status looks into all domains: the agent may have been loaded by ssh, and the person sit at the screen now. The lines of the
// service itself are indented by one tab; deeper ones are of its sockets and the like.
func (l launchd) status(ctx context.Context) (st status, err error) {
	for _, domain := range l.domains() {
		out, err := l.run(ctx, "launchctl", "print", domain+"/"+label)
		if err != nil && exitCode(err) < 0 {
			return st, err
		}
		if err != nil {
			continue // 113: no such service there
		}
		st.loaded = domain
		for line := range strings.Lines(out) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
			switch {
			case name == "\tpid":
				st.pid, _ = strconv.Atoi(value)
			case name == "\tlast exit code" && value != "0" && value != "(never exited)":
				st.ended = "exit code " + value
			case name == "\tlast terminating signal":
				st.ended = value
			}
		}
		return st, nil
	}
	return st, nil
}

// exitCode is that of a command that failed; -1 where there is none.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return -1
}
