package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// startInCodeMode starts a session in Code Mode, which takes no other address of the
// model than its own: a proxy stands in for that.
func startInCodeMode(t *testing.T, c claude, script ...turn) *hookedSession {
	t.Helper()
	api := newFakeModel(t, script...)
	address, ca := startModelProxy(t, api)
	c.Argv = append([]string{"env", "-u", "ANTHROPIC_BASE_URL"}, c.Argv...)
	cfg := config{
		Args: []string{"--model", "claude-opus-5-5"},
		Env: []string{
			"HTTPS_PROXY=" + address, "NO_PROXY=127.0.0.1,localhost", "NODE_EXTRA_CA_CERTS=" + ca,
			"SSL_CERT_FILE=" + ca,
		},
	}
	cfg.Prepare = func(t *testing.T, home, _ string) {
		amendSettings(t, home, map[string]any{
			"env": map[string]string{"CLAUDE_CODE_EXPERIMENTAL_CODE_MODE": "1"},
		})
		amendJSON(t, filepath.Join(home, ".claude.json"), map[string]any{
			"codeModeCaveatsAcceptedV1": true, "codeModeAutoModeCaveatAcceptedV1": true,
		})
	}
	b := startApproving(t, c, cfg)
	b.API = api
	b.WaitScreen("Code Mode (experimental) is on")
	return b
}

// startModelProxy is a proxy whose every host is the stand-in for the model, and the file
// of the authority that its certificate is of.
func startModelProxy(t *testing.T, api http.Handler) (address, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.NoError(t, err)
	is := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "api.anthropic.com"},
		DNSNames:              []string{"api.anthropic.com"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	kit.NoError(t, err)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	kit.NoError(t,
		os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	inner := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/policy_limits"):
			fmt.Fprint(w, `{"restrictions":{}}`)
		case r.Method == http.MethodGet: // no settings of an organization
			http.Error(w, `{"type":"error"}`, http.StatusNotFound)
		default:
			api.ServeHTTP(w, r)
		}
	}))
	inner.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
	// Claude Code opens connections that it does not use
	inner.Config.ErrorLog = log.New(io.Discard, "", 0)
	inner.StartTLS()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusBadRequest)
			return
		}
		far, err := net.Dial("tcp", inner.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		near, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go pipe(far, buffered.Reader, near)
		pipe(near, bufio.NewReader(far), far)
	}))
	t.Cleanup(func() {
		for _, s := range []*httptest.Server{inner, proxy} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return proxy.URL, ca
}

// pipe copies one direction of a connection, and ends both with it.
func pipe(to net.Conn, from *bufio.Reader, other net.Conn) {
	defer other.Close()
	defer to.Close()
	_, _ = from.WriteTo(to)
}

// codeModeCall is a call of Code Mode's only tool.
func codeModeCall(code string) block {
	return toolCall("REPL", map[string]string{"code": code, "description": "files"})
}

func touch(name string) string {
	return fmt.Sprintf(`Bash({command: "touch %s", description: "make a file"})`, name)
}

// A script of Code Mode asks for several permissions at once. Each is told as it ended,
// by whoever decided it.
func TestPermission_CodeModeScript(t *testing.T) {
	eachClaude(t, bothVersions[:1], func(t *testing.T, c claude) {
		b := startInCodeMode(t, c,
			turn{
				codeModeCall("await Promise.all([" + touch("a") + ", " + touch("b") + ", " +
					touch("c") + "])"),
			},
			turn{textBlock("Made.")},
			turn{codeModeCall("await Promise.all([" + touch("d") + ", " + touch("e") + "])")},
			turn{textBlock("These, too.")},
			turn{
				codeModeCall("try { await " + touch("f") + " } catch (e) {}"),
			}, turn{textBlock("At an end.")})

		b.Prompt("make three files")
		for _, name := range []string{"a", "b", "c"} {
			b.awaitPost("[Permission]", "touch "+name)
		}
		for n := range 3 {
			b.Choose(fmt.Sprintf("%d of 3", n+1), "1")
		}
		b.WaitScreen("Made.")
		for _, name := range []string{"a", "b", "c"} {
			b.awaitPost("[Answered]", "touch "+name, "in the terminal")
		}

		// The first of two is allowed in the terminal, and a no comes to it while the
		// second dialog stands.
		b.Prompt("and two")
		asks := map[string]*chat.Message{}
		for _, name := range []string{"d", "e"} {
			asks[name] = b.awaitPost("[Permission]", "touch "+name)
		}
		b.Choose("1 of 2", "1")
		first, second := "d", "e"
		bound.Until(t, "one of them is made", func() bool {
			_, err := os.Stat(filepath.Join(b.Dir, "e"))
			if err == nil {
				first, second = "e", "d"
			}
			_, other := os.Stat(filepath.Join(b.Dir, "d"))
			return err == nil || other == nil
		})
		b.reply(asks[first], "no")
		b.reply(asks[second], "yes")
		b.awaitPost("[Answered]", "Allowed: Bash: touch "+first, "did not count")
		b.awaitPost("[Answered]", "Allowed: Bash: touch "+second)

		b.WaitScreen("These, too.")
		b.Prompt("one more")
		b.reply(b.awaitPost("[Permission]", "touch f"), "no, not f")
		b.awaitPost("[Answered]", "Denied: Bash: touch f", "not f")
		b.WaitScreen("At an end.")
		for _, m := range b.space.Messages() {
			untrue := strings.Contains(m.Text, "Denied:") && !strings.Contains(m.Text, "touch f")
			if untrue || strings.Contains(m.Text, "without choosing") ||
				strings.HasPrefix(m.Text, "[Cancelled]") {
				t.Errorf("told %q", m.Text)
			}
		}
	})
}
