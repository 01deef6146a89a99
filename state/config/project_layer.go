package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"gchat-hooks/state"
)

const credentialsFile = "GOOGLE_CHAT_CREDENTIALS_FILE"

// NoCredentials stands in the place of a credentials file where none may be used, Application Default Credentials neither.
const NoCredentials = "(none: a project's webhook is read with a credentials_file of the project's)"

// leavePersonal takes out of a project's layer what a project may not choose: who answers, a command, a host for secrets.
func (c *Config) leavePersonal(l layer, path, own string) {
	for _, s := range settings {
		if s.Personal && (l.value[s.key()] != "" || l.object[s.Member] != nil) {
			delete(l.value, s.key())
			delete(l.object, s.Member)
			c.problem(path, fmt.Errorf("%s does not count in a project: set it in %s", s.Member, own))
		}
	}
}

// errForeignWebhook is about a project's webhook that leads to a host of the project's choice.
var errForeignWebhook = errors.New("webhook_url does not count: " +
	"a project's webhook has to be Google's, or on the host of your own api_endpoint or webhook_url")

// ownHost says whether a webhook leads to Google, or to a host that the person's own endpoint or webhook names.
func ownHost(layers []layer, webhook string) bool {
	u, err := url.Parse(webhook)
	if err != nil || u.Host == "" {
		return true // it leads nowhere, which is said where it is used
	}
	return u.Scheme == "https" && u.Host == "chat.googleapis.com" || slices.ContainsFunc(layers, func(l layer) bool {
		for _, name := range []string{"GCHAT_API_ENDPOINT", "GOOGLE_CHAT_WEBHOOK_URL"} {
			own, err := url.Parse(l.value[name])
			if !l.project && err == nil && own.Scheme == u.Scheme && own.Host == u.Host {
				return true
			}
		}
		return false
	})
}

var errNotOfProject = errors.New("credentials_file does not count: a project's webhook is read with a file in the project")

// takeCredentials settles what replies are read with. A project may bring a webhook, with credentials of its own; the person's
// are for the person's webhook, and for nothing that a project names. Those of the environment are for this very process.
func (c *Config) takeCredentials(env state.Getenv, projectDir string, layers []layer) {
	place := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	if place == nil {
		place = firstWith(layers, "GOOGLE_CHAT_SPACE_ID")
	}
	project := place != nil && place.project
	for _, l := range layers {
		file := l.value[credentialsFile]
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = filepath.Join(state.Home(env), rest)
		}
		if file == "" || !l.environment && l.project != project {
			continue
		}
		if l.project && !state.Within(file, projectDir) {
			c.Problems = append(c.Problems, errNotOfProject)
			continue
		}
		c.CredentialsFile = file
		break
	}
	if project && c.CredentialsFile == "" {
		c.CredentialsFile = NoCredentials
	}
	c.takeLogin(env, project)
}

// firstWith is the first layer that says one of these; nil where none does.
func firstWith(layers []layer, names ...string) *layer {
	for i, l := range layers {
		for _, name := range names {
			if l.value[name] != "" {
				return &layers[i]
			}
		}
	}
	return nil
}
