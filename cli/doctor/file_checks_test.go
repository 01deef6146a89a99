package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bounded "gchat-hooks/e2e/bound"
)

// What is ours is judged by its own permissions, also where no one else gets at it yet.
// What is other programs' is theirs: no line is wasted on that while it is behind a
// closed folder.
func TestFileChecks_OnlyOurFiles(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	config := filepath.Join(p.home, ".config", "gchat-hooks", "config.json")
	mcp := filepath.Join(p.home, ".mcp.json")
	p.writeFile(mcp, `{"mcpServers": {"x": {"env": {"A": "`+plantedKey+`"}}}}`, 0o644)
	p.check(os.Chmod(p.settingsFile(), 0o666))
	p.check(os.Chmod(p.home, 0o700))
	if r := p.runJSON(); r.ExitCode != 0 {
		t.Errorf("others' files: exit code %d, not well: %v", r.ExitCode, r.problemIDs())
	}
	p.check(os.Chmod(config, 0o644))
	if r := p.runJSON(); r.ExitCode != 2 || !strings.Contains(r.finding("files.private").Text, config) {
		t.Errorf("the configuration: exit code %d, %+v", r.ExitCode, r.finding("files.private"))
	}
}

// A project's state folders that others may write to are found one by one.
func TestFileChecks_OpenProjectState(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
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
	r := p.runJSON()
	for _, path := range all {
		if f := r.finding("files.private"); f.Level != Fail || !strings.Contains(f.Text, path) {
			t.Errorf("%s is not found", path)
		}
	}
}

func TestFileChecks_FullDisk(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	dir := p.userState()
	p.check(os.MkdirAll(dir, 0o700))
	if out, err := bounded.Command(t, "mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() { p.check(bounded.Command(t, "umount", "-l", dir).Run()) })
	p.writeFile(filepath.Join(dir, "fill"), strings.Repeat("x", 4096), 0o600)
	for _, f := range p.runJSON("--all").Findings {
		if f.ID == "files.folders" && (f.Level != Fail || !strings.Contains(f.Text, "no space left on device")) {
			t.Errorf("got %+v", f)
		}
	}
}
