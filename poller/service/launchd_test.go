package service

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gchat-hooks/e2e/kit"
)

const daemonLabel = "com.claude." + DaemonName

// fakeLaunchd behaves like launchd of macOS 14 and 15.
type fakeLaunchd struct {
	isLoggedOut       bool // the person is not logged in at the screen
	isLoaded          bool
	pid               int
	ignoresBootout    bool   // a bootout does nothing
	lingeringPrints   int    // how many checks after a bootout still see the agent
	failingBootstraps int    // how many bootstraps after that fail
	bootstrapError    string // what a failing bootstrap prints: "109: …"
}

func newFakeLaunchd(t *testing.T) (*fakeLaunchd, *serviceHome) {
	f := &fakeLaunchd{}
	return f, newServiceHome(t, "darwin", f.launchctl)
}

func (f *fakeLaunchd) launchctl(command string) (string, error) {
	switch verb := strings.Fields(command)[1]; {
	case command == "launchctl print gui/501":
		if f.isLoggedOut {
			return "Bad request.\nCould not find domain for user gui: 501\n", exitStatus(112)
		}
	case verb == "print":
		if !f.isLoaded {
			return fmt.Sprintf("Bad request.\n"+
				"Could not find service %q in domain for user gui: 501\n",
				daemonLabel), exitStatus(113)
		}
		if f.lingeringPrints > 0 {
			f.lingeringPrints--
			f.isLoaded = f.lingeringPrints > 0
			return daemonLabel + " = {\n\tactive count = 1\n\tstate = SIGTERMed\n\n\tpid = 7\n}\n",
				nil
		}
		return fmt.Sprintf("%s = {\n\tactive count = 1\n\tstate = running\n\n\truns = 1\n"+
			"\tpid = %d\n"+
			"\tlast exit code = (never exited)\n\tendpoints = {\n\t\tpid = 99\n\t}\n}\n",
			daemonLabel, f.pid), nil
	case verb == "bootout":
		if !f.isLoaded {
			return "Boot-out failed: 3: No such process\n", exitStatus(3)
		}
		if !f.ignoresBootout {
			f.pid, f.lingeringPrints, f.failingBootstraps = 0, 3, 2
		}
		return "Boot-out failed: 36: Operation now in progress\n", exitStatus(36)
	case verb == "bootstrap":
		if f.bootstrapError != "" {
			var code int
			fmt.Sscanf(f.bootstrapError, "%d", &code)
			return "Bootstrap failed: " + f.bootstrapError + "\n", exitStatus(code)
		}
		if f.isLoaded || f.failingBootstraps > 0 {
			f.failingBootstraps--
			return "Bootstrap failed: 5: Input/output error\n" +
				"Try re-running the command as root for richer errors.\n", exitStatus(5)
		}
		f.isLoaded, f.pid = true, 4242
	}
	return "", nil
}

func TestLaunchd_InstallsAndRemoves(t *testing.T) {
	f, p := newFakeLaunchd(t)
	synctest.Test(t, func(t *testing.T) {
		const agent = "gui/501/com.claude.gchat-response-poller"
		path := filepath.Join(p.env["HOME"],
			"Library/LaunchAgents/com.claude.gchat-response-poller.plist")
		kit.NoError(t, p.Install(t.Context()))
		want := []string{
			"launchctl bootout " + agent, "launchctl enable " + agent,
			"launchctl bootstrap gui/501 " + path,
		}
		kit.Equalf(t, p.newCommands(), want, "installed by")
		kit.Contains(t, p.newOutput(), "installed as "+path+", and started")
		info, err := os.Stat(path)
		kit.True(t, err == nil && info.Mode().Perm() == 0o644, "the plist: %v, %v", info, err)
		info, err = os.Stat(filepath.Join(p.env["HOME"], ".claude/logs"))
		kit.True(t, err == nil && info.IsDir(),
			"without the log folder launchd starts nothing: %v", err)

		// Install a second time: the old job ends, launchd takes time for that, and
		// then the new one starts.
		err = p.Install(t.Context())
		kit.True(t, err == nil && f.isLoaded && f.pid == 4242,
			"a second install: %v, pid %d", err, f.pid)
		// the first three checks still see the old job
		enabled := slices.Index(p.commands, "launchctl enable "+agent)
		kit.True(t, enabled >= 4 && p.commands[enabled-4] == "launchctl print "+agent,
			"loaded before the old job was gone: %q", p.commands)
		did := p.newCommands()
		kit.True(t, len(did) == 5 && did[0] == "launchctl bootout "+agent &&
			strings.HasPrefix(did[4], "launchctl bootstrap "),
			"reloaded by %q", did)

		err = p.Uninstall(t.Context())
		kit.True(t, err == nil && !f.isLoaded, "uninstall: %v, loaded %v", err, f.isLoaded)
		_, err = os.Stat(path)
		kit.True(t, err != nil, "the plist is still there")
		p.checkNothingToRemove(t)
	})
}

func TestLaunchd_FailedInstall(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fakeLaunchd)
		loaded bool
		says   string // in the output or the error
	}{
		"reached by ssh only": {
			func(f *fakeLaunchd) { f.isLoggedOut = true }, false, "logged in at the Mac's screen",
		},
		"a file that launchd refuses": {
			func(f *fakeLaunchd) { f.bootstrapError = "109: Invalid property list" }, false,
			"failed: 109: Invalid property list",
		},
		"input/output error, for good": {
			func(f *fakeLaunchd) { f.failingBootstraps = 1000 }, false,
			"failed: 5: Input/output error",
		},
		"input/output error for a while": {
			func(f *fakeLaunchd) { f.failingBootstraps = 6 }, true, "and started",
		},
		"launchd keeps it": {
			func(f *fakeLaunchd) { f.isLoaded, f.ignoresBootout = true, true }, true,
			"does not unload",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFakeLaunchd(t)
			synctest.Test(t, func(t *testing.T) {
				c.before(f)
				err := p.Install(t.Context())
				kit.Contains(t, fmt.Sprint(err, p.newOutput()), c.says)
				did := strings.Join(p.newCommands(), "\n")
				kit.True(t, f.isLoaded == c.loaded && strings.Count(did, "bootout") <= 1,
					"loaded: %v; did %q", f.isLoaded, did)
				_, there := p.FindFile()
				kit.True(t, there != f.isLoggedOut, "the plist is there: %v", there)
			})
		})
	}
}

func TestLaunchd_WithoutLaunchctl(t *testing.T) {
	p := newServiceHome(t, "darwin", func(string) (string, error) {
		return "", &exec.Error{Name: "launchctl", Err: exec.ErrNotFound}
	})
	err := p.Install(t.Context())
	kit.True(t, err != nil && strings.Contains(hintOf(err), "@reboot in a crontab"),
		"got %v, hint %q", err, hintOf(err))
	path, there := p.FindFile()
	kit.True(t, !there, "%s is written, and no program reads it", path)
}
