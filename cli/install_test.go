package cli

import (
	"os"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// If claude is not on the PATH, as in an editor, an upgrade keeps the hooks of its
// version.
func TestInstall_KeepsHooksWithoutClaude(t *testing.T) {
	h := newHome(t)
	h.mustRun("install", "--preset", "approve", "--claude-version", "2.1.329")
	h.wantRun(0, "settings.json: nothing to change", "install", "--keep")
}

// If install is called through a link, by a path or by a name on the PATH, it registers
// the link and puts the other names beside it. The link's target is gone with the next
// version.
func TestInstall_RegistersTheLink(t *testing.T) {
	name := os.Args[0]
	defer func() { os.Args[0] = name }()
	for _, called := range []string{"./bin/gchat-hooks", "gchat-hooks"} {
		h := newHome(t)
		h.writeFile("bin/", "")
		h.writeFile("opt/v1/", "")
		bin, version := h.path("bin"), h.path("opt/v1")
		kit.NoError(t, os.Link(h.program, version+"/gchat-hooks"))
		kit.NoError(t, os.Symlink("../opt/v1/gchat-hooks", bin+"/gchat-hooks"))
		h.env = append(h.env, "PATH="+bin+":/usr/bin:/bin")
		h.mustExecute("sh", "-c", called+" install --links --claude-version 2.1.329")
		settings := h.readFile(settingsFile)
		kit.Containsf(t, settings, `"command": "`+bin+`/gchat-hooks"`, "the settings")
		if strings.Contains(settings, version) {
			t.Errorf("%s: %s", called, settings)
		}
		h.wantFiles(true, "bin/gchat-wait")
		names, err := os.ReadDir(version)
		kit.NoError(t, err)
		kit.Equalf(t, len(names), 1, "files beside the target: %v", names)
		// By another of its names.
		os.Args[0] = bin + "/gchat-wait"
		installed := (Program{self: version + "/gchat-hooks"}).installedPath()
		kit.Equalf(t, installed, bin+"/gchat-hooks", "gchat-wait is of")
	}
	self, err := os.Executable()
	kit.NoError(t, err)
	for _, os.Args[0] = range []string{"gchat-stop-gate", ""} {
		kit.Equalf(t, (Program{self: self}).installedPath(), self,
			"a call that tells nothing is of")
	}
}
