package state

import (
	"path/filepath"
	"testing"
)

// Without HOME there is no person's configuration, login or state: not what another user put into the temporary folder, nor what
// a checkout has in the working folder.
func TestNoHomeIsNobodysFolder(t *testing.T) {
	strange := t.TempDir()
	t.Chdir(strange)
	t.Setenv("TMPDIR", strange)
	t.Setenv("HOME", "")
	writeAll(t, map[string]string{
		filepath.Join(strange, ".config", "gchat-hooks", "config.json"):           `{"webhook_url_command": "theirs", "allowed_users": ["users/666"]}`,
		filepath.Join(strange, ".mcp.json"):                                       `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_SPACE_ID":"spaces/THEIRS"}}}}`,
		filepath.Join(strange, ".local", "state", "gchat-hooks", "projects.json"): `{"projects":{"/theirs":{}}}`,
		filepath.Join(strange, ".local", "state", "gchat-hooks", "login.json"):    `{"type":"authorized_user","made_by":"gchat-hooks login","user":"users/666"}`,
		filepath.Join(strange, ".claude.json"):                                    `{"projects":{"/":{"hasTrustDialogAccepted":true}}}`,
	})
	for name, home := range map[string]string{"unset": "", "relative": "."} {
		t.Run(name, func(t *testing.T) {
			env := func(name string) string { return map[string]string{"HOME": home}[name] }
			c := LoadConfig(env, t.TempDir())
			if c.WebhookCommand != "" || c.SpaceID != "" || len(c.AllowedUsers) > 0 || c.CredentialsFile != "" {
				t.Errorf("another's configuration counts: %+v", c)
			}
			if dirs, bad := Projects(env); len(dirs) > 0 || len(bad) > 0 {
				t.Errorf("another's registry counts: %v %v", dirs, bad)
			}
			if yes, _ := Trusted(env, "/"); yes {
				t.Error("another's list of trusted folders counts")
			}
			if err := Register(env, "/p/.claude/state", "/p"); err == nil {
				t.Error("state was written somewhere")
			}
		})
	}
}
