package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// An upgrade where claude is not on the PATH, as of an editor's, keeps the hooks that its
// version takes.
func TestInstall_KeepsHooksWithoutClaude(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	n.mustRun(programPath(t), "install", "--preset", "approve", "--claude-version", "2.1.329")
	kit.Containsf(t, n.mustRun(programPath(t), "install", "--keep"), "settings.json: nothing to change", "it")
}

// Called through a link, by a path or by a name on the PATH, install registers the link
// and links names beside it: what it leads to is gone with the next version.
func TestInstall_RegistersTheLink(t *testing.T) {
	built, err := builtProgram()
	kit.NoError(t, err)
	name := os.Args[0]
	defer func() { os.Args[0] = name }()
	for _, called := range []string{"./bin/gchat-hooks", "gchat-hooks"} {
		home := t.TempDir()
		bin, version := filepath.Join(home, "bin"), filepath.Join(home, "opt", "v1")
		err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(version, 0o755), os.Link(filepath.Join(built, "gchat-hooks"), filepath.Join(version, "gchat-hooks")),
			os.Symlink("../opt/v1/gchat-hooks", filepath.Join(bin, "gchat-hooks")))
		kit.NoError(t, err)
		cmd := bound.Command(t, "sh", "-c", called+" install --links --claude-version 2.1.329")
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + bin + ":/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		settings, err := os.ReadFile(filepath.Join(home, ".claude", "settings.json"))
		if err != nil || !bytes.Contains(settings, []byte(`"command": "`+bin+`/gchat-hooks"`)) || bytes.Contains(settings, []byte(version)) {
			t.Errorf("%s: %v\n%s", called, err, settings)
		}
		if _, err := os.Lstat(filepath.Join(bin, "gchat-wait")); err != nil {
			t.Errorf("%s: %v", called, err)
		}
		if names, err := os.ReadDir(version); err != nil || len(names) != 1 {
			t.Errorf("%s: beside the target: %v, %v", called, names, err)
		}
		// By another of its names.
		os.Args[0] = filepath.Join(bin, "gchat-wait")
		kit.Equalf(t, (Program{self: filepath.Join(version, "gchat-hooks")}).installedPath(), filepath.Join(bin, "gchat-hooks"), "gchat-wait is of")
	}
	self, err := os.Executable()
	for _, os.Args[0] = range []string{"gchat-stop-gate", ""} {
		if got := (Program{self: self}).installedPath(); err != nil || got != self {
			t.Errorf("a call that tells nothing: %s, %v", got, err)
		}
	}
}
