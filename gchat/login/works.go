package login

import (
	"context"

	"golang.org/x/oauth2"

	"gchat-hooks/state"
)

// Works says whether the login that is kept was made with the client of that file and can still be used: the token endpoint
// takes it. That is asked there and not of Chat, for one on this machine is read without any login.
func Works(ctx context.Context, env state.Getenv, clientFile string) bool {
	client, err := readClient(clientFile)
	if err != nil {
		return false
	}
	l, err := state.ReadLogin(state.LoginFile(env))
	if err != nil || l.ClientID != client.ID || l.TokenURI != client.TokenURI {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, web()), exchangeTimeout)
	defer cancel()
	source := client.config("").TokenSource(ctx, &oauth2.Token{RefreshToken: l.RefreshToken})
	_, err = source.Token()
	return err == nil
}
