package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// An upgrade where claude is not on the PATH, as of an editor's, keeps the hooks that its
// version takes.
func TestAnUpgradeWithoutClaudeKeepsTheHooks(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	n.mustRun(programPath(t), "install", "--preset", "approve", "--claude-version", "2.1.329")
	kit.Containsf(t, n.mustRun(programPath(t), "install", "--keep"), "settings.json: nothing to change", "it")
}

// Hooks in a project that nothing was asked in go with a purge, too: they would start a
// program that is gone.
func TestAPurgeFindsTheHooksOfAFreshProject(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	n.writeFile("mine/", "")
	n.env = append(n.env, "CLAUDE_PROJECT_DIR="+filepath.Join(n.home, "mine"))
	n.mustRun(programPath(t), "install", "--project")
	n.mustRun(programPath(t), "install", "--local")
	n.env = n.env[:len(n.env)-1]
	n.mustRun(programPath(t), "uninstall", "--purge", "--yes")
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if b, err := os.ReadFile(filepath.Join(n.home, "mine", ".claude", name)); err == nil {
			t.Errorf("%s is left:\n%s", name, b)
		}
	}
}

// So do those of a $CLAUDE_CONFIG_DIR that a session ran with.
func TestAPurgeFindsTheHooksOfAnotherConfiguration(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	work := filepath.Join(n.home, "work")
	n.mustRun("env", "CLAUDE_CONFIG_DIR="+work, programPath(t), "install")
	env := func(name string) string { return map[string]string{"HOME": n.home}[name] }
	_, err := state.SessionsIn(state.UserStateDir(env)).Change("s", func(one *state.Session) {
		one.TranscriptPath = filepath.Join(work, "projects", "p", "s.jsonl")
	})
	kit.NoError(t, err)
	n.mustRun(programPath(t), "uninstall", "--purge", "--yes")
	if b, err := os.ReadFile(filepath.Join(work, "settings.json")); err == nil {
		t.Errorf("they are left:\n%s", b)
	}
}

// Who has said where questions go is not told to say it with each new version.
func TestAnUpgradeDoesNotAskForASetupThatIsDone(t *testing.T) {
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
