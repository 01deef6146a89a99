package config

import (
	"net/url"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// takeEmbedded has the person's own embedded space served as a Chat app, also where an earlier
// setup --space wrote down its webhook. A webhook that stands higher stays one: a project's, and
// that of the environment.
func (c *Config) takeEmbedded(env state.Getenv, layers []layer) {
	app := indexWith(layers, "GCHAT_PUBSUB_SUBSCRIPTION")
	hook := indexWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	switch {
	case c.InEmbeddedApp() && hook < app:
		c.Subscription, c.PubSubEndpoint = "", ""
		if indexWith(layers, "GCHAT_API_ENDPOINT") >= app {
			c.APIEndpoint = ""
		}
		if indexWith(layers, "GOOGLE_CHAT_SPACE_ID") >= app {
			c.SpaceID = ""
		}
	case c.InEmbeddedApp():
		c.SpaceID = state.LocalSpace
	case c.Subscription == "" && hook < len(layers) && !layers[hook].environment && !layers[hook].project:
		endpoint := embeddedEndpoint(env, c.WebhookURL)
		if endpoint != "" {
			c.SpaceID, c.Subscription = state.LocalSpace, state.LocalSubscription
			c.APIEndpoint, c.PubSubEndpoint = endpoint, endpoint
		}
	}
}

// InEmbeddedApp reports whether messages go to the embedded space by its Chat app.
func (c *Config) InEmbeddedApp() bool { return c.Subscription == state.LocalSubscription }

// embeddedEndpoint is the base URL of the API of this user's embedded space that a webhook's URL
// holds; "" where it is the URL of something else.
func embeddedEndpoint(env state.Getenv, webhook string) string {
	u, err := url.Parse(webhook)
	if err != nil || u.Scheme != "http" || !strings.HasPrefix(u.Path, "/t/") {
		return ""
	}
	before, is := strings.CutSuffix(u.Path, "v1/"+state.LocalSpace+"/messages")
	port, _ := strconv.Atoi(u.Port())
	socket, _ := state.SocketOf(env, port)
	if !is || socket == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: before}).String()
}

// LeaveEmbedded takes what setup --space wrote out of the person's configuration, but for who may
// answer.
func LeaveEmbedded(path string) error {
	for _, name := range []string{"pubsub_subscription", "pubsub_endpoint", "api_endpoint", "space_id"} {
		if err := SetMember(path, name, nil); err != nil {
			return err
		}
	}
	return nil
}
