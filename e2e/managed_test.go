package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Where an administrator allows only managed hooks, a question, a permission and the next
// instruction are answered from Chat all the same: with the plugin that managed settings
// enable, as docs/install.md has it, also beside a second one, and with a file that
// `install` wrote. What the person registers does not run.
func TestManagedHooksOnly(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]struct {
		write func(t *testing.T, folder string)
		found string // where doctor finds the hooks
	}{
		"plugin":  {managedPlugin, "the plugin gchat-hooks-approve@gchat-hooks"},
		"plugins": {managedPlugins, "the plugin gchat-hooks-approve@gchat-hooks"},
		"file":    {managedFile, "/etc/claude-code/managed-settings.d/gchat-hooks.json"},
	} {
		t.Run(name, func(t *testing.T) {
			eachClaude(t, bothVersions, func(t *testing.T, c claude) {
				managed, own := t.TempDir(), filepath.Join(t.TempDir(), "ran")
				settings.write(t, managed)
				b := startHooked(t, c.withoutTmux().withManagedSettings(t, managed), config{
					Hooks:  hooks{"UserPromptSubmit": {{Command: "touch " + own}}},
					Env:    []string{"GCHAT_IDLE=on", pathWithProgram(t)},
					Script: []turn{{questionCall(deployQuestion)}, {bash("gchat-hooks doctor --json >found; true")}, askBackTurn, thanksTurn},
				})
				b.Prompt("go ahead")
				b.reply(b.awaitPost("[AskUserQuestion]", deployQuestion.Question), "3")
				b.awaitResult(1, "Canary")
				b.reply(b.awaitPost("[Permission]", "gchat-hooks doctor"), "yes")
				b.awaitResult(2)
				b.awaitPost("[Answered]", "Allowed: Bash:")
				b.reply(b.awaitPost("[Waiting for you]", "Shall I commit?"), "commit it")
				b.API.WaitText(t, "this is the next instruction: commit it")
				b.awaitPost("[Sent]")
				for _, beginning := range []string{"[AskUserQuestion]", "[Permission]", "[Sent]"} {
					kit.Equalf(t, b.countPosts(beginning), 1, "messages %s", beginning)
				}
				if found := readFiles(t, filepath.Join(b.Dir, "found")); !strings.Contains(found, settings.found+`"`) {
					t.Errorf("doctor does not find %s:\n%s", settings.found, found)
				}
				if _, err := os.Stat(own); err == nil {
					t.Error("the person's own hook ran: these settings are not managed")
				}
			})
		})
	}
}

// The plugin for deny mode wakes its session with the reply.
func TestAPluginWakesItsSession(t *testing.T) {
	eachClaude(t, bothVersions, func(t *testing.T, c claude) {
		managed := t.TempDir()
		managedPlugin(t, managed)
		file := filepath.Join(managed, "managed-settings.json")
		writeText(t, file, strings.Replace(readFiles(t, file), "gchat-hooks-approve@", "gchat-hooks-system3@", 1))
		b := startHooked(t, c.withoutTmux().withManagedSettings(t, managed), config{
			Env:    []string{"GCHAT_ASK_MODE=deny", pathWithProgram(t)},
			Script: []turn{{questionCall(deployQuestion)}, goOnTurn, actTurn},
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.awaitDenial(1)
		b.WaitScreen("I go on meanwhile.")
		b.reply(q, "3")
		b.WaitScreen("Acting on it.")
		b.API.WaitText(t, `="Canary"`)
	})
}

// withManagedSettings is a Claude Code on a machine with these managed settings: it sees
// /etc with a folder more.
func (c claude) withManagedSettings(t *testing.T, settings string) claude {
	t.Helper()
	upper, work := t.TempDir(), t.TempDir()
	kit.NoError(t, os.Rename(settings, filepath.Join(upper, "claude-code")))
	mount := `mount -t overlay overlay -o "lowerdir=/etc,upperdir=$0,workdir=$1" /etc && shift && exec "$@"`
	argv := []string{"unshare", "--mount", "sh", "-c", mount, upper, work}
	if out, err := bound.Command(t, argv[0], append(argv[1:], "true")...).CombinedOutput(); err != nil {
		skip(t, "no /etc of its own: "+string(out))
	}
	return claude{c.Version, append(argv, c.Argv...)}
}

// pathWithProgram is a PATH with the program, as a plugin wants it.
func pathWithProgram(t *testing.T) string {
	return "PATH=" + filepath.Dir(builtProgram(t)) + ":" + os.Getenv("PATH")
}

// managedPlugin writes the recipe of the page, with the folder of this project.
func managedPlugin(t *testing.T, folder string) {
	project, err := filepath.Abs("..")
	kit.NoError(t, err)
	_, recipe, _ := strings.Cut(readFiles(t, "../docs/install.md"), "```json\n")
	recipe, _, found := strings.Cut(recipe, "```")
	if !found || !strings.Contains(recipe, "/opt/gchat-hooks") {
		t.Fatal("the page has no recipe")
	}
	writeText(t, filepath.Join(folder, "managed-settings.json"), strings.Replace(recipe, "/opt/gchat-hooks", project, 1))
}

// managedPlugins enables one more: an event that both have is handled once.
func managedPlugins(t *testing.T, folder string) {
	managedPlugin(t, folder)
	const one, more = `"gchat-hooks-approve@gchat-hooks": true`, `, "gchat-hooks-report@gchat-hooks": true`
	file := filepath.Join(folder, "managed-settings.json")
	writeText(t, file, strings.Replace(readFiles(t, file), one, one+more, 1))
}

// managedFile has `install` write a file, as the page says.
func managedFile(t *testing.T, folder string) {
	cmd := bound.Command(t, builtProgram(t), "install", "--preset", "approve", "--claude-version", "2.1.197")
	cmd.Env = []string{"HOME=" + folder, "CLAUDE_CONFIG_DIR=" + folder}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	writeText(t, filepath.Join(folder, "managed-settings.json"), `{"allowManagedHooksOnly": true}`)
	parts := filepath.Join(folder, "managed-settings.d")
	kit.NoError(t, os.Mkdir(parts, 0o700))
	kit.NoError(t, os.Rename(filepath.Join(folder, "settings.json"), filepath.Join(parts, "gchat-hooks.json")))
}
