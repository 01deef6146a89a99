package space

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// maxPEMBytes is how large a certificate's or a key's file may be.
	maxPEMBytes = 1 << 20
	// firstByteTimeout is how long a program on this machine may take to send the first
	// byte of a connection.
	firstByteTimeout = 5 * time.Second
)

// Certificate is a TLS certificate with its key, in two PEM files. When one of the files
// changes, both are read again.
type Certificate struct {
	CertFile, KeyFile string
	// OnError is told why the files cannot be used, once for each reason. Until they can
	// be, the pair that was read last is used. It may be nil.
	OnError func(error)

	mu        sync.Mutex
	pair      *tls.Certificate
	versions  [2]os.FileInfo // of the files, when pair was read
	lastError string
}

// Check returns why browsers would not accept the certificate for a host at a time.
// Whether they trust whoever signed it is left out.
func (c *Certificate) Check(host string, now time.Time) error {
	pair, err := readPair(c.CertFile, c.KeyFile)
	if err != nil {
		return err
	}
	const date = time.DateTime
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		expiry := leaf.NotAfter.Local().Format(date)
		return fmt.Errorf("the certificate in %s expired on %s", c.CertFile, expiry)
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate in %s is valid only from %s on", c.CertFile,
			leaf.NotBefore.Local().Format(date))
	case leaf.VerifyHostname(host) != nil:
		names := leaf.DNSNames
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Errorf("the certificate in %s is for %q, not for %s", c.CertFile, names, host)
	}
	return nil
}

// forHandshake returns the pair for a TLS handshake.
func (c *Certificate) forHandshake(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var versions [2]os.FileInfo
	for i, path := range []string{c.CertFile, c.KeyFile} {
		versions[i], _ = os.Stat(path) // readPair says what is wrong
	}
	isSame := isSameFile(versions[0], c.versions[0]) && isSameFile(versions[1], c.versions[1])
	if c.pair != nil && isSame {
		return c.pair, nil
	}
	pair, err := readPair(c.CertFile, c.KeyFile)
	if err == nil {
		c.pair, c.versions, c.lastError = pair, versions, ""
		return c.pair, nil
	}
	if c.OnError != nil && err.Error() != c.lastError {
		c.OnError(err)
	}
	c.lastError = err.Error()
	if c.pair == nil {
		return nil, err
	}
	return c.pair, nil
}

func isSameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime())
}

// readPair reads a certificate and its key. Its errors are for people.
func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := readPEM(certFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	key, err := readPEM(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate's key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil && pair.Leaf == nil {
		pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	switch {
	case err == nil:
		return &pair, nil
	case hasBlock(cert, "PRIVATE KEY") && !hasBlock(cert, "CERTIFICATE"):
		return nil, fmt.Errorf("%s has a key and no certificate: are the two files swapped?", certFile)
	case !hasBlock(cert, "CERTIFICATE"):
		return nil, fmt.Errorf("%s has no certificate in PEM form", certFile)
	case hasBlock(key, "ENCRYPTED") || bytes.Contains(key, []byte(",ENCRYPTED")):
		return nil, fmt.Errorf("the key in %s needs a passphrase, and nobody is there to type it: "+
			"openssl pkey writes a key without one", keyFile)
	case !hasBlock(key, "PRIVATE KEY"):
		return nil, fmt.Errorf("%s has no private key in PEM form", keyFile)
	case strings.Contains(err.Error(), "does not match"):
		return nil, fmt.Errorf("the key in %s does not belong to the certificate in %s",
			keyFile, certFile)
	}
	return nil, fmt.Errorf("%s and %s are no certificate with its key: %w", certFile, keyFile, err)
}

// readPEM reads a file, but not a pipe or a device, which could block.
func readPEM(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxPEMBytes {
		return nil, fmt.Errorf("%s is not a file of a certificate or a key", path)
	}
	return os.ReadFile(path)
}

// hasBlock reports whether PEM text has a block whose type contains a word.
func hasBlock(text []byte, word string) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.Contains(block.Type, word) {
			return true
		}
	}
	return false
}

// ListenTLS returns a listener that serves TLS to the network. Programs on this machine
// may use TLS or plain HTTP: they reach the space at the same port as before.
func ListenTLS(inner net.Listener, certificate *Certificate) net.Listener {
	l := &splitListener{
		Listener: inner,
		config: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: certificate.forHandshake,
			// Not HTTP/2: Go ends a stream of it when its write deadline has passed, even if
			// nothing is written then, as in an idle event stream (net/http of Go 1.26).
			NextProtos: []string{"http/1.1"},
		},
		accepted: make(chan accepted),
		closed:   make(chan struct{}),
	}
	go l.acceptAll()
	return l
}

// splitListener accepts connections and decides for each whether it is one of TLS.
type splitListener struct {
	net.Listener
	config    *tls.Config
	accepted  chan accepted
	closed    chan struct{}
	closeOnce sync.Once
}

// accepted is what a listener's Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

func (l *splitListener) Accept() (net.Conn, error) {
	select {
	case next := <-l.accepted:
		return next.conn, next.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *splitListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (l *splitListener) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			_ = l.Close()
			return
		case err != nil:
			l.deliver(accepted{err: err})
		case isFromThisMachine(conn):
			go l.acceptLocal(conn)
		default:
			l.deliver(accepted{conn: tls.Server(conn, l.config)})
		}
	}
}

// deliver hands on what Accept returns.
func (l *splitListener) deliver(next accepted) {
	select {
	case l.accepted <- next:
	case <-l.closed:
		if next.conn != nil {
			next.conn.Close()
		}
	}
}

// acceptLocal accepts a connection of a program on this machine. TLS begins with a byte
// with which no HTTP request begins.
func (l *splitListener) acceptLocal(conn net.Conn) {
	const handshakeRecord = 0x16
	first := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	n, err := conn.Read(first)
	if n == 0 || err != nil {
		conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	conn = &resumedConn{Conn: conn, unread: first}
	if first[0] == handshakeRecord {
		conn = tls.Server(conn, l.config)
	}
	l.deliver(accepted{conn: conn})
}

// resumedConn is a connection of which the first bytes were read already.
type resumedConn struct {
	net.Conn
	unread []byte
}

func (c *resumedConn) Read(p []byte) (int, error) {
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// isFromThisMachine reports whether both ends of a connection are loopback addresses.
func isFromThisMachine(conn net.Conn) bool {
	for _, end := range []net.Addr{conn.LocalAddr(), conn.RemoteAddr()} {
		address, err := netip.ParseAddrPort(end.String())
		if err != nil || !address.Addr().Unmap().IsLoopback() {
			return false
		}
	}
	return true
}

// handshakeErrorFilter drops the lines about failed TLS handshakes. Whoever reaches the
// port could fill the log with them.
type handshakeErrorFilter struct{ io.Writer }

func (f handshakeErrorFilter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		return len(line), nil
	}
	return f.Writer.Write(line)
}

// maxNonceBytes is how long a challenge to the space may be.
const maxNonceBytes = 64

// Identity answers a challenge as only this space can: who asks for it with a new nonce
// learns whether a server is this space, and sends no secret to find out.
func (s *Space) Identity(nonce string) string {
	h := hmac.New(sha256.New, []byte(s.secrets.APIToken))
	h.Write([]byte("identity " + nonce))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// IdentityPath is where the space serves its Identity, for the query's nonce.
const IdentityPath = "/identity"

func (s *Space) serveIdentity(r *http.Request) (any, error) {
	nonce := r.URL.Query().Get("nonce")
	if nonce == "" || len(nonce) > maxNonceBytes {
		return nil, invalidArgument(fmt.Sprintf("nonce must have 1 to %d bytes", maxNonceBytes))
	}
	return map[string]string{"identity": s.Identity(nonce)}, nil
}
