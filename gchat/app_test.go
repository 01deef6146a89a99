package gchat

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
)

func TestApp_PullLeavesADeadConnection(t *testing.T) {
	arrived := make(chan string, 10)
	var pulls atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ":pull") {
			io.WriteString(w,
				`{"access_token":"ya29.access","expires_in":3600,"token_type":"Bearer"}`)
			return
		}
		arrived <- r.Proto
		if pulls.Add(1) == 2 {
			<-r.Context().Done() // nothing happens
			return
		}
		io.WriteString(w,
			`{"receivedMessages":[{"ackId":"1","message":{"messageId":"1","data":"e30="}}]}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	proxy := kit.NewBlackHole(t, server.Listener.Addr().String())
	at := "https://" + proxy.Addr().String()

	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.HTTP2.SendPingTimeout /= 20
	transport.HTTP2.PingTimeout /= 20
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	kit.UseTransport(t, transport)

	app := newTestApp(t, at, strict.ServiceAccount(t, at+"/token"))
	events, err := app.Pull(t.Context())
	kit.True(t, err == nil && len(events) == 1, "%d events, %v", len(events), err)
	lost := make(chan error)
	go func() {
		_, err := app.Pull(t.Context())
		lost <- err
	}()
	first, second := <-arrived, <-arrived
	kit.True(t, first == "HTTP/2.0" && second == first, "pulled over %s and %s", first, second)
	proxy.Swallow()
	err = <-lost
	kit.Must(t, errors.Is(err, ErrConnectionLost), "the pull that was under way ended with %v", err)
	events, err = app.Pull(t.Context())
	kit.True(t, err == nil && len(events) == 1, "over a new connection: %d events, %v",
		len(events), err)
}

// Google may send a list of spaces in pages, even if one page would do.
func TestApp_SpacesOfAllPages(t *testing.T) {
	server := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("pageToken") == "" {
			io.WriteString(w,
				`{"spaces":[{"name":"spaces/A","spaceType":"SPACE"}],"nextPageToken":"2"}`)
			return
		}
		io.WriteString(w, `{"spaces":[{"name":"spaces/B","spaceType":"DIRECT_MESSAGE"}]}`)
	})
	a := newTestApp(t, server.URL, "")
	spaces, err := a.Spaces(t.Context())
	kit.True(t, err == nil && len(spaces) == 2 && spaces[0].Name == "spaces/B",
		"%v, %v", spaces, err)
}
