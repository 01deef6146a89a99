package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// However it was installed, and whatever became of it since: one uninstall takes everything away.
func TestUninstallFindsAll(t *testing.T) {
	script, binary := installScript(t), program(t)
	for name, stay := range map[string]func(n *newcomer) (by []string){
		"the program was removed": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service")
			n.does("rm", "bin/gchat-hooks")
			return []string{"bash", script, "--uninstall", "--yes", "--binary", binary}
		},
		"another copy": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service")
			return []string{binary, "uninstall", "--purge", "--yes"}
		},
		"two places": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service")
			n.does("bash", script, "--binary", binary, "--no-service", "--prefix", "opt/tools")
			return []string{"bash", script, "--uninstall", "--yes", "--prefix", "opt/tools"}
		},
		"hooks of a project": func(n *newcomer) []string {
			n.has("proj/x", "x")
			n.does("bash", script, "--binary", binary, "--no-service")
			n.does("sh", "-c", "cd proj && ../bin/gchat-hooks install --project")
			n.does("rm", "-r", "proj/x")
			n.has("proj/x", "x")
			return []string{"bash", script, "--uninstall", "--yes"}
		},
		"a folder with a comma, below one with brackets": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service", "--prefix", "a,b [c]*/./no/../bin//")
			if out, _ := n.run("sh", "-c", "echo 'a,b [c]*'/*"); out != "a,b [c]*/bin\n" {
				n.t.Errorf("the prefix holds %s", out)
			}
			return []string{"bash", script, "--uninstall", "--yes", "--prefix", n.home + "/a,b [c]*/bin"}
		},
		"a home that no shell expanded": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service", "--prefix=~/my bin/")
			n.does(filepath.Join(n.home, "my bin/gchat-hooks"), "--version")
			return []string{"bash", script, "--uninstall", "--yes", "--prefix=~/my bin"}
		},
		"by a shell that is no bash": func(n *newcomer) []string {
			n.env = append(n.env, "CDPATH=/")
			n.does("sh", script, "--binary", binary, "--no-service")
			return []string{"sh", script, "--uninstall", "--yes"}
		},
		"somewhere that nobody remembers": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service", "--prefix", `a "b" <&> \c/bin`)
			return []string{"bash", script, "--uninstall", "--yes"}
		},
		"with its state elsewhere, too, by a shell that is no bash": func(n *newcomer) []string {
			n.env = append(n.env, "XDG_STATE_HOME="+filepath.Join(n.home, "my state"))
			n.does("bash", script, "--binary", binary, "--no-service", "--prefix", "opt/tools")
			n.has("bin/gchat-hooks", "#!/bin/sh\nexit 3\n")
			n.does("chmod", "755", "bin/gchat-hooks")
			return []string{"sh", "-c", `sh "$0" --uninstall </dev/null; code=$?; rm -r bin && [ $code = 1 ]`, script} // that one is not ours
		},
		"where somebody says yes to what is not asked": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service")
			return []string{"sh", "-c", `yes | bash "$0" --uninstall`, script}
		},
		"a write that was killed": func(n *newcomer) []string {
			n.does("bash", script, "--binary", binary, "--no-service")
			n.has("bin/.gchat-hooks1234567890", "half a prog")
			return []string{"bash", script, "--uninstall", "--yes"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNewcomer(t, "/usr/bin:/bin")
			n.has("proj/x", "x")
			before := n.tree()
			by := stay(n)
			if out := n.does(by[0], by[1:]...); n.tree() != before {
				t.Errorf("the home folder is not what it was:\n--- before\n%s\n--- after\n%s\n--- said\n%s", before, n.tree(), out)
			}
		})
	}
}

// An install that cannot be done is found out before anything is written.
func TestInstallScriptRefusesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		has  map[string]string
		args []string
		says string
	}{
		"no such preset":             {args: []string{"--preset", "anwser"}, says: "anwser"},
		"somebody else's program":    {has: map[string]string{"bin/gchat-hooks": "#!/bin/sh\necho mine\n"}, says: "another --prefix"},
		"one that never ends":        {has: map[string]string{"bin/gchat-hooks": "#!/bin/sh\nyes & yes\n"}, says: "another --prefix"},
		"settings that do not parse": {has: map[string]string{".claude/settings.json": "{"}, says: "nothing was written"},
		"a folder":                   {has: map[string]string{"bin/gchat-hooks/": ""}, says: "another --prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNewcomer(t, "/usr/bin:/bin")
			for path, text := range c.has {
				n.has(path, text)
				if filepath.Dir(path) == "bin" {
					n.does("chmod", "755", path)
				}
			}
			before := n.tree()
			out, err := n.run("bash", append([]string{installScript(t), "--binary", program(t), "--no-service"}, c.args...)...)
			if err == nil || !strings.Contains(out, c.says) {
				t.Errorf("%v: %s", err, out)
			}
			if after := n.tree(); after != before {
				t.Errorf("it did something:\n%s\n%s", after, out)
			}
		})
	}
}

// A person's CDPATH has cd say where it went; that is no part of the source's path.
func TestInstallScriptKnowsWhereItIs(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.env = append(n.env, "CDPATH="+n.home)
	n.has("src/go.mod", "module gchat-hooks\n")
	n.does("cp", installScript(t), "src")
	if out, err := n.run("bash", "src/install.sh"); err == nil || !strings.Contains(out, "Go is not on the PATH") {
		t.Errorf("%v: %s", err, out)
	}
}

// From a pipe a shell's $0 is "sh", and the script has no folder: neither is looked for in the working folder.
func TestInstallScriptFromAPipeRunsNoFileOfTheFolder(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip("no " + shell)
			}
			n := newNewcomer(t, "/usr/bin:/bin")
			n.has("evil/"+shell, "touch ran\n")
			n.has("evil/go.mod", "module gchat-hooks\n")
			n.has("go", "#!/bin/sh\ntouch ran\n") // stands for what a build would run
			n.does("chmod", "755", "go")
			n.env[1] = "PATH=/usr/bin:/bin:" + n.home
			out, err := n.run("sh", "-c", `cd evil && cat "$0" | `+shell, installScript(t))
			if err == nil || !strings.Contains(out, "install.sh: error: ") {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(n.home, "evil", "ran")); err == nil {
				t.Errorf("it ran a file of the folder: %s", out)
			}
		})
	}
}

// A shell that is no bash hands over to one, and the prefix is read as cd reads it.
func TestInstallScriptReadsThePrefix(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.does("sh", installScript(t), "--binary", program(t), "--no-service", "--prefix=~/my bin/./no/..//")
	n.does(filepath.Join(n.home, "my bin/gchat-hooks"), "--version")
}

// A program that is not ours, or that nobody noted, stays when the rest goes; whoever asks by a script hears of it.
func TestUninstallLeavesOtherPrograms(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	n.does("bash", installScript(t), "--binary", program(t), "--no-service")
	n.does("rm", "bin/gchat-hooks")
	n.has("bin/gchat-hooks", "mine")
	n.does(program(t), "uninstall", "--purge", "--yes")
	if b, err := os.ReadFile(filepath.Join(n.home, "bin/gchat-hooks")); string(b) != "mine" {
		t.Errorf("it holds %q: %v", b, err)
	}
	n.does("cp", program(t), "bin/gchat-hooks")
	n.does("chmod", "755", "bin/gchat-hooks")
	if out, err := n.run("bash", installScript(t), "--uninstall", "--yes"); err == nil || !strings.Contains(out, "still there") {
		t.Errorf("%v: %s", err, out)
	}
}
