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

// Handler returns the handler of all requests. The API needs the token and the page's
// data needs the page's key, because this machine may have other users. The page's own
// files are for everybody: they contain nothing of the person's.
//
// Unless AllowsPhone is set, the Host header must name this machine, or be HTTPSHost.
// Otherwise a web page of another origin could reach the space through the browser, even
// with a host name that it resolves to 127.0.0.1 (DNS rebinding). What a proxy says of
// the request in other headers, such as X-Forwarded-Host, counts for nothing.
func (s *Space) Handler() http.Handler {
	api, page := s.apiRoutes(), s.pageRoutes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		// A page of another origin gets nothing of it, as a script, a picture or otherwise.
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r.URL.Path))
		s.markUsed()

		if !s.allowsPhone && !isLoopback(r.Host) && !s.isHTTPSHost(r.Host) {
			const denial = "The host %.60q is not this machine. " +
				"To serve other hosts, too: gchat-hooks space --phone, or with --https HOST"
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
		isUpload := strings.HasPrefix(r.URL.Path, "/upload/v1/")
		switch {
		case r.URL.Path != "/v1" && !strings.HasPrefix(r.URL.Path, "/v1/") && !isUpload:
			page.ServeHTTP(w, r)
		case hasToken || r.Method == http.MethodPost:
			// A POST without the token is a webhook's: apiMethod checks its own secrets.
			api.ServeHTTP(w, r)
		default:
			writeError(w, unauthenticated("Request is missing required authentication credential."))
		}
	})
}

// isHTTPSHost reports whether a Host header names HTTPSHost, at whatever port: a proxy may
// listen at another one.
func (s *Space) isHTTPSHost(host string) bool {
	return s.httpsHost != "" && strings.EqualFold((&url.URL{Host: host}).Hostname(), s.httpsHost)
}

// bodyLimit returns how many bytes the body of a request to a path may have. What an
// upload has around its file is small.
func bodyLimit(path string) int64 {
	if path == "/page/files" || strings.HasSuffix(path, "/attachments:upload") {
		return MaxFileBytes + maxBodyBytes
	}
	return maxBodyBytes
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// pageKeyHeader is the request header with the page's key. A page of another origin
// cannot send it: the browser first asks this server, which does not allow it. A cookie
// would prove nothing, because a browser sends it to every port of the host.
const pageKeyHeader = "Gchat-Page-Key"

// requirePageKey returns a handler that refuses a request without the page's key. The
// API's token in the path does not count here: it is not meant for the page.
func (s *Space) requirePageKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isSameSecret(r.Header.Get(pageKeyHeader), s.pageKey()) {
			writeError(w, unauthenticated("Open the page with its link first."))
			return
		}
		next(w, r)
	}
}

// redirectOldLink redirects a link of an earlier version, which has the token in its
// query, to the link with the page's key. A wrong token does not reveal the key: it only
// leads to the page, and the browser may have the key already.
func (s *Space) redirectOldLink(w http.ResponseWriter, r *http.Request) {
	link := "/"
	if isSameSecret(r.URL.Query().Get("token"), s.secrets.APIToken) {
		link = s.PageURL("")
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, link, http.StatusSeeOther)
}

// pageKey returns the key in the page's link. It is derived from the API's token, and
// does not give access to the API.
func (s *Space) pageKey() string {
	h := hmac.New(sha256.New, []byte(s.secrets.APIToken))
	h.Write([]byte("page key"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
}
