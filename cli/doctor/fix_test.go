package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --fix mends what is safe and says so; nothing that a person or another program wrote is changed.
func TestDoctorMends(t *testing.T) {
	p := newPatient(t)
	p.furnish()
	config := filepath.Join(p.home, ".config", "gchat-hooks", "config.json")
	registry := filepath.Join(p.userState(), "projects.json")
	others := filepath.Join(p.project, ".claude", "state", "pending-questions", "other-1.json")
	p.check(os.Chmod(config, 0o644))
	p.write(registry, "{}", 0o666)
	p.write(others, `{"question_id": "q", "session_id": "other", "status": "resolved", "questions": []}`, 0o644)
	p.check(os.Chmod(p.settingsFile(), 0o644))
	p.check(os.Chmod(filepath.Dir(config), 0o777))
	p.check(os.Chmod(p.userState(), 0o777))
	wasSettings, _ := os.ReadFile(p.settingsFile())
	wasConfig, _ := os.ReadFile(config)

	if r := p.examined(); r.ExitCode != 2 || mode(t, config) != 0o644 {
		t.Errorf("without --fix: exit code %d, mode %o", r.ExitCode, mode(t, config))
	}
	r := p.examined("--fix")
	if r.ExitCode != 0 {
		t.Errorf("exit code %d, not well: %v", r.ExitCode, r.bad())
	}
	said := ""
	for _, f := range r.Findings {
		said += f.Fixed + "\n"
	}
	if !strings.Contains(said, "closed to other users") {
		t.Errorf("it does not say so:\n%s", said)
	}
	for path, want := range map[string]os.FileMode{config: 0o600, filepath.Dir(config): 0o755, p.userState(): 0o755, registry: 0o600, others: 0o644, p.settingsFile(): 0o644} {
		if is := mode(t, path); is != want {
			t.Errorf("%s has %o, want %o", path, is, want)
		}
	}
	isSettings, _ := os.ReadFile(p.settingsFile())
	isConfig, _ := os.ReadFile(config)
	if string(isSettings) != string(wasSettings) || string(isConfig) != string(wasConfig) {
		t.Error("it changed what a person wrote")
	}
	if r := p.examined(); r.ExitCode != 0 {
		t.Errorf("afterwards: exit code %d, not well: %v", r.ExitCode, r.bad())
	}
}

// What a link leads to stays as it is.
func TestDoctorMendsNothingOfOthers(t *testing.T) {
	p := newPatient(t)
	p.furnish()
	config := filepath.Join(p.home, ".config", "gchat-hooks", "config.json")
	shared := filepath.Join(p.home, "dotfiles", "config.json")
	p.check(os.MkdirAll(filepath.Dir(shared), 0o755))
	p.check(os.Rename(config, shared))
	p.check(os.Chmod(shared, 0o644))
	p.check(os.Symlink(shared, config))
	r := p.examined("--fix")
	if r.ExitCode != 2 || len(r.bad()) != 1 || r.find("files.private").Level != Fail {
		t.Errorf("exit code %d, not well: %v", r.ExitCode, r.bad())
	}
	if m := mode(t, shared); m != 0o644 {
		t.Errorf("the file behind the link has %o", m)
	}
}

// What is ours is judged by its own permissions, also where no one else gets at it yet. What is other programs' is theirs: no
// line is wasted on that while it is behind a closed folder.
func TestDoctorJudgesOurFilesByThemselves(t *testing.T) {
	p := newPatient(t)
	p.furnish()
	config := filepath.Join(p.home, ".config", "gchat-hooks", "config.json")
	mcp := filepath.Join(p.home, ".mcp.json")
	registry := filepath.Join(p.userState(), "projects.json")
	p.write(mcp, `{"mcpServers": {"x": {"env": {"A": "`+plantedKey+`"}}}}`, 0o644)
	p.check(os.Chmod(p.settingsFile(), 0o666))
	p.check(os.Chmod(p.home, 0o700))
	if r := p.examined(); r.ExitCode != 0 {
		t.Errorf("others' files: exit code %d, not well: %v", r.ExitCode, r.bad())
	}
	p.check(os.Chmod(config, 0o644))
	if r := p.examined(); r.ExitCode != 2 || !strings.Contains(r.find("files.private").What, config) {
		t.Errorf("the configuration: exit code %d, %+v", r.ExitCode, r.find("files.private"))
	}
	p.write(registry, "{}", 0o644)
	if r := p.examined("--fix"); r.ExitCode != 0 || mode(t, config) != 0o600 || mode(t, registry) != 0o600 {
		t.Errorf("mended: exit code %d, not well: %v, modes %o and %o", r.ExitCode, r.bad(), mode(t, config), mode(t, registry))
	}
	if m := mode(t, mcp); m != 0o644 {
		t.Errorf("%s has %o", mcp, m)
	}
}

// A project's state folders that others may write to are found one by one, and closed to writers only: Claude's and git's
// other files stay as readable as they were.
func TestDoctorClosesAProjectsState(t *testing.T) {
	p := newPatient(t)
	p.furnish()
	p.check(os.Chmod(p.home, 0o700))
	p.check(os.Chmod(p.project, 0o700))
	dir := filepath.Join(p.project, ".claude", "state")
	all := []string{dir}
	for _, name := range []string{"pending-questions", "gchat-forwarded-ask", "user-input-queue"} {
		all = append(all, filepath.Join(dir, name))
	}
	for _, path := range all {
		p.check(os.MkdirAll(path, 0o700))
		p.check(os.Chmod(path, 0o777))
	}
	p.check(os.Chmod(dir, os.ModeSetgid|0o777))
	was, err := os.Stat(dir) // not every system lets everybody set that
	p.check(err)
	r := p.examined()
	for _, path := range all {
		if f := r.find("files.private"); f.Level != Fail || !strings.Contains(f.What, path) {
			t.Errorf("%s is not found", path)
		}
	}
	if r := p.examined("--fix"); r.ExitCode != 0 {
		t.Errorf("mended: exit code %d, not well: %v", r.ExitCode, r.bad())
	}
	for _, path := range all {
		if m := mode(t, path); m != 0o755 {
			t.Errorf("%s has %o", path, m)
		}
	}
	if is, err := os.Stat(dir); err != nil || (is.Mode()^was.Mode())&os.ModeSetgid != 0 {
		t.Errorf("the folder's group does not go to its files any more: %v", err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}
