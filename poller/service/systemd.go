package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

type systemd struct{ *Service }

func (s systemd) file() string {
	return filepath.Join(filepath.Dir(state.ConfigDir(s.Env)), "systemd", "user", Name+".service")
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

const unit = `# Written by gchat-hooks poller install, which keeps a changed one as .bak;
# systemctl --user edit ` + Name + ` keeps your settings apart.
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

func (s systemd) ctl(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, "systemctl", append([]string{"--user"}, args...)...)
}

func (s systemd) start(ctx context.Context) error {
	if _, err := s.ctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	// By its path: the manager may have an XDG_CONFIG_HOME of its own, and looks elsewhere.
	if _, err := s.ctl(ctx, "enable", s.file()); err != nil {
		return err
	}
	_, _ = s.ctl(ctx, "reset-failed", Name+".service") // too many starts in a row would refuse this one, too
	if _, err := s.ctl(ctx, "restart", Name+".service"); err != nil {
		return &state.UserError{Err: err, Hint: "journalctl --user -u " + Name + " -n 20", Code: 1}
	}
	return nil
}

func (s systemd) stop(ctx context.Context) error {
	_, err := s.ctl(ctx, "stop", Name+".service")
	return err
}

// remove works also where no manager runs: disable only removes links then.
func (s systemd) remove(ctx context.Context) error {
	_, _ = s.ctl(ctx, "disable", Name+".service")
	if err := os.Remove(s.file()); err != nil {
		return err
	}
	_, _ = s.ctl(ctx, "daemon-reload")
	_, _ = s.ctl(ctx, "reset-failed", Name+".service") // a unit that failed is remembered without its file
	return nil
}

// status fails where there is a systemctl and no manager to talk to: in containers, in WSL 1, in a shell of su or sudo.
func (s systemd) status(ctx context.Context) (st status, err error) {
	out, err := s.ctl(ctx, "show", Name+".service", "--property=LoadState,MainPID,Result,ExecMainStatus")
	is := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[name] = value
	}
	if is["LoadState"] != "not-found" {
		st.loaded = is["LoadState"]
	}
	st.pid, _ = strconv.Atoi(is["MainPID"])
	if err == nil && is["Result"] != "success" {
		st.ended = is["Result"] + ", exit code " + is["ExecMainStatus"]
	}
	return st, err
}
