package login

import (
	"path/filepath"
	"strings"
	"testing"

	goauth "golang.org/x/oauth2/google"

	"gchat-hooks/e2e/kit"
)

func TestClient_FilesThatAreNone(t *testing.T) {
	p := newPerson(t)
	for name, content := range map[string]string{
		"a service account": `{"type":"service_account","private_key":"GOCSPX-client-secret"}`,
		"gcloud's login":    `{"type":"authorized_user","refresh_token":"GOCSPX-client-secret"}`,
		"a web client":      `{"web":{"client_id":"x","client_secret":"GOCSPX-client-secret"}}`,
		"something else":    `{"mcpServers":{}}`,
		"garbage":           "GOCSPX-client-secret",
		"empty":             "",
		"no secret":         `{"installed":{"client_id":"x","redirect_uris":["http://localhost"]}}`,
		"no id":             `{"installed":{"client_secret":"GOCSPX-client-secret","redirect_uris":["http://localhost"]}}`,
	} {
		o := p.options()
		o.ClientFile = p.writeClientFile(content)
		_, err := Run(t.Context(), o)
		kit.True(t, err != nil && strings.Contains(err.Error(), "Desktop app") &&
			strings.Contains(hintOf(err), "Desktop app") && len(p.opened) == 0,
			"%s: %v", name, err)
		p.checkNoSecrets(err, hintOf(err))
	}
	o := p.options()
	for _, o.ClientFile = range []string{filepath.Join(t.TempDir(), "missing.json"), t.TempDir()} {
		_, err := Run(t.Context(), o)
		kit.True(t, strings.Contains(hintOf(err), "Desktop app"), "%q: %v", o.ClientFile, err)
	}
}

// The author of a client file does not get the codes and tokens of people who log in with
// it.
func TestClient_LogsInAtGoogleOnly(t *testing.T) {
	p := newPerson(t)
	for token, isLocal := range map[string]bool{
		"https://127.0.0.1:8443/token": true, "http://127.0.0.1:1/token": true,
		"https://oauth2.googleapis.com/token": false, "https://accounts.example/token": false,
		"https://evil-googleapis.com/token":         false,
		"https://script.google.com/macros/s/A/exec": false,
		"http://127.0.0.1.accounts.example/token":   false,
		"http://accounts.google.com/token":          false,
		"javascript://127.0.0.1/alert(1)":           false,
		"--help":                                    false, "": false,
	} {
		file := p.writeClientFile(`{"installed":{"client_id":"x","client_secret":"s","auth_uri":"https://accounts.example/auth","token_uri":"` + token + `","redirect_uris":["http://localhost"]}}`)
		config, err := Options{ClientFile: file}.oauthClient()
		kit.NoError(t, err)
		kit.True(t, (!isLocal || config.Endpoint.TokenURL == token) &&
			(isLocal || config.Endpoint == goauth.Endpoint) &&
			!strings.Contains(config.Endpoint.AuthURL, "example"),
			"%s: %+v", token, config.Endpoint)
	}
}
