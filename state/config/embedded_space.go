package config

import (
	"net/url"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// setEmbeddedSpace has messages to the person's own embedded space go through its Chat
// app, even if an earlier version's setup --space wrote its webhook into the
// configuration. A webhook in a higher layer than the app's subscription is used as a
// webhook, and so is one that a project or the environment names.
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
	case c.Subscription != "" || webhookLayer == len(layers): // another app, or no webhook
	case !layers[webhookLayer].isEnvironment && !layers[webhookLayer].isProject:
		if endpoint := embeddedEndpoint(env, c.WebhookURL); endpoint != "" {
			c.SpaceID, c.Subscription = state.EmbeddedSpaceName, state.EmbeddedSubscription
			c.APIEndpoint, c.PubSubEndpoint = endpoint, endpoint
		}
	}
}

// UsesEmbeddedApp reports whether messages go to the embedded space through its Chat app.
func (c *Config) UsesEmbeddedApp() bool { return c.Subscription == state.EmbeddedSubscription }

// embeddedEndpoint returns the API's base URL of this user's embedded space, which its
// webhook's URL contains; "" if the webhook is not of this user's embedded space.
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

// AppConnection returns the variables of the settings that connect a configuration to its
// Chat app, its hub or the embedded space; nil if it uses none of these. The embedded
// space needs no credentials, so a credentials file beside it belongs to a webhook.
func (c *Config) AppConnection() (variables []string) {
	if !c.ReceivesEvents() {
		return nil
	}
	variables = []string{
		"GOOGLE_CHAT_SPACE_ID", "GCHAT_API_ENDPOINT",
		"GCHAT_PUBSUB_SUBSCRIPTION", "GCHAT_PUBSUB_ENDPOINT",
		"GOOGLE_CHAT_WEBHOOK_URL", // it is unused, or the embedded space's
	}
	if !c.UsesEmbeddedApp() {
		variables = append(variables, credentialsFile)
	}
	return variables
}
