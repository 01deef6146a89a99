package kit

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// NewServer returns a server of this machine. It and its connections end with the test.
func NewServer(t testing.TB, handler http.Handler) *httptest.Server {
	return closeAtEnd(t, httptest.NewServer(handler))
}

// NewTLSServer is NewServer with HTTPS, and with a certificate that its Client trusts.
func NewTLSServer(t testing.TB, handler http.Handler) *httptest.Server {
	return closeAtEnd(t, httptest.NewTLSServer(handler))
}

func closeAtEnd(t testing.TB, server *httptest.Server) *httptest.Server {
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// Listen returns a listener at a port of 127.0.0.1 that the system chooses.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NoError(t, err)
	return listener
}
