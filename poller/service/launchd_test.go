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
)

// fakeLaunchd answers as launchd of macOS 14 and 15 does.
type fakeLaunchd struct {
	domains  []string // that exist
	in       string   // the domain that the agent is loaded in
	pid      int
	keeps    bool              // a bootout does nothing
	leaving  int               // so many looks after a bootout still see it
	settling int               // so many bootstraps after that fail
	refuse   map[string]string // by domain: what a bootstrap says, "125: …"
	printed  string            // of the agent, in place of the usual
}

func newLaunchd(t *testing.T) (*fakeLaunchd, *person) {
	f := &fakeLaunchd{domains: []string{"gui/501", "user/501"}}
	return f, newPerson(t, "darwin", f.launchctl)
}

func (f *fakeLaunchd) launchctl(command string) (string, error) {
	w := strings.Fields(command)
	target := w[2]
	domain := strings.TrimSuffix(target, "/"+label)
	switch {
	case w[1] == "print" && target == domain:
		if !slices.Contains(f.domains, domain) {
			return "Bad request.\nCould not find domain for user gui: 501\n", exit(112)
		}
	case w[1] == "print":
		if f.in != domain {
			return fmt.Sprintf("Bad request.\nCould not find service %q in domain for user gui: 501\n", label), exit(113)
		}
		if f.leaving > 0 {
			if f.leaving--; f.leaving == 0 {
				f.in = ""
			}
			return target + " = {\n\tactive count = 1\n\tstate = SIGTERMed\n\n\tpid = 7\n}\n", nil
		}
		if f.printed != "" {
			return f.printed, nil
		}
		return fmt.Sprintf("%s = {\n\tactive count = 1\n\tstate = running\n\n\truns = 1\n\tpid = %d\n"+
			"\tlast exit code = (never exited)\n\tendpoints = {\n\t\tpid = 99\n\t}\n}\n", target, f.pid), nil
	case w[1] == "bootout":
		if f.in != domain {
			return "Boot-out failed: 3: No such process\n", exit(3)
		}
		if !f.keeps {
			f.pid, f.leaving, f.settling = 0, 3, 2
		}
		return "Boot-out failed: 36: Operation now in progress\n", exit(36)
	case w[1] == "bootstrap":
		if say := f.refuse[domain]; say != "" {
			var code int
			fmt.Sscanf(say, "%d", &code)
			return "Bootstrap failed: " + say + "\n", exit(code)
		}
		if f.in != "" || f.settling > 0 {
			f.settling--
			return "Bootstrap failed: 5: Input/output error\nTry re-running the command as root for richer errors.\n", exit(5)
		}
		f.in, f.pid = domain, 4242
	}
	return "", nil
}

func TestServiceOnLaunchd(t *testing.T) {
	f, p := newLaunchd(t)
	synctest.Test(t, func(t *testing.T) {
		const agent = "gui/501/com.claude.gchat-response-poller"
		path := filepath.Join(p.env["HOME"], "Library/LaunchAgents/com.claude.gchat-response-poller.plist")
		if err := p.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if did := p.did(); !slices.Equal(did, []string{"launchctl enable " + agent, "launchctl bootstrap gui/501 " + path}) {
			t.Errorf("installed by %q", did)
		}
		if said := p.hear(); !strings.Contains(said, "service:   running (pid 4242), from "+path+"\n") {
			t.Errorf("said %s", said)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("the plist: %v, %v", info, err)
		}
		if info, err := os.Stat(filepath.Join(p.env["HOME"], ".claude/logs")); err != nil || !info.IsDir() {
			t.Errorf("without the log folder launchd starts nothing: %v", err)
		}

		// Again: the old job goes, launchd takes its time for that, and the new one comes.
		if err := p.Install(t.Context()); err != nil || f.in != "gui/501" || f.pid != 4242 {
			t.Errorf("a second install: %v, in %q with pid %d", err, f.in, f.pid)
		}
		gone := slices.Index(p.asked, "launchctl enable "+agent) - 2
		if gone < 0 || p.asked[gone] != "launchctl print user/501/com.claude.gchat-response-poller" {
			t.Errorf("loaded anew before it was gone: %q", p.asked)
		}
		if did := p.did(); len(did) != 5 || did[0] != "launchctl bootout "+agent || !strings.HasPrefix(did[4], "launchctl bootstrap ") {
			t.Errorf("reloaded by %q", did)
		}
		if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
			t.Errorf("a file that was not changed is kept: %q", left)
		}

		if err := p.Uninstall(t.Context()); err != nil || f.in != "" {
			t.Errorf("uninstall: %v, in %q", err, f.in)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the plist is still there")
		}
		p.hear()
		if err := p.Uninstall(t.Context()); err != nil || p.hear() != "not installed: nothing to remove\n" {
			t.Errorf("uninstall of nothing: %v", err)
		}
	})
}

func TestServiceLaunchdTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fakeLaunchd)
		in     string
		did    string // among other things
		says   string // or the error does
	}{
		"reached by ssh only": {func(f *fakeLaunchd) {
			f.domains = []string{"user/501"}
		}, "user/501", "launchctl enable user/501/", ""},
		"the domain is there and cannot do it": {func(f *fakeLaunchd) {
			f.refuse = map[string]string{"gui/501": "125: Domain does not support specified action"}
		}, "user/501", "", ""},
		"not for sessions at the screen": {func(f *fakeLaunchd) {
			f.refuse = map[string]string{"gui/501": "134: Service cannot load in requested session"}
		}, "user/501", "", ""},
		"loaded by ssh before, at the screen now": {func(f *fakeLaunchd) {
			f.in, f.pid = "user/501", 9
		}, "gui/501", "launchctl bootout user/501/", ""},
		"a file that launchd does not take": {func(f *fakeLaunchd) {
			f.refuse = map[string]string{"gui/501": "109: Invalid property list"}
		}, "", "", "Bootstrap failed: 109: Invalid property list"},
		"no session at all":              {func(f *fakeLaunchd) { f.domains = nil }, "", "", "log in at the screen or by ssh"},
		"input/output error, for good":   {func(f *fakeLaunchd) { f.settling = 1000 }, "", "", "failed: 5: Input/output error"},
		"input/output error for a while": {func(f *fakeLaunchd) { f.settling = 6 }, "gui/501", "", ""},
		"launchd keeps it":               {func(f *fakeLaunchd) { f.in, f.keeps = "gui/501", true }, "gui/501", "", "does not let go"},
		"it ends at once with an error": {func(f *fakeLaunchd) {
			f.printed = "x = {\n\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG\n}\n"
		}, "gui/501", "", "not running: exit code 78: EX_CONFIG; gchat-hooks logs"},
		"it ends at once with 0": {func(f *fakeLaunchd) {
			f.printed = "x = {\n\tstate = not running\n\tlast exit code = 0\n}\n"
		}, "gui/501", "", "not running: gchat-hooks logs says why"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newLaunchd(t)
			synctest.Test(t, func(t *testing.T) {
				c.before(f)
				err := p.Install(t.Context())
				if said := fmt.Sprint(err, p.hear()); !strings.Contains(said, c.says) || c.says == "" && err != nil {
					t.Errorf("said %s", said)
				}
				if did := strings.Join(p.did(), "\n"); f.in != c.in || !strings.Contains(did, c.did) || strings.Count(did, "bootout") > 1 {
					t.Errorf("loaded in %q, want %q; did %q", f.in, c.in, did)
				}
			})
		})
	}
}

func TestServiceWithoutLaunchctl(t *testing.T) {
	p := newPerson(t, "darwin", func(string) (string, error) { return "", &exec.Error{Name: "launchctl", Err: exec.ErrNotFound} })
	if err := p.Install(t.Context()); err == nil || !strings.Contains(hintOf(err), "@reboot in a crontab") {
		t.Errorf("got %v, hint %q", err, hintOf(err))
	}
	if path, there := p.Installed(); there {
		t.Errorf("%s is written, and no program reads it", path)
	}
}
