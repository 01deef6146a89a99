package strict

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"testing"
)

// Before has requests to an embedded space of another process checked: it takes the place of the space's unix socket, until end.
func Before(t testing.TB, socket string) (end func()) {
	t.Helper()
	behind := socket + "2"
	if err := os.Rename(socket, behind); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", behind)
	}}
	space := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
	}}
	server := &http.Server{Handler: Google(t, space, Embedded)}
	go func() { _ = server.Serve(l) }()
	return func() { server.Close(); transport.CloseIdleConnections(); os.Remove(behind) }
}
