package login

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"golang.org/x/oauth2"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const clientFileLimit = 64 << 10

// client is an OAuth client of type Desktop app. Its secret is none that Google relies on (RFC 8252, 8.5), but it is
// treated as one.
type client struct {
	ID       string `json:"client_id"`
	Secret   string `json:"client_secret"`
	AuthURI  string `json:"auth_uri"`
	TokenURI string `json:"token_uri"`
}

// readClient reads the file that Google's console offers for download. Errors are *Error, and name no value of the file.
func readClient(path string) (*client, error) {
	wrong := func(format string, a ...any) (*client, error) {
		return nil, &Error{WrongClient, fmt.Errorf("client file: "+format, a...)}
	}
	if path == "" {
		return wrong("none was named")
	}
	f, err := os.Open(path)
	if err != nil {
		return wrong("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, clientFileLimit))
	if err != nil {
		return wrong("%w", err)
	}
	var file struct {
		Installed *client         `json:"installed"`
		Web       json.RawMessage `json:"web"`
		Type      string          `json:"type"`
	}
	if json.Unmarshal(b, &file) != nil {
		return wrong("it is not the JSON that Google's console offers")
	}
	c := file.Installed
	switch {
	case c != nil:
	case file.Web != nil:
		return wrong("it is a client of type Web application, which cannot come back to this machine")
	case file.Type == "service_account":
		return wrong("it is a service account's key; nobody logs in with one, name it in GOOGLE_CHAT_CREDENTIALS_FILE")
	case file.Type != "":
		return wrong("it is a credentials file (%.40q), not a client's; name it in GOOGLE_CHAT_CREDENTIALS_FILE", file.Type)
	default:
		return wrong("there is no client of type Desktop app in it")
	}
	if c.ID == "" || c.Secret == "" {
		return wrong("client_id or client_secret is missing")
	}
	for name, uri := range map[string]string{"auth_uri": c.AuthURI, "token_uri": c.TokenURI} {
		if _, err := endpoint(uri); err != nil {
			return wrong("%s is %w", name, err)
		}
	}
	if !sameHouse(c.AuthURI, c.TokenURI) {
		return wrong("auth_uri and token_uri are not of one house: the login would be given away")
	}
	return c, nil
}

// googleAuth is what Google writes into each client's file.
const googleAuth = "https://accounts.google.com/o/oauth2/auth"

// keptClient is the client of the login that is kept: whoever logs in again, because a login ended, has no use for another
// one and may not have the file any more. nil for none.
func keptClient(env state.Getenv) *client {
	l, err := state.ReadLogin(state.LoginFile(env))
	if err != nil || !l.HasClient() {
		return nil
	}
	c := &client{l.ClientID, l.ClientSecret, cmp.Or(l.AuthURI, googleAuth), l.TokenURI}
	if !sameHouse(c.AuthURI, c.TokenURI) {
		return nil
	}
	return c
}

// sameHouse says whether the code that one address gives may be taken to the other: with it goes all that a login is.
func sameHouse(auth, token string) bool {
	a, aerr := endpoint(auth)
	t, terr := endpoint(token)
	return aerr == nil && terr == nil && (strings.EqualFold(a.Hostname(), t.Hostname()) || ofGoogle(a) && ofGoogle(t))
}

// ofGoogle says whether Google has logins there. Not all of google.com: anybody's script runs at script.google.com.
func ofGoogle(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	return host == "accounts.google.com" || strings.HasSuffix(host, ".googleapis.com")
}

// endpoint is an address that codes and tokens may be sent to.
func endpoint(uri string) (*url.URL, error) {
	u, err := url.Parse(uri)
	if err != nil || !gchat.AllowedBase(u) {
		return nil, errors.New("neither https nor on this machine")
	}
	return u, nil
}

func (c *client) config(redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: redirect, Scopes: scopes(),
		// Said, and not found out by trying: a code can be used once.
		Endpoint: oauth2.Endpoint{AuthURL: c.AuthURI, TokenURL: c.TokenURI, AuthStyle: oauth2.AuthStyleInParams},
	}
}
