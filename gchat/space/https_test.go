package space

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

const httpsHost = "box.example"

// networkListener is a listener whose connections come from another machine.
type networkListener struct{ net.Listener }

type networkConn struct{ net.Conn }

func (l networkListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return networkConn{conn}, err
}

func (networkConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711}
}

// serveHTTPS serves a space with a certificate until the test ends, and returns its
// address.
func serveHTTPS(t *testing.T, s *Space, c *Certificate, isNetwork bool) string {
	t.Helper()
	ln := kit.Listen(t)
	address := ln.Addr().String()
	if isNetwork {
		ln = networkListener{ln}
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ListenTLS(ln, c), s) }()
	t.Cleanup(func() {
		end()
		kit.NoError(t, <-ended)
	})
	return address
}

// httpsClient is a browser that reaches httpsHost at an address and trusts a certificate.
func httpsClient(t *testing.T, address, certFile string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(kit.ReadFile(t, certFile)))
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// The network gets TLS and nothing else. This machine gets both, at the same port.
func TestHTTPS_NetworkGetsTLSOnly(t *testing.T) {
	for name, isNetwork := range map[string]bool{"network": true, "this machine": false} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(Options{HTTPSHost: httpsHost})
			kit.NoError(t, err)
			cert, key := kit.WriteCertificate(t, t.TempDir(), httpsHost, time.Now().Add(time.Hour))
			address := serveHTTPS(t, s, &Certificate{CertFile: cert, KeyFile: key}, isNetwork)
			client := httpsClient(t, address, cert)

			page, err := client.Get("https://" + httpsHost + "/")
			kit.NoError(t, err)
			page.Body.Close()
			kit.Equalf(t, page.StatusCode, 200, "the page")
			kit.Equalf(t, page.Proto, "HTTP/1.1", "protocol")
			kit.Equalf(t, page.Header.Get("Strict-Transport-Security"), "", "HSTS")

			// what is posted reaches the page over the same connection
			events, err := http.NewRequest("GET", "https://"+httpsHost+"/events", nil)
			kit.NoError(t, err)
			events.Header.Set(pageKeyHeader, s.pageKey())
			stream, err := client.Do(events)
			kit.NoError(t, err)
			defer stream.Body.Close()
			postAsPerson(t, s, "", "hello from elsewhere")
			lines, isShown := bufio.NewScanner(stream.Body), false
			for !isShown && lines.Scan() {
				isShown = strings.Contains(lines.Text(), "hello from elsewhere")
			}
			kit.True(t, isShown, "the stream ended: %v", lines.Err())

			old := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}
			_, err = tls.Dial("tcp", address, old)
			kit.True(t, err != nil, "TLS 1.1 is accepted")

			plain, err := net.Dial("tcp", address)
			kit.NoError(t, err)
			defer plain.Close()
			_, err = io.WriteString(plain, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			kit.NoError(t, err)
			answer, _ := io.ReadAll(plain)
			kit.Equalf(t, strings.Contains(string(answer), "<html"), !isNetwork, "the page by plain http")
		})
	}
}

// A certificate is read anew when its files change. While they cannot be used, the last
// one stays, and the reason is told once.
func TestHTTPS_CertificateIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	cert, key := kit.WriteCertificate(t, dir, httpsHost, time.Now().Add(time.Hour))
	var told []string
	c := &Certificate{CertFile: cert, KeyFile: key}
	c.OnError = func(err error) { told = append(told, err.Error()) }
	serial := func() string {
		t.Helper()
		pair, err := c.forHandshake(nil)
		kit.NoError(t, err)
		return pair.Leaf.SerialNumber.String()
	}
	first := serial()
	kit.Equalf(t, serial(), first, "the certificate")

	newCert, newKey := kit.WriteCertificate(t, filepath.Join(dir, "new"), httpsHost,
		time.Now().Add(time.Hour))
	kit.NoError(t, os.Rename(newCert, cert)) // the key is not renewed yet
	for range 3 {
		kit.Equalf(t, serial(), first, "the certificate while the pair does not match")
	}
	kit.Equalf(t, len(told), 1, "told %q", told)
	kit.Contains(t, told[0], "does not belong to the certificate")
	kit.NoError(t, os.Rename(newKey, key))
	kit.True(t, serial() != first, "the old certificate is served")
	kit.NoError(t, os.Remove(key))
	serial()
	kit.Equalf(t, len(told), 2, "told %q", told)
}

func TestCertificate_SaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	cert, key := kit.WriteCertificate(t, dir, httpsHost, time.Now().Add(time.Hour))
	_, otherKey := kit.WriteCertificate(t, filepath.Join(dir, "other"), httpsHost,
		time.Now().Add(time.Hour))
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	encrypted := write("encrypted.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"+
		"AAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	text := write("text.pem", "hello")
	for name, c := range map[string]struct {
		cert, key, host string
		at              time.Duration
		want            string // "" for nothing
	}{
		"right":           {cert, key, httpsHost, 0, ""},
		"another case":    {cert, key, "BOX.example", 0, ""},
		"no file":         {dir + "/none", key, httpsHost, 0, "no such file"},
		"no key file":     {cert, dir + "/none", httpsHost, 0, "read the certificate's key"},
		"a folder":        {dir, key, httpsHost, 0, "is not a file"},
		"a device":        {"/dev/zero", key, httpsHost, 0, "is not a file"},
		"swapped":         {key, cert, httpsHost, 0, "swapped"},
		"no PEM":          {text, key, httpsHost, 0, "no certificate in PEM form"},
		"no key":          {cert, text, httpsHost, 0, "no private key in PEM form"},
		"passphrase":      {cert, encrypted, httpsHost, 0, "passphrase"},
		"another's key":   {cert, otherKey, httpsHost, 0, "does not belong"},
		"expired":         {cert, key, httpsHost, 2 * time.Hour, "expired on"},
		"not valid yet":   {cert, key, httpsHost, -2 * time.Hour, "valid only from"},
		"another host":    {cert, key, "other.example", 0, `is for ["box.example"], not for other.example`},
		"a host below it": {cert, key, "a." + httpsHost, 0, "not for a.box.example"},
	} {
		err := (&Certificate{CertFile: c.cert, KeyFile: c.key}).Check(c.host, time.Now().Add(c.at))
		if c.want == "" {
			kit.True(t, err == nil, "%s: %v", name, err)
			continue
		}
		kit.True(t, err != nil, "%s: no error", name)
		kit.Containsf(t, err.Error(), c.want, "%s", name)
	}
}

// With HTTPSHost the space answers to that name and to this machine's, and to no other,
// whatever a proxy's headers say. No other origin may post or read.
func TestAccess_HTTPSHost(t *testing.T) {
	s, _ := testServer(t, Options{HTTPSHost: httpsHost})
	root := postAsPerson(t, s, "", "root")
	for host, want := range map[string]int{
		httpsHost: 200, httpsHost + ":8443": 200, "BOX.Example": 200, "localhost:8765": 200,
		"evil.example": 403, "a." + httpsHost: 403, httpsHost + ".evil.example": 403,
		"192.168.1.5:8765": 403, "": 403, httpsHost + ".": 403, "evil.example, " + httpsHost: 403,
	} {
		w := callHandler(s, "GET", "/page/projects", "", "Host: "+host, pageKeyField(s),
			"X-Forwarded-Host: "+httpsHost, "Forwarded: host="+httpsHost, "X-Forwarded-For: 127.0.0.1")
		kit.Equalf(t, w.Code, want, "host %q", host)
	}
	message := `{"thread":"` + root.Thread.Name + `","text":"2","clientId":"c"}`
	for header, want := range map[string]int{
		"Origin: https://" + httpsHost:                         200,
		"Origin: https://" + httpsHost + ":8443":               403,
		"Origin: https://evil.example":                         403,
		"Origin: null":                                         403,
		"Sec-Fetch-Site: same-site":                            403,
		"X-Forwarded-Host: evil.example\nSec-Fetch-Site: none": 200,
	} {
		headers := append(strings.Split(header, "\n"), "Host: "+httpsHost, pageKeyField(s),
			"Content-Type: application/json")
		w := callHandler(s, "POST", "/page/messages", message, headers...)
		kit.Equalf(t, w.Code, want, "posted with %s", header)
	}
	for _, tried := range []string{
		"OPTIONS /page/messages", "OPTIONS /events", "GET /events", "GET /identity?nonce=x",
	} {
		method, path, _ := strings.Cut(tried, " ")
		w := callHandler(s, method, path, "", "Host: "+httpsHost, "Origin: https://evil.example",
			"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: "+pageKeyHeader)
		kit.True(t, w.Code != 101, "%s: upgraded", tried)
		kit.Equalf(t, w.Header().Get("Access-Control-Allow-Origin"), "", "%s: allowed origin", tried)
		kit.Equalf(t, w.Header().Get("Cross-Origin-Resource-Policy"), "same-origin", "%s", tried)
	}
}

// Only this space can answer a challenge.
func TestIdentity_IsThisSpace(t *testing.T) {
	s, _ := testServer(t, Options{HTTPSHost: httpsHost})
	other, _ := testServer(t, Options{})
	w := callHandler(s, "GET", IdentityPath+"?nonce=n1", "", "Host: "+httpsHost)
	kit.Equalf(t, w.Code, 200, "code")
	kit.Contains(t, w.Body.String(), `"`+s.Identity("n1")+`"`)
	kit.True(t, s.Identity("n1") != s.Identity("n2") && s.Identity("n1") != other.Identity("n1"),
		"two challenges or spaces have one answer")
	for _, nonce := range []string{"", strings.Repeat("n", maxNonceBytes+1)} {
		w := callHandler(s, "GET", IdentityPath+"?nonce="+nonce, "", "Host: localhost")
		kit.Equalf(t, w.Code, 400, "nonce %q", nonce)
	}
}

// A listener that ends its work ends Accept, too.
func TestHTTPS_CloseEndsAccept(t *testing.T) {
	ln := kit.Listen(t)
	split := ListenTLS(ln, &Certificate{})
	kit.NoError(t, split.Close())
	_, err := split.Accept()
	kit.True(t, errors.Is(err, net.ErrClosed), "got %v", err)
}
