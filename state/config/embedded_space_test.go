package config

import (
	"cmp"
	"strings"
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

// Without the settings that connect it to an app, a hub or the embedded space, a
// configuration is that of a person who has connected nothing. What a webhook needs stays
// beside the embedded space.
func TestAppConnection_CanBeIgnored(t *testing.T) {
	const credentials, webhook = `,"credentials_file":"/key.json"`, `,"webhook_url":"` + googleURL + `"`
	app := strings.ReplaceAll(embeddedApp, state.EmbeddedSubscription, "projects/p/subscriptions/s")
	for name, c := range map[string]struct {
		own, wantFile, wantWebhook string
	}{
		"the page":            {own: embeddedApp},
		"the page, as it was": {own: `{"webhook_url":"` + embeddedURL + `"}`},
		"the page, after a webhook": {own: strings.TrimSuffix(embeddedApp, "}") + credentials + "}",
			wantFile: "/key.json"},
		"an app or a hub": {own: strings.TrimSuffix(app, "}") + credentials + webhook + "}"},
		"a webhook": {own: `{"grace":"5s"` + credentials + webhook + "}",
			wantFile: "/key.json", wantWebhook: googleURL},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write(personFile, c.own)
			kit.NoError(t, state.WriteSpaceSocket(p.getenv, 8765, p.full("~/socket")))
			got := LoadIgnoring(p.getenv, p.proj, p.load().AppConnection())
			places := [4]string{got.SpaceID, got.APIEndpoint, got.PubSubEndpoint, got.Subscription}
			kit.Equal(t, places, [4]string{})
			kit.Equalf(t, got.CredentialsFile, c.wantFile, "the credentials file")
			kit.Equalf(t, got.WebhookURL, c.wantWebhook, "the webhook")
		})
	}
}
