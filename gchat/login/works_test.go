package login

import (
	"strings"
	"testing"
)

// A login works while its client's token endpoint takes it; another client's is another login.
func TestWorks(t *testing.T) {
	p := newPerson(newGoogle(t))
	file := p.clientFile()
	if Works(t.Context(), p.getenv, file) {
		t.Error("nobody is logged in, and that works")
	}
	if _, err := Run(t.Context(), p.options()); err != nil {
		t.Fatal(err)
	}
	if !Works(t.Context(), p.getenv, file) {
		t.Error("the login that was just made does not work")
	}
	other := p.file(strings.ReplaceAll(`{"installed":{"client_id":"another","client_secret":"s","auth_uri":"URL/auth","token_uri":"URL/token"}}`, "URL", p.web.URL))
	if Works(t.Context(), p.getenv, other) {
		t.Error("it is taken for another client's login")
	}
	if Works(t.Context(), p.getenv, p.file("{}")) {
		t.Error("it is taken for the login of no client")
	}
	p.mu.Lock()
	clear(p.refresh)
	p.mu.Unlock()
	if Works(t.Context(), p.getenv, file) {
		t.Error("a login that was revoked works")
	}
}
