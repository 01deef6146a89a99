package space

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Handler serves the API to those who have the token, and what the page shows to those
// who have its key: this machine has other users, too. The page's own files hold nothing
// of the person's, and are for all.
//
// Without Phone the server is asked by a name of this machine only: a web page of some
// other origin must not reach the space through the browser, not even with a name that it
// resolves to 127.0.0.1 (DNS rebinding).
func (s *Space) Handler() http.Handler {
	api, page := s.apiRoutes(), s.pageRoutes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		s.markUsed()

		if !s.allowsPhone && !isLoopback(r.Host) {
			const denial = "The host %.60q is not this machine: gchat-hooks space --phone serves other ones, too."
			writeError(w, permissionDenied(fmt.Sprintf(denial, r.Host)))
			return
		}
		rest, hasToken := strings.CutPrefix(r.URL.Path, "/t/")
		if hasToken {
			token, path, _ := strings.Cut(rest, "/")
			if !isSameSecret(token, s.secrets.APIToken) {
				writeError(w, unauthenticated("The token in the path is wrong."))
				return
			}
			r = r.Clone(context.WithValue(r.Context(), appTokenKey{}, true))
			r.URL.Path, r.URL.RawPath = "/"+path, strings.TrimPrefix(r.URL.RawPath, "/t/"+token)
		}
		switch {
		case r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/"):
			page.ServeHTTP(w, r)
		case hasToken || r.Method == http.MethodPost:
			// a post is a webhook's, which has secrets of its own
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

// pageKeyHeader carries the page's key. No page of another origin can send it: a browser
// asks first, and is not allowed to. A cookie would be no proof, since it goes to every
// port of the host.
const pageKeyHeader = "Gchat-Page-Key"

// requirePageKey lets a page route through to a browser that has the page's key. The
// API's token in the path does not count here: it has no business with the page.
func (s *Space) requirePageKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isSameSecret(r.Header.Get(pageKeyHeader), s.pageKey()) {
			writeError(w, unauthenticated("Open the page with its link first."))
			return
		}
		next(w, r)
	}
}

// redirectOldLink leads a link of an earlier version, which has the token in its query,
// to the link of this one. Only who has the token learns the key. A wrong token leads to
// the page, which may have its key.
func (s *Space) redirectOldLink(w http.ResponseWriter, r *http.Request) {
	link := "/"
	if isSameSecret(r.URL.Query().Get("token"), s.secrets.APIToken) {
		link = s.PageURL("")
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, link, http.StatusSeeOther)
}

// pageKey is what the page's link carries. It is made from the token, so that it does not
// open the API.
func (s *Space) pageKey() string {
	h := hmac.New(sha256.New, []byte(s.secrets.APIToken))
	h.Write([]byte("page key"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
}
