package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bounded "gchat-hooks/e2e/bound"
)

// Our files are checked by their own permissions, even in a closed folder. Other
// programs' files in a closed folder are not reported.
func TestFileChecks_OnlyOurFiles(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	p.writeFile(filepath.Join(p.home, ".mcp.json"),
		`{"mcpServers": {"x": {"env": {"A": "`+plantedKey+`"}}}}`, 0o644)
	p.check(os.Chmod(p.settingsFile(), 0o666))
	p.check(os.Chmod(p.home, 0o700))
	p.runJSON().wantWell(t)
	p.check(os.Chmod(p.configFile(), 0o644))
	p.runJSON().wantFinding(t, "files.private", Fail, p.configFile(), "")
}

// Each folder of a project's state that others may write to is reported.
func TestFileChecks_OpenProjectState(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	p.check(os.Chmod(p.home, 0o700))
	p.check(os.Chmod(p.project, 0o700))
	names := []string{"", "pending-questions", "gchat-forwarded-ask", "user-input-queue"}
	for _, name := range names {
		p.makeOpenFolder(filepath.Join(p.project, ".claude", "state", name))
	}
	r := p.runJSON()
	for _, name := range names {
		r.wantFinding(t, "files.private", Fail, filepath.Join(p.project, ".claude", "state", name),
			"")
	}
}

func TestFileChecks_FullDisk(t *testing.T) {
	p := newDoctorHome(t)
	p.writeDefaults()
	dir := p.userState()
	p.check(os.MkdirAll(dir, 0o700))
	mount := bounded.Command(t, "mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", dir)
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() { p.check(bounded.Command(t, "umount", "-l", dir).Run()) })
	p.writeFile(filepath.Join(dir, "fill"), strings.Repeat("x", 4096), 0o600)
	p.runJSON("--all").wantFinding(t, "files.folders", Fail, "no space left on device", "")
}

func TestFileChecks_FindFaults(t *testing.T) {
	checkFaults(t, []plantedFault{
		{
			"a configuration that others read", "files.private", Fail,
			"can read or change", "chmod go-rwx",
			func(p *doctorHome) {
				p.writeDefaults()
				p.config = nil
				p.check(os.Chmod(p.configFile(), 0o644))
			},
		},
		{
			"a configuration's backup that others read", "files.private", Fail,
			"config.json~", "chmod go-rwx",
			func(p *doctorHome) {
				p.writeFile(p.configFile()+"~",
					`{"webhook_url": `+
						`"https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=`+
						plantedKey+`"}`, 0o644)
			},
		},
		{
			"a folder of ours that others write to", "files.private", Fail,
			".config/gchat-hooks", "chmod go-rwx",
			func(p *doctorHome) {
				p.makeOpenFolder(filepath.Dir(p.configFile()))
			},
		},
		{
			"a project's state that others write to", "files.private", Fail,
			".claude/state", "chmod go-rwx",
			func(p *doctorHome) {
				p.makeOpenFolder(filepath.Join(p.project, ".claude", "state"))
			},
		},
		{
			"state that others read", "files.private", Fail, "projects.json", "chmod go-rwx",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.userState(), "projects.json"), "{}",
					0o644)
			},
		},
		{
			"state that others write", "files.private", Fail, "projects.json", "chmod go-rwx",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.userState(), "projects.json"), "{}",
					0o666)
			},
		},
		{
			"a file in a folder's place", "files.folders", Fail,
			"not a directory", "a file has its name",
			func(p *doctorHome) {
				p.writeFile(filepath.Join(p.home, ".local", "state"), "",
					0o600)
			},
		},
		{
			"a folder that cannot be made", "files.folders", Fail,
			"cannot write to", "who owns the folder",
			func(p *doctorHome) {
				dir := filepath.Join(p.home, ".local", "state")
				p.writeFile(filepath.Join(dir, "x"), "", 0o600)
				p.check(os.Chmod(dir, 0o500))
				if os.Getuid() == 0 { // to whom no folder is closed
					p.check(os.RemoveAll(dir))
					p.check(os.Symlink("/proc/sys", dir))
				}
			},
		},
		{
			"a state folder that is no UTF-8", "files.folders", Fail,
			`state\xff/gchat-hooks" is not UTF-8`, "XDG_STATE_HOME",
			func(p *doctorHome) {
				p.env["XDG_STATE_HOME"] = filepath.Join(p.home, "state\xff")
			},
		},
	})
}
