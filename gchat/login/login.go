// Package login gets a person's permission to read Google Chat, by way of their browser, and leaves it on disk as a
// credentials file that package gchat reads with. It asks for two scopes, which read messages and name spaces, and for
// nothing that could write. The OAuth client is the person's own: Google lets no shared one have Chat scopes unreviewed,
// and gcloud's has been refused them since June 2025.
//
// The flow is that of RFC 8252: a Desktop client, PKCE (RFC 7636), a redirect to a port of this machine.
package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// scopes are all that is asked for. No Cloud scope: session control would end the login after hours.
var scopes = []string{chat.ChatMessagesReadonlyScope, chat.ChatSpacesReadonlyScope}

// Options are what a login depends on. Env and Out are needed, and ClientFile where no login is kept; the rest has a
// working zero value.
type Options struct {
	ClientFile string                     // the OAuth client's JSON file; "" for the client of the login that is kept
	Env        state.Getenv               // where the login is kept, and whether there is a browser
	Out        io.Writer                  // what the person has to know meanwhile, the address to open among it
	Paste      func() <-chan string       // the next line that the person types, closed at the end; nil for none
	NoBrowser  bool                       // the person opens the address
	Wait       time.Duration              // how long for the person; 0 for 5 minutes
	Endpoint   string                     // the Chat API's base URL; "" for Google's
	Open       func(address string) error // opens the browser; nil for the system's
}

// Account is the person who logged in.
type Account struct {
	gchat.Person
	Unknown error     // why Person.Name is ""; gchat.ErrNotTold where the person wrote nothing in Chat yet
	Ends    time.Time // when the login ends, where Google said so: the client is in Testing; else zero
}

// String names the account in one line, as safe for a terminal as for a message.
func (a Account) String() string {
	if a.Name == "" {
		return "a person whose name Chat does not tell"
	}
	return gchat.Line(strings.Join(strings.Fields(a.DisplayName+" "+a.Email+" ("+a.Name+")"), " "))
}

func failed(hint, format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Hint: hint, Code: 1}
}

func foreign(err error) error {
	return failed("that file is somebody's own: move it away, or name it in credentials_file and do not log in", "%w", err)
}

// Run logs a person in: it opens the browser (or prints the address), waits until the browser comes back or the person
// pastes, exchanges the code, keeps the login and asks Chat who that was. With an error nothing is kept, and an older login
// stays as it was. That Chat does not tell who it is, is no error: see Account.Unknown. Errors are *state.UserError, and
// those of listening on this machine and of writing the file.
func Run(ctx context.Context, o Options) (acc Account, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("log in: %w", err)
		}
	}()
	client, err := o.client()
	if err != nil {
		return acc, err
	}
	file := state.LoginFile(o.Env)
	if _, err := state.ReadLogin(file); errors.Is(err, state.ErrNotOurs) {
		return acc, foreign(err) // before the person goes through all of Google's pages
	}
	patience := cmp.Or(o.Wait, 5*time.Minute)
	inTime, cancel := context.WithTimeoutCause(ctx, patience, failed("log in again. If Google's page said org_internal or "+
		"admin_policy_enforced, an administrator has to allow the OAuth client; if access_denied, you have to be among its "+
		"test users; if redirect_uri_mismatch, its type has to be Desktop app",
		"the browser did not come back within %s", patience))
	defer cancel()
	// 127.0.0.1 and not "localhost", which may be resolved to somewhere else (RFC 8252, 8.3).
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return acc, fmt.Errorf("wait for the browser: %w", err)
	}
	f := &flow{ctx: inTime, file: file, state: rand.Text(), verifier: oauth2.GenerateVerifier(), ended: make(chan error, 1)}
	f.config = &oauth2.Config{
		ClientID: client.ID, ClientSecret: client.Secret, RedirectURL: "http://" + l.Addr().String() + "/", Scopes: scopes,
		// Said, and not found out by trying: a code can be used once.
		Endpoint: oauth2.Endpoint{AuthURL: client.AuthURI, TokenURL: client.TokenURI, AuthStyle: oauth2.AuthStyleInParams},
	}
	defer f.serve(l)()
	// With "consent" Google gives a refresh token also to a person who logged in before.
	o.invite(f.config.AuthCodeURL(f.state, oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(f.verifier),
		oauth2.SetAuthURLParam("prompt", "consent")), f.config.RedirectURL)
	if err := o.wait(f); err != nil {
		return acc, err
	}
	return o.introduce(ctx, f.login, file), nil
}

// wait waits for the browser to come back, or for a pasted address or code.
func (o Options) wait(f *flow) error {
	var pasted <-chan string
	if o.Paste != nil {
		pasted = o.Paste()
	}
	for {
		select {
		case err := <-f.ended:
			return err
		case line, ok := <-pasted:
			switch {
			case !ok: // the end of the input is not the end of the wait
				pasted = nil
			case strings.TrimSpace(line) != "":
				if err := f.paste(line); err != nil {
					fmt.Fprintf(o.Out, "That does not help: %v. Paste the whole address of the page that the browser ended on.\n", err)
				}
				fallthrough
			default:
				pasted = o.Paste()
			}
		case <-f.ctx.Done():
			if f.taken.CompareAndSwap(false, true) {
				return context.Cause(f.ctx)
			}
			return <-f.ended
		}
	}
}

// introduce asks Chat who logged in, with the credentials as they are on disk: that they can be refreshed and read with
// shows here, and not when the first question waits for its reply.
func (o Options) introduce(ctx context.Context, login *state.Login, file string) Account {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	acc := Account{Ends: login.Ends}
	r, err := gchat.NewReader(ctx, o.Endpoint, file)
	if err == nil {
		acc.Person, err = r.Me(ctx)
	}
	if err == nil {
		login.User, login.Email, login.DisplayName = acc.Name, acc.Email, acc.DisplayName
		err = login.Save(file)
	}
	if err != nil {
		return Account{Ends: login.Ends, Unknown: err}
	}
	return acc
}

// flow is one login under way. What comes back first, from the browser or pasted, is the one answer.
type flow struct {
	ctx      context.Context
	config   *oauth2.Config
	verifier string // PKCE: Google gives a token for a code only to the program that asked for the code
	state    string // told to Google alone, and told back
	file     string
	taken    atomic.Bool
	login    *state.Login // what came of it
	ended    chan error
}

var (
	errOtherLogin = errors.New("that belongs to another login")
	errNoCode     = errors.New("there is no code in it")
	errOver       = errors.New("this login is over")
)

// take uses an answer, once, and waits until the login is kept. It returns what the login came to, and has told it to the
// waiting program; errOver for a second answer.
func (f *flow) take(answer url.Values) error {
	if !f.taken.CompareAndSwap(false, true) {
		return errOver
	}
	var err error
	if answer.Get("error") != "" {
		err = denied(answer)
	} else if err = f.exchange(answer.Get("code")); err == nil {
		if err = f.login.Save(f.file); errors.Is(err, state.ErrNotOurs) {
			err = foreign(err)
		}
	}
	f.ended <- err
	return err
}

// denied is what the browser came back with in place of a code.
func denied(answer url.Values) error {
	code := cmp.Or(answer.Get("error_subtype"), answer.Get("error"))
	hint := gchat.LoginHint(code)
	if code == "access_denied" { // on this page, the person's own no
		hint = "log in again and allow both; with a client in Testing, you have to be among its test users " +
			"(console.cloud.google.com/auth/audience)"
	}
	words := code + " " + answer.Get("error_description")
	return failed(hint, "google says no: %s", gchat.Line(strings.ToValidUTF8(words[:min(len(words), 300)], "")))
}

// exchange gets a login for a code. The access token that comes with it is not kept: it ends within the hour, and the
// refresh token gets another. Google does not replace a refresh token when it is used, so that nothing has to be written
// back later, and many processes can use one file.
func (f *flow) exchange(code string) error {
	ctx := context.WithValue(f.ctx, oauth2.HTTPClient, gchat.TokenClient())
	tok, err := f.config.Exchange(ctx, code, oauth2.VerifierOption(f.verifier))
	if err != nil {
		return exchangeError(err)
	}
	granted := scopes // what is not said is as asked for (RFC 6749, 5.1)
	if s, _ := tok.Extra("scope").(string); s != "" {
		granted = strings.Fields(s)
	}
	for _, want := range scopes {
		if !slices.Contains(granted, want) {
			return failed("log in again and tick every box on Google's page: both only read", "%s was not allowed",
				strings.TrimPrefix(want, "https://www.googleapis.com/auth/"))
		}
	}
	if tok.RefreshToken == "" {
		return failed("remove the client's access at myaccount.google.com/connections, then log in again",
			"google gave no refresh token: the login would end within the hour")
	}
	f.login = &state.Login{
		ClientID: f.config.ClientID, ClientSecret: f.config.ClientSecret, RefreshToken: tok.RefreshToken,
		AuthURI: f.config.Endpoint.AuthURL, TokenURI: f.config.Endpoint.TokenURL,
		Scopes: granted, At: time.Now().UTC().Truncate(time.Second),
	}
	// Said of logins that end by themselves: a client in Testing (604799 s), or access that was granted for a time.
	if s, _ := tok.Extra("refresh_token_expires_in").(float64); s > 0 && s < 1e9 {
		f.login.Ends = f.login.At.Add(time.Duration(s) * time.Second)
	}
	return nil
}

// exchangeError turns the library's error, which may quote a whole answer, into ours.
func exchangeError(err error) error {
	const reach = "see that this machine reaches the token_uri of the client's file (a proxy: HTTPS_PROXY), then log in again"
	var refused *oauth2.RetrieveError
	var u *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &u):
		return failed(reach, "the token endpoint could not be reached: %w", u.Err)
	case !errors.As(err, &refused) || refused.Response.StatusCode == 200:
		return failed(reach, "the token endpoint's answer is none of Google's")
	case refused.Response.StatusCode >= 500:
		return failed(reach, "the token endpoint answered %d", refused.Response.StatusCode)
	}
	r := gchat.ReadRefusal(refused.Body)
	if r.Code == "invalid_grant" { // whose words are about logins mostly
		return failed("log in again, and finish within a few minutes: a code can be used once",
			"the code was used before, is too old, or is another login's; Google says %s", r.Words)
	}
	return failed(gchat.LoginHint(r.Code), "token refused: %s", r.Words)
}
