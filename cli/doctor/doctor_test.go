package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// If nothing is wrong, doctor finds nothing, posts nothing and writes nothing.
func TestDoctor_AllIsWell(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	r := p.runJSON()
	r.wantWell(t)
	for _, id := range []string{
		"claude.version", "claude.hooks", "claude.trust", "chat.post", "chat.read", "chat.allowed",
		"files.private",
	} {
		r.wantFinding(t, id, OK, "", "")
	}
	r.wantFinding(t, "live", Skip, "gchat-hooks doctor --live", "")
	kit.Equalf(t, len(p.space.Messages()), 0, "messages were posted")
	for _, dir := range []string{
		p.userState(), filepath.Join(p.project, ".claude", "state"),
		filepath.Join(p.home, ".claude", "logs"),
	} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("it made %s", dir)
		}
	}
	code, stdout, stderr := p.runDoctor()
	kit.Equalf(t, code, 0, "exit code")
	kit.Equalf(t, stderr, "", "stderr")
	kit.Containsf(t, stdout, " ok, 0 warn, 0 fail, ", "stdout")
	kit.Equalf(t, strings.Count(stdout, "\n"), 1, "lines of %s", stdout)
	_, stdout, _ = p.runDoctor("--all")
	kit.Containsf(t, stdout, "\nok    chat.post ", "--all")
	// a line for each, an empty line and the sum
	kit.Equalf(t, strings.Count(stdout, "\n"), len(r.Findings)+2, "lines of %s", stdout)
}

func TestDoctor_ClaudeCheckIsNotWhole(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	check := state.ClaudeCheck{Failure: "the check did not come to its end"}
	kit.NoError(t, state.SaveClaudeCheck(p.getenv, "2.1.329", check))
	p.runJSON().wantFinding(t, "claude.version", OK, check.Failure, "")
}

// Problems come first, the failures before the warnings.
func TestDoctor_ProblemsComeFirst(t *testing.T) {
	p := newDoctorHome(t)
	p.config["alowed_users"] = "users/1"
	p.presets = nil
	p.writeDefaults()
	_, stdout, _ := p.runDoctor("--all")
	order := regexp.MustCompile(`^fail  claude\.hooks .*\nwarn  config\.parse .*\nok    `)
	kit.Equalf(t, order.MatchString(stdout), true,
		"failures, warnings and the rest stand in order in\n%s\nwhich", stdout)
}

// What answers in Chat's place must not control the terminal.
func TestDoctor_ReportIsInert(t *testing.T) {
	e := &exam{log: state.NewLog(func(string) string { return "" }, "doctor")}
	esc := "\x1b]0;title\x07\x1b[2J"
	got := e.newReport([]*Finding{
		{ID: "live.in", Level: Fail, Text: "why" + esc, Fix: "so" + esc},
	}).Text(false)
	if strings.ContainsAny(got, "\x1b\x07") ||
		!strings.HasPrefix(got, "fail  live.in         why") {
		t.Errorf("%q", got)
	}
}

// recordDaemon is one that is this test's process, and showed so long ago that it goes
// on, and polled.
func (p *doctorHome) recordDaemon(age time.Duration) {
	beatAt := time.Now().Add(-age)
	p.check(os.MkdirAll(filepath.Join(p.userState(), "pollers"), 0o700))
	p.check(state.WriteHeartbeat(p.getenv,
		state.Heartbeat{PID: os.Getpid(), IsDaemon: true, StartedAt: beatAt, BeatAt: beatAt}))
	p.check(state.WriteDaemonPID(p.userState()))
	p.check(state.WriteLastPoll(p.userState(), beatAt))
}

func TestDoctor_FindsFaults(t *testing.T) {
	checkFaults(t, []plantedFault{
		{
			"a policy that cannot be read", "config.parse", Fail,
			"nothing is asked in Chat: read policy", "the policy's owner",
			func(p *doctorHome) { p.env["GCHAT_POLICY_FILE"] = "/none" },
		},
		{
			"a configuration that does not parse", "config.parse chat.post chat.allowed", Fail,
			"gchat-hooks.json", "correct the file",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.project, ".claude", "gchat-hooks.json"),
					`{"ask_mode": `, 0o644)
			},
		},
		{
			"a misspelt setting", "config.parse", Warn, `"alowed_users"`, "correct the file",
			configure("alowed_users", "users/1"),
		},
		{
			"a value that means nothing", "config.parse", Fail, "often", "configuration.md",
			configure("poll_interval", "often"),
		},
		{
			"a rule that quotes the webhook", "config.parse", Fail,
			"[secret]", "configuration.md",
			func(p *doctorHome) {
				p.config["rules"] = []any{map[string]any{"session": "x", "secret": p.secrets[1]}}
			},
		},
		{
			"a daemon that hangs", "daemon.runs", Warn, "may be stuck", "poller install",
			func(p *doctorHome) { p.recordDaemon(time.Hour) },
		},
		{
			"inject without tmux", "daemon.runs claude.version", Fail,
			"tmux is not installed", "install tmux",
			func(p *doctorHome) {
				p.config["ask_mode"] = "inject"
				p.env["PATH"] = p.binDir
				p.recordDaemon(0)
				p.claude = ""
			},
		},
	})
}
