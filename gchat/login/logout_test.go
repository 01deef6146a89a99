package login

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"gchat-hooks/state"
)

func loggedIn(t *testing.T) *google {
	t.Helper()
	g := newGoogle(t)
	if _, err := Run(t.Context(), newPerson(g).options()); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLogout(t *testing.T) {
	g := loggedIn(t)
	token := g.kept().RefreshToken
	p, err := Logout(t.Context(), g.getenv)
	if err != nil || p.NotRevoked != nil || p.File != state.LoginFile(g.getenv) {
		t.Errorf("%+v, %v", p, err)
	}
	if len(g.revoked) != 1 || g.revoked[0] != token {
		t.Errorf("revoked %v", g.revoked)
	}
	if _, err := os.Stat(p.File); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there still: %v", err)
	}
	if cfg := state.LoadConfig(g.getenv, t.TempDir()); cfg.CredentialsFile != "" || len(cfg.AllowedUsers) > 0 {
		t.Errorf("configured still: %q, %v", cfg.CredentialsFile, cfg.AllowedUsers)
	}
	if _, err := Logout(t.Context(), g.getenv); !strings.Contains(hint(err), "gchat-hooks login") {
		t.Errorf("again: %v", err)
	}
}

func TestLogoutForgetsTheFileWhateverGoogleSays(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, g *google) context.Context
		revoked bool
	}{
		"it is in trouble": {func(t *testing.T, g *google) context.Context {
			g.revoking = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(503); return true }
			return t.Context()
		}, false},
		"nobody answers": {func(t *testing.T, g *google) context.Context { g.web.Close(); return t.Context() }, false},
		"it hangs, and the person presses Ctrl-C": {func(t *testing.T, g *google) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			g.revoking = func(w http.ResponseWriter, r *http.Request) bool {
				_ = r.ParseForm() // only then is it seen that the caller hangs up
				cancel()
				<-r.Context().Done()
				return true
			}
			return ctx
		}, false},
		"it redirects": {func(t *testing.T, g *google) context.Context {
			g.revoking = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, g.web.URL+"/elsewhere", http.StatusTemporaryRedirect)
				return true
			}
			g.web.Config.Handler.(*http.ServeMux).HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("a redirect took the token along") })
			return t.Context()
		}, false},
		"the login had ended": {func(t *testing.T, g *google) context.Context {
			g.refresh = map[string]bool{}
			return t.Context()
		}, true},
	} {
		g := loggedIn(t)
		p, err := Logout(c.change(t, g), g.getenv)
		if err != nil || (p.NotRevoked == nil) != c.revoked {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if _, err := os.Stat(state.LoginFile(g.getenv)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is there still: %v", name, err)
		}
		g.unseen(p, p.NotRevoked)
	}
}

func TestTokenIsNotRevokedElsewhere(t *testing.T) {
	g := loggedIn(t)
	l := g.kept()
	l.TokenURI = "http://oauth2.example/token"
	if err := l.Save(state.LoginFile(g.getenv)); err != nil {
		t.Fatal(err)
	}
	if p, err := Logout(t.Context(), g.getenv); err != nil || p.NotRevoked == nil || !strings.Contains(p.NotRevoked.Error(), "token_uri") {
		t.Errorf("%+v, %v", p, err)
	}
	for from, google := range map[string]bool{
		"https://oauth2.googleapis.com/token": true, "https://accounts.google.com/o/oauth2/token": true, "https://www.googleapis.com/oauth2/v3/token": true,
		"https://googleapis.com.example/o/token": false, "https://script.google.com/token": false, "http://oauth2.googleapis.com/token": false,
	} {
		if got := endpoint(from); (got != nil) != google {
			t.Errorf("%s: %v", from, got)
		}
	}
}
