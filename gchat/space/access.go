package space

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Handler serves the API and the page to those who have the token: this machine has other users, too.
//
// Without Phone the server is asked by a name of this machine only: a web page of some other origin must not reach the space
// through the browser, not even with a name that it resolves to 127.0.0.1 (DNS rebinding).
func (s *Space) Handler() http.Handler {
	api, page := s.apiRoutes(), s.pageRoutes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.use()

		if !s.phone && !isLoopback(r.Host) {
			const denial = "The host %.60q is not this machine: gchat-hooks space --phone serves other ones, too."
			writeError(w, denied(fmt.Sprintf(denial, r.Host)))
			return
		}
		rest, granted := strings.CutPrefix(r.URL.Path, "/t/")
		if granted {
			token, path, _ := strings.Cut(rest, "/")
			if !same(token, s.secrets.Page) {
				writeError(w, unauthenticated("The token in the path is wrong."))
				return
			}
			r = r.Clone(context.WithValue(r.Context(), appToken{}, true))
			r.URL.Path, r.URL.RawPath = "/"+path, strings.TrimPrefix(r.URL.RawPath, "/t/"+token)
		}
		switch {
		case r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/"):
			page.ServeHTTP(w, r)
		case granted || r.Method == http.MethodPost: // a post is a webhook's, which has secrets of its own
			api.ServeHTTP(w, r)
		default:
			writeError(w, unauthenticated("Request is missing required authentication credential."))
		}
	})
}

// isLoopback tells whether a Host header names this machine.
func isLoopback(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// needsCookie lets a page route through to a browser that was let in. The API's
// token in the path does not count here: it has no business with the page.
func (s *Space) needsCookie(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie(s.cookieName())
		if err != nil || !same(c.Value, s.cookieValue()) {
			s.refusePage(w, r)
			return
		}
		next(w, r)
	}
}

// letIn answers the address with the token in it: it gives the cookie, and the token disappears from the address bar.
func (s *Space) letIn(w http.ResponseWriter, r *http.Request) {
	if !same(r.URL.Query().Get("token"), s.secrets.Page) {
		s.refusePage(w, r)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name:     s.cookieName(),
		Value:    s.cookieValue(),
		Path:     "/",
		MaxAge:   90 * 24 * 60 * 60,
		HttpOnly: true,
		Secure:   r.TLS != nil,
		SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// Cookies do not know ports: two spaces on one machine need two names. The value
// is made from the token, so that a leaked cookie does not open the API.
func (s *Space) cookieName() string  { return "space_" + s.derive("cookie name")[:12] }
func (s *Space) cookieValue() string { return s.derive("cookie value") }

func (s *Space) derive(what string) string {
	h := hmac.New(sha256.New, []byte(s.secrets.Page))
	h.Write([]byte(what))
	return hex.EncodeToString(h.Sum(nil))
}

// refusePage tells a person what is missing, and a script that it is missing. A link tapped in another site's page arrives
// here although its cookie was just set (SameSite=Strict looks at where the tap was); "Continue" starts from here.
func (s *Space) refusePage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		writeError(w, unauthenticated("Open the page with its token first."))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.WriteHeader(http.StatusUnauthorized)
	w.Write([]byte(`<!doctype html><meta name="viewport" content="width=device-width"><title>Local space</title>` +
		`<h1>This space is private</h1><p>Open it with the link that gchat-hooks space prints.</p>` +
		`<p>You just did? <a href="/">Continue</a></p>`))
}
