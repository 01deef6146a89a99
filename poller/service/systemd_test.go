package service

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// fakeSystemd behaves like a person's systemd.
type fakeSystemd struct {
	home        *serviceHome
	isRunning   bool
	failingVerb string // the verb that fails
	busError    string // why the manager cannot be reached
}

func newFakeSystemd(t *testing.T) (*fakeSystemd, *serviceHome) {
	f := &fakeSystemd{}
	f.home = newServiceHome(t, "linux", f.systemctl)
	return f, f.home
}

func (f *fakeSystemd) systemctl(command string) (string, error) {
	w := strings.Fields(command)
	if f.busError != "" {
		return f.busError + "\n", exitStatus(1)
	}
	if w[2] == f.failingVerb {
		return "Job failed.\nSee journalctl\n", exitStatus(1)
	}
	switch w[2] {
	case "show":
		if f.isRunning {
			return "MainPID=4242\n", nil
		}
		return "MainPID=0\n", nil
	case "restart":
		f.isRunning = true
	case "disable":
		f.isRunning = false
	case "reset-failed":
		return "Failed to reset failed state of unit: " +
			"Unit gchat-response-poller.service not loaded.\n", exitStatus(1)
	}
	return "", nil
}

func TestSystemd_InstallsAndRemoves(t *testing.T) {
	f, p := newFakeSystemd(t)
	path := filepath.Join(p.env["HOME"], ".config/systemd/user/gchat-response-poller.service")
	kit.NoError(t, p.Install(t.Context()))
	const unit = " gchat-response-poller.service"
	ctl := func(verbs ...string) (commands []string) {
		for _, v := range verbs {
			commands = append(commands, "systemctl --user "+v)
		}
		return commands
	}
	kit.Equalf(t, p.newCommands(), ctl("enable "+path, "reset-failed"+unit, "restart"+unit),
		"installed by")
	want := "installed as " + path + ", and started; gchat-hooks status shows whether it runs\n" +
		"its settings come from " + p.env["HOME"] +
		"/.config/gchat-hooks/config.json, not from this shell\n"
	kit.Equal(t, p.newOutput(), want)

	log := state.LogPath(p.Env)
	kit.WriteFile(t, log, "x", 0o600)
	p.newCommands()
	err := p.Uninstall(t.Context())
	kit.True(t, err == nil && p.newOutput() == "removed "+path+"; state and logs stay\n",
		"uninstall: %v", err)
	did := p.newCommands()
	kit.True(t, slices.Equal(did, ctl("disable --now"+unit)) && !f.isRunning,
		"uninstalled by %q", did)
	_, there := p.FindFile()
	kit.True(t, !there, "the unit is still there")
	_, err = os.Stat(log)
	kit.True(t, err == nil, "uninstall removed the log")
	p.checkNothingToRemove(t)
}

func TestSystemd_FailedStart(t *testing.T) {
	f, p := newFakeSystemd(t)
	f.failingVerb = "restart"
	synctest.Test(t, func(t *testing.T) {
		err := p.Install(t.Context())
		kit.Contains(t, fmt.Sprint(err, p.newOutput()), "Job failed. See journalctl")
	})
}

// In a container, in WSL 1 and in a shell of su, systemctl exists, but no manager that
// it could talk to.
func TestSystemd_WithoutManager(t *testing.T) {
	f, p := newFakeSystemd(t)
	f.busError = "Failed to connect to bus: No medium found"
	err := p.Install(t.Context())
	kit.True(t, err != nil && strings.Contains(err.Error(), f.busError) &&
		strings.Contains(hintOf(err), "@reboot in a crontab"),
		"got %v, hint %q", err, hintOf(err))
	path, there := p.FindFile()
	kit.True(t, !there, "a file that nothing reads was written")
	kit.WriteFile(t, path, "[Unit]\n", 0o644) // from an install when systemd ran
	err = p.Uninstall(t.Context())
	kit.True(t, err == nil && strings.Contains(p.newOutput(), "cannot be stopped"),
		"uninstall: %v", err)
	_, there = p.FindFile()
	kit.True(t, !there &&
		slices.Contains(p.newCommands(),
			"systemctl --user disable --now gchat-response-poller.service"),
		"uninstall left the unit, or what leads to it")
}
