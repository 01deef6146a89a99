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

// Parting is a login that ended.
type Parting struct {
	File       string // the file that is gone
	NotRevoked error  // why Google may still know the login, which myaccount.google.com/connections ends then; nil when it does not
}

// Logout ends the login: it has Google forget it, and removes its file, also when Google cannot be reached or ctx ends.
// Google forgets everything that the person allowed this OAuth client, on other machines too. A file that login did not
// write stays. Errors are *state.UserError and those of removing.
func Logout(ctx context.Context, env state.Getenv) (Parting, error) {
	file := state.LoginFile(env)
	l, err := state.ReadLogin(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = failed("gchat-hooks login --client-id-file FILE", "nobody is logged in")
	case errors.Is(err, state.ErrNotOurs):
		err = foreign(err)
	}
	if err != nil {
		return Parting{}, fmt.Errorf("log out: %w", err)
	}
	p := Parting{File: file, NotRevoked: revoke(ctx, l)}
	if err := state.RemoveLogin(file); err != nil {
		return p, fmt.Errorf("log out: %w", err)
	}
	return p, nil
}

// revoke has Google forget a login (RFC 7009). One that it does not know any more is as good.
func revoke(ctx context.Context, l *state.Login) error {
	token := endpoint(l.TokenURI)
	if token == nil {
		return errors.New("its token_uri is not Google's")
	}
	// One address for all the token_uris that Google ever wrote into clients' files; a test's server has it beside its own.
	address := "https://oauth2.googleapis.com/revoke"
	if !ofGoogle(token) {
		address = token.ResolveReference(&url.URL{Path: "revoke"}).String()
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	form := url.Values{"token": {l.RefreshToken}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form))
	if err != nil {
		return errors.New("revoke login: no such address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := gchat.TokenClient().Do(req) // its errors have the address, and the token is in the body
	if err != nil {
		return fmt.Errorf("revoke login: %w", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	code := gchat.ReadRefusal(body).Code
	if resp.StatusCode == http.StatusOK || code == "invalid_token" || code == "invalid_grant" {
		return nil
	}
	return fmt.Errorf("revoke login: answered %d %s", resp.StatusCode, code)
}
