package poller

import (
	"errors"
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
	far
	domains  []string // that exist
	in       string   // the domain that the agent is loaded in
	pid      int
	leaving  int               // so many looks after a bootout still see it
	settling int               // so many bootstraps after that fail
	refuse   map[string]string // by domain: what a bootstrap says, "125: …"
	printed  string            // of the agent, in place of the usual
}

func newLaunchd() *fakeLaunchd {
	f := &fakeLaunchd{domains: []string{"gui/501", "user/501"}}
	f.answer = f.launchctl
	return f
}

func (f *fakeLaunchd) launchctl(command string) (string, error) {
	w := strings.Fields(command)
	target := w[2]
	domain := strings.TrimSuffix(target, "/"+serviceLabel)
	exists := slices.Contains(f.domains, domain)
	notFound := func() (string, error) {
		return fmt.Sprintf("Bad request.\nCould not find service %q in domain for user gui: 501\n", serviceLabel), exit(113)
	}
	switch {
	case w[1] == "print" && target == domain:
		if !exists {
			return "Bad request.\nCould not find domain for user gui: 501\n", exit(112)
		}
	case w[1] == "print":
		if f.in != domain {
			return notFound()
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
		return fmt.Sprintf("%s = {\n\tactive count = 1\n\tstate = running\n\n\truns = 1\n\tpid = %d\n\tlast exit code = (never exited)\n\tendpoints = {\n\t\tpid = 99\n\t}\n}\n", target, f.pid), nil
	case w[1] == "bootout":
		if f.in != domain {
			return "Boot-out failed: 3: No such process\n", exit(3)
		}
		f.pid, f.leaving, f.settling = 0, 3, 2
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
	case w[1] == "kickstart":
		if target = w[3]; f.in+"/"+serviceLabel != target {
			return notFound()
		}
		f.pid = 4343
	}
	return "", nil
}

func TestServiceOnLaunchd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLaunchd()
		p := newPerson(t, "darwin", f.run)
		ctx := t.Context()
		const agent = "gui/501/com.claude.gchat-response-poller"
		path := filepath.Join(p.env["HOME"], "Library/LaunchAgents/com.claude.gchat-response-poller.plist")

		if err := p.Install(ctx, ServiceOptions{}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"launchctl enable " + agent, "launchctl bootstrap gui/501 " + path}; !slices.Equal(f.did(), want) {
			t.Errorf("installed by %q", f.did())
		}
		if said := p.hear(); said != "installed "+path+"\nrunning (pid 4242); it starts at each login\n" {
			t.Errorf("said %s", said)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("the plist: %v, %v", info, err)
		}
		if info, err := os.Stat(filepath.Join(p.env["HOME"], ".claude/logs")); err != nil || !info.IsDir() {
			t.Errorf("without the log folder launchd starts nothing: %v", err)
		}

		f.asked = nil
		if err := p.Install(ctx, ServiceOptions{}); err != nil || len(f.did()) > 0 {
			t.Errorf("a second install: %v, did %q", err, f.did())
		}
		if said := p.hear(); !strings.HasPrefix(said, "already installed, nothing to do") {
			t.Errorf("a second install says %s", said)
		}

		// Another interval: the old job goes, launchd takes its time for that, and the new one comes.
		f.asked = nil
		if err := p.Install(ctx, ServiceOptions{PollInterval: "30s"}); err != nil || f.in != "gui/501" || f.pid != 4242 {
			t.Errorf("an install with another interval: %v, in %q with pid %d", err, f.in, f.pid)
		}
		if did := f.did(); len(did) != 5 || did[0] != "launchctl bootout "+agent || !strings.HasPrefix(did[4], "launchctl bootstrap ") {
			t.Errorf("reloaded by %q", did)
		}
		if i := slices.Index(f.asked, "launchctl enable "+agent); i < 1 || f.asked[i-1] != "launchctl print user/501/com.claude.gchat-response-poller" {
			t.Errorf("loaded anew before it was gone: %q", f.asked)
		}
		if !strings.Contains(p.read(t), "<string>30s</string>") {
			t.Error("the interval is not in the file")
		}
		if said := p.hear(); !strings.Contains(said, `"poll_interval": "30s"`) {
			t.Errorf("health knows nothing of the interval, and nobody says so: %s", said)
		}

		if err := p.Start(ctx); err != nil || !strings.Contains(p.hear(), "already running (pid 4242)") {
			t.Errorf("start of what runs: %v", err)
		}
		if err := p.Stop(ctx); err != nil || f.in != "" {
			t.Errorf("stop: %v, in %q", err, f.in)
		}
		if err := p.Stop(ctx); err != nil || !strings.Contains(p.hear(), "is not running") {
			t.Errorf("stop of what does not run: %v", err)
		}
		if err := p.Start(ctx); err != nil || f.pid != 4242 {
			t.Errorf("start: %v", err)
		}
		f.printed = agent + " = {\n\tstate = not running\n\tlast exit code = 1\n}\n"
		f.asked = nil
		p.Start(ctx)
		if want := []string{"launchctl kickstart -k " + agent}; !slices.Equal(f.did(), want) {
			t.Errorf("what is loaded and does not run is started by %q", f.did())
		}

		f.printed = ""
		if err := p.Uninstall(ctx); err != nil || f.in != "" {
			t.Errorf("uninstall: %v, in %q", err, f.in)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the plist is still there")
		}
		p.hear()
		if err := p.Uninstall(ctx); err != nil || !strings.Contains(p.hear(), "nothing to remove") {
			t.Errorf("uninstall of nothing: %v", err)
		}
		if err := p.Start(ctx); hintOf(err) != "gchat-hooks poller install" {
			t.Errorf("start of what is not installed: %v", err)
		}
	})
}

func TestServiceLaunchdTroubles(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fakeLaunchd)
		in     string
		did    string // among other things
		err    string
	}{
		"reached by ssh only": {func(f *fakeLaunchd) { f.domains = []string{"user/501"} }, "user/501", "launchctl enable user/501/", ""},
		"the domain is there and cannot do it": {func(f *fakeLaunchd) {
			f.refuse = map[string]string{"gui/501": "125: Domain does not support specified action"}
		}, "user/501", "", ""},
		"not for sessions at the screen": {func(f *fakeLaunchd) {
			f.refuse = map[string]string{"gui/501": "134: Service cannot load in requested session"}
		}, "user/501", "", ""},
		"loaded by ssh before, at the screen now":    {func(f *fakeLaunchd) { f.in, f.pid = "user/501", 9 }, "gui/501", "launchctl bootout user/501/", ""},
		"a file that launchd does not take":          {func(f *fakeLaunchd) { f.refuse = map[string]string{"gui/501": "109: Invalid property list"} }, "", "", "Bootstrap failed: 109: Invalid property list"},
		"input/output error, for good":               {func(f *fakeLaunchd) { f.settling = 1000 }, "", "", "Bootstrap failed: 5: Input/output error"},
		"input/output error for a while":             {func(f *fakeLaunchd) { f.settling = 6 }, "gui/501", "", ""},
		"somebody loads it at the same time":         {func(f *fakeLaunchd) { racing(f, 5) }, "gui/501", "launchctl kickstart -k gui/501/", ""},
		"service already bootstrapped, as 37 has it": {func(f *fakeLaunchd) { racing(f, 37) }, "gui/501", "launchctl kickstart -k gui/501/", ""},
		"it ends at once with an error": {func(f *fakeLaunchd) {
			f.printed = "x = {\n\tstate = spawn scheduled\n\tlast exit code = 78: EX_CONFIG\n}\n"
		}, "gui/501", "", "does not stay up: exit code 78: EX_CONFIG"},
		"it ends at once in order": {func(f *fakeLaunchd) {
			f.printed = "x = {\n\tstate = not running\n\tlast exit code = 0\n}\n"
		}, "gui/501", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newLaunchd()
				c.before(f)
				p := newPerson(t, "darwin", f.run)
				err := p.Install(t.Context(), ServiceOptions{})
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
					t.Errorf("error %v", err)
				}
				if f.in != c.in {
					t.Errorf("loaded in %q, want %q; did %q", f.in, c.in, f.did())
				}
				if !strings.Contains(strings.Join(f.did(), "\n"), c.did) {
					t.Errorf("did %q", f.did())
				}
			})
		})
	}
}

// racing has somebody else load the agent while we do.
func racing(f *fakeLaunchd, code int) {
	f.answer = func(command string) (string, error) {
		if strings.HasPrefix(command, "launchctl bootstrap") {
			f.in, f.pid = "gui/501", 7
			return fmt.Sprintf("Bootstrap failed: %d: service already bootstrapped\n", code), exit(code)
		}
		return f.launchctl(command)
	}
}

func TestServiceThatLaunchdKeepsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLaunchd()
		f.in, f.pid = "gui/501", 9
		f.answer = func(command string) (string, error) {
			if strings.HasPrefix(command, "launchctl bootout") {
				return "", nil
			}
			return f.launchctl(command)
		}
		p := newPerson(t, "darwin", f.run)
		if err := p.Stop(t.Context()); err == nil || !strings.Contains(hintOf(err), "launchctl kill SIGKILL gui/501/") {
			t.Errorf("got %v, hint %q", err, hintOf(err))
		}
		if n := len(f.did()); n != 1 {
			t.Errorf("asked to go %d times", n)
		}
	})
}

func TestServiceWithoutLaunchd(t *testing.T) {
	f := &far{answer: func(string) (string, error) { return "", &exec.Error{Name: "launchctl", Err: exec.ErrNotFound} }}
	p := newPerson(t, "darwin", f.run)
	err := p.Install(t.Context(), ServiceOptions{})
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(p.hear(), "*/5 * * * *") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(p.file()); err == nil {
		t.Error("a file that nobody reads was written")
	}
}

func TestServiceIsNotForSudo(t *testing.T) {
	f := newLaunchd()
	p := newPerson(t, "darwin", f.run)
	p.UID, p.env["SUDO_USER"] = 0, "ann"
	for name, do := range map[string]func() error{
		"install":   func() error { return p.Install(t.Context(), ServiceOptions{}) },
		"uninstall": func() error { return p.Uninstall(t.Context()) },
		"start":     func() error { return p.Start(t.Context()) },
		"stop":      func() error { return p.Stop(t.Context()) },
	} {
		if err := do(); hintOf(err) != "run it without sudo" || len(f.asked) > 0 {
			t.Errorf("%s: %v, asked %q", name, err, f.asked)
		}
	}
}
