package e2e

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// From nothing to a question answered, as a person does it: install.sh, setup, a session
// that knows of neither but by its files; and then all of it away again.
func TestInstalledAndSetUp(t *testing.T) {
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

func readFiles(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	kit.NoError(t, err)
	return string(b)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}
