package gchat

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state/config"
)

// A proxy or a portal between this machine and Google gets a helpful hint, whichever call
// meets it.
func TestNetworkHint_ProxiesAndPortals(t *testing.T) {
	inspects := httptest.NewUnstartedServer(http.NotFoundHandler())
	inspects.Config.ErrorLog = log.New(io.Discard, "", 0) // the client hangs up
	inspects.StartTLS()
	defer inspects.Close()
	wants := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "log in", http.StatusProxyAuthRequired)
	}))
	proxy, _ := url.Parse(wants.URL)
	byProxy := &http.Transport{Proxy: http.ProxyURL(proxy),
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	_, tunnel := byProxy.RoundTrip(httptest.NewRequest("GET",
		"https://chat.googleapis.com/v1/spaces", nil))
	hook, err := ParseWebhook(&config.Config{}, inspects.URL+"/v1/spaces/A/messages?key=k&token=t")
	kit.NoError(t, err)
	_, inspected := hook.Post(t.Context(), Post{Text: "x"})
	for _, tt := range []struct {
		name string
		err  error
		says []string
	}{
		{"TLS inspection", inspected,
			[]string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS works for Claude Code only"}},
		{"TLS inspection while reading", errors.Join(ErrCredentials, inspected),
			[]string{"SSL_CERT_FILE"}},
		{"a proxy before a tunnel",
			withoutURL(&url.Error{Op: "Post", URL: "https://x", Err: tunnel}),
			[]string{"HTTPS_PROXY=http://USER:PASSWORD@"}},
		{"a proxy that answers", &APIError{HTTP: http.StatusProxyAuthRequired},
			[]string{"HTTPS_PROXY=http://USER:PASSWORD@"}},
	} {
		for _, hint := range []string{Hint(tt.err), AppHint(tt.err)} {
			for _, want := range tt.says {
				kit.True(t, strings.Contains(hint, want),
					"%s (%v): %q does not say %q", tt.name, tt.err, hint, want)
			}
		}
	}
}
