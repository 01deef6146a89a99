package e2e

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
)

// From nothing to a question answered, as a person does it: install.sh, setup, a session that knows of neither but by its
// files; and then all of it away again.
func TestInstalledAndSetUp(t *testing.T) {
	eachClaude(t, both, func(t *testing.T, c claude) {
		requireIsolation(t)
		script, err := filepath.Abs("../install.sh")
		if err != nil {
			t.Fatal(err)
		}
		chat, err := space.Open(space.Options{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(chat.Handler())
		t.Cleanup(func() { server.CloseClientConnections(); server.Close(); chat.Close() })

		run := func(home, project string, extra []string, name string, args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), name, args...)
			cmd.Dir = project
			cmd.Env = append([]string{"HOME=" + home, "PATH=" + strings.Join([]string{filepath.Dir(c.Argv[len(c.Argv)-1]), "/usr/bin", "/bin"}, ":"), "TMPDIR=" + os.TempDir()}, extra...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
			}
			return string(out)
		}
		program := built(t)
		var took time.Duration
		s := start(t, c, config{Script: []turn{{ask(deploy)}, thanks}, Prepare: func(home, project string) {
			began := time.Now()
			run(home, project, nil, "sh", script, "--binary", program)
			run(home, project, []string{"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL), "GCHAT_ALLOWED_USERS=" + space.Human},
				filepath.Join(home, "bin", "gchat-hooks"), "setup")
			took = time.Since(began)
		}})
		t.Logf("install.sh and setup took %v", took)
		b := &bridge{session: s, chat: chat}
		s.Prompt("go ahead")
		asked := b.await("[AskUserQuestion]", deploy.Question)
		s.WaitScreen(firstOption)
		b.reply(asked, "3")
		b.told(1, "Canary")
		s.Quit()

		run(s.Home, s.Dir, nil, "sh", script, "--uninstall", "--yes")
		// Claude Code writes its own settings meanwhile, so that the bytes are others; a home without it is looked at byte for byte
		// by the script's own tests.
		if after, err := os.ReadFile(filepath.Join(s.Home, ".claude", "settings.json")); err != nil || strings.Contains(string(after), "hooks") || !strings.Contains(string(after), "defaultMode") {
			t.Errorf("%v: hooks are left in settings.json:\n%s", err, after)
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
		if _, err := os.Lstat(filepath.Join(s.Home, "bin")); err == nil {
			t.Error("~/bin is still there")
		}
	})
}
