// Package login gets a person's permission to read Google Chat, by way of their browser,
// and leaves it on disk as a credentials file that package gchat reads with. It asks for
// two scopes, which read messages and name spaces, for who the person is, and for nothing
// that could write. The OAuth client is the person's own: Google lets no shared one have
// Chat scopes unreviewed, and gcloud's has been refused them since June 2025.
//
// The flow is that of RFC 8252: a Desktop client, PKCE (RFC 7636), a redirect to a port
// of this machine.
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

// chatScopes are what a login needs; beside them it asks for openid, which tells who
// logged in. No Cloud scope: session control would end the login after hours.
var chatScopes = []string{chat.ChatMessagesReadonlyScope, chat.ChatSpacesReadonlyScope}

// Options are what a login depends on. Env and Out are needed, and ClientFile where no
// login is kept; the rest has a working zero value.
type Options struct {
	// the OAuth client's JSON file; "" for the client of the login that is kept
	ClientFile string
	Getenv     state.Getenv // where the login is kept, and whether there is a browser
	// what the person has to know meanwhile, the address to open among it
	Out io.Writer
	// the next line that the person types, closed at the end; nil for none
	NextLine    func() <-chan string
	NoBrowser   bool                       // the person opens the address
	Timeout     time.Duration              // how long for the person; 0 for 5 minutes
	OpenBrowser func(address string) error // opens the browser; nil for the system's
}

func userError(hint, format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Hint: hint, Code: 1}
}

// Run logs a person in: it opens the browser (or prints the address), waits until the
// browser comes back or the person pastes, exchanges the code and keeps the login. user
// is who logged in, users/ID; "" where Google does not tell. With an error nothing is
// kept, and an older login stays as it was. Errors are *state.UserError, and those of
// listening on this machine and of writing the file.
func Run(ctx context.Context, options Options) (user string, err error) {
	client, err := options.oauthClient()
	if err != nil {
		return "", err
	}
	// 127.0.0.1 and not "localhost", which may be resolved to somewhere else (RFC 8252,
	// 8.3).
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wait for the browser: %w", err)
	}
	client.Scopes, client.RedirectURL = append(
		[]string{"openid"},
		chatScopes...), "http://"+listener.Addr().
		String()+
		"/"
	callback := &callbackServer{
		state:     rand.Text(),
		callbacks: make(chan url.Values),
		ended:     make(chan struct{}),
	}
	end := callback.serve(listener)
	login, err := options.askPermission(ctx, client, callback)
	if err == nil {
		user, err = login.User, login.Save(config.LoginFile(options.Getenv))
	}
	end(err)
	return user, err
}

// oauthClient is the OAuth client of the file, else that of the login that is kept. Its
// secret is none that Google relies on (RFC 8252, 8.5), but is treated as one. Errors
// name no value of the file.
func (o Options) oauthClient() (*oauth2.Config, error) {
	if o.ClientFile == "" {
		l, err := config.ReadLogin(config.LoginFile(o.Getenv))
		if err != nil {
			return nil, userError(
				gchat.DesktopClientHint,
				"client file: none was named, and %w",
				err,
			)
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
		return nil, userError(
			gchat.DesktopClientHint,
			"client file: there is no OAuth client of type Desktop app in it",
		)
	}
	client.Endpoint = oauthEndpoint(client.Endpoint.TokenURL)
	return client, nil
}

// oauthEndpoint is Google's, whatever a file names: the author of a client's file cannot
// have logins sent elsewhere. Only a test's server on this machine counts: it has /auth
// and /revoke beside /token, as Google has.
func oauthEndpoint(tokenURI string) oauth2.Endpoint {
	u, err := url.Parse(tokenURI)
	if err != nil || !gchat.IsAllowedBaseURL(u) || u.Hostname() != "127.0.0.1" {
		return google.Endpoint
	}
	// The style is set, and not found out by trying: a code can be used once.
	return oauth2.Endpoint{
		AuthURL:   u.Scheme + "://" + u.Host + "/auth",
		TokenURL:  tokenURI,
		AuthStyle: oauth2.AuthStyleInParams,
	}
}

// askPermission has the person allow our scopes, and exchanges the code that the browser
// comes back with for a login. The access token that comes with it is not kept: it ends
// within the hour, and the refresh token gets another. Google does not replace a refresh
// token when it is used, so that nothing has to be written back, and many processes can
// use one file.
func (o Options) askPermission(
	ctx context.Context,
	client *oauth2.Config,
	b *callbackServer,
) (*config.Login, error) {
	// PKCE: Google gives a token for a code only to the program that asked for the code
	verifier := oauth2.GenerateVerifier()
	// With "consent" Google gives a refresh token also to a person who logged in before.
	o.invite(
		client.AuthCodeURL(b.state, oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(verifier),
			oauth2.SetAuthURLParam("prompt", "consent")),
		client.RedirectURL,
	)
	callback, err := o.awaitCallback(ctx, b)
	if err != nil {
		return nil, err
	}
	if callback.Has("error") {
		reason := wording.SafeLine(
			callback.Get("error") + " " + callback.Get("error_subtype") + " " + callback.Get(
				"error_description",
			),
		)
		return nil, userError(gchat.LoginHint(reason), "google says no: %.300s", reason)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, gchat.NewTokenClient())
	token, err := client.Exchange(ctx, callback.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, exchangeError(err)
	}
	// scopes that are not told are as asked for (RFC 6749, 5.1)
	granted, isTold := token.Extra("scope").(string)
	for _, scope := range chatScopes {
		if isTold && !slices.Contains(strings.Fields(granted), scope) {
			return nil, userError(
				"log in again and tick every box on Google's page: both only read",
				"%s was not allowed",
				strings.TrimPrefix(scope, "https://www.googleapis.com/auth/"),
			)
		}
	}
	return &config.Login{
		ClientID: client.ClientID, ClientSecret: client.ClientSecret,
		RefreshToken: token.RefreshToken, TokenURI: client.Endpoint.TokenURL, User: userName(token, client.ClientID),
	}, nil
}

// userName is who logged in, by the ID token that came with the others; "" where there is
// none for this client. It came from Google over TLS, so its signature needs no look
// (OpenID Connect Core, 3.1.3.7). Chat's users/ID has the same number as its sub.
func userName(token *oauth2.Token, clientID string) string {
	jwt, _ := token.Extra("id_token").(string)
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct{ Aud, Sub string }
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	err := json.Unmarshal(payload, &claims)
	if name := "users/" + claims.Sub; err == nil && claims.Aud == clientID &&
		config.IsPersonName(name) {
		return name
	}
	return ""
}

// awaitCallback waits for the browser to come back, or for the person to paste the
// address that it came to.
func (o Options) awaitCallback(ctx context.Context, b *callbackServer) (url.Values, error) {
	timeout := cmp.Or(o.Timeout, 5*time.Minute)
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		timeout,
		userError("log in again. If Google's page said org_internal or "+
			"admin_policy_enforced, an administrator has to allow the OAuth client; if access_denied, you have to be among its "+
			"test users; if redirect_uri_mismatch, its type has to be Desktop app",
			"the browser did not come back within %s", timeout),
	)
	defer cancel()
	var pasted <-chan string
	if o.NextLine != nil {
		pasted = o.NextLine()
	}
	for {
		select {
		case callback := <-b.callbacks:
			return callback, nil
		case line, ok := <-pasted:
			if !ok { // the end of the input is not the end of the wait
				pasted = nil
				continue
			}
			callback := readPasted(line)
			if b.isOurs(callback) {
				return callback, nil
			}
			if strings.TrimSpace(line) != "" {
				fmt.Fprintln(
					o.Out,
					"That is not this login's. Paste the whole address of the page that the browser ended on.",
				)
			}
			pasted = o.NextLine()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// exchangeError turns the library's error, which quotes a whole answer, into ours.
func exchangeError(err error) error {
	const reachHint = "see that this machine reaches oauth2.googleapis.com (a proxy: HTTPS_PROXY), then log in again"
	var refused *oauth2.RetrieveError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused):
		reason := gchat.ReadTokenError(refused.Body)
		return userError(
			gchat.LoginHint(reason),
			"google answered %d: %s",
			refused.Response.StatusCode,
			reason,
		)
	case errors.As(err, &unreachable):
		return userError(
			cmp.Or(gchat.NetworkHint(err), reachHint),
			"the token endpoint could not be reached: %w",
			unreachable.Err,
		)
	}
	return userError(reachHint, "the token endpoint's answer is none of Google's")
}

// Logout has Google forget the login, and removes its file, also when Google cannot be
// reached or ctx ends. Then notRevoked says why Google may still know the login. Google
// forgets everything that the person allowed this OAuth client, on other machines too.
// Errors are *state.UserError, and those of reading and removing.
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

// revoke has Google forget a login (RFC 7009). One that it does not know any more is as
// good.
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
	// its errors have the address, and the token is in the body
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
