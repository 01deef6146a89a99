package e2e

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// From nothing to a question answered, as a person does it: install.sh, setup, a session
// that knows of neither but by its files; and then all of it away again.
func TestInstall_SetUpAnswerUninstall(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		script := absPath(t, "../install.sh")
		chat, err := space.Open(space.Options{})
		kit.NoError(t, err)
		server := httptest.NewServer(strict.CheckRequests(t, chat.Handler(), strict.Embedded))
		t.Cleanup(func() { server.CloseClientConnections(); server.Close(); chat.Close() })

		var before, written string
		s := startSession(t, c, config{
			Script: deployScript,
			Prepare: func(t *testing.T, home, project string) {
				file := filepath.Join(home, ".claude", "settings.json")
				before = kit.ReadFile(t, file)
				env := personEnv(c, home)
				runIn(t, project, env, "sh", script, "--binary", builtProgram(t))
				env = append(env, "GOOGLE_CHAT_WEBHOOK_URL="+chat.WebhookURL(server.URL),
					"GCHAT_ALLOWED_USERS="+space.PersonName)
				runIn(t, project, env, filepath.Join(home, "bin", "gchat-hooks"), "setup")
				written = kit.ReadFile(t, file)
			},
		})
		b := &hookedSession{session: s, space: chat}
		s.Prompt("go ahead")
		asked := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		s.WaitScreen(firstOption)
		b.reply(asked, "3")
		b.awaitResult(1, "Canary")
		s.Quit()

		file := filepath.Join(s.Home, ".claude", "settings.json")

		// A person edits the file between install and uninstall; Claude Code itself adds
		// a setting of its own.
		const mine = "{\n  \"model\": \"opus\","
		kit.WriteFile(t, file, strings.Replace(kit.ReadFile(t, file), "{", mine, 1), 0o600)
		env := personEnv(c, s.Home)
		runIn(t, s.Dir, env, filepath.Join(s.Home, "bin", "gchat-hooks"), "uninstall")
		after := kit.ReadFile(t, file)
		kit.Containsf(t, after, mine, "the edited file")
		kit.Containsf(t, after, "defaultMode", "the edited file")
		checkLacks(t, after, "hooks")

		// Where nobody touched the file, its bytes are those of before.
		kit.WriteFile(t, file, written, 0o600)
		runIn(t, s.Dir, env, "sh", script, "--uninstall", "--yes")
		kit.Equalf(t, kit.ReadFile(t, file), before, "what uninstall leaves")
		for _, dir := range []string{s.Home, s.Dir} {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() && d.Name() == "projects" {
					return filepath.SkipDir // Claude Code's transcripts
				}
				if err == nil && (strings.Contains(d.Name(), "gchat") ||
					d.Name() == "pending-questions") {
					t.Errorf("left behind: %s", path)
				}
				return nil
			})
		}
	})
}

// Where an administrator allows only managed hooks, a question, a permission and the next
// instruction are answered from Chat all the same: with two plugins that managed
// settings enable, as docs/install.md has it, and with a file that `install` wrote. What the person registers does not run.
func TestInstall_ManagedHooksOnly(t *testing.T) {
	type testCase struct {
		write func(t *testing.T, folder string)
		found string // where doctor finds the hooks
	}
	eachCase(t, testedVersions, map[string]testCase{
		"plugins": {managedPlugins, "the plugin gchat-hooks-approve@gchat-hooks"},
		"file":    {managedFile, "/etc/claude-code/managed-settings.d/gchat-hooks.json"},
	}, func(t *testing.T, c claude, settings testCase) {
		managed, own := t.TempDir(), filepath.Join(t.TempDir(), "ran")
		settings.write(t, managed)
		b := startHooked(t, c.withoutTmux().withManagedSettings(t, managed), config{
			Hooks: hooks{"UserPromptSubmit": {{Command: "touch " + own}}},
			Env:   []string{"GCHAT_IDLE=on", pathWithProgram(t)},
			Script: []turn{
				{questionCall(deployQuestion)}, {bash("gchat-hooks doctor --json >found; true")},
				askBackTurn, thanksTurn,
			},
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
		b.checkPosts(1, "[AskUserQuestion]")
		b.checkPosts(1, "[Permission]")
		b.checkPosts(1, "[Sent]")
		kit.Containsf(t, kit.ReadFile(t, filepath.Join(b.Dir, "found")), settings.found+`"`,
			"what doctor finds")
		kit.Equalf(t, fileExists(own), false, "the person's own hook ran")
	})
}

// The plugin for deny mode wakes its session with the reply.
func TestInstall_DenyPluginWakesSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		managed := t.TempDir()
		managedPlugin(t, managed)
		file := filepath.Join(managed, "managed-settings.json")
		kit.WriteFile(t, file, strings.Replace(kit.ReadFile(t, file),
			"gchat-hooks-approve@", "gchat-hooks-system3@", 1), 0o600)
		b := startHooked(t, c.withoutTmux().withManagedSettings(t, managed), config{
			Env:    []string{"GCHAT_ASK_MODE=deny", pathWithProgram(t)},
			Script: denyScript,
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
	if out, err := bound.Command(t, argv[0],
		append(argv[1:], "true")...).CombinedOutput(); err != nil {
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
	_, recipe, _ := strings.Cut(kit.ReadFile(t, "../docs/install.md"), "```json\n")
	recipe, _, found := strings.Cut(recipe, "```")
	if !found || !strings.Contains(recipe, "/opt/gchat-hooks") {
		t.Fatal("the page has no recipe")
	}
	kit.WriteFile(t, filepath.Join(folder, "managed-settings.json"),
		strings.Replace(recipe, "/opt/gchat-hooks", absPath(t, ".."), 1), 0o600)
}

// managedPlugins enables one more: an event that both have is handled once.
func managedPlugins(t *testing.T, folder string) {
	managedPlugin(t, folder)
	const one, more = `"gchat-hooks-approve@gchat-hooks": true`, `, "gchat-hooks-report@gchat-hooks": true`
	file := filepath.Join(folder, "managed-settings.json")
	kit.WriteFile(t, file, strings.Replace(kit.ReadFile(t, file), one, one+more, 1), 0o600)
}

// managedFile has `install` write a file, as the page says.
func managedFile(t *testing.T, folder string) {
	env := []string{"HOME=" + folder, "CLAUDE_CONFIG_DIR=" + folder}
	runIn(t, "", env, builtProgram(t), "install", "--preset", "approve", "--claude-version",
		"2.1.197")
	kit.WriteFile(t, filepath.Join(folder, "managed-settings.json"),
		`{"allowManagedHooksOnly": true}`, 0o600)
	parts := filepath.Join(folder, "managed-settings.d")
	kit.NoError(t, os.Mkdir(parts, 0o700))
	kit.NoError(t,
		os.Rename(filepath.Join(folder, "settings.json"), filepath.Join(parts, "gchat-hooks.json")))
}

// Claude Code itself says whether the plugins are some, and installs them from this
// folder.
func TestInstall_PluginsValid(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		project, s := absPath(t, ".."), newSession(t, c, config{})
		plugin := func(says string, args ...string) {
			t.Helper()
			out := runIn(t, s.Dir, s.tmux.env, c.Argv[0],
				slices.Concat(c.Argv[1:], []string{"plugin"}, args)...)
			kit.Containsf(t, out, says, "%q", args)
		}
		plugin("PermissionRequest AskUserQuestion", "validate",
			filepath.Join(project, "plugins/answer"))
		plugin("PermissionRequest", "validate", filepath.Join(project, "plugins/approve"))
		for _, folder := range []string{
			"", "plugins/answer", "plugins/approve", "plugins/report", "plugins/system3",
			"plugins/wake", "plugins/send",
		} {
			plugin("Validation passed", "validate", filepath.Join(project, folder))
		}
		plugin("gchat-hooks", "marketplace", "add", project)
		for _, name := range []string{
			"gchat-hooks@gchat-hooks", "gchat-hooks-approve@gchat-hooks",
		} {
			plugin("Successfully installed", "install", name)
			plugin(name, "list")
		}
		plugin("enabled", "list")
	})
}

// An update takes a plugin's folder away while a question is open: no hook of it runs any
// more. The question ends with its dialog, and a reply that comes then is not said to be
// sent.
func TestInstall_PluginRemovedWhileAsking(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		plugin := filepath.Join(t.TempDir(), "answer")
		kit.NoError(t, os.CopyFS(plugin, os.DirFS("../plugins/answer")))
		b := startHooked(t, c, config{
			Args:   []string{"--plugin-dir", plugin},
			Env:    []string{pathWithProgram(t)},
			Script: deployScript,
		})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.WaitScreen(firstOption)
		kit.NoError(t, os.RemoveAll(plugin))
		b.Choose(firstOption, "3")
		b.awaitResult(1, "Canary")
		b.awaitPost("[Cancelled]", "Its dialog in the terminal is closed.", "/reload-plugins")
		b.reply(q, "1")
		b.awaitPost("[Not used]", "is over")
		b.checkNoPost("[Sent]", "[Answered]")
	})
}

// The demo in a real session: what a new user tries second.
func TestInstall_DemoInARealSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		s := newSession(t, c, config{Script: deployScript})
		bin := t.TempDir()
		writeScript(t, filepath.Join(bin, "claude"), "exec "+shellLine(c.Argv...)+` "$@"`)
		cmd := bound.Within(t, 3*bound.Patience, builtProgram(t), "demo", "--claude", "--answer",
			"canary")
		cmd.Dir, cmd.Env = s.Dir, s.sessionEnv([]string{"PATH=" + bin + ":" + os.Getenv("PATH")})
		out, err := cmd.CombinedOutput()
		if err != nil || !containsAll(string(out),
			[]string{"tmux -S ", "[Answered]", "Selected: Canary"}) {
			t.Errorf("the demo showed %v: %s", err, out)
		}
		s.awaitResult(1, `"="Canary"`)
		// The session ends with its tmux server; Claude Code takes a moment to go.
		bound.Until(t, "the demo leaves nothing", func() bool { return len(s.processes("")) == 0 })
	})
}
