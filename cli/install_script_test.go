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

func installScript(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../install.sh")
	kit.NoError(t, err)
	return path
}

// newInstallHome is a home in which install.sh runs.
func newInstallHome(t *testing.T) *home {
	t.Helper()
	kit.NeedProgram(t, "bash")
	return newHome(t, "TMPDIR="+t.TempDir())
}

// install runs install.sh with the program that the tests built.
func (h *home) install(args ...string) (output string) {
	h.Helper()
	return h.mustExecute("sh",
		append([]string{installScript(h), "--binary", h.program}, args...)...)
}

// wantFiles fails the test if a file of these is not there, or is.
func (h *home) wantFiles(want bool, names ...string) {
	h.Helper()
	for _, name := range names {
		_, err := os.Lstat(h.path(name))
		kit.Equalf(h, err == nil, want, "%s is there", name)
	}
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

// After install, upgrade, setup, use and uninstall, the home folder is what it was
// before.
func TestInstallScript_LeavesNothingBehind(t *testing.T) {
	for name, furnish := range map[string]func(h *home){
		"bare": func(*home) {},
		"lived in": func(h *home) {
			for name, text := range map[string]string{
				settingsFile: usedSettings, ".claude/logs/mine.log": "mine\n",
				"bin/mine":             "#!/bin/sh\n",
				".config/other/config": "x", ".local/state/x": "x",
			} {
				h.writeFile(name, text)
			}
		},
		"another user": func(h *home) {
			if os.Getuid() != 0 {
				h.Skip("only root can be another user")
			}
			for _, dir := range []string{h.dir, h.path("install.sh"), h.getenv("TMPDIR")} {
				kit.NoError(h,
					errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, 65534, 65534)))
			}
			h.credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newInstallHome(t)
			h.mustExecute("cp", installScript(t), "install.sh") // where another user can read it
			furnish(h)
			before := h.listTree()
			install := func(args ...string) string {
				return h.mustExecute("sh", append([]string{"install.sh"}, args...)...)
			}
			out := install("--binary", h.program)
			kit.Containsf(t, out, settingsFile+": 7 hooks added", "it says")
			kit.Containsf(t, out, "gchat-hooks setup", "it says")
			install("--binary", h.program, "--preset", "report")
			install("--binary", h.program) // an upgrade keeps the hooks
			kit.Containsf(t, h.readFile(settingsFile), "gchat-session-event", "the settings")
			h.mustExecute(h.path("bin/gchat-hooks"), "setup", "--space", "--address",
				freeAddress(t))
			h.mustExecute(h.path("bin/gchat-send"), "--queue", "a message that stays in the outbox")
			const hook = "echo no JSON: it goes into the log | bin/gchat-hooks hook " +
				"gchat-ask-user-answered"
			kit.Equalf(t, h.mustExecute("sh", "-c", hook), "", "a hook prints")
			h.wantFiles(true, "bin/gchat-send", ".claude/logs/gchat-hooks.log", configFile,
				".local/state/gchat-hooks/space")
			out = install("--uninstall") // there is no terminal to ask on
			if after := h.listTree(); after != before {
				t.Errorf("the home folder was\n%s\nand is\n%s\n--uninstall "+
					"printed\n%s", before, after, out)
			}
		})
	}
}

// An upgrade does not ask for a setup that is done.
func TestInstallScript_UpgradeAsksForNoSetup(t *testing.T) {
	h := newInstallHome(t)
	const next = "Next, say where questions go:  "
	kit.Containsf(t, h.install(), next+h.dir+"/bin/gchat-hooks setup\n", "the first install")
	h.writeFile(configFile,
		`{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`)
	if out := h.install(); strings.Contains(out, next) {
		t.Errorf("an upgrade says\n%s", out)
	}
}

// A release has the program beside the script. Without Go, the script installs that
// program, and only if SHA256SUMS names it.
func TestInstallScript_ChecksTheSum(t *testing.T) {
	built := kit.ReadFile(t, programPath(t))
	name := "gchat-hooks-" + runtime.GOOS + "-" + runtime.GOARCH
	line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(built)), name)
	wrong := strings.Repeat("0", 64)
	for what, c := range map[string]struct {
		sums, args string
		says       string // "" where it is installed
	}{
		"it is":         {line, "", ""},
		"another":       {wrong + "  " + name + "\n", "", "is not the program"},
		"none":          {line[:64] + "  install.sh\n", "", "does not list"},
		"by its name":   {wrong + " *" + name + "\n", "--binary ./" + name, "is not the program"},
		"of its own":    {line, "--binary ./own", ""},
		"no list there": {"", "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			h := newInstallHome(t)
			h.writeFile("Downloads/", "")
			for to, from := range map[string]string{
				"install.sh": installScript(t), name: h.program, "own": h.program,
			} {
				h.mustExecute("cp", from, "Downloads/"+to)
			}
			if c.sums != "" {
				h.writeFile("Downloads/SHA256SUMS", c.sums)
			}
			out, code := h.execute("sh", "-c", "cd Downloads && sh install.sh "+c.args)
			kit.Equalf(t, code == 0, c.says == "", "it is installed: %s", out)
			kit.Containsf(t, out, c.says, "it says")
			h.wantFiles(c.says == "", "bin/gchat-hooks")
			if strings.Contains(out, "building") {
				t.Errorf("it builds:\n%s", out)
			}
		})
	}
}

// The script builds the program from the source and installs it into another folder.
func TestInstallScript_BuildsFromSource(t *testing.T) {
	t.Parallel()
	kit.SkipShort(t, "it builds")
	golang, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go")
	}
	h := newInstallHome(t)
	h.env = append(h.env, "PATH="+filepath.Dir(golang)+":/usr/bin:/bin")
	for _, name := range []string{
		"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED",
	} {
		// what is cached need not be fetched
		out, err := bound.Command(t, "go", "env", name).Output()
		kit.NoError(t, err)
		h.env = append(h.env, name+"="+strings.TrimSpace(string(out)))
	}
	h.timeout = bound.BuildPatience
	h.mustExecute("sh", installScript(t), "--prefix", "my tools/./bin")
	kit.Containsf(t, h.mustExecute(h.path("my tools/bin/gchat-hooks"), "status"), "outbox",
		"the program")
	h.mustExecute("sh", installScript(t), "--uninstall", "--yes", "--prefix",
		h.path("my tools/bin"))
	h.wantFiles(false, "my tools/bin", ".claude")
}

// A script that a broken connection cut off does nothing. An install that cannot succeed
// changes nothing.
func TestInstallScript_RefusesFirst(t *testing.T) {
	script := kit.ReadFile(t, installScript(t))
	for _, part := range []float64{0.1, 0.3, 0.6, 0.9, 0.995} {
		h := newInstallHome(t)
		h.writeFile("part", script[:int(part*float64(len(script)))])
		before := h.listTree()
		out, _ := h.execute("sh", "-c", `sh -s -- --binary "$0" <part`, h.program)
		kit.Equalf(t, h.listTree(), before, "after %.1f%% of the script, which says %s,", 100*part,
			out)
	}
	for name, c := range map[string]struct {
		file, text string
		args       []string
		says       string
	}{
		"no such option": {
			args: []string{"--nonsense"}, says: "no such option: --nonsense",
		},
		"no value": {args: []string{"--prefix"}, says: "--prefix takes a value"},
		"no such program": {
			args: []string{"--binary", "/nowhere"}, says: "there is no program /nowhere",
		},
		"nothing to uninstall": {
			args: []string{"--uninstall"}, says: "bin/gchat-hooks is not there",
		},
		"no such preset": {
			args: []string{"--preset", "anwser"}, says: "no such preset: anwser",
		},
		"another program": {
			file: "bin/gchat-hooks", text: "#!/bin/sh\necho mine\n", says: "is another program",
		},
		"settings that do not parse": {file: settingsFile, text: "{", says: "nothing was written"},
		"an old Claude Code": {
			file: ".local/bin/claude", text: "#!/bin/sh\necho '2.1.45 (Claude Code)'\n",
			says: "Claude Code 2.1.45 is too old: update it (`claude update`)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newInstallHome(t)
			if c.file != "" {
				h.writeFile(c.file, c.text)
				kit.NoError(t, os.Chmod(h.path(c.file), 0o755))
			}
			before := h.listTree()
			out, code := h.execute("sh",
				append([]string{installScript(t), "--binary", h.program}, c.args...)...)
			kit.Equalf(t, code == 0, false, "it goes well")
			kit.Containsf(t, out, c.says, "it says")
			kit.Containsf(t, out, " error: ", "it says")
			kit.Equalf(t, h.listTree(), before, "the home folder")
		})
	}
}

func TestInstallScript_NamesMacOSQuarantine(t *testing.T) {
	h := newInstallHome(t)
	h.writeFile("fakes/xattr",
		"#!/bin/sh\n[ \"$1 $2\" = '-p com.apple.quarantine' ] && [ -e \"$3\" ]\n")
	kit.NoError(t, os.Chmod(h.path("fakes/xattr"), 0o755))
	h.env = append(h.env, "PATH="+h.path("fakes")+":/usr/bin:/bin")
	h.writeFile("Downloads/gchat-hooks", "#!/bin/sh\nexit 137\n")
	file := h.path("Downloads/gchat-hooks")
	out, code := h.execute("sh", installScript(t), "--binary", file)
	kit.Equalf(t, code == 0, false, "it goes well")
	kit.Containsf(t, out, "xattr -d com.apple.quarantine "+file, "it says")
}

// If the script comes from a pipe, $0 is "sh" and the script has no folder. It must not
// look for either in the working folder.
func TestInstallScript_PipeRunsNoLocalFile(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip("no " + shell)
			}
			h := newInstallHome(t)
			h.writeFile("evil/go.mod", "module gchat-hooks\n")
			names := []string{
				"go", "evil/" + shell, "evil/install.sh",
			} // go stands for what a build would run
			for _, name := range []string{
				"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64",
			} {
				names = append(names, "gchat-hooks-"+name, "evil/gchat-hooks-"+name)
			}
			for _, name := range names {
				h.writeFile(name, "#!/bin/sh\ntouch ran\n")
				kit.NoError(t, os.Chmod(h.path(name), 0o755))
			}
			h.env = append(h.env, "PATH=/usr/bin:/bin:"+h.dir)
			out, code := h.execute("sh", "-c", `cd evil && cat "$0" | `+shell, installScript(t))
			kit.Equalf(t, code == 0, false, "it goes well")
			kit.Containsf(t, out, "install.sh: error: there is no program and no source", "it says")
			h.wantFiles(false, "evil/ran")
			h.mustExecute("sh", "-c", `cd evil && cat "$0" | `+shell+` -s -- --binary "$1"`,
				installScript(t), h.program)
		})
	}
}
