package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
)

// Claude Code itself says whether the plugins are some, and installs them from this folder.
func TestPluginsAreValid(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		requireIsolation(t)
		takeSeat(t)
		project, err := filepath.Abs("..")
		if err != nil {
			t.Fatal(err)
		}
		s := &session{t: t, Claude: c, API: newAnthropic(t), Home: t.TempDir()}
		s.tmux.dir = t.TempDir()
		for _, step := range []struct {
			args []string
			says []string
		}{
			{[]string{"validate", filepath.Join(project, "plugins", "answer")}, []string{"Validation passed", "PermissionRequest AskUserQuestion"}},
			{[]string{"validate", filepath.Join(project, "plugins", "approve")}, []string{"Validation passed", "PermissionRequest"}},
			{[]string{"validate", filepath.Join(project, "plugins", "report")}, []string{"Validation passed"}},
			{[]string{"validate", filepath.Join(project, "plugins", "system3")}, []string{"Validation passed"}},
			{[]string{"validate", filepath.Join(project, "plugins", "wake")}, []string{"Validation passed"}},
			{[]string{"validate", filepath.Join(project, "plugins", "send")}, []string{"Validation passed"}},
			{[]string{"validate", project}, []string{"Validation passed"}},
			{[]string{"marketplace", "add", project}, []string{"gchat-hooks"}},
			{[]string{"install", "gchat-hooks@gchat-hooks"}, []string{"Successfully installed"}},
			{[]string{"install", "gchat-hooks-approve@gchat-hooks"}, []string{"Successfully installed"}},
			{[]string{"list"}, []string{"gchat-hooks@gchat-hooks", "gchat-hooks-approve@gchat-hooks", "enabled"}},
		} {
			cmd := bound.Command(t, c.Argv[0], slices.Concat(c.Argv[1:], []string{"plugin"}, step.args)...)
			cmd.Env = s.environ(nil)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v\n%s", step.args, err, out)
			}
			for _, word := range step.says {
				if !strings.Contains(string(out), word) {
					t.Errorf("%v does not say %q:\n%s", step.args, word, out)
				}
			}
		}
	})
}

// An update takes a plugin's folder away while a question is open: no hook of it runs any more. The question ends with its
// dialog, and a reply that comes then is not said to be sent.
func TestAPluginsFolderGoesWhileAQuestionIsOpen(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		plugin := filepath.Join(t.TempDir(), "answer")
		if err := os.CopyFS(plugin, os.DirFS("../plugins/answer")); err != nil {
			t.Fatal(err)
		}
		b := bridged(t, c, config{Args: []string{"--plugin-dir", plugin}, Env: []string{onPath(t)}, Script: []turn{{ask(deploy)}, thanks}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", deploy.Question)
		b.WaitScreen(firstOption)
		if err := os.RemoveAll(plugin); err != nil {
			t.Fatal(err)
		}
		b.Choose(firstOption, "3")
		b.told(1, "Canary")
		b.await("[Cancelled]", "Its dialog in the terminal is closed.", "/reload-plugins")
		b.reply(q, "1")
		b.await("[Not used]", "This question is over.")
		for _, m := range b.chat.Messages() {
			if strings.HasPrefix(m.Text, "[Sent]") || strings.HasPrefix(m.Text, "[Answered]") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}
