package poller

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/state"
)

// fakeSystemd answers as a person's systemd does.
type fakeSystemd struct {
	far
	p         *person
	started   bool
	again     bool   // it ended, and is about to be started again
	result    string // of the unit; "" is success
	elsewhere bool   // the manager looks for units in another folder
	linked    bool
	fail      map[string]string // by verb: what it says
	bus       string            // why it cannot be reached
	linger    string
}

func newSystemd(t *testing.T) (*fakeSystemd, *person) {
	f := &fakeSystemd{linger: "yes"}
	f.answer = f.systemctl
	f.p = newPerson(t, "linux", f.run)
	return f, f.p
}

func (f *fakeSystemd) systemctl(command string) (string, error) {
	w := strings.Fields(command)
	if w[0] == "loginctl" {
		return "Linger=" + f.linger + "\n", nil
	}
	if f.bus != "" {
		return f.bus + "\n", exit(1)
	}
	if say, ok := f.fail[w[2]]; ok {
		return say + "\n", exit(1)
	}
	_, err := os.Stat(f.p.file())
	known := err == nil && (!f.elsewhere || f.linked)
	switch w[2] {
	case "show":
		if w[3] == "--property=Version" {
			return "Version=252.38\n", nil
		}
		switch {
		case !known:
			return "MainPID=0\nResult=success\nExecMainStatus=0\nLoadState=not-found\nActiveState=inactive\n", nil
		case f.started && f.result == "":
			return "MainPID=4242\nResult=success\nExecMainStatus=0\nLoadState=loaded\nActiveState=active\n", nil
		case f.again:
			return "MainPID=0\nResult=exit-code\nExecMainStatus=1\nLoadState=loaded\nActiveState=activating\n", nil
		case f.result != "":
			return "MainPID=0\nResult=" + f.result + "\nExecMainStatus=1\nLoadState=loaded\nActiveState=failed\n", nil
		}
		return "MainPID=0\nResult=success\nExecMainStatus=0\nLoadState=loaded\nActiveState=inactive\n", nil
	case "start", "restart":
		f.started = true
	case "stop", "disable":
		f.started, f.again = false, false
	case "link":
		f.linked = true
	case "reset-failed":
		if !known {
			return "Failed to reset failed state of unit: Unit gchat-response-poller.service not loaded.\n", exit(1)
		}
	}
	return "", nil
}

func verbs(commands []string) (v []string) {
	for _, c := range commands {
		v = append(v, strings.TrimPrefix(strings.TrimSuffix(c, " gchat-response-poller.service"), "systemctl --user "))
	}
	return v
}

func TestServiceOnSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newSystemd(t)
		ctx := t.Context()
		path := filepath.Join(p.env["HOME"], ".config/systemd/user/gchat-response-poller.service")

		if err := p.Install(ctx, ServiceOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := verbs(f.did()); !slices.Equal(got, []string{"daemon-reload", "reset-failed", "enable", "restart"}) {
			t.Errorf("installed by %q", got)
		}
		if said := p.hear(); said != "installed "+path+"\nrunning (pid 4242); it starts at each login\n" {
			t.Errorf("said %s", said)
		}

		was := p.read(t)
		f.asked = nil
		if err := p.Install(ctx, ServiceOptions{}); err != nil || p.read(t) != was || slices.Contains(verbs(f.did()), "restart") {
			t.Errorf("a second install: %v, did %q", err, f.did())
		}
		if said := p.hear(); !strings.HasPrefix(said, "already installed, nothing to do") {
			t.Errorf("a second install says %s", said)
		}

		// The program moved: the file is ours, so nothing is kept.
		f.asked, p.Self = nil, "/elsewhere/gchat-hooks"
		if err := p.Install(ctx, ServiceOptions{}); err != nil || !slices.Contains(verbs(f.did()), "restart") || !strings.Contains(p.read(t), "ExecStart=/elsewhere/gchat-hooks poller\n") {
			t.Errorf("after a move: %v, did %q", err, f.did())
		}
		if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
			t.Errorf("kept %q", left)
		}

		// A person's changes are kept, every time.
		for _, kept := range []string{path + ".bak", path + ".bak-2"} {
			changed := strings.Replace(p.read(t), "RestartSec=20", "RestartSec=5\nEnvironment=HTTPS_PROXY=http://ann:secret@proxy", 1)
			mustWrite(t, path, changed, 0o644)
			p.hear()
			if err := p.Install(ctx, ServiceOptions{}); err != nil || !strings.Contains(p.hear(), "kept in "+kept+"\n") {
				t.Errorf("install over a changed file: %v", err)
			}
			if b, _ := os.ReadFile(kept); string(b) != changed || strings.Contains(p.read(t), "RestartSec=5") {
				t.Errorf("kept %q", b)
			}
		}

		p.hear()
		if err := p.Stop(ctx); err != nil || f.started {
			t.Errorf("stop: %v", err)
		}
		if err := p.Stop(ctx); err != nil || !strings.Contains(p.hear(), "is not running") {
			t.Errorf("stop of what does not run: %v", err)
		}
		f.again = true
		if err := p.Stop(ctx); err != nil || f.again {
			t.Errorf("stop of what is about to start again: %v", err)
		}
		f.asked = nil
		if err := p.Install(ctx, ServiceOptions{}); err != nil || !f.started || slices.Contains(verbs(f.did()), "restart") {
			t.Errorf("install of what is stopped starts it: %v, did %q", err, f.did())
		}

		mustWrite(t, filepath.Join(state.UserState(p.Env), state.LastPollFile), "x", 0o600)
		mustWrite(t, state.LogPath(p.Env), "x", 0o600)
		if err := p.Uninstall(ctx); err != nil || f.started {
			t.Errorf("uninstall: %v", err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the unit is still there")
		}
		for _, path := range []string{filepath.Join(state.UserState(p.Env), state.LastPollFile), state.LogPath(p.Env)} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("uninstall removed %s", path)
			}
		}
		p.hear()
		if err := p.Uninstall(ctx); err != nil || !strings.Contains(p.hear(), "nothing to remove") {
			t.Errorf("uninstall of nothing: %v", err)
		}
	})
}

func TestServiceSystemdTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newSystemd(t)
		f.elsewhere, f.linger = true, "no"
		p.env["XDG_CONFIG_HOME"] = filepath.Join(p.env["HOME"], "conf")
		if err := p.Install(t.Context(), ServiceOptions{}); err != nil || !f.linked || !strings.HasPrefix(p.file(), p.env["XDG_CONFIG_HOME"]) {
			t.Errorf("a manager with another XDG_CONFIG_HOME: %v, %q", err, f.did())
		}
		if said := p.hear(); !strings.Contains(said, "loginctl enable-linger") {
			t.Errorf("it ends at logout, and nobody says so: %s", said)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, p := newSystemd(t)
		f.fail = map[string]string{"restart": "Job for gchat-response-poller.service failed because the control process exited with error code."}
		if err := p.Install(t.Context(), ServiceOptions{}); err == nil || !strings.HasPrefix(hintOf(err), "journalctl ") {
			t.Errorf("a start that fails: %v", err)
		}
		f.fail, f.result = nil, "exit-code"
		if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "exit-code, exit code 1") || hintOf(err) != "gchat-hooks poller logs" {
			t.Errorf("a daemon that ends with an error: %v", err)
		}
	})
}

func TestServiceWithoutSystemd(t *testing.T) {
	for name, c := range map[string]struct {
		goos, bus string
		env       map[string]string
		hint      string
	}{
		"a container": {"linux", "Failed to connect to bus: No medium found", nil, ""},
		"WSL":         {"linux", "System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down", map[string]string{"WSL_DISTRO_NAME": "Ubuntu"}, "put [boot] and systemd=true into /etc/wsl.conf, then run wsl --shutdown"},
		"BSD":         {"freebsd", "", nil, ""},
	} {
		f, p := newSystemd(t)
		p.GOOS, f.bus, p.env["GOOGLE_CHAT_SPACE_ID"] = c.goos, c.bus, "spaces/A"
		for name, value := range c.env {
			p.env[name] = value
		}
		err := p.Install(t.Context(), ServiceOptions{})
		if said := p.hear(); err == nil || hintOf(err) != c.hint || !strings.Contains(said, "@reboot env PATH=") || !strings.Contains(said, "GOOGLE_CHAT_SPACE_ID") {
			t.Errorf("%s: %v, hint %q, said %s", name, err, hintOf(err), said)
		}
		first, _, _ := strings.Cut(c.bus, "\n")
		if err != nil && !strings.Contains(err.Error(), first) {
			t.Errorf("%s: %v does not say why", name, err)
		}
		if _, err := os.Stat(p.file()); err == nil {
			t.Errorf("%s: a file that nobody reads was written", name)
		}
		if err := p.Status(t.Context()); err != nil || !strings.Contains(p.hear(), "service:   none: ") {
			t.Errorf("%s: status: %v", name, err)
		}
		if err := p.Stop(t.Context()); err == nil {
			t.Errorf("%s: stop of nothing that can be reached", name)
		}
		runByHand(t, p)
		if err := p.Stop(t.Context()); !strings.HasPrefix(hintOf(err), "kill ") {
			t.Errorf("%s: stop of a daemon that was started by hand: %v", name, err)
		}
		// What an install of better days left behind goes all the same.
		mustWrite(t, p.file(), "[Unit]\n", 0o644)
		mustWrite(t, p.wantsLink(), "", 0o644)
		if err := p.Uninstall(t.Context()); err != nil {
			t.Errorf("%s: uninstall: %v", name, err)
		}
		for _, path := range []string{p.file(), p.wantsLink()} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s: left %s", name, path)
			}
		}
	}
}

func TestServiceIsStartedAgainForANewProgram(t *testing.T) {
	f, p := newSystemd(t)
	p.Self = filepath.Join(p.env["HOME"], "gchat-hooks")
	mustWrite(t, p.Self, "", 0o755)
	if err := p.Install(t.Context(), ServiceOptions{}); err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(state.UserState(p.Env), "gchat-poller.pid")
	mustWrite(t, pid, "4242\n", 0o600)
	for _, c := range []struct {
		program time.Duration
		restart bool
	}{{-time.Hour, false}, {time.Hour, true}} {
		at := time.Now().Add(c.program)
		os.Chtimes(p.Self, at, at)
		os.Chtimes(p.file(), time.Now().Add(-2*time.Hour), time.Now().Add(-2*time.Hour))
		f.asked = nil
		p.hear()
		if err := p.Install(t.Context(), ServiceOptions{}); err != nil || slices.Contains(verbs(f.did()), "restart") != c.restart {
			t.Errorf("program written %v after the start: %v, did %q", c.program, err, f.did())
		}
		if strings.Contains(p.hear(), "the program is new") != c.restart {
			t.Errorf("program written %v after the start: the words are wrong", c.program)
		}
	}
}

func TestServiceStatus(t *testing.T) {
	f, p := newSystemd(t)
	status := func(want string) {
		t.Helper()
		if err := p.Status(t.Context()); err != nil {
			t.Error(err)
		}
		if said := p.hear(); !strings.Contains(said, want) {
			t.Errorf("status says\n%swant %s", said, want)
		}
	}
	p.Now = func() time.Time { return noon }
	status("service:   not installed; gchat-hooks poller install\n")
	runByHand(t, p)
	status("daemon:    started by hand (pid ")
	status("health:    WARN: Health file not found")
	mustWrite(t, filepath.Join(state.UserState(p.Env), state.LastPollFile), "2026-11-21T11:59:56Z\n", 0o600)
	status("health:    OK: Last poll 4s ago (threshold: 20s)\n")
	mustWrite(t, p.file(), "[Unit]\n", 0o644)
	status("service:   installed, not running; gchat-hooks poller start\n")
	status("file:      " + p.file() + ", changed by hand\n")
	f.started = true
	status("service:   installed, running (pid 4242)\n")
	f.result = "exit-code"
	status("service:   installed, not running: exit-code, exit code 1; gchat-hooks poller logs\n")
	f.bus = "Failed to connect to bus: Permission denied"
	status("service:   installed, and out of reach: no service can be set up here: systemctl --user show --property=Version: Failed to connect to bus: Permission denied\n")
}
