package e2e

import (
	"crypto/rand"
	"fmt"
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
		requireIsolation(t)
		script, err := filepath.Abs("../install.sh")
		kit.NoError(t, err)
		chat, err := space.Open(space.Options{})
		kit.NoError(t, err)
		server := httptest.NewServer(strict.CheckRequests(t, chat.Handler(), strict.Embedded))
		t.Cleanup(func() { server.CloseClientConnections(); server.Close(); chat.Close() })

		run := func(home, project string, extra []string, name string, args ...string) string {
			t.Helper()
			cmd := bound.Command(t, name, args...)
			cmd.Dir = project
			cmd.Env = append([]string{"HOME=" + home, "PATH=" + strings.Join([]string{filepath.Dir(c.Argv[len(c.Argv)-1]), "/usr/bin", "/bin"}, ":"), "TMPDIR=" + os.TempDir()}, extra...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
			}
			return string(out)
		}
		program := builtProgram(t)
		var before, written string
		s := startSession(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}, Prepare: func(home, project string) {
			file := filepath.Join(home, ".claude", "settings.json")
			before = readFiles(t, file)
			run(home, project, nil, "sh", script, "--binary", program)
			run(home, project, []string{"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL), "GCHAT_ALLOWED_USERS=" + space.PersonName},
				filepath.Join(home, "bin", "gchat-hooks"), "setup")
			written = readFiles(t, file)
		}})
		b := &hookedSession{session: s, space: chat}
		s.Prompt("go ahead")
		asked := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		s.WaitScreen(firstOption)
		b.reply(asked, "3")
		b.awaitResult(1, "Canary")
		s.Quit()

		file := filepath.Join(s.Home, ".claude", "settings.json")
		left := readFiles(t, file)

		// A person edits the file between install and uninstall; Claude Code itself adds
		// a setting of its own.
		const mine = "{\n  \"model\": \"opus\","
		writeText(t, file, strings.Replace(left, "{", mine, 1))
		run(s.Home, s.Dir, nil, filepath.Join(s.Home, "bin", "gchat-hooks"), "uninstall")
		if after := readFiles(t, file); !strings.HasPrefix(after, mine) || strings.Contains(after, "hooks") || !strings.Contains(after, "defaultMode") {
			t.Errorf("an edit does not stay:\n%s", after)
		}

		// Where nobody touched the file, its bytes are those of before.
		writeText(t, file, written)
		run(s.Home, s.Dir, nil, "sh", script, "--uninstall", "--yes")
		if after := readFiles(t, file); after != before {
			t.Errorf("uninstall leaves\n%s\nof\n%s", after, before)
		}
		for _, dir := range []string{s.Home, s.Dir} {
			_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() && d.Name() == "projects" {
					return filepath.SkipDir // Claude Code's transcripts
				}
				if err == nil && (strings.Contains(d.Name(), "gchat") || d.Name() == "pending-questions") {
					t.Errorf("left behind: %s", path)
				}
				return nil
			})
		}
	})
}

// Where an administrator allows only managed hooks, a question, a permission and the next
// instruction are answered from Chat all the same: with the plugin that managed settings
// enable, as docs/install.md has it, also beside a second one, and with a file that
// `install` wrote. What the person registers does not run.
func TestInstall_ManagedHooksOnly(t *testing.T) {
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
func TestInstall_DenyPluginWakesSession(t *testing.T) {
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

// Claude Code itself says whether the plugins are some, and installs them from this
// folder.
func TestInstall_PluginsValid(t *testing.T) {
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
func TestInstall_PluginRemovedWhileAsking(t *testing.T) {
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

// The demo in a real session: what a new user tries second.
func TestInstall_DemoInARealSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		requireIsolation(t)
		takeSessionSlot(t)
		exe, err := buildProgram()
		if err != nil {
			t.Fatal("build gchat-hooks:", err)
		}
		root, err := os.MkdirTemp("", "d-")
		kit.NoError(t, err)
		s := &session{t: t, Claude: c, API: newFakeModel(t, turn{questionCall(deployQuestion)}, thanksTurn), Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "project"), processMark: rand.Text()}
		s.tmux.dir = root
		t.Cleanup(func() {
			// The session ends with its tmux server; Claude Code takes a moment to go.
			bound.WaitFor(patience, func() bool { return len(markedProcesses(sessionVariable+"="+s.processMark)) == 0 })
			for _, p := range markedProcesses(sessionVariable + "=" + s.processMark) {
				t.Errorf("the demo left %s", p)
			}
			os.RemoveAll(root)
		})
		kit.NoError(t, os.MkdirAll(s.Dir, 0o700))
		writeSettings(t, s.Home, s.Dir, nil)
		bin := filepath.Join(root, "bin")
		shim := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", strings.Join(c.Argv, "' '"))
		kit.NoError(t, os.MkdirAll(bin, 0o700))
		kit.NoError(t, os.WriteFile(filepath.Join(bin, "claude"), []byte(shim), 0o700))
		cmd := bound.Within(t, 3*bound.Patience, exe, "demo", "--claude", "--answer", "canary")
		cmd.Dir, cmd.Env = s.Dir, s.sessionEnv([]string{"PATH=" + bin + ":" + os.Getenv("PATH")})
		out, err := cmd.CombinedOutput()
		if err != nil || !containsAll(string(out), []string{"tmux -S ", "[Answered]", "Selected: Canary"}) {
			t.Errorf("the demo showed %v: %s", err, out)
		}
		if got := s.API.WaitToolResult(t, 1); !strings.Contains(got.Text, `"="Canary"`) {
			t.Errorf("the model was told %q", got.Text)
		}
	})
}
