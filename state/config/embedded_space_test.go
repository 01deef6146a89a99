package config

import (
	"cmp"
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
	embeddedApp  = `{"space_id":"spaces/local","pubsub_subscription":"` +
		state.EmbeddedSubscription +
		`","api_endpoint":"` + embeddedBase + `","pubsub_endpoint":"` + embeddedBase + `"}`
)

// The embedded space is used as an app if the person's own configuration names it, and
// only then.
func TestEmbeddedSpace_IsAnApp(t *testing.T) {
	for name, c := range map[string]struct {
		own, project, exported string
		app                    bool
		webhook                string
	}{
		"as setup writes it": {own: embeddedApp, app: true},
		"as it was written before": {own: `{"webhook_url":"` + embeddedURL + `"}`, app: true,
			webhook: embeddedURL},
		"without the token":       {own: `{"webhook_url":"http://127.0.0.1:8765/v1/spaces/local/messages?key=k&token=t"}`},
		"of another host":         {own: `{"webhook_url":"https://127.0.0.1/t/TOKEN/v1/spaces/local/messages?key=k&token=t"}`},
		"exported":                {exported: embeddedURL, webhook: embeddedURL},
		"exported beside the app": {own: embeddedApp, exported: embeddedURL, webhook: embeddedURL},
		"Google's beside the app": {own: embeddedApp, exported: googleURL, webhook: googleURL},
		"a project's": {project: `{"webhook_url":"` + embeddedURL + `"}`,
			own: embeddedApp, webhook: embeddedURL},
		"of what is no space of ours": {own: `{"webhook_url":"http://127.0.0.1:8766/t/TOKEN/v1/spaces/local/messages?key=k&token=t"}`},
		"a project's of Google": {project: `{"webhook_url":"` + googleURL + `"}`,
			own: embeddedApp, webhook: googleURL},
		"a project's space": {project: `{"space_id":"spaces/B"}`, own: embeddedApp, app: true},
		"a project's, before": {project: `{"webhook_url":"` + googleURL + `"}`,
			own: `{"webhook_url":"` + embeddedURL + `"}`, webhook: googleURL},
		"beside another app of ours": {own: `{"webhook_url":"` + embeddedURL +
			`","space_id":"spaces/A","pubsub_subscription":"projects/p/subscriptions/s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write("~/.claude.json", `{"projects":{"`+p.proj+`":{"hasTrustDialogAccepted":true}}}`)
			p.write(personFile, cmp.Or(c.own, "{}"))
			p.write(projectFile, cmp.Or(c.project, "{}"))
			p.env["GOOGLE_CHAT_WEBHOOK_URL"] = c.exported
			kit.NoError(t, state.WriteSpaceSocket(p.getenv, 8765, p.full("~/socket")))
			got := p.load()
			kit.True(t, got.UsesEmbeddedApp() == c.app && len(got.Problems) == 0, "%+v", got)
			kit.True(t, c.webhook == "" || got.WebhookURL == c.webhook, "the webhook is %q",
				got.WebhookURL)
			places := [3]string{got.SpaceID, got.APIEndpoint, got.PubSubEndpoint}
			if c.app {
				kit.Equal(t, places, [3]string{state.EmbeddedSpaceName, embeddedBase, embeddedBase})
			} else if c.webhook != "" {
				kit.Equal(t, places, [3]string{})
			}
		})
	}
}

// If a person changes from the embedded space to a webhook, no setting of the embedded
// space is left.
func TestEmbeddedSpace_Leave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	kit.NoError(t, os.WriteFile(path, []byte("{\n\t// mine\n\t\"grace\": \"5s\"\n}\n"), 0o600))
	for _, member := range []string{"space_id", "pubsub_subscription"} {
		kit.NoError(t, SetMember(path, member, "x"))
	}
	kit.NoError(t, RemoveEmbeddedSpace(path))
	kit.Equal(t, kit.ReadFile(t, path), "{\n\t// mine\n\t\"grace\": \"5s\",\n}\n")
}
