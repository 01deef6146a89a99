// Package login gets a person's permission to read Google Chat through their browser, and
// saves it in a credentials file, with which package gchat reads. It asks for two scopes,
// to read messages and to name spaces, and for who the person is. It asks for nothing
// that can write. The OAuth client is the person's own. Google gives Chat scopes to a
// shared client only after a review, and has refused them to gcloud's client since June
// 2025.
//
// The flow is that of RFC 8252: a client of type Desktop, PKCE (RFC 7636), and a redirect
// to a port of this machine.
package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// chatScopes are what a login needs. Beside them it asks for openid, which names the
// person who logged in. It asks for no Cloud scope: with one, an organisation's session
// control would end the login after some hours.
var chatScopes = []string{chat.ChatMessagesReadonlyScope, chat.ChatSpacesReadonlyScope}

// Options are what a login depends on. Getenv and Out are required. ClientFile is
// required if there is no earlier login. The others have a working zero value.
type Options struct {
	// ClientFile is the OAuth client's JSON file. "" is the client of the earlier login.
	ClientFile string
	Getenv     state.Getenv // says where the login is saved, and whether there is a browser
	// Out gets what the person has to know during the login, such as the address to open.
	Out io.Writer
	// NextLine returns a channel with the next line that the person types. It is closed
	// at the end of the input. A nil NextLine means that the person cannot type.
	NextLine    func() <-chan string
	NoBrowser   bool                       // the person opens the address
	Timeout     time.Duration              // how long to wait for the person; 0 for 5 minutes
	OpenBrowser func(address string) error // opens the browser; nil for the system's
}

const (
	scopeHint   = "log in again and tick every box on Google's page: both only allow reading"
	timeoutHint = "log in again. If Google's page said org_internal or admin_policy_enforced, " +
		"an administrator has to allow the OAuth client; if access_denied, add yourself as " +
		"one of its test users; if redirect_uri_mismatch, its type has to be Desktop app"
	reachHint = "check that this machine reaches oauth2.googleapis.com " +
		"(behind a proxy, set HTTPS_PROXY), then log in again"
)

func userError(hint, format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Hint: hint, Code: 1}
}

// Run logs a person in. It opens the browser or prints the address, and waits until
// Google redirects the browser or the person pastes the address of the redirect. Then it
// exchanges the code and saves the login. user is the person who logged in, users/ID, or
// "" if Google does not say. If Run fails, it saves nothing, and an earlier login stays.
// Errors are *state.UserError, and those of listening on this machine and of writing the
// file.
func Run(ctx context.Context, options Options) (user string, err error) {
	client, err := options.oauthClient()
	if err != nil {
		return "", err
	}
	// "localhost" may be resolved to another address than 127.0.0.1 (RFC 8252, 8.3).
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wait for the browser: %w", err)
	}
	client.Scopes = append([]string{"openid"}, chatScopes...)
	client.RedirectURL = "http://" + listener.Addr().String() + "/"
	server := &callbackServer{
		state:     rand.Text(),
		callbacks: make(chan url.Values),
		ended:     make(chan struct{}),
	}
	end := server.serve(listener)
	login, err := options.askPermission(ctx, client, server)
	if err == nil {
		user, err = login.User, login.Save(config.LoginFile(options.Getenv))
	}
	end(err)
	return user, err
}

// oauthClient returns the OAuth client in ClientFile, or that of the earlier login if
// there is no ClientFile. Google does not rely on the client's secret (RFC 8252, 8.5),
// but it is treated as a secret. Errors quote no value of the file.
func (o Options) oauthClient() (*oauth2.Config, error) {
	if o.ClientFile == "" {
		l, err := config.ReadLogin(config.LoginFile(o.Getenv))
		if err != nil {
			return nil, userError(gchat.DesktopClientHint,
				"client file: none was named, and %w", err)
		}
		return &oauth2.Config{
			ClientID:     l.ClientID,
			ClientSecret: l.ClientSecret,
			Endpoint:     oauthEndpoint(l.TokenURI),
		}, nil
	}
	file, err := state.ReadPlainOrLink(o.ClientFile, state.MaxFileSize)
	if err != nil {
		return nil, userError(gchat.DesktopClientHint, "client file: %w", err)
	}
	client, err := google.ConfigFromJSON(file)
	if err != nil || client.ClientID == "" || client.ClientSecret == "" {
		return nil, userError(gchat.DesktopClientHint,
			"client file: there is no OAuth client of type Desktop app in it")
	}
	client.Endpoint = oauthEndpoint(client.Endpoint.TokenURL)
	return client, nil
}

// oauthEndpoint returns Google's endpoint, whatever a file names, so that the author of a
// client's file cannot have logins sent elsewhere. The one exception is a test's server
// on this machine. It has /auth and /revoke beside /token, as Google has.
func oauthEndpoint(tokenURI string) oauth2.Endpoint {
	u, err := url.Parse(tokenURI)
	if err != nil || !gchat.IsAllowedBaseURL(u) || u.Hostname() != "127.0.0.1" {
		return google.Endpoint
	}
	// Without an AuthStyle the library tries several. A code can be used only once.
	return oauth2.Endpoint{
		AuthURL:   u.Scheme + "://" + u.Host + "/auth",
		TokenURL:  tokenURI,
		AuthStyle: oauth2.AuthStyleInParams,
	}
}

// askPermission has the person allow the scopes, and exchanges the code from the redirect
// for a login. It does not keep the access token, which expires within the hour: the
// refresh token gets another. Google does not replace a refresh token when it is used. So
// nothing has to be written back, and many processes can use one file.
func (o Options) askPermission(
	ctx context.Context,
	client *oauth2.Config,
	server *callbackServer,
) (*config.Login, error) {
	// PKCE: Google gives a token for a code only to the program that asked for the code.
	verifier := oauth2.GenerateVerifier()
	// With "consent", Google gives a refresh token even if the person logged in before.
	address := client.AuthCodeURL(server.state, oauth2.AccessTypeOffline,
		oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("prompt", "consent"))
	o.invite(address, client.RedirectURL)
	callback, err := o.awaitCallback(ctx, server)
	if err != nil {
		return nil, err
	}
	if callback.Has("error") {
		reason := wording.SafeLine(callback.Get("error") + " " +
			callback.Get("error_subtype") + " " + callback.Get("error_description"))
		return nil, userError(gchat.LoginHint(reason), "google refused the login: %.300s", reason)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, gchat.NewTokenClient())
	token, err := client.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, exchangeError(err)
	}
	// A response without scopes means that all were granted (RFC 6749, 5.1).
	granted, hasScopes := token.Extra("scope").(string)
	for _, scope := range chatScopes {
		if hasScopes && !slices.Contains(strings.Fields(granted), scope) {
			return nil, userError(scopeHint, "%s was not allowed",
				strings.TrimPrefix(scope, "https://www.googleapis.com/auth/"))
		}
	}
	return &config.Login{
		ClientID:     client.ClientID,
		ClientSecret: client.ClientSecret,
		RefreshToken: token.RefreshToken,
		TokenURI:     client.Endpoint.TokenURL,
		User:         userName(token, client.ClientID),
	}, nil
}

// userName returns the person who logged in, users/ID, from the ID token that came with
// the other tokens. It is "" if there is no ID token for this client. The ID token came
// from Google over TLS, so its signature need not be checked (OpenID Connect Core,
// 3.1.3.7). The number in Chat's users/ID is the ID token's sub.
func userName(token *oauth2.Token, clientID string) string {
	jwt, _ := token.Extra("id_token").(string)
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct{ Aud, Sub string }
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	err := json.Unmarshal(payload, &claims)
	name := "users/" + claims.Sub
	if err == nil && claims.Aud == clientID && config.IsPersonName(name) {
		return name
	}
	return ""
}

// awaitCallback waits until Google redirects the browser, or the person pastes the
// address of the redirect.
func (o Options) awaitCallback(ctx context.Context, server *callbackServer) (url.Values, error) {
	timeout := cmp.Or(o.Timeout, 5*time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		userError(timeoutHint, "the browser did not come back within %s", timeout))
	defer cancel()
	var pasted <-chan string
	if o.NextLine != nil {
		pasted = o.NextLine()
	}
	for {
		select {
		case callback := <-server.callbacks:
			return callback, nil
		case line, ok := <-pasted:
			if !ok { // the input has ended, and the browser may still come back
				pasted = nil
				continue
			}
			callback := pastedCallback(line)
			if server.isOurs(callback) {
				return callback, nil
			}
			if strings.TrimSpace(line) != "" {
				fmt.Fprintln(o.Out, "That address is not this login's. "+
					"Paste the whole address of the page that the browser failed to load.")
			}
			pasted = o.NextLine()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// exchangeError turns an error of the OAuth library into one with a hint. The library's
// error quotes the whole response.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused):
		reason := gchat.ReadTokenError(refused.Body)
		return userError(gchat.LoginHint(reason), "google answered %d: %s",
			refused.Response.StatusCode, reason)
	case errors.As(err, &unreachable):
		return userError(cmp.Or(gchat.NetworkHint(err), reachHint),
			"the token endpoint could not be reached: %w", unreachable.Err)
	}
	return userError(reachHint, "the token endpoint's response is not from Google")
}

// Logout has Google revoke the login, and removes the login's file. It removes the file
// even if Google cannot be reached or ctx ends; then notRevoked says why Google may still
// accept the login. Google revokes everything that the person allowed this OAuth client,
// on other machines too. Errors are *state.UserError, and those of reading and removing
// the file.
func Logout(ctx context.Context, env state.Getenv) (notRevoked, err error) {
	file := config.LoginFile(env)
	l, err := config.ReadLogin(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, userError("gchat-hooks login --client-id-file FILE", "nobody is logged in")
	} else if err != nil {
		return nil, err
	}
	return revoke(ctx, l), os.Remove(file)
}

// revoke has Google revoke a login (RFC 7009). It succeeds if Google does not know the
// login.
func revoke(ctx context.Context, l *config.Login) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	address := strings.TrimSuffix(oauthEndpoint(l.TokenURI).TokenURL, "/token") + "/revoke"
	form := url.Values{"token": {l.RefreshToken}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form))
	if err != nil {
		return fmt.Errorf("revoke login: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// An error of Do quotes the address, which has no secret. The token is in the body.
	resp, err := gchat.NewTokenClient().Do(req)
	if err != nil {
		return fmt.Errorf("revoke login: %w", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	reason := gchat.ReadTokenError(body)
	if resp.StatusCode == http.StatusOK || strings.Contains(reason, "invalid_token") {
		return nil
	}
	return fmt.Errorf("revoke login: answered %d: %s", resp.StatusCode, reason)
}
