package service

import (
	"context"
	"errors"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

const (
	label       = "com.claude." + Name // launchd's name for the daemon
	loadTimeout = 20 * time.Second     // for about 5 s after the old job is gone, bootstrap fails with "5: Input/output error"
)

type launchd struct{ *Service }

// domain is where the agent runs: it is there while the person is logged in at the screen.
func (l launchd) domain() string { return fmt.Sprintf("gui/%d", l.UID) }

func (l launchd) agent() string { return l.domain() + "/" + label }
func (l launchd) file() string {
	return filepath.Join(l.Env("HOME"), "Library/LaunchAgents", label+".plist")
}

// contents is the agent's file; the keys are those of launchd.plist(5). The daemon is started again after a crash and an
// error, not after an end with 0: so it is stopped, and so it says that a new start would not help. To end, it may need longer
// than launchd's 5 s: it finishes what it types. A crash is told in the
// log; launchd starts nothing where the log's folder is missing.
func (l launchd) contents(env []string) string {
	var vars strings.Builder
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&vars, "\t\t<key>%s</key> <string>%s</string>\n", name, html.EscapeString(value))
	}
	home, log := html.EscapeString(l.Env("HOME")), html.EscapeString(state.LogPath(l.Env))
	return fmt.Sprintf(plist, html.EscapeString(l.Self), vars.String(), home, log)
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
	<key>WorkingDirectory</key> <string>%s</string>
	<key>StandardErrorPath</key> <string>%s</string>
</dict>
</plist>
`

// pid reads the line of the service itself, which is indented by one tab; deeper ones are of its sockets and the like.
func (l launchd) pid(ctx context.Context) (pid int, err error) {
	if _, err := l.run(ctx, "launchctl", "print", l.domain()); err != nil {
		return 0, fmt.Errorf("launchd has a place for it while you are logged in at the Mac's screen: %w", err)
	}
	out, _ := l.run(ctx, "launchctl", "print", l.agent()) // it fails where there is no such agent
	if _, after, ok := strings.Cut(out, "\n\tpid = "); ok {
		_, err = fmt.Sscan(after, &pid)
	}
	return pid, err
}

func (l launchd) start(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	// An agent that was disabled once, also of an older install, is not loaded until it is enabled.
	if _, err := l.run(ctx, "launchctl", "enable", l.agent()); err != nil {
		return err
	}
	busy := []int{5, 36, 37} // errnos: there already or not quite gone, in progress, bootstrapped already
	for end := time.Now().Add(loadTimeout); ; time.Sleep(time.Second) {
		_, err := l.run(ctx, "launchctl", "bootstrap", l.domain(), l.file())
		var failed interface{ ExitCode() int }
		if !errors.As(err, &failed) || !slices.Contains(busy, failed.ExitCode()) || time.Now().After(end) {
			return err
		}
	}
}

// stop unloads the agent, and waits until it is gone: bootout returns before that, with an error, and a bootstrap that comes
// too early fails. `bootout --wait` is no way: newer versions do not take it.
func (l launchd) stop(ctx context.Context) error {
	_, _ = l.run(ctx, "launchctl", "bootout", l.agent())
	for end := time.Now().Add(stopTimeout); ; time.Sleep(lookAgain) {
		if _, err := l.run(ctx, "launchctl", "print", l.agent()); err != nil {
			return nil
		}
		if time.Now().After(end) {
			return hinted(errors.New("launchd does not let go of the agent"), "launchctl kill SIGKILL "+l.agent())
		}
	}
}
