package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host that a project names gets neither the person's webhook nor an access token of the person's.
func TestEndpointOfAProject(t *testing.T) {
	const (
		google  = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
		theirs  = "https://theirs.example/"
		local   = "http://127.0.0.1:8765/"
		project = ".claude/gchat-hooks.json"
		own     = "~/.config/gchat-hooks/config.json"
	)
	mcp := func(env string) string {
		return `{"mcpServers":{"google-chat-bridge":{"env":{` + env + `}}}}`
	}
	for _, tt := range []struct {
		name       string
		files, env map[string]string
		want       string // the endpoint
		why        string // it does not count; "" when it does
	}{
		{"own webhook", map[string]string{own: `{"webhook_url": "` + google + `"}`, project: `{"api_endpoint": "` + local + `"}`}, nil, "", "webhook is your own"},
		{"own command for the webhook", map[string]string{own: `{"webhook_url_command": "pass"}`, project: `{"api_endpoint": "` + local + `"}`}, nil, "", "webhook is your own"},
		{"own webhook in ~/.mcp.json", map[string]string{"~/.mcp.json": mcp(`"GOOGLE_CHAT_WEBHOOK_URL":"` + google + `"`), ".mcp.json": mcp(`"GCHAT_API_ENDPOINT":"` + theirs + `"`)}, nil, "", "webhook is your own"},
		{"own service account", map[string]string{own: `{"credentials_file": "KEY"}`, ".mcp.json": mcp(`"GOOGLE_CHAT_WEBHOOK_URL":"` + google + `","GCHAT_API_ENDPOINT":"` + theirs + `"`)}, nil, "", "credentials are your own"},
		{"default credentials", map[string]string{project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `"}`}, nil, "", "credentials are your own"},
		{"login", map[string]string{"~/.local/state/gchat-hooks/login.json": `{"made_by":"gchat-hooks login"}`, project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `"}`}, nil, "", "credentials are your own"},
		{"login by its path", map[string]string{"~/.local/state/gchat-hooks/login.json": `{"made_by":"gchat-hooks login"}`, project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `", "credentials_file": "~/.local/state/gchat-hooks/login.json"}`}, nil, "", "your login"},
		{"own service account by its path", map[string]string{project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `", "credentials_file": "KEY"}`}, nil, "", "not in the project"},
		{"own service account by a link", map[string]string{project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `", "credentials_file": "link.json"}`}, nil, "", "not in the project"},
		{"own endpoint below", map[string]string{own: `{"webhook_url": "` + google + `", "api_endpoint": "` + local + `"}`, project: `{"api_endpoint": "` + theirs + `"}`}, nil, local, "webhook is your own"},
		{"all of the project", map[string]string{project: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `", "credentials_file": "key.json"}`, ".claude/key.json": `{}`, own: `{"credentials_file": "KEY"}`}, nil, theirs, ""},
		{"the project's space on this machine", map[string]string{project: `{"webhook_url": "` + local + `v1/spaces/A/messages", "api_endpoint": "` + local + `"}`}, nil, local, ""},
		{"no webhook, this machine", map[string]string{project: `{"space_id": "A", "api_endpoint": "` + local + `"}`}, nil, local, ""},
		{"webhook of the environment", map[string]string{project: `{"api_endpoint": "` + local + `"}`}, map[string]string{"GOOGLE_CHAT_WEBHOOK_URL": google}, local, ""},
		{"endpoint of the environment", map[string]string{own: `{"webhook_url": "` + google + `"}`}, map[string]string{"GCHAT_API_ENDPOINT": theirs}, theirs, ""},
		{"all one's own", map[string]string{own: `{"webhook_url": "` + google + `", "api_endpoint": "` + theirs + `"}`}, nil, theirs, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			for name, value := range tt.env {
				p.env[name] = value
			}
			key := filepath.Join(p.env["HOME"], "key.json")
			p.write("~/key.json", `{}`)
			p.write(".claude/x", "")
			if err := os.Symlink(key, filepath.Join(p.proj, ".claude", "link.json")); err != nil {
				t.Fatal(err)
			}
			for name, content := range tt.files {
				p.write(name, strings.ReplaceAll(content, "KEY", key))
			}
			c := LoadConfig(p.getenv, p.proj)
			if c.APIEndpoint != tt.want {
				t.Errorf("endpoint is %q, want %q", c.APIEndpoint, tt.want)
			}
			switch {
			case tt.why == "" && len(c.Problems) > 0:
				t.Errorf("problems: %v", c.Problems)
			case tt.why != "" && (len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Error(), tt.why)):
				t.Errorf("problems: %v, want one with %q", c.Problems, tt.why)
			}
		})
	}
}

// What stands in the home directory is the person's own, also when the session was started there.
func TestEndpointInTheHomeDirectoryIsOnesOwn(t *testing.T) {
	p := newPlace(t)
	p.proj = p.env["HOME"]
	p.write("~/.config/gchat-hooks/config.json", `{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`)
	p.write("~/.mcp.json", `{"mcpServers":{"google-chat-bridge":{"env":{"GCHAT_API_ENDPOINT":"https://proxy.example/"}}}}`)
	if c := LoadConfig(p.getenv, p.proj); c.APIEndpoint == "" || len(c.Problems) > 0 {
		t.Errorf("endpoint %q, problems %v", c.APIEndpoint, c.Problems)
	}
}
