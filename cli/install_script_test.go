package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
)

// newcomer is a person with a home folder of their own, and nothing of ours in it.
type newcomer struct {
	t    *testing.T
	home string
	env  []string
	as   *syscall.Credential // nil: whoever runs the tests
}

func newNewcomer(t *testing.T, path string) *newcomer {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	home, tmp := t.TempDir(), t.TempDir()
	return &newcomer{t: t, home: home, env: []string{"HOME=" + home, "PATH=" + path, "TMPDIR=" + tmp}}
}

// has puts a file into the home folder; a folder when its name ends in a slash.
func (n *newcomer) has(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if strings.HasSuffix(name, "/") {
		if err := os.MkdirAll(path, 0o755); err != nil {
			n.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *newcomer) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = n.env, n.home
	if n.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.as}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (n *newcomer) does(name string, args ...string) string {
	n.t.Helper()
	out, err := n.run(name, args...)
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// tree is every file, folder and link of a home folder, with modes and bytes.
func (n *newcomer) tree() string {
	n.t.Helper()
	var all []string
	err := filepath.WalkDir(n.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %s", strings.TrimPrefix(path, n.home), info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			line += " -> " + to
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(b), sha256.Sum256(b))
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	sort.Strings(all)
	return strings.Join(all, "\n")
}

// freeAddress is one that nothing listens on.
func freeAddress(t *testing.T) string {
	server := httptest.NewUnstartedServer(nil)
	defer server.Close()
	return server.Listener.Addr().String()
}

func installScript(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func program(t *testing.T) string {
	t.Helper()
	dir, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // another user may have to read it
		t.Fatal(err)
	}
	return filepath.Join(dir, "gchat-hooks")
}

// whole is a stay from the first day to the last: installed twice, set up, used, and gone without a trace.
func (n *newcomer) whole(script, binary string) {
	n.t.Helper()
	before := n.tree()
	n.does("bash", script, "--binary", binary, "--no-service")
	if out := n.does("bash", script, "--binary", binary, "--no-service", "--preset", "report"); !strings.Contains(out, "gchat-hooks setup") {
		n.t.Errorf("install.sh does not say how to go on:\n%s", out)
	}
	n.does("bash", script, "--binary", binary, "--no-service") // an upgrade keeps the hooks
	if b, _ := os.ReadFile(filepath.Join(n.home, ".claude", "settings.json")); !strings.Contains(string(b), "gchat-session-event") {
		n.t.Errorf("the preset is lost:\n%s", b)
	}
	ours := filepath.Join(n.home, "bin", "gchat-hooks")
	n.does(ours, "setup", "--space", "--address", freeAddress(n.t))
	n.does(filepath.Join(n.home, "bin", "gchat-send"), "--queue", "a message that stays in the outbox")
	hook := exec.Command(filepath.Join(n.home, "bin", "gchat-ask-user-answered"))
	hook.Env, hook.Dir, hook.Stdin = n.env, n.home, strings.NewReader("no JSON: it goes into the log")
	if n.as != nil {
		hook.SysProcAttr = &syscall.SysProcAttr{Credential: n.as}
	}
	if out, err := hook.CombinedOutput(); err != nil || len(out) > 0 {
		n.t.Errorf("a hook: %v %s", err, out)
	}
	for _, made := range []string{"bin/gchat-send", ".claude/settings.json", ".claude/logs/gchat-hooks.log", ".config/gchat-hooks/config.json", ".local/state/gchat-hooks/space"} {
		if _, err := os.Lstat(filepath.Join(n.home, made)); err != nil {
			n.t.Errorf("a test that shows nothing: %v", err)
		}
	}

	out := n.does("bash", script, "--uninstall") // there is no terminal to ask on
	if after := n.tree(); after != before {
		n.t.Errorf("the home folder is not what it was:\n--- before\n%s\n--- after\n%s\n--- said\n%s", before, after, out)
	}
}

func TestInstallLeavesNoTrace(t *testing.T) {
	homes := map[string]func(n *newcomer){
		"bare": func(*newcomer) {},
		"lived in": func(n *newcomer) {
			n.has(".claude/settings.json", "{\n\t\"model\": \"opus\",\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}\n}")
			n.has(".claude/logs/mine.log", "mine\n")
			n.has("bin/mine", "#!/bin/sh\n")
			n.has(".config/other/config", "x")
			n.has(".config/gchat-hooks/config.json", "{\n\t// mine\n\t\"digest\": \"9:00\",\n}")
			n.has(".config/gchat-hooks/recovery-registry.json", "{}")
			n.has(".local/share/x", "x")
		},
		"with a configuration behind links": func(n *newcomer) {
			n.has("dotfiles/gchat/my.json", "{}")
			n.has(".config/", "")
			n.does("ln", "-s", "../dotfiles/gchat", ".config/gchat-hooks")
			n.does("ln", "-s", "my.json", "dotfiles/gchat/config.json")
		},
		"with empty folders": func(n *newcomer) { // a person's, all the same
			for _, dir := range []string{"bin/", ".claude/logs/", ".config/gchat-hooks/", ".local/state/"} {
				n.has(dir, "")
			}
		},
	}
	for name, furnish := range homes {
		t.Run(name, func(t *testing.T) {
			n := newNewcomer(t, "/usr/bin:/bin")
			furnish(n)
			n.whole(installScript(t), program(t))
		})
	}
	t.Run("another user", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can be somebody else")
		}
		n := newNewcomer(t, "/usr/bin:/bin")
		n.as = &syscall.Credential{Uid: 65534, Gid: 65534}
		b, err := os.ReadFile("../install.sh") // where that user can read it
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for _, open := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(open, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, own := range []string{n.home, strings.TrimPrefix(n.env[2], "TMPDIR=")} {
			if err := os.Chown(own, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
		script := filepath.Join(dir, "install.sh")
		if err := os.WriteFile(script, b, 0o755); err != nil {
			t.Fatal(err)
		}
		n.whole(script, program(t))
	})
}

// Built from the source, with nothing but Go: the build leaves nothing in the home folder either.
func TestInstallBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds")
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go")
	}
	n := newNewcomer(t, filepath.Dir(golang)+":/usr/bin:/bin")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "GOTOOLCHAIN"} { // what is cached need not be fetched
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		n.env = append(n.env, name+"="+strings.TrimSpace(string(out)))
	}
	before := n.tree()
	n.does("bash", installScript(t), "--no-service", "--prefix", filepath.Join(n.home, "opt/tools"))
	if out := n.does(filepath.Join(n.home, "opt/tools/gchat-hooks"), "status"); !strings.Contains(out, "outbox") {
		t.Errorf("the program says %s", out)
	}
	n.does("bash", installScript(t), "--uninstall", "--yes", "--prefix", filepath.Join(n.home, "opt/tools"))
	if after := n.tree(); after != before {
		t.Errorf("the home folder is not what it was:\n%s", after)
	}
}

// A script that a broken connection cut off anywhere does nothing, and neither does one that is told nonsense.
func TestInstallScriptIsWholeOrNothing(t *testing.T) {
	b, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	n := newNewcomer(t, "/usr/bin:/bin")
	before := n.tree()
	for _, part := range []float64{0.1, 0.3, 0.6, 0.9, 0.99} {
		cmd := exec.Command("bash", "-s", "--", "--binary", program(t), "--no-service")
		cmd.Env, cmd.Stdin = n.env, bytes.NewReader(b[:int(part*float64(len(b)))])
		out, _ := cmd.CombinedOutput()
		if after := n.tree(); after != before {
			t.Fatalf("%.0f%% of the script did something:\n%s\n%s", 100*part, out, after)
		}
	}
	for _, args := range [][]string{{"--nonsense"}, {"--prefix"}, {"--binary", "/nowhere"}, {"--uninstall"}} {
		if out, err := n.run("bash", append([]string{installScript(t)}, args...)...); err == nil || !strings.Contains(out, "install.sh: error: ") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	if after := n.tree(); after != before {
		t.Errorf("wrong arguments did something:\n%s", after)
	}
}
