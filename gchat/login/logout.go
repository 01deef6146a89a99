package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const revokeTimeout = 10 * time.Second

// Parting is who was logged out.
type Parting struct {
	File       string // the file that is gone
	User       string // users/ID; "" where it was not known
	NotRevoked error  // why Google may still know the login; nil when it does not. It can be ended at myaccount.google.com/connections
}

// Logout ends the login: it has Google forget it, and removes its file, also when Google cannot be reached or ctx ends.
// Google forgets everything that the person allowed this OAuth client, on other machines too. A file that login did not
// write stays. Errors are *Error (NotLoggedIn, Foreign) and those of removing.
func Logout(ctx context.Context, env state.Getenv) (Parting, error) {
	file := state.LoginFile(env)
	l, err := state.ReadLogin(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Parting{}, fmt.Errorf("log out: %w", &Error{NotLoggedIn, errors.New("nobody is logged in")})
	case errors.Is(err, state.ErrNotOurs):
		return Parting{}, fmt.Errorf("log out: %w", &Error{Foreign, err})
	case err != nil:
		return Parting{}, fmt.Errorf("log out: %w", err)
	}
	p := Parting{File: file, User: l.User, NotRevoked: revoke(ctx, l)}
	if err := state.RemoveLogin(file); err != nil {
		return p, fmt.Errorf("log out: %w", err)
	}
	return p, nil
}

// revoke has Google forget a login (RFC 7009). One that it does not know any more is as good.
func revoke(ctx context.Context, l *state.Login) error {
	token, err := endpoint(l.TokenURI)
	if err != nil {
		return fmt.Errorf("token_uri is %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, revokeAddress(token), strings.NewReader(url.Values{"token": {l.RefreshToken}}.Encode()))
	if err != nil {
		return errors.New("revoke login: no such address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := web().Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("revoke login: %w", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	e := gchat.ReadTokenError(body)
	if resp.StatusCode == http.StatusBadRequest && (e.Code == "invalid_token" || e.Code == "invalid_grant") {
		return nil
	}
	return fmt.Errorf("revoke login: answered %d %s", resp.StatusCode, e.Code)
}

// revokeAddress is where a token from there is revoked. The client's file does not say; Google has one address for all the
// token_uris that it ever wrote into such files, and for a test's server it is the neighbour.
func revokeAddress(token *url.URL) string {
	if ofGoogle(token) {
		return "https://oauth2.googleapis.com/revoke"
	}
	u := token.ResolveReference(&url.URL{Path: "revoke"})
	return u.String()
}
