package strict

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"testing"
)

// ServiceAccount writes a service account's credentials file, whose tokens come from
// tokenURL.
func ServiceAccount(t testing.TB, tokenURL string) (file string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "1", "client_id": "1",
		"client_email": "x@p.iam.gserviceaccount.com",
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURL,
	})
	file = filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// CheckSocket has requests to an embedded space of another process checked: it takes the
// place of the space's unix socket, until end.
func CheckSocket(t testing.TB, socket string) (end func()) {
	t.Helper()
	realSocket := socket + "2"
	if err := os.Rename(socket, realSocket); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", realSocket)
	}}
	space := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
	}}
	server := &http.Server{Handler: CheckRequests(t, space, Embedded)}
	go func() { _ = server.Serve(l) }()
	return func() { server.Close(); transport.CloseIdleConnections(); os.Remove(realSocket) }
}
