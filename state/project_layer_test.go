package state

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const theirHook = "https://chat.googleapis.com/v1/spaces/THEIRS/messages?key=k&token=t"

// Of the files of a trusted project modes, rules and a webhook count. Who may answer, a command and a host do not.
func TestWhatAProjectMayChoose(t *testing.T) {
	for name, file := range map[string]string{
		".claude/gchat-hooks.json": `{"webhook_url": "` + theirHook + `", "webhook_url_command": "theirs", "allowed_users": ["users/666"],
			"api_endpoint": "https://theirs.example/", "ask_mode": "hold", "rules": [{"ask_mode": "off"}]}`,
		".mcp.json": `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_WEBHOOK_URL": "` + theirHook + `", "webhook_url_command": "theirs",
			"GCHAT_ALLOWED_USERS": "users/666", "GCHAT_API_ENDPOINT": "https://theirs.example/", "GCHAT_ASK_MODE": "hold"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write("~/.config/gchat-hooks/config.json", `{"api_endpoint": "https://mine.example/"}`)
			p.write("~/.mcp.json", `{"mcpServers":{"google-chat-bridge":{"env":{"GCHAT_ALLOWED_USERS":"users/1"}}}}`)
			p.write(name, file)
			c := LoadConfig(p.getenv, p.proj)
			if c.WebhookURL != theirHook || c.AskMode != Hold || strings.HasSuffix(name, "hooks.json") && len(c.Rules) != 1 {
				t.Errorf("the project's own choice does not count: %+v", c)
			}
			if c.WebhookCommand != "" || c.APIEndpoint != "https://mine.example/" || !slices.Equal(c.AllowedUsers, []string{"users/1"}) {
				t.Errorf("command %q, endpoint %q, people %q", c.WebhookCommand, c.APIEndpoint, c.AllowedUsers)
			}
			if len(c.Problems) < 2 || !strings.Contains(c.Problems[0].Error(), "does not count in a project") {
				t.Errorf("problems: %v", c.Problems)
			}
		})
	}
}

// A project's webhook is read with credentials of the project's or of the environment, or not at all; what a project says about
// credentials means nothing for the person's webhook.
func TestCredentialsOfAProject(t *testing.T) {
	const project, own = ".claude/gchat-hooks.json", "~/.config/gchat-hooks/config.json"
	const login = "~/.local/state/gchat-hooks/login.json"
	webhook := `"webhook_url": "` + theirHook + `"`
	for name, tt := range map[string]struct {
		files map[string]string
		env   string
		want  string
	}{
		"the person's file":          {map[string]string{project: `{` + webhook + `}`, own: `{"credentials_file": "KEY"}`}, "", NoCredentials},
		"the login":                  {map[string]string{project: `{` + webhook + `}`, login: `{"made_by":"gchat-hooks login","user":"users/1"}`}, "", NoCredentials},
		"default credentials":        {map[string]string{project: `{` + webhook + `}`}, "", NoCredentials},
		"a space alone":              {map[string]string{project: `{"space_id": "THEIRS"}`}, "", NoCredentials},
		"its own":                    {map[string]string{project: `{` + webhook + `, "credentials_file": "key.json"}`, ".claude/key.json": `{}`}, "", "PROJECT/.claude/key.json"},
		"its own in .mcp.json":       {map[string]string{".mcp.json": `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_WEBHOOK_URL":"x","GOOGLE_CHAT_CREDENTIALS_FILE":"key.json"}}}}`, "key.json": `{}`}, "", "PROJECT/key.json"},
		"the person's by its path":   {map[string]string{project: `{` + webhook + `, "credentials_file": "KEY"}`}, "", NoCredentials},
		"the person's by a link":     {map[string]string{project: `{` + webhook + `, "credentials_file": "link.json"}`}, "", NoCredentials},
		"those of the environment":   {map[string]string{project: `{` + webhook + `}`}, "KEY", "KEY"},
		"for the person's webhook":   {map[string]string{project: `{"credentials_file": "key.json"}`, ".claude/key.json": `{}`, own: `{` + webhook + `, "credentials_file": "KEY"}`}, "", "KEY"},
		"a space beside the webhook": {map[string]string{project: `{"space_id": "THEIRS"}`, own: `{` + webhook + `, "credentials_file": "KEY"}`}, "", "KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			key := filepath.Join(p.env["HOME"], "key.json")
			p.write("~/key.json", `{}`)
			p.write(".claude/x", "")
			if err := os.Symlink(key, filepath.Join(p.proj, ".claude", "link.json")); err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer("KEY", key, "PROJECT", p.proj)
			for path, content := range tt.files {
				p.write(path, names.Replace(content))
			}
			p.env["GOOGLE_CHAT_CREDENTIALS_FILE"], tt.want = names.Replace(tt.env), names.Replace(tt.want)
			c := LoadConfig(p.getenv, p.proj)
			if c.CredentialsFile != tt.want {
				t.Errorf("credentials are %q, want %q", c.CredentialsFile, tt.want)
			}
			if tt.files[login] != "" && !slices.Contains(c.AllowedUsers, "users/1") {
				t.Errorf("the person who logged in may not answer: %q", c.AllowedUsers)
			}
		})
	}
}

// What stands in the home directory is the person's own, also when the session was started there.
func TestHomeDirectoryIsNoProject(t *testing.T) {
	p := newPlace(t)
	p.proj = p.env["HOME"]
	p.write("~/.config/gchat-hooks/config.json", `{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`)
	p.write("~/.mcp.json", `{"mcpServers":{"google-chat-bridge":{"env":{"GCHAT_API_ENDPOINT":"https://proxy.example/"}}}}`)
	if c := LoadConfig(p.getenv, p.proj); c.APIEndpoint == "" || len(c.Problems) > 0 {
		t.Errorf("endpoint %q, problems %v", c.APIEndpoint, c.Problems)
	}
}
