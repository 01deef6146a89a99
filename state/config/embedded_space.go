package config

import (
	"net/url"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// setEmbeddedSpace has the person's own embedded space served as a Chat app, also where
// an earlier setup --space wrote down its webhook. A webhook that stands higher stays
// one: a project's, and that of the environment.
func (c *Config) setEmbeddedSpace(env state.Getenv, layers []layer) {
	appLayer := indexWith(layers, "GCHAT_PUBSUB_SUBSCRIPTION")
	webhookLayer := indexWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	switch {
	case c.UsesEmbeddedApp() && webhookLayer < appLayer:
		c.Subscription, c.PubSubEndpoint = "", ""
		if indexWith(layers, "GCHAT_API_ENDPOINT") >= appLayer {
			c.APIEndpoint = ""
		}
		if indexWith(layers, "GOOGLE_CHAT_SPACE_ID") >= appLayer {
			c.SpaceID = ""
		}
	case c.UsesEmbeddedApp():
		c.SpaceID = state.EmbeddedSpaceName
	case c.Subscription == "" && webhookLayer < len(layers) && !layers[webhookLayer].isEnvironment && !layers[webhookLayer].isProject:
		endpoint := embeddedEndpoint(env, c.WebhookURL)
		if endpoint != "" {
			c.SpaceID, c.Subscription = state.EmbeddedSpaceName, state.EmbeddedSubscription
			c.APIEndpoint, c.PubSubEndpoint = endpoint, endpoint
		}
	}
}

// UsesEmbeddedApp reports whether messages go to the embedded space by its Chat app.
func (c *Config) UsesEmbeddedApp() bool { return c.Subscription == state.EmbeddedSubscription }

// embeddedEndpoint is the base URL of the API of this user's embedded space that a
// webhook's URL holds; "" where it is the URL of something else.
func embeddedEndpoint(env state.Getenv, webhook string) string {
	u, err := url.Parse(webhook)
	if err != nil || u.Scheme != "http" || !strings.HasPrefix(u.Path, "/t/") {
		return ""
	}
	basePath, isMessages := strings.CutSuffix(u.Path, "v1/"+state.EmbeddedSpaceName+"/messages")
	port, _ := strconv.Atoi(u.Port())
	socket, _ := state.ReadSpaceSocket(env, port)
	if !isMessages || socket == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: basePath}).String()
}

// RemoveEmbeddedSpace takes what setup --space wrote out of the person's configuration,
// but for who may answer.
func RemoveEmbeddedSpace(path string) error {
	for _, name := range []string{"pubsub_subscription", "pubsub_endpoint", "api_endpoint", "space_id"} {
		if err := SetMember(path, name, nil); err != nil {
			return err
		}
	}
	return nil
}
