package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// serviceHome is a home folder for a service. It records what the service printed, and
// the calls of launchctl, systemctl and the like.
type serviceHome struct {
	*Service
	env      map[string]string
	output   bytes.Buffer
	commands []string
}

// newServiceHome returns a home in which answer stands for the system's programs.
func newServiceHome(t *testing.T, goos string, answer func(command string) (string,
	error)) *serviceHome {
	t.Helper()
	home := t.TempDir()
	t.Setenv("PATH", "")
	t.Setenv("HOME", home)
	p := &serviceHome{env: map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": home}}
	env := func(name string) string { return p.env[name] }
	p.Service = &Service{
		Name: DaemonName, Args: []string{"poller"}, Env: env, GOOS: goos, UID: 501, Out: &p.output,
		ProgramPath: "/opt/bin/gchat-hooks",
	}
	p.Run = func(_ context.Context, name string, args ...string) ([]byte, error) {
		command := strings.Join(append([]string{name}, args...), " ")
		p.commands = append(p.commands, command)
		out, err := answer(command)
		return []byte(out), err
	}
	return p
}

// newCommands returns the commands since the last call that change something.
func (p *serviceHome) newCommands() []string {
	asked := p.commands
	p.commands = nil
	return slices.DeleteFunc(asked, func(c string) bool {
		return strings.HasPrefix(c, "launchctl print ") ||
			strings.HasPrefix(c, "systemctl --user show ")
	})
}

// newOutput returns what was printed since the last call.
func (p *serviceHome) newOutput() string {
	defer p.output.Reset()
	return p.output.String()
}

// checkNothingToRemove uninstalls the service, which is not installed.
func (p *serviceHome) checkNothingToRemove(t *testing.T) {
	t.Helper()
	p.newOutput()
	kit.NoError(t, p.Uninstall(t.Context()))
	kit.Equal(t, p.newOutput(), "not installed: nothing to remove\n")
}

// exitStatus is the exit status of a program.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitStatus) ExitCode() int { return int(e) }

func hintOf(err error) string {
	var told *state.UserError
	if !errors.As(err, &told) {
		return ""
	}
	return told.Hint
}

// awkwardService returns a service whose paths hold everything that could break a file
// format.
func awkwardService() *Service {
	return newService("/home/zoë & <co>/bin/${X} %h/gchat-hooks", map[string]string{
		"HOME": "/home/zoë & <co>", "XDG_STATE_HOME": "/home/zoë & <co>/state 100%",
		"XDG_CONFIG_HOME":         "relative",
		"GCHAT_CONFIG":            `/home/zoë & <co>/"my" $HOME\config;#.json`,
		"TMUX_TMPDIR":             "/home/zoë & <co>/it's",
		"GCHAT_STATE_DIR":         "/a\nExecStart=relative",
		"GOOGLE_CHAT_WEBHOOK_URL": "https://chat.example/?key=SECRET",
	})
}

func usualService() *Service {
	return newService("/home/ann/bin/gchat-hooks", map[string]string{"HOME": "/home/ann"})
}

// newService returns the daemon's service in an environment.
func newService(program string, env map[string]string) *Service {
	return &Service{
		Name: DaemonName, Args: []string{"poller"}, ProgramPath: program,
		Env: func(name string) string { return env[name] },
	}
}

// spaceService returns the embedded space's service.
func spaceService() *Service {
	return NewSpace(usualService().Env, usualService().ProgramPath, nil, "--listen",
		"127.0.0.1:8765", "--phone")
}

func TestService_FilesAreGolden(t *testing.T) {
	t.Setenv("PATH", "")
	for name, s := range map[string]*Service{
		"awkward": awkwardService(), "usual": usualService(), "space": spaceService(),
	} {
		for suffix, sup := range map[string]supervisor{"plist": launchd{s}, "service": systemd{s}} {
			got := sup.fileText(s.environmentForService())
			path := filepath.Join("testdata", name+"."+suffix)
			golden.Compare(t, path, got)
			kit.True(t, !strings.Contains(got, "SECRET") && !strings.Contains(got, "relative"),
				"%s holds a secret, or a path that leads elsewhere or into another line", path)
		}
	}
}

// Python's property list parser reads from the agent's file what was written into it.
func TestService_PlistParses(t *testing.T) {
	kit.NeedProgram(t, "python3")
	s := awkwardService()
	cmd := bound.Command(t, "python3", "-c",
		"import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read())))")
	cmd.Stdin = strings.NewReader(launchd{s}.fileText([]string{"PATH=/bin", "A=<b>=&"}))
	out, err := cmd.CombinedOutput()
	kit.Must(t, err == nil, "%v: %s", err, out)
	var got any
	kit.NoError(t, json.Unmarshal(out, &got))
	home := s.Env("HOME")
	want := map[string]any{
		"Label":            "com.claude.gchat-response-poller",
		"ProgramArguments": []any{s.ProgramPath, "poller"}, "RunAtLoad": true,
		"KeepAlive":        map[string]any{"Crashed": true, "SuccessfulExit": false},
		"ThrottleInterval": 20.0, "ExitTimeOut": 90.0,
		"ProcessType": "Interactive", "Umask": 63.0,
		"StandardErrorPath":    home + "/.claude/logs/gchat-hooks.log",
		"EnvironmentVariables": map[string]any{"PATH": "/bin", "A": "<b>=&"},
		"WorkingDirectory":     home,
	}
	kit.Equalf(t, fmt.Sprint(got), fmt.Sprint(want), "the plist")
}

// systemd itself accepts the units of programs with awkward paths.
func TestService_UnitPassesSystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze")
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	args := []string{"--user", "--man=no", "verify"}
	for i, name := range []string{
		"plain", "two words", "100%h", "$HOME ${X}", "ü & <é>", "a;b # c",
	} {
		program := filepath.Join(t.TempDir(), name, "gchat-hooks")
		kit.WriteFile(t, program, "#!/bin/sh\n", 0o755)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.service", DaemonName, i))
		unit := systemd{&Service{ProgramPath: program}}
		kit.WriteFile(t, path, unit.fileText([]string{"TMUX_TMPDIR=" + program, `B="\'`}), 0o644)
		args = append(args, path)
	}
	out, err := bound.Command(t, analyze, args...).CombinedOutput()
	if strings.Contains(string(out), "Failed to initialize manager") {
		t.Skipf("systemd-analyze does not work here: %s", out)
	}
	kit.True(t, err == nil && len(out) == 0, "%v: %s", err, out)
}

func TestService_PathBeginsWithTmux(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	kit.WriteFile(t, filepath.Join(dir, "tmux"), "", 0o755)
	kit.WriteFile(t, filepath.Join(other, "tmux"), "", 0o644) // not a program
	t.Setenv("PATH", other+":"+dir)
	kit.Equal(t, usualService().environmentForService()[0],
		"PATH="+dir+":/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
}

func TestHealth_LineAndExitCode(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const recent = "OK: Last poll %ds ago (threshold: %ds)"
	const late = "WARN: Last poll %ds ago (threshold: %ds) — daemon may be stuck"
	for name, c := range map[string]struct {
		project, user, interval string // what the files hold; "" for none
		line                    string
		ago, threshold, code    int
	}{
		"just now":         {"2026-11-21T11:59:56Z\n", "", "", recent, 4, 20, 0},
		"with a fraction":  {"2026-11-21T17:29:56.000001+05:30", "", "", recent, 3, 20, 0},
		"at the threshold": {"2026-11-21T11:59:40Z", "", "", recent, 20, 20, 0},
		"behind it":        {"2026-11-21T11:59:39Z", "", "", late, 21, 20, 1},
		"a slower daemon":  {"2026-11-21T11:58:30Z", "", "60", recent, 90, 120, 0},
		"default settings": {"2026-11-21T11:59:50Z", "", "3", recent, 10, 20, 0},
		"a faster daemon":  {"2026-11-21T11:59:50Z", "", "0.25", recent, 10, 20, 0},
		"a clock set back": {"2026-11-21T13:00:00Z", "", "", late, 3600, 20, 1},
		"both":             {"2026-11-21T11:59:55Z", "2026-11-21T11:00:00Z", "", recent, 5, 20, 0},
		"the user's only":  {"", "2026-11-21T11:59:57Z", "", recent, 3, 20, 0},
		"never":            {"", "", "", "", 0, 0, 2},
		"not a time":       {"yesterday", "", "", "", 0, 0, 2},
	} {
		want := "WARN: Health file not found — daemon may not have run yet"
		if c.line != "" {
			want = fmt.Sprintf(c.line, c.ago, c.threshold)
		}
		home := t.TempDir()
		env := map[string]string{
			"HOME": home, "CLAUDE_PROJECT_DIR": home,
			"GCHAT_POLLER_INTERVAL": cmp.Or(c.interval, "10"),
		}
		env["GCHAT_STATE_DIR"] = filepath.Join(home, "p")
		for dir, text := range map[string]string{
			"p": c.project, ".local/state/gchat-hooks": c.user,
		} {
			if text != "" {
				kit.WriteFile(t, filepath.Join(home, dir, state.LastPollFile), text, 0o600)
			}
		}
		line, code := Health(func(n string) string { return env[n] }, noon)
		kit.True(t, line == want && code == c.code, "%s: %d, %s", name, code, line)
	}
}
