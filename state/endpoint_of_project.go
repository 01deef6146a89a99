package state

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// takeEndpoint settles where Google's API is, from the first layer that says it. A project may say it for secrets of its own
// and for those of the environment, which somebody chose for this very process. The person's own, which a login and
// Application Default Credentials always are, would otherwise go to whatever host a repository brings; then the endpoint of
// the project is left out, and the next layer's counts. It comes after the webhook and before the login.
func (c *Config) takeEndpoint(env Getenv, projectDir string, layers []layer) {
	for _, l := range layers {
		endpoint := l.value["GCHAT_API_ENDPOINT"]
		if endpoint == "" {
			continue
		}
		if l.project {
			if err := c.mayGoTo(env, endpoint, projectDir, layers); err != nil {
				c.Problems = append(c.Problems, fmt.Errorf("%s: api_endpoint %s does not count: %w; if you mean it, set GCHAT_API_ENDPOINT, or api_endpoint in %s",
					l.path, hostOf(endpoint), err, ConfigFile(env)))
				continue
			}
		}
		c.APIEndpoint = endpoint
		return
	}
}

// mayGoTo says what keeps the configured secrets from an endpoint that a project named.
func (c *Config) mayGoTo(env Getenv, endpoint, projectDir string, layers []layer) error {
	if said := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command"); said != nil && !said.project && !said.environment {
		return errors.New("the webhook is your own, and its key would go there")
	}
	if u, err := url.Parse(endpoint); err == nil && u.Scheme == "http" {
		return nil // goes without credentials
	}
	said := firstWith(layers, "GOOGLE_CHAT_CREDENTIALS_FILE")
	switch {
	case said == nil || !said.project && !said.environment:
		return errors.New("the credentials are your own, and their access token would go there")
	case sameFile(c.CredentialsFile, LoginFile(env)):
		return errors.New("the credentials are your login")
	case said.project && !within(c.CredentialsFile, projectDir):
		// A path is soon written: it would be the person's own file by another way.
		return errors.New("the credentials are not in the project, and their access token would go there")
	}
	return nil
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

func sameFile(a, b string) bool {
	is, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(is, other)
}

// within says whether a file that is there lies in a folder, whatever links lead to either.
func within(path, folder string) bool {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return false
	}
	rel, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// hostOf names an endpoint without what may be secret in it.
func hostOf(endpoint string) string {
	u, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || u.Host == "" {
		return "(no address)"
	}
	return u.Host
}
