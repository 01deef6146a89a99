package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Claude Code itself says whether the plugins are some, and installs them from this
// folder.
func TestPluginsAreValid(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		requireIsolation(t)
		takeSessionSlot(t)
		project, err := filepath.Abs("..")
		kit.NoError(t, err)
		s := &session{t: t, Claude: c, API: newFakeModel(t), Home: t.TempDir()}
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
			cmd.Env = s.sessionEnv(nil)
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

// An update takes a plugin's folder away while a question is open: no hook of it runs any
// more. The question ends with its dialog, and a reply that comes then is not said to be
// sent.
func TestAPluginsFolderGoesWhileAQuestionIsOpen(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		plugin := filepath.Join(t.TempDir(), "answer")
		kit.NoError(t, os.CopyFS(plugin, os.DirFS("../plugins/answer")))
		b := startHooked(t, c, config{Args: []string{"--plugin-dir", plugin}, Env: []string{pathWithProgram(t)}, Script: []turn{{questionCall(deployQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.WaitScreen(firstOption)
		kit.NoError(t, os.RemoveAll(plugin))
		b.Choose(firstOption, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Cancelled]", "Its dialog in the terminal is closed.", "/reload-plugins")
		b.reply(q, "1")
		b.awaitPost("[Not used]", "This question is over.")
		for _, m := range b.space.Messages() {
			if strings.HasPrefix(m.Text, "[Sent]") || strings.HasPrefix(m.Text, "[Answered]") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}
