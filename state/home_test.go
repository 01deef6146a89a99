package state

import (
	"path/filepath"
	"testing"
	"time"
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
			if dirs, err := ProjectStates(UserState(env)); len(dirs) > 0 || err != nil {
				t.Errorf("another's registry counts: %v %v", dirs, err)
			}
			if yes, _ := Trusted(env, "/"); yes {
				t.Error("another's list of trusted folders counts")
			}
			if err := Register(UserState(env), "/p/.claude/state", "/p", time.Now()); err == nil {
				t.Error("state was written somewhere")
			}
		})
	}
}
