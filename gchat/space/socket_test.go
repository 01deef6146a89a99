package space

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// serveForUser opens the space of a data folder as gchat-hooks space does, and serves it
// until end.
func serveForUser(t *testing.T, data string, ln net.Listener, port int) (s *Space, end func()) {
	t.Helper()
	s, err := Open(Options{DataDir: data, IsDirect: true})
	kit.NoError(t, err)
	socket, err := s.ListenOnSocket()
	kit.NoError(t, err)
	kit.NoError(t, state.WriteSpaceSocket(os.Getenv, port, socket))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, s) }()
	return s, func() {
		t.Helper()
		cancel()
		kit.NoError(t, <-served)
		s.Close()
	}
}

// addressOf is an address of a port; a host may end in :0, for another spelling.
func addressOf(host string, port int) string {
	if strings.HasSuffix(host, ":0") {
		return "http://" + host + strconv.Itoa(port)
	}
	return "http://" + host + ":" + strconv.Itoa(port)
}

// callAll does with a space what our programs do: post, read, and pull.
func callAll(t *testing.T, s *Space, base string) map[string]error {
	t.Helper()
	webhook, err := gchat.ParseWebhook(&config.Config{}, s.WebhookURL(base))
	kit.NoError(t, err)
	reader, err := gchat.NewReader(t.Context(), webhook.LocalEndpoint(), "")
	kit.NoError(t, err)
	app := newApp(t, s, base)
	errs := map[string]error{}
	_, errs["webhook"] = webhook.Post(t.Context(), gchat.Post{Text: "x"})
	_, errs["probe"] = webhook.Probe(t.Context())
	errs["list"] = reader.ListSince(t.Context(), Name, time.Time{}, func([]gchat.Message) {})
	_, errs["app"] = app.Post(t.Context(), gchat.Post{Text: "x"})
	errs["subscription"] = app.CheckPullAccess(t.Context())
	return errs
}

// wantReached fails the test if one of our programs does not reach a space.
func wantReached(t *testing.T, s *Space, base string) {
	t.Helper()
	for what, err := range callAll(t, s, base) {
		kit.Equalf(t, err, nil, "%s at %s", what, base)
	}
}

// A space that opened once is reached only by its socket, under every name of this
// machine. While it is down, nothing is sent to another program at its port. A running
// program finds the space when it is back.
func TestSocket_AloneIsTrusted(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	data := t.TempDir()
	ln := kit.Listen(t)
	port := ln.Addr().(*net.TCPAddr).Port
	s, stop := serveForUser(t, data, ln, port)
	hosts := []string{"127.0.0.1", "localhost", "127.0.0.2", "[::1]", "127.0.0.1:0"}
	for _, host := range hosts {
		wantReached(t, s, addressOf(host, port))
	}
	stop()
	for _, host := range hosts {
		// the connections that were kept; what is sent on one that ends may have arrived
		callAll(t, s, addressOf(host, port))
	}

	var connected atomic.Int32
	squatter := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{"name":"spaces/local/messages/x.x",` +
			`"permissions":["pubsub.subscriptions.consume"]}`))
	}))
	squatter.Listener.Close()
	var err error
	squatter.Listener, err = net.Listen("tcp", ln.Addr().String())
	kit.NoError(t, err)
	squatter.Config.ConnState = func(_ net.Conn, now http.ConnState) {
		if now == http.StateNew {
			connected.Add(1)
		}
	}
	squatter.Start()
	defer squatter.Close()
	for _, host := range hosts {
		for what, err := range callAll(t, s, addressOf(host, port)) {
			if hint := gchat.Hint(err); !strings.Contains(hint, ":"+strconv.Itoa(port)+" runs the page's server") ||
				gchat.MayHaveArrived(err) {
				t.Errorf("%s at %s, with the space down: %v (%s)", what, host, err, hint)
			}
		}
	}

	elsewhere := kit.Listen(t)
	s, stop = serveForUser(t, data, elsewhere, port)
	defer stop()
	wantReached(t, s, squatter.URL)
	kit.Equalf(t, connected.Load(), 0, "another program at the space's port was reached")
}

// The socket is found wherever the data folder is, and never in a folder that others may
// write to.
func TestSocket_Place(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "socket-")
	kit.NoError(t, err)
	defer os.RemoveAll(short)
	for name, dir := range map[string]string{
		"plain":                       filepath.Join(short, "plain"),
		"a killed process's is there": filepath.Join(short, "killed"),
		"long":                        filepath.Join(short, strings.Repeat("long/", 40)),
		"open to others":              filepath.Join(short, "open"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			kit.NoError(t, os.MkdirAll(dir, 0o700))
			inside := name != "long" && name != "open to others"
			switch name {
			case "a killed process's is there":
				ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket")})
				kit.NoError(t, err)
				ln.SetUnlinkOnClose(false)
				ln.Close()
			case "open to others":
				kit.NoError(t, os.Chmod(dir, 0o777))
			}
			ln := kit.Listen(t)
			port := ln.Addr().(*net.TCPAddr).Port
			s, stop := serveForUser(t, dir, ln, port)
			socket, err := state.ReadSpaceSocket(os.Getenv, port)
			if err != nil || inside != (filepath.Dir(socket) == filepath.Clean(dir)) {
				t.Errorf("the socket is %s, %v", socket, err)
			}
			wantReached(t, s, addressOf("127.0.0.2", port))
			stop()
			if _, err := os.Lstat(socket); err == nil {
				t.Errorf("%s is left", socket)
			}
			if _, err := os.Lstat(filepath.Dir(socket)); (err == nil) != inside {
				t.Errorf("the folder of %s: %v", socket, err)
			}
			// as another user could, once it is gone
			kit.NoError(t, os.MkdirAll(filepath.Dir(socket), 0o777))
			defer os.Remove(filepath.Dir(socket))
			kit.NoError(t, os.Chmod(filepath.Dir(socket), 0o777))
			fake, err := net.Listen("unix", socket)
			kit.NoError(t, err)
			defer fake.Close()
			for what, err := range callAll(t, s, addressOf("127.0.0.1", port)) {
				if err == nil || !strings.Contains(err.Error(), state.ErrNotOwnFolder.Error()) {
					t.Errorf("%s goes to a folder that is open to others: %v", what, err)
				}
			}
		})
	}
}
