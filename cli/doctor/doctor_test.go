package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/state"
)

// With nothing wrong all is green, nothing is posted, and nothing is written but what was
// there.
func TestDoctor_AllIsWell(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	r := p.runJSON()
	if bad := r.problemIDs(); r.ExitCode != 0 || len(bad) > 0 {
		t.Errorf("exit code %d, not well: %v\n%+v", r.ExitCode, bad, r.Findings)
	}
	for _, id := range []string{"claude.version", "claude.hooks", "claude.trust", "chat.post", "chat.read", "chat.allowed", "files.private"} {
		if f := r.finding(id); f.Level != OK {
			t.Errorf("%s: %+v", id, f)
		}
	}
	if f := r.finding("live"); f.Level != Skip || !strings.Contains(f.Text, "gchat-hooks doctor --live") {
		t.Errorf("what was not tried: %+v", f)
	}
	if n := len(p.space.Messages()); n > 0 {
		t.Errorf("%d messages were posted", n)
	}
	for _, dir := range []string{p.userState(), filepath.Join(p.project, ".claude", "state"), filepath.Join(p.home, ".claude", "logs")} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("it made %s", dir)
		}
	}
	code, stdout, stderr := p.runDoctor()
	if code != 0 || stderr != "" || !strings.Contains(stdout, " ok, 0 warn, 0 fail, ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("what is well is one line: exit code %d\n%s%s", code, stdout, stderr)
	}
	_, stdout, _ = p.runDoctor("--all")
	if !strings.Contains(stdout, "\nok    chat.post ") || strings.Count(stdout, "\n") != len(r.Findings)+2 {
		t.Errorf("--all has a line for each, an empty line and the sum:\n%s", stdout)
	}
}

// Problems come first, the failures before the warnings.
func TestDoctor_ProblemsComeFirst(t *testing.T) {
	p := newDoctorHome(t)
	p.config["alowed_users"] = "users/1"
	p.presets = nil
	p.writeDefaults()
	_, stdout, _ := p.runDoctor("--all")
	lines := strings.Split(stdout, "\n")
	if !strings.HasPrefix(lines[0], "fail  claude.hooks ") || !strings.HasPrefix(lines[1], "warn  config.parse ") || !strings.HasPrefix(lines[2], "ok    ") {
		t.Errorf("%s", stdout)
	}
}

// What answers in Chat's place must not reach into the terminal.
func TestDoctor_ReportIsInert(t *testing.T) {
	e := &exam{log: state.NewLog(func(string) string { return "" }, "doctor")}
	esc := "\x1b]0;title\x07\x1b[2J"
	got := e.newReport([]*Finding{{ID: "live.in", Level: Fail, Text: "why" + esc, Fix: "so" + esc}}).Text(false)
	if strings.ContainsAny(got, "\x1b\x07") || !strings.HasPrefix(got, "fail  live.in         why") {
		t.Errorf("%q", got)
	}
}
