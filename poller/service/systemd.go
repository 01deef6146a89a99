package service

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

type systemd struct{ *Service }

func (s systemd) file() string {
	return filepath.Join(filepath.Dir(state.ConfigDir(s.Env)), "systemd/user", Name+".service")
}

// contents is the unit. Type=exec has a start fail when there is no such program. KillMode=mixed: the signal is for the daemon,
// not for the tmux command that is just typing a reply. There is no PrivateTmp and nothing else that hides files: the person's
// tmux sockets are in /tmp, and their projects anywhere.
func (s systemd) contents(env []string) string {
	var vars strings.Builder
	for _, v := range env {
		vars.WriteString("Environment=" + unitWord(v) + "\n")
	}
	return fmt.Sprintf(unit, unitWord(s.Self), vars.String())
}

const unit = `# Written by gchat-hooks poller install, which keeps a changed one as .bak.
[Unit]
Description=Google Chat replies for Claude Code (gchat-hooks poller)
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=exec
ExecStart=%s poller
ExecReload=/bin/kill -HUP $MAINPID
%sWorkingDirectory=~
Restart=on-failure
RestartSec=20
KillMode=mixed
TimeoutStopSec=90
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
`

// unitWord quotes one word of a unit file. Specifiers are expanded in quotes, too; $ is nothing special in a program's path
// and in Environment=.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(s) + `"`
}

// pid fails where there is a systemctl and no manager to talk to: in containers, in WSL 1, in a shell of su or sudo.
func (s systemd) pid(ctx context.Context) (pid int, err error) {
	out, err := s.run(ctx, "systemctl", "--user", "show", Name+".service", "--property=MainPID")
	if _, after, ok := strings.Cut(out, "MainPID="); ok {
		_, err = fmt.Sscan(after, &pid)
	}
	return pid, err
}

func (s systemd) start(ctx context.Context) error {
	// By its path: the manager may have an XDG_CONFIG_HOME of its own, and looks elsewhere. It reads all units anew for it.
	if _, err := s.run(ctx, "systemctl", "--user", "enable", s.file()); err != nil {
		return err
	}
	_, _ = s.run(ctx, "systemctl", "--user", "reset-failed", Name+".service") // after ten starts it refuses this one, too
	_, err := s.run(ctx, "systemctl", "--user", "restart", Name+".service")
	return err
}

// stop removes the links that start the daemon also where no manager runs.
func (s systemd) stop(ctx context.Context) error {
	_, err := s.run(ctx, "systemctl", "--user", "disable", "--now", Name+".service")
	return err
}
