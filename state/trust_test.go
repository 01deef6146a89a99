package state

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func writeAll(t *testing.T, files map[string]string) {
	t.Helper()
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder that came from elsewhere says nothing about where questions go until Claude Code was told to trust it.
func TestProjectCountsOnceTrusted(t *testing.T) {
	for _, tt := range []struct {
		name, claude string // what stands in ~/.claude.json; "" for no such file
		env          map[string]string
		counts       bool
	}{
		{"never used", "", nil, false},
		{"not trusted", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":false}}}`, nil, false},
		{"another one trusted", `{"projects":{"/elsewhere":{"hasTrustDialogAccepted":true}}}`, nil, false},
		{"trusted", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":true}}}`, nil, true},
		{"a folder around it trusted", `{"projects":{"PARENT":{"hasTrustDialogAccepted":true}}}`, nil, true},
		{"a clone in a trusted folder", `{"projects":{"PARENT":{"hasTrustDialogAccepted":true}}}`, map[string]string{"clone": "yes"}, false},
		{"a hook", `{"projects":{}}`, map[string]string{"CLAUDE_PROJECT_DIR": "PROJECT"}, true},
		{"a hook of another project", `{"projects":{}}`, map[string]string{"CLAUDE_PROJECT_DIR": "PARENT"}, false},
		{"Claude's own shell", `{"projects":{}}`, map[string]string{"CLAUDECODE": "1"}, false},
		{"Claude's own shell, never used", "", map[string]string{"CLAUDECODE": "1"}, false},
		{"another list of Claude's", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":true}}}`, map[string]string{"CLAUDE_CONFIG_DIR": "/elsewhere"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, project := t.TempDir(), filepath.Join(t.TempDir(), "clone")
			real, _ := filepath.EvalSymlinks(filepath.Dir(project))
			names := strings.NewReplacer("PROJECT", filepath.Join(real, "clone"), "PARENT", real)
			writeAll(t, map[string]string{
				filepath.Join(project, ".claude", "gchat-hooks.json"):        `{"webhook_url": "theirs", "rules": [{"ask_mode": "off"}]}`,
				filepath.Join(project, ".mcp.json"):                          `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_SPACE_ID":"spaces/THEIRS"}}}}`,
				filepath.Join(home, ".config", "gchat-hooks", "config.json"): `{"webhook_url": "mine"}`,
			})
			if tt.claude != "" {
				writeAll(t, map[string]string{filepath.Join(home, ".claude.json"): names.Replace(tt.claude)})
			}
			if tt.env["clone"] != "" {
				writeAll(t, map[string]string{filepath.Join(project, ".git", "HEAD"): ""})
			}
			env := map[string]string{"HOME": home}
			for k, v := range tt.env {
				env[k] = names.Replace(v)
			}
			c := LoadConfig(func(name string) string { return env[name] }, project)
			theirs := c.WebhookURL == "theirs" && c.SpaceID != "" && len(c.Rules) == 1 && len(c.Problems) == 0
			mine := c.WebhookURL == "mine" && c.SpaceID == "" && len(c.Rules) == 0 && len(c.Problems) == 2
			if tt.counts && !theirs || !tt.counts && !mine {
				t.Errorf("webhook %s, space %q, %d rules, problems %v", c.WebhookURL, c.SpaceID, len(c.Rules), c.Problems)
			}
		})
	}
}

// What a repository can bring in a file's place neither hangs nor fills the memory.
func TestConfigurationThatIsNoFile(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"endless": func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"huge": func(path string) error {
			f, err := os.Create(path)
			if err == nil {
				defer f.Close()
				err = f.Truncate(1 << 40)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			project := t.TempDir()
			writeAll(t, map[string]string{filepath.Join(project, ".claude", "x"): ""})
			if err := plant(filepath.Join(project, ".claude", "gchat-hooks.json")); err != nil {
				t.Skip(err)
			}
			if c := LoadConfig(func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] }, project); len(c.Problems) != 1 {
				t.Errorf("problems: %v", c.Problems)
			}
		})
	}
}
