package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

func installScript(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../install.sh")
	kit.NoError(t, err)
	return path
}

// usedSettings has what a person who used Claude Code before has, as Claude Code writes
// it, with hooks of another program.
const usedSettings = `{
  "model": "opus",
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "say done"
          }
        ]
      }
    ]
  }
}
`

// A stay from the first day to the last: installed twice, set up, used, and gone, with
// what is the person's as it was.
func TestInstallScript_LeavesNothingBehind(t *testing.T) {
	script, binary := installScript(t), programPath(t)
	for name, furnish := range map[string]func(n *bareHome){
		"bare": func(*bareHome) {},
		"lived in": func(n *bareHome) {
			n.writeFile(".claude/settings.json", usedSettings)
			n.writeFile(".claude/logs/mine.log", "mine\n")
			n.writeFile("bin/mine", "#!/bin/sh\n")
			n.writeFile(".config/other/config", "x")
			n.writeFile(".local/state/x", "x")
		},
		"another user": func(n *bareHome) {
			if os.Getuid() != 0 {
				n.t.Skip("only root can be another user")
			}
			n.credential = &syscall.Credential{Uid: 65534, Gid: 65534}
			b, err := os.ReadFile(script)
			kit.NoError(n.t, err)
			n.writeFile("install.sh", string(b)) // where that user can read it
			for _, dir := range []string{n.home, filepath.Join(n.home, "install.sh"), strings.TrimPrefix(n.env[2], "TMPDIR=")} {
				kit.NoError(n.t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, 65534, 65534)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, script := newBareHome(t, "/usr/bin:/bin"), script
			furnish(n)
			if n.credential != nil {
				script = filepath.Join(n.home, "install.sh")
			}
			before := n.listTree()
			if out := n.mustRun("sh", script, "--binary", binary); !strings.Contains(out, ".claude/settings.json: 7 hooks added") || !strings.Contains(out, "gchat-hooks setup") {
				t.Errorf("it says\n%s", out)
			}
			n.mustRun("sh", script, "--binary", binary, "--preset", "report")
			n.mustRun("sh", script, "--binary", binary) // an upgrade keeps the hooks
			if b, _ := os.ReadFile(filepath.Join(n.home, ".claude", "settings.json")); !strings.Contains(string(b), "gchat-session-event") {
				t.Errorf("the preset is lost:\n%s", b)
			}
			ours := filepath.Join(n.home, "bin", "gchat-hooks")
			n.mustRun(ours, "setup", "--space", "--address", freeAddress(t))
			n.mustRun(filepath.Join(n.home, "bin", "gchat-send"), "--queue", "a message that stays in the outbox")
			if out, err := n.run("sh", "-c", "echo no JSON: it goes into the log | bin/gchat-hooks hook gchat-ask-user-answered"); err != nil || out != "" {
				t.Errorf("a hook: %v %s", err, out)
			}
			for _, made := range []string{"bin/gchat-send", ".claude/logs/gchat-hooks.log", ".config/gchat-hooks/config.json", ".local/state/gchat-hooks/space"} {
				if _, err := os.Lstat(filepath.Join(n.home, made)); err != nil {
					t.Errorf("a test that shows nothing: %v", err)
				}
			}
			out := n.mustRun("sh", script, "--uninstall") // there is no terminal to ask on
			if after := n.listTree(); after != before {
				t.Errorf("the home folder is not what it was:\n--- before\n%s\n--- after\n%s\n--- said\n%s", before, after, out)
			}
		})
	}
}

// Of a release, with the program for this machine beside the script, and without Go.
func TestInstallScript_TakesTheProgramBesideIt(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	script, err := os.ReadFile(installScript(t))
	kit.NoError(t, err)
	built, err := os.ReadFile(programPath(t))
	kit.NoError(t, err)
	n.writeFile("Downloads/install.sh", string(script))
	n.writeFile("Downloads/gchat-hooks-"+runtime.GOOS+"-"+runtime.GOARCH, string(built))
	if out := n.mustRun("sh", "-c", "cd Downloads && sh install.sh"); strings.Contains(out, "building") {
		t.Errorf("it says\n%s", out)
	}
	n.mustRun(filepath.Join(n.home, "bin", "gchat-hooks"), "--version")
}

// A program is installed only where it is the one that SHA256SUMS beside it names.
func TestInstallScript_ChecksTheSum(t *testing.T) {
	script, err := os.ReadFile(installScript(t))
	kit.NoError(t, err)
	built, err := os.ReadFile(programPath(t))
	kit.NoError(t, err)
	name := "gchat-hooks-" + runtime.GOOS + "-" + runtime.GOARCH
	line := fmt.Sprintf("%x  %s\n", sha256.Sum256(built), name)
	for what, c := range map[string]struct {
		sums, args string
		says       string // "" where it is installed
	}{
		"it is":         {line, "", ""},
		"another":       {strings.Repeat("0", 64) + "  " + name + "\n", "", "is not the program"},
		"none":          {line[:64] + "  install.sh\n", "", "does not list"},
		"by its name":   {strings.Repeat("0", 64) + " *" + name + "\n", "--binary ./" + name, "is not the program"},
		"of its own":    {line, "--binary ./own", ""},
		"no list there": {"", "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			n := newBareHome(t, "/usr/bin:/bin")
			n.writeFile("Downloads/install.sh", string(script))
			n.writeFile("Downloads/"+name, string(built))
			n.writeFile("Downloads/own", string(built))
			if c.sums != "" {
				n.writeFile("Downloads/SHA256SUMS", c.sums)
			}
			out, err := n.run("sh", "-c", "cd Downloads && sh install.sh "+c.args)
			if (err == nil) != (c.says == "") || !strings.Contains(out, c.says) {
				t.Errorf("%v: %s", err, out)
			}
			if _, there := os.Stat(filepath.Join(n.home, "bin", "gchat-hooks")); (there == nil) != (c.says == "") {
				t.Errorf("installed: %v", there)
			}
		})
	}
}

// Built from the source, into another folder, with nothing but Go.
func TestInstallScript_BuildsFromSource(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds")
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go")
	}
	n := newBareHome(t, filepath.Dir(golang)+":/usr/bin:/bin")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED"} {
		// what is cached need not be fetched
		out, err := bound.Command(t, "go", "env", name).Output()
		kit.NoError(t, err)
		n.env = append(n.env, name+"="+strings.TrimSpace(string(out)))
	}
	n.timeout = bound.BuildPatience
	n.mustRun("sh", installScript(t), "--prefix", "my tools/./bin")
	kit.Containsf(t, n.mustRun(filepath.Join(n.home, "my tools/bin/gchat-hooks"), "status"), "outbox", "the program")
	n.mustRun("sh", installScript(t), "--uninstall", "--yes", "--prefix", filepath.Join(n.home, "my tools/bin"))
	for _, gone := range []string{"my tools/bin", ".claude"} {
		if _, err := os.Lstat(filepath.Join(n.home, gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

// A script that a broken connection cut off anywhere does nothing, and neither does an
// install that cannot be done.
func TestInstallScript_RefusesFirst(t *testing.T) {
	script, binary := installScript(t), programPath(t)
	b, err := os.ReadFile(script)
	kit.NoError(t, err)
	for _, part := range []float64{0.1, 0.3, 0.6, 0.9, 0.995} {
		n := newBareHome(t, "/usr/bin:/bin")
		n.writeFile("part", string(b[:int(part*float64(len(b)))]))
		before := n.listTree()
		if out, _ := n.run("sh", "-c", `sh -s -- --binary "$0" <part`, binary); n.listTree() != before {
			t.Fatalf("%.1f%% of the script did something:\n%s", 100*part, out)
		}
	}
	for name, c := range map[string]struct {
		file, text string
		args       []string
		says       string
	}{
		"no such option":             {args: []string{"--nonsense"}, says: "no such option: --nonsense"},
		"no value":                   {args: []string{"--prefix"}, says: "--prefix takes a value"},
		"no such program":            {args: []string{"--binary", "/nowhere"}, says: "there is no program /nowhere"},
		"nothing to uninstall":       {args: []string{"--uninstall"}, says: "bin/gchat-hooks is not there"},
		"no such preset":             {args: []string{"--preset", "anwser"}, says: "no such preset: anwser"},
		"another program":            {file: "bin/gchat-hooks", text: "#!/bin/sh\necho mine\n", says: "not a gchat-hooks"},
		"settings that do not parse": {file: ".claude/settings.json", text: "{", says: "nothing was written"},
		"an old Claude Code":         {file: ".local/bin/claude", text: "#!/bin/sh\necho '2.1.45 (Claude Code)'\n", says: "Claude Code 2.1.45 is too old: update it (`claude update`)"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBareHome(t, "/usr/bin:/bin")
			if c.file != "" {
				n.writeFile(c.file, c.text)
				n.mustRun("chmod", "755", c.file)
			}
			before := n.listTree()
			out, err := n.run("sh", append([]string{script, "--binary", binary}, c.args...)...)
			if err == nil || !strings.Contains(out, c.says) || !strings.Contains(out, " error: ") {
				t.Errorf("%v: %s", err, out)
			}
			if after := n.listTree(); after != before {
				t.Errorf("it did something:\n%s\n%s", after, out)
			}
		})
	}
}

func TestInstallScript_NamesMacOSQuarantine(t *testing.T) {
	fakes := t.TempDir()
	mark := filepath.Join(fakes, "xattr")
	kit.NoError(t, os.WriteFile(mark, []byte("#!/bin/sh\n[ \"$1 $2\" = '-p com.apple.quarantine' ] && [ -e \"$3\" ]\n"), 0o755))
	n := newBareHome(t, fakes+":/usr/bin:/bin")
	n.writeFile("Downloads/gchat-hooks", "#!/bin/sh\nexit 137\n")
	file := filepath.Join(n.home, "Downloads/gchat-hooks")
	if out, err := n.run("sh", installScript(t), "--binary", file); err == nil || !strings.Contains(out, "xattr -d com.apple.quarantine "+file) {
		t.Errorf("%v: %s", err, out)
	}
}

// From a pipe a shell's $0 is "sh", and the script has no folder: neither is looked for
// in the working folder.
func TestInstallScript_PipeRunsNoLocalFile(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip("no " + shell)
			}
			n := newBareHome(t, "/usr/bin:/bin")
			n.writeFile("evil/"+shell, "touch ran\n")
			n.writeFile("evil/install.sh", "touch ran\n")
			n.writeFile("evil/go.mod", "module gchat-hooks\n")
			for _, name := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"} {
				n.writeFile("evil/gchat-hooks-"+name, "#!/bin/sh\ntouch ran\n")
				n.writeFile("gchat-hooks-"+name, "#!/bin/sh\ntouch ran\n")
			}
			n.writeFile("go", "#!/bin/sh\ntouch ran\n") // stands for what a build would run
			n.mustRun("chmod", "755", "go")
			n.env[1] = "PATH=/usr/bin:/bin:" + n.home
			out, err := n.run("sh", "-c", `cd evil && cat "$0" | `+shell, installScript(t))
			if err == nil || !strings.Contains(out, "install.sh: error: there is no program and no source") {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(n.home, "evil", "ran")); err == nil {
				t.Errorf("it ran a file of the folder: %s", out)
			}
			n.mustRun("sh", "-c", `cd evil && cat "$0" | `+shell+` -s -- --binary "$1"`, installScript(t), programPath(t))
		})
	}
}

// Who has said where questions go is not told to say it with each new version.
func TestInstallScript_UpgradeAsksForNoSetup(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	const next = "Next, say where questions go:  "
	if out := n.mustRun(installScript(t), "--binary", programPath(t)); !strings.HasSuffix(out, next+n.home+"/bin/gchat-hooks setup\n") {
		t.Errorf("the first install says\n%s", out)
	}
	n.writeFile(".config/gchat-hooks/config.json", `{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`)
	if out := n.mustRun(installScript(t), "--binary", programPath(t)); strings.Contains(out, next) {
		t.Errorf("an upgrade says\n%s", out)
	}
}
