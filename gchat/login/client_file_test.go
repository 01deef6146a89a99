package login

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func pipe(t *testing.T) (*io.PipeReader, *io.PipeWriter) {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r, w
}

func TestClientFilesThatAreNone(t *testing.T) {
	g := newGoogle(t)
	installed := func(id, secret, auth, token string) string {
		return `{"installed":{"client_id":"` + id + `","client_secret":"` + secret + `","auth_uri":"` + auth + `","token_uri":"` + token + `"}}`
	}
	const https = "https://accounts.google.com/o/oauth2/auth"
	for name, c := range map[string]struct{ content, says string }{
		"a web client":        {`{"web":{"client_id":"x","client_secret":"GOCSPX-client-secret","auth_uri":"` + https + `"}}`, "Web application"},
		"a service account":   {`{"type":"service_account","private_key":"GOCSPX-client-secret"}`, "service account"},
		"gcloud's login":      {`{"type":"authorized_user","refresh_token":"GOCSPX-client-secret"}`, "GOOGLE_CHAT_CREDENTIALS_FILE"},
		"something else":      {`{"mcpServers":{}}`, "Desktop"},
		"garbage":             {"GOCSPX-client-secret", "not the JSON"},
		"empty":               {"", "not the JSON"},
		"no secret":           {installed("x", "", https, https), "missing"},
		"no id":               {installed("", "GOCSPX-client-secret", https, https), "missing"},
		"plain http":          {installed("x", "GOCSPX-client-secret", "http://accounts.example/auth", https), "auth_uri"},
		"tokens over http":    {installed("x", "GOCSPX-client-secret", https, "http://127.0.0.1.accounts.example/token"), "token_uri"},
		"a script":            {installed("x", "GOCSPX-client-secret", "javascript:alert(1)", https), "auth_uri"},
		"an option":           {installed("x", "GOCSPX-client-secret", "--help", https), "auth_uri"},
		"another's tokens":    {installed("x", "GOCSPX-client-secret", https, "https://accounts.example/token"), "house"},
		"a look-alike":        {installed("x", "GOCSPX-client-secret", https, "https://evil-googleapis.com/token"), "house"},
		"anybody's script":    {installed("x", "GOCSPX-client-secret", https, "https://script.google.com/macros/s/A/exec"), "house"},
		"this machine's":      {installed("x", "GOCSPX-client-secret", https, "http://127.0.0.1:1/token"), "house"},
		"Google's for others": {installed("x", "GOCSPX-client-secret", "https://accounts.example/auth", "https://oauth2.googleapis.com/token"), "house"},
		"no endpoints at all": {`{"installed":{"client_id":"x","client_secret":"GOCSPX-client-secret"}}`, "_uri"},
	} {
		p := newPerson(g)
		o := p.options()
		o.ClientFile = g.file(c.content)
		_, err := Run(t.Context(), o)
		if reason(err) != WrongClient || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint(err), "Desktop app") || len(p.opened) > 0 {
			t.Errorf("%s: %v", name, err)
		}
		g.unseen(err, hint(err))
	}
	o := newPerson(g).options()
	for _, o.ClientFile = range []string{"", filepath.Join(t.TempDir(), "missing.json"), t.TempDir()} {
		if _, err := Run(t.Context(), o); reason(err) != WrongClient {
			t.Errorf("%q: %v", o.ClientFile, err)
		}
	}
}

func TestClientFilesOfOneHouse(t *testing.T) {
	g := newGoogle(t)
	for auth, token := range map[string]string{
		"https://accounts.google.com/o/oauth2/auth":    "https://oauth2.googleapis.com/token",
		"https://accounts.google.com/o/oauth2/v2/auth": "https://www.googleapis.com/oauth2/v4/token",
		"https://accounts.google.com/":                 "https://accounts.google.com/o/oauth2/token",
		"https://Accounts.example/auth":                "https://accounts.example:8443/token",
	} {
		file := g.file(`{"installed":{"client_id":"x","client_secret":"s","auth_uri":"` + auth + `","token_uri":"` + token + `"}}`)
		if _, err := readClient(file); err != nil {
			t.Errorf("%s, %s: %v", auth, token, err)
		}
	}
}
