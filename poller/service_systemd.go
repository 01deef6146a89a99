package poller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// systemd keeps the service as a unit of the person's own manager.
type systemd struct{ *Service }

func (s *Service) systemd(ctx context.Context) (supervisor, error) {
	// There may be a systemctl and no manager to talk to: in containers, in WSL 1, in a shell of su or sudo.
	if _, err := s.run(ctx, "systemctl", "--user", "show", "--property=Version"); err != nil {
		no := &noSupervisor{why: err.Error(), err: err}
		runtime := fmt.Sprintf("/run/user/%d", s.UID)
		if _, err := os.Stat(filepath.Join(runtime, "systemd")); err == nil && s.Env("XDG_RUNTIME_DIR") == "" {
			no.hint = "export XDG_RUNTIME_DIR=" + runtime // su leaves it behind
		} else if s.Env("WSL_DISTRO_NAME") != "" {
			no.hint = "put [boot] and systemd=true into /etc/wsl.conf, then run wsl --shutdown"
		}
		return nil, no
	}
	return systemd{s}, nil
}

func (s systemd) ctl(ctx context.Context, args ...string) (string, error) {
	return s.run(ctx, "systemctl", append([]string{"--user"}, args...)...)
}

func (s systemd) start(ctx context.Context, reload bool) error {
	if _, err := s.ctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if st, err := s.state(ctx); err == nil && !st.loaded {
		// The manager has an XDG_CONFIG_HOME of its own, and looks elsewhere.
		if _, err := s.ctl(ctx, "link", s.file()); err != nil {
			return err
		}
	}
	// Too many starts in a row would refuse this one, too.
	_, _ = s.ctl(ctx, "reset-failed", serviceName+".service")
	if _, err := s.ctl(ctx, "enable", serviceName+".service"); err != nil {
		return err
	}
	verb := "start"
	if reload {
		verb = "restart"
	}
	if _, err := s.ctl(ctx, verb, serviceName+".service"); err != nil {
		return &serviceError{err, "journalctl --user -u " + serviceName + " -n 20"}
	}
	return nil
}

func (s systemd) stop(ctx context.Context) error {
	_, err := s.ctl(ctx, "stop", serviceName+".service")
	return err
}

func (s systemd) remove(ctx context.Context) error {
	if _, err := s.ctl(ctx, "disable", "--now", serviceName+".service"); err != nil {
		return err
	}
	if err := os.Remove(s.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, _ = s.ctl(ctx, "reset-failed", serviceName+".service") // a unit that failed is remembered without its file
	_, err := s.ctl(ctx, "daemon-reload")
	return err
}

func (s systemd) state(ctx context.Context) (st serviceState, err error) {
	out, err := s.ctl(ctx, "show", serviceName+".service", "--property=LoadState,ActiveState,MainPID,Result,ExecMainStatus")
	if err != nil {
		return st, err
	}
	is := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		is[name] = value
	}
	st.loaded = is["LoadState"] != "not-found" && is["LoadState"] != ""
	if st.active = is["ActiveState"] != "inactive" && is["ActiveState"] != "failed"; st.active {
		st.pid, _ = strconv.Atoi(is["MainPID"])
	}
	if is["Result"] != "success" && is["Result"] != "" {
		st.ended = is["Result"] + ", exit code " + is["ExecMainStatus"]
	}
	if is["LoadState"] == "bad-setting" || is["LoadState"] == "error" {
		st.ended = "systemd does not take the unit file: " + is["LoadState"]
	}
	return st, nil
}

// wantsLink is what `systemctl enable` makes; it is removed by hand where there is no systemctl.
func (s *Service) wantsLink() string {
	return filepath.Join(filepath.Dir(s.file()), "default.target.wants", serviceName+".service")
}

// lingers says whether the person's services go on after their last logout; unknown when loginctl does not say.
func (s *Service) lingers(ctx context.Context) (lingers, known bool) {
	out, err := s.run(ctx, "loginctl", "show-user", strconv.Itoa(s.UID), "--property=Linger")
	_, value, ok := strings.Cut(strings.TrimSpace(out), "=")
	return value == "yes", err == nil && ok
}
