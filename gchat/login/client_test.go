package login

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestClientFilesThatAreNone(t *testing.T) {
	g := newGoogle(t)
	installed := func(id, secret, auth, token string) string {
		return `{"installed":{"client_id":"` + id + `","client_secret":"` + secret + `","auth_uri":"` + auth + `","token_uri":"` + token + `"}}`
	}
	const https = "https://accounts.google.com/o/oauth2/auth"
	for name, c := range map[string]struct{ content, says string }{
		"a web client":        {`{"web":{"client_id":"x","client_secret":"GOCSPX-client-secret","auth_uri":"` + https + `"}}`, "Web application"},
		"a service account":   {`{"type":"service_account","private_key":"GOCSPX-client-secret"}`, "service_account"},
		"gcloud's login":      {`{"type":"authorized_user","refresh_token":"GOCSPX-client-secret"}`, "GOOGLE_CHAT_CREDENTIALS_FILE"},
		"something else":      {`{"mcpServers":{}}`, "Desktop"},
		"garbage":             {"GOCSPX-client-secret", "not the JSON"},
		"empty":               {"", "not the JSON"},
		"no secret":           {installed("x", "", https, https), "missing"},
		"no id":               {installed("", "GOCSPX-client-secret", https, https), "missing"},
		"plain http":          {installed("x", "GOCSPX-client-secret", "http://accounts.example/auth", https), "not Google's"},
		"tokens over http":    {installed("x", "GOCSPX-client-secret", https, "http://127.0.0.1.accounts.example/token"), "not Google's"},
		"a script":            {installed("x", "GOCSPX-client-secret", "javascript:alert(1)", https), "not Google's"},
		"an option":           {installed("x", "GOCSPX-client-secret", "--help", https), "not Google's"},
		"another's tokens":    {installed("x", "GOCSPX-client-secret", https, "https://accounts.example/token"), "not Google's"},
		"a look-alike":        {installed("x", "GOCSPX-client-secret", https, "https://evil-googleapis.com/token"), "not Google's"},
		"anybody's script":    {installed("x", "GOCSPX-client-secret", https, "https://script.google.com/macros/s/A/exec"), "not Google's"},
		"this machine's":      {installed("x", "GOCSPX-client-secret", https, "http://127.0.0.1:1/token"), "not Google's"},
		"Google's for others": {installed("x", "GOCSPX-client-secret", "https://accounts.example/auth", "https://oauth2.googleapis.com/token"), "not Google's"},
		"no endpoints at all": {`{"installed":{"client_id":"x","client_secret":"GOCSPX-client-secret"}}`, "not Google's"},
	} {
		p := newPerson(g)
		o := p.options()
		o.ClientFile = g.file(c.content)
		_, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint(err), "Desktop app") || len(p.opened) > 0 {
			t.Errorf("%s: %v", name, err)
		}
		g.unseen(err, hint(err))
	}
	o := newPerson(g).options()
	for _, o.ClientFile = range []string{"", filepath.Join(t.TempDir(), "missing.json"), t.TempDir()} {
		if _, err := Run(t.Context(), o); !strings.Contains(hint(err), "Desktop app") {
			t.Errorf("%q: %v", o.ClientFile, err)
		}
	}
}

func TestClientFilesOfGoogle(t *testing.T) {
	g := newGoogle(t)
	for auth, token := range map[string]string{
		"https://accounts.google.com/o/oauth2/auth":    "https://oauth2.googleapis.com/token",
		"https://accounts.google.com/o/oauth2/v2/auth": "https://www.googleapis.com/oauth2/v4/token",
		"https://accounts.google.com/":                 "https://accounts.google.com/o/oauth2/token",
		"https://127.0.0.1:8443/auth":                  "https://127.0.0.1:8443/token",
	} {
		file := g.file(`{"installed":{"client_id":"x","client_secret":"s","auth_uri":"` + auth + `","token_uri":"` + token + `"}}`)
		if _, err := readClient(file); err != nil {
			t.Errorf("%s, %s: %v", auth, token, err)
		}
	}
}
