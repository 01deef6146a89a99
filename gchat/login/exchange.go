package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// exchange gets a login for a code. The access token that comes with it is not kept: it ends within the hour, and the
// refresh token gets another. Google does not replace a refresh token when it is used, so that nothing has to be written
// back later, and many processes can use one file.
func exchange(ctx context.Context, cfg *oauth2.Config, code, verifier string) (*state.Login, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, web())
	tok, err := cfg.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, exchangeError(err)
	}
	granted := scopes() // what is not said is as asked for (RFC 6749, 5.1)
	if s, _ := tok.Extra("scope").(string); s != "" {
		granted = strings.Fields(s)
	}
	for _, want := range scopes() {
		if !slices.Contains(granted, want) {
			return nil, &Error{MissingScope, fmt.Errorf("%s was not allowed", want[strings.LastIndex(want, "/")+1:])}
		}
	}
	if tok.RefreshToken == "" {
		return nil, &Error{NoRefresh, errors.New("google gave no refresh token: the login would end within the hour")}
	}
	login := &state.Login{
		ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret, RefreshToken: tok.RefreshToken, AuthURI: cfg.Endpoint.AuthURL, TokenURI: cfg.Endpoint.TokenURL,
		Scopes: granted, At: time.Now().UTC().Truncate(time.Second),
	}
	// Said of logins that end by themselves: a client in Testing (604799 s), or access that was granted for a time.
	if s, _ := tok.Extra("refresh_token_expires_in").(float64); s > 0 && s < 1e9 {
		login.Ends = login.At.Add(time.Duration(s) * time.Second)
	}
	return login, nil
}

// exchangeError turns the library's error, which may quote a whole answer, into ours.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		status := refused.Response.StatusCode
		if status >= 400 && status < 500 && status != 429 {
			return refusal(gchat.ReadTokenError(refused.Body))
		}
		return &Error{Unreachable, fmt.Errorf("the token endpoint answered %d", status)}
	}
	var u *url.Error
	if errors.As(err, &u) {
		if errors.Is(err, context.Canceled) {
			return context.Canceled
		}
		return &Error{Unreachable, fmt.Errorf("the token endpoint could not be reached: %w", u.Err)}
	}
	return &Error{Unreachable, errors.New("the token endpoint's answer is none of Google's")}
}
