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
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// scopes are all that is asked for. No Cloud scope: session control would end the login after hours.
func scopes() []string {
	return []string{chat.ChatMessagesReadonlyScope, chat.ChatSpacesReadonlyScope}
}

const (
	defaultWait     = 5 * time.Minute
	exchangeTimeout = 30 * time.Second
	askTimeout      = 20 * time.Second // for who that is
)

// Options are what a login depends on. Env and Out are needed, and ClientFile where nobody is logged in; the rest has a working zero value.
type Options struct {
	ClientFile string        // the OAuth client's JSON file, of type Desktop app; "" for the client of the login that is kept
	Env        state.Getenv  // where the login is kept, and whether there is a browser
	Out        io.Writer     // what the person has to know meanwhile, the address to open among it
	Pasted     <-chan string // lines that the person types or pastes, see Lines; nil for none
	NoBrowser  bool          // the person opens the address
	Wait       time.Duration // how long for the person; 0 for 5 minutes
	Endpoint   string        // the Chat API's base URL; "" for Google's

	Open func(address string) error // opens the browser; nil for the system's
}

// Account is who logged in.
type Account struct {
	File        string    // the credentials file
	User        string    // users/ID; "" where Chat did not tell
	Email       string    // where Chat gives it
	DisplayName string    // where Chat gives it
	Unknown     error     // why User is ""; gchat.ErrNotTold where the person wrote nothing in Chat yet
	Ends        time.Time // when the login ends, where Google said so: the client is in Testing; else zero
}

// String says in one line who logged in, as safe for a terminal as for a message.
func (a Account) String() string {
	name := gchat.Line(cmp.Or(a.DisplayName, a.Email, a.User))
	switch {
	case a.User == "":
		return "somebody whose name Chat does not tell"
	case a.DisplayName != "" && a.Email != "":
		return name + " <" + gchat.Line(a.Email) + "> (" + a.User + ")"
	case name != a.User:
		return name + " (" + a.User + ")"
	}
	return name
}

// Run logs a person in: it opens the browser (or prints the address), waits for the browser to come back or for what the
// person pastes, exchanges the code, keeps the login and asks Chat who that was. With an error nothing is kept, and an
// older login stays as it was. That Chat does not tell who it is, is no error: see Account.Unknown. Errors are *Error
// and those of listening on this machine and of writing the file.
func Run(ctx context.Context, o Options) (Account, error) {
	acc, err := run(ctx, o)
	if err != nil {
		return Account{}, fmt.Errorf("log in: %w", err)
	}
	return acc, nil
}

func run(ctx context.Context, o Options) (Account, error) {
	client := keptClient(o.Env)
	if o.ClientFile != "" || client == nil {
		var err error
		if client, err = readClient(o.ClientFile); err != nil {
			return Account{}, err
		}
	}
	file := state.LoginFile(o.Env)
	if _, err := state.ReadLogin(file); errors.Is(err, state.ErrNotOurs) {
		return Account{}, &Error{Foreign, err} // before the person goes through all of Google's pages
	}
	back, err := listen(rand.Text())
	if err != nil {
		return Account{}, err
	}
	defer back.close()
	cfg := client.config(back.address)
	verifier := oauth2.GenerateVerifier()
	// With "consent" Google gives a refresh token also to somebody who logged in before.
	address := cfg.AuthCodeURL(back.state, oauth2.AccessTypeOffline, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("prompt", "consent"))

	o.invite(address, back.address)
	code, err := o.wait(ctx, back)
	var login *state.Login
	if err == nil {
		login, err = exchange(ctx, cfg, code, verifier)
	}
	if err == nil {
		if err = login.Save(file); errors.Is(err, state.ErrNotOurs) {
			err = &Error{Foreign, err}
		}
	}
	back.finish(err) // the page in the browser says what came of it
	if err != nil {
		return Account{}, err
	}
	return o.introduce(ctx, login, file), nil
}

// wait waits for the browser to come back, or for a pasted address or code.
func (o Options) wait(ctx context.Context, back *loopback) (code string, err error) {
	patience := cmp.Or(o.Wait, defaultWait)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, &Error{TimedOut, fmt.Errorf("nobody came back from the browser within %s", patience)})
	defer cancel()
	pasted := o.Pasted
	for {
		select {
		case a := <-back.arrivals:
			return a.code, a.err
		case line, ok := <-pasted:
			if !ok {
				pasted = nil // the end of the input is not the end of the wait
			}
			o.take(line, back)
		case <-ctx.Done():
			back.taken.Store(true) // what comes now comes too late
			return "", context.Cause(ctx)
		}
	}
}

// introduce asks Chat who logged in, with the credentials as they are on disk: that they can be refreshed and read with
// shows here, and not when the first question waits for its reply.
func (o Options) introduce(ctx context.Context, login *state.Login, file string) Account {
	acc := Account{File: file, Ends: login.Ends}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := gchat.NewReader(ctx, o.Endpoint, file)
	if err != nil {
		acc.Unknown = err
		return acc
	}
	me, err := r.Me(ctx)
	if err != nil {
		acc.Unknown = err
		return acc
	}
	login.User, login.Email, login.DisplayName = me.Name, me.Email, me.DisplayName
	if acc.Unknown = login.Save(file); acc.Unknown == nil {
		acc.User, acc.Email, acc.DisplayName = me.Name, me.Email, me.DisplayName
	}
	return acc
}

// web is what secrets are sent with: in time, and not on to where a redirect points.
func web() *http.Client {
	return &http.Client{
		Timeout: exchangeTimeout, Transport: http.DefaultTransport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
