package login

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// googleAuth is what Google writes into each client's file. Logins of older releases did not keep it.
const googleAuth = "https://accounts.google.com/o/oauth2/auth"

// client is an OAuth client of type Desktop app. Its secret is none that Google relies on (RFC 8252, 8.5), but it is
// treated as one.
type client struct {
	ID       string `json:"client_id"`
	Secret   string `json:"client_secret"`
	AuthURI  string `json:"auth_uri"`
	TokenURI string `json:"token_uri"`
}

// client is the one of the file, else of the login that is kept: a person who logs in again, because a login ended, may not
// have the file any more.
func (o Options) client() (*client, error) {
	if o.ClientFile != "" {
		return readClient(o.ClientFile)
	}
	l, err := state.ReadLogin(state.LoginFile(o.Env))
	if err != nil || !l.HasClient() {
		return nil, failed(gchat.DesktopClient, "client file: none was named")
	}
	return (&client{l.ClientID, l.ClientSecret, cmp.Or(l.AuthURI, googleAuth), l.TokenURI}).checked()
}

// readClient reads the file that Google's console offers for download. Errors name no value of the file.
func readClient(path string) (*client, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, failed(gchat.DesktopClient, "client file: %w", err)
	}
	defer f.Close()
	var file struct {
		Installed *client         `json:"installed"`
		Web       json.RawMessage `json:"web"`
		Type      string          `json:"type"`
	}
	why := ""
	switch err := json.NewDecoder(io.LimitReader(f, 64<<10)).Decode(&file); {
	case err != nil:
		why = "it is not the JSON that Google's console offers"
	case file.Web != nil:
		why = "it is a client of type Web application, which cannot come back to this machine"
	case file.Type != "":
		why = fmt.Sprintf("it is a credentials file (%.40q), not a client's: name it in GOOGLE_CHAT_CREDENTIALS_FILE", file.Type)
	case file.Installed == nil:
		why = "there is no client of type Desktop app in it"
	default:
		return file.Installed.checked()
	}
	return nil, failed(gchat.DesktopClient, "client file: %s", why)
}

// checked refuses a client whose codes and tokens would go anywhere but to Google, or to one server of a test on this machine.
func (c *client) checked() (*client, error) {
	auth, token := endpoint(c.AuthURI), endpoint(c.TokenURI)
	switch {
	case c.ID == "" || c.Secret == "":
		return nil, failed(gchat.DesktopClient, "client file: client_id or client_secret is missing")
	case auth == nil || token == nil || ofGoogle(auth) != ofGoogle(token):
		return nil, failed(gchat.DesktopClient, "client file: auth_uri and token_uri are not Google's: the login would be given away")
	}
	return c, nil
}

// endpoint is an address that codes and tokens may be sent to: Google's, or this machine's. Else it is nil.
func endpoint(uri string) *url.URL {
	u, err := url.Parse(uri)
	if err != nil || !gchat.AllowedBase(u) || !ofGoogle(u) && u.Hostname() != "127.0.0.1" {
		return nil
	}
	return u
}

// ofGoogle says whether Google has logins there. Not all of google.com: anybody's script runs at script.google.com.
func ofGoogle(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return host == "accounts.google.com" || strings.HasSuffix(host, ".googleapis.com")
}
