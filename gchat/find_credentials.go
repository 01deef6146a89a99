package gchat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/state"
)

var errTokenURI = errors.New("credentials file: token_uri is neither https nor on this machine")

// TokenClient asks for tokens, within 30 seconds. A request holds a refresh token, a client's secret or a signed claim, which
// a redirect would take along; a redirect is no refusal of the credentials.
func TokenClient() *http.Client {
	return &http.Client{
		Timeout: listTimeout, Transport: limitBodies{},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the token endpoint redirects, and secrets stay")
		},
	}
}

// findCredentials reads the file, or finds the application default. messages.list takes a user's token, or a service
// account's with the one-time approved app scope; chat.bot is not enough for it.
func findCredentials(path string) (*auth.Credentials, error) {
	user := &credentials.DetectOptions{Client: TokenClient(), Scopes: []string{chat.ChatMessagesReadonlyScope}}
	app := &credentials.DetectOptions{Client: TokenClient(), Scopes: []string{chat.ChatAppMessagesReadonlyScope}}
	if path == "" {
		creds, err := credentials.DetectDefault(user)
		if err != nil {
			return nil, err
		}
		var file struct {
			Type credentials.CredType `json:"type"`
		}
		if json.Unmarshal(creds.JSON(), &file) == nil && file.Type == credentials.ServiceAccount {
			return credentials.DetectDefault(app)
		}
		return creds, nil
	}
	if path == state.NoCredentials {
		return nil, errors.New(path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Type     credentials.CredType `json:"type"`
		TokenURI string               `json:"token_uri"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("credentials file: %w", err)
	}
	switch file.Type {
	case credentials.ServiceAccount: // no other kind: one may name a file or a program, and a host that gets what it holds
		return credentials.NewCredentialsFromJSON(file.Type, b, app)
	case credentials.AuthorizedUser:
		// Google's library takes its own address whatever the file says; a login goes back to where it came from.
		if u, err := url.Parse(file.TokenURI); file.TokenURI != "" {
			if err != nil || !AllowedBase(u) {
				return nil, errTokenURI
			}
			user.TokenURL = file.TokenURI
		}
		return credentials.NewCredentialsFromJSON(file.Type, b, user)
	}
	return nil, fmt.Errorf("credentials file: type %q is neither service_account nor authorized_user", file.Type)
}
