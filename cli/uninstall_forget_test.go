package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// Install and uninstall, in whichever settings, leave a home folder that had nothing of ours as it was.
func TestUninstallForgets(t *testing.T) {
	for name, stay := range map[string]func(n *newcomer, run func(args ...string)){
		"user":    func(_ *newcomer, run func(...string)) { run("install"); run("uninstall") },
		"project": func(_ *newcomer, run func(...string)) { run("install", "--project"); run("uninstall", "--project") },
		"local":   func(_ *newcomer, run func(...string)) { run("install", "--local"); run("uninstall", "--local") },
		"two, one after the other": func(n *newcomer, run func(...string)) {
			run("install")
			run("install", "--local")
			run("uninstall")
			if _, err := os.Stat(filepath.Join(n.home, ".local/state/gchat-hooks/made.json")); err != nil {
				n.t.Errorf("the other's notes are gone: %v", err)
			}
			run("uninstall", "--local")
		},
		"a configuration of before": func(n *newcomer, run func(...string)) { run("install"); run("uninstall") },
		"killed on the way": func(n *newcomer, run func(...string)) {
			run("install")
			n.does("sh", "-c", "rm .claude/settings.json* && echo half > .local/state/gchat-hooks/.made.json123")
			run("uninstall")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNewcomer(t, "/usr/bin:/bin")
			n.has("proj/x", "x")
			if name == "a configuration of before" {
				n.has(".config/gchat-hooks/config.json", "{}")
			}
			n.env = append(n.env, "CLAUDE_PROJECT_DIR="+filepath.Join(n.home, "proj"))
			before := n.tree()
			stay(n, func(args ...string) { n.does(program(t), args...) })
			if after := n.tree(); after != before {
				t.Errorf("the home folder is not what it was:\n--- before\n%s\n--- after\n%s", before, after)
			}
		})
	}
}

// What is left of ours keeps the notes of it: an uninstall of all finds it.
func TestUninstallKeepsNotesOfWhatIsLeft(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	before := n.tree()
	n.does("bash", installScript(t), "--binary", program(t), "--no-service", "--prefix", "opt/tools")
	n.does(filepath.Join(n.home, "opt/tools/gchat-hooks"), "uninstall", "--links")
	if _, err := os.Stat(filepath.Join(n.home, ".claude")); err == nil {
		t.Error("the folder of the settings is left, empty")
	}
	if n.does("bash", installScript(t), "--uninstall"); n.tree() != before {
		t.Errorf("the home folder is not what it was:\n%s", n.tree())
	}
}

// An uninstall that takes the notes away while an install goes on leaves neither without the other: what is installed in the
// end is noted, and goes with its folders.
func TestUninstallForgetsBesideAnInstall(t *testing.T) {
	n := newNewcomer(t, "/usr/bin:/bin")
	before := n.tree()
	ours := program(t)
	for range 4 {
		n.does("sh", "-c", `"$0" install --claude-version 2.1.329 & "$0" uninstall & "$0" install --local --claude-version 2.1.329 & "$0" uninstall --local & wait`, ours)
	}
	n.does(ours, "uninstall")
	if n.does(ours, "uninstall", "--local"); n.tree() != before {
		t.Errorf("the home folder is not what it was:\n%s", n.tree())
	}
}
