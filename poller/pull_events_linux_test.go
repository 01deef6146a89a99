package poller

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

// The connection to the subscription leads nowhere, and no error says so. Taps come again
// soon, not after the quarter of an hour that TCP takes. The log says once why they were
// late.
func TestPullEvents_ReconnectAfterSleep(t *testing.T) {
	t.Parallel()
	kit.SkipShort(t, "half a minute passes until a connection is given up")
	d, g := newAppMachine(t)
	token := `{"access_token":"ya29.access","expires_in":3600,"token_type":"Bearer"}`
	behind := http.NewServeMux()
	behind.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, token)
	})
	var new1 atomic.Bool // the pulls come by HTTP/1
	behind.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		new1.Store(r.ProtoMajor != 2)
		strict.CheckRequests(t, http.HandlerFunc(g.serve), strict.DirectMessage).ServeHTTP(w, r)
	})
	server := httptest.NewUnstartedServer(behind)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kit.NoError(t, os.WriteFile(trusted, ca, 0o600))
	between := kit.NewBlackHole(t, server.Listener.Addr().String())
	d.vars["GCHAT_API_ENDPOINT"], d.vars["GCHAT_PUBSUB_ENDPOINT"] =
		server.URL, "https://"+between.Addr().String()
	d.vars["GOOGLE_CHAT_CREDENTIALS_FILE"], d.vars["SSL_CERT_FILE"] =
		strict.ServiceAccount(t, server.URL+"/token"), trusted

	q, card := d.addCardQuestion(nil)
	cmd := d.pollerProcess()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	m := g.awaitPost("Which?")
	first := g.tap("users/7", m, card, "1", nil) // a stranger's shows that taps come
	bound.Until(t, "a tap comes", func() bool { return g.pubsubServer.Message(first).Acks > 0 })
	between.Swallow()
	began := time.Now()
	g.tap("users/1", m, card, "2", nil)
	kit.Must(t, bound.WaitFor(3*time.Minute,
		func() bool { return d.loadQuestion(q).Status == state.Answered }), "the tap does not come")
	t.Logf("taps come again after %s", time.Since(began).Round(time.Second))
	log := kit.ReadFile(t, state.LogPath(d.env))
	kit.True(t, strings.Count(log, "connection was lost") == 1 && !new1.Load(),
		"HTTP/1: %v, the log: %s", new1.Load(), log)
}
