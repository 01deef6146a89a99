package config

import (
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

const (
	embeddedURL  = "http://127.0.0.1:8765/t/TOKEN/v1/spaces/local/messages?key=k&token=t"
	embeddedBase = "http://127.0.0.1:8765/t/TOKEN/"
	googleURL    = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
	embeddedApp  = `{"space_id":"spaces/local","pubsub_subscription":"` + state.EmbeddedSubscription +
		`","api_endpoint":"` + embeddedBase + `","pubsub_endpoint":"` + embeddedBase + `"}`
)

// The embedded space is served as an app where the person's own configuration names it,
// and nowhere else.
func TestEmbeddedSpace_IsAnApp(t *testing.T) {
	for name, c := range map[string]struct {
		own, project, exported string
		app                    bool
		webhook                string
	}{
		"as setup writes it":          {own: embeddedApp, app: true},
		"as it was written before":    {own: `{"webhook_url":"` + embeddedURL + `"}`, app: true, webhook: embeddedURL},
		"without the token":           {own: `{"webhook_url":"http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"}`},
		"of another host":             {own: `{"webhook_url":"https://127.0.0.1/t/TOKEN/v1/spaces/local/messages?key=k&token=t"}`},
		"exported":                    {exported: embeddedURL, webhook: embeddedURL},
		"exported beside the app":     {own: embeddedApp, exported: embeddedURL, webhook: embeddedURL},
		"Google's beside the app":     {own: embeddedApp, exported: googleURL, webhook: googleURL},
		"a project's":                 {project: `{"webhook_url":"` + embeddedURL + `"}`, own: embeddedApp, webhook: embeddedURL},
		"of what is no space of ours": {own: `{"webhook_url":"http://127.0.0.1:8766/t/TOKEN/v1/spaces/local/messages?key=k&token=t"}`},
		"a project's of Google":       {project: `{"webhook_url":"` + googleURL + `"}`, own: embeddedApp, webhook: googleURL},
		"a project's space":           {project: `{"space_id":"spaces/B"}`, own: embeddedApp, app: true},
		"a project's, before":         {project: `{"webhook_url":"` + googleURL + `"}`, own: `{"webhook_url":"` + embeddedURL + `"}`, webhook: googleURL},
		"beside another app of ours":  {own: `{"webhook_url":"` + embeddedURL + `","space_id":"spaces/A","pubsub_subscription":"projects/p/subscriptions/s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			project := filepath.Join(home, "src", "shop")
			for path, text := range map[string]string{
				filepath.Join(home, ".config/gchat-hooks/config.json"): c.own,
				filepath.Join(project, ".claude/gchat-hooks.json"):     c.project,
				filepath.Join(home, ".claude.json"):                    `{"projects":{"` + project + `":{"hasTrustDialogAccepted":true}}}`,
			} {
				if text == "" {
					continue
				}
				kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			env := map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": project, "GOOGLE_CHAT_WEBHOOK_URL": c.exported}
			kit.NoError(t, state.WriteSpaceSocket(func(name string) string { return env[name] }, 8765, filepath.Join(home, "socket")))
			got := Load(func(name string) string { return env[name] }, project)
			if got.UsesEmbeddedApp() != c.app || c.webhook != "" && got.WebhookURL != c.webhook || len(got.Problems) > 0 {
				t.Fatalf("%+v", got)
			}
			switch {
			case c.app && (got.SpaceID != state.EmbeddedSpaceName || got.APIEndpoint != embeddedBase || got.PubSubEndpoint != embeddedBase):
				t.Errorf("the app is %q %q %q", got.SpaceID, got.APIEndpoint, got.PubSubEndpoint)
			case !c.app && c.webhook != "" && (got.SpaceID != "" || got.APIEndpoint != "" || got.PubSubEndpoint != ""):
				t.Errorf("beside the webhook stand %q %q %q", got.SpaceID, got.APIEndpoint, got.PubSubEndpoint)
			}
		})
	}
}

// A person who goes from the embedded space to a webhook has nothing of it left.
func TestEmbeddedSpace_Leave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	kit.NoError(t, os.WriteFile(path, []byte("{\n\t// mine\n\t\"grace\": \"5s\"\n}\n"), 0o600))
	for _, member := range []string{"space_id", "pubsub_subscription"} {
		kit.NoError(t, SetMember(path, member, "x"))
	}
	kit.NoError(t, RemoveEmbeddedSpace(path))
	b, _ := os.ReadFile(path)
	kit.True(t, string(b) == "{\n\t// mine\n\t\"grace\": \"5s\",\n}\n", "left: %s", b)
}
