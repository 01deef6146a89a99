// Package pushservice is a push service for tests, as strict as the RFCs: it checks each
// message's protocol (RFC 8030), its signature (RFC 8292) and its encryption (RFC 8291).
// It also keeps what the browsers show.
package pushservice

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Service is the push service.
type Service struct {
	// Answer returns the status of the response to a message; nil is 201 for all. It may
	// set headers. It may block, as a service that hangs.
	Answer func(h http.Header, m Message) int

	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	browsers map[string]*Browser
	changed  chan struct{}
}

// Message is a message that arrived and was in order.
type Message struct {
	Browser string
	Topic   string
	Urgency string
	TTL     int
	Subject string // of the sender's signature
	Size    int    // of the encrypted body
	Text    string // as decrypted
	// Content is the text as a page of ours understands it.
	Content Content
	At      time.Time
}

// Content are the members of a call.
type Content struct {
	Type, Tag, Message, Thread, Title, Body string
	Buttons                                 []struct{ Choice, Title string }
}

// Browser is a subscription, and what its browser shows.
type Browser struct {
	Name     string
	Endpoint string
	P256DH   string
	Auth     string

	private *ecdh.PrivateKey
	secret  []byte

	isOff    bool
	stored   []Message // while it is off; the latest of each topic
	received []Message
	shown    map[string]bool // the tags of the notifications that it shows
	calls    map[string]int  // by tag: how often it rang
}

// New starts a push service. It ends with the test.
func New(t testing.TB) *Service {
	s := &Service{t: t, browsers: map[string]*Browser{}, changed: make(chan struct{})}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.CloseClientConnections)
	t.Cleanup(s.server.Close)
	return s
}

// Host is the host and port of all endpoints.
func (s *Service) Host() string { return strings.TrimPrefix(s.server.URL, "https://") }

// Roots has the certificate that a client has to trust.
func (s *Service) Roots() *tls.Config {
	return s.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// CertificatePEM is that certificate, for SSL_CERT_FILE of another process.
func (s *Service) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
}

// Subscribe makes a subscription, as a browser does.
func (s *Service) Subscribe(name string) *Browser {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	b := &Browser{
		Name:     name,
		Endpoint: s.server.URL + "/wpush/" + name,
		P256DH:   base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		Auth:     base64.RawURLEncoding.EncodeToString(secret),
		private:  private,
		secret:   secret,
		shown:    map[string]bool{},
		calls:    map[string]int{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers[name] = b
	return b
}

// JSON is the subscription as the page sends it.
func (b *Browser) JSON() string {
	return fmt.Sprintf(`{"endpoint":%q,"keys":{"p256dh":%q,"auth":%q}}`,
		b.Endpoint, b.P256DH, b.Auth)
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4097))
	if err != nil {
		return // the client has gone
	}
	m, err := s.read(r, body)
	if err != nil {
		s.t.Errorf("push service: %v", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusCreated
	if s.Answer != nil {
		status = s.Answer(w.Header(), m)
	}
	if status >= 200 && status < 300 {
		s.accept(m)
		w.Header().Set("Location", s.server.URL+"/message/1") // RFC 8030, section 5
	}
	w.WriteHeader(status)
}

var (
	topicForm         = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	authorizationForm = regexp.MustCompile(`^vapid t=([\w-]+)\.([\w-]+)\.([\w-]+), k=([\w-]+)$`)
)

// read checks a request and decrypts it.
func (s *Service) read(r *http.Request, body []byte) (m Message, err error) {
	ttl, ttlErr := strconv.Atoi(r.Header.Get("TTL"))
	m = Message{
		Browser: strings.TrimPrefix(r.URL.Path, "/wpush/"),
		Topic:   r.Header.Get("Topic"),
		Urgency: r.Header.Get("Urgency"),
		TTL:     ttl,
		Size:    len(body),
		At:      time.Now(),
	}
	s.mu.Lock()
	browser := s.browsers[m.Browser]
	s.mu.Unlock()
	switch {
	case r.Method != http.MethodPost:
		return m, fmt.Errorf("method %s", r.Method)
	case browser == nil:
		return m, fmt.Errorf("no such subscription: %s", r.URL.Path)
	case ttlErr != nil || ttl < 0 || ttl > 24*60*60:
		return m, fmt.Errorf("TTL %q", r.Header.Get("TTL"))
	case !topicForm.MatchString(m.Topic):
		return m, fmt.Errorf("topic %q", m.Topic)
	case !slices.Contains([]string{"very-low", "low", "normal", "high"}, m.Urgency):
		return m, fmt.Errorf("urgency %q", m.Urgency)
	case r.Header.Get("Content-Encoding") != "aes128gcm":
		return m, errors.New("the content encoding is not aes128gcm")
	case len(body) > 4096:
		return m, errors.New("the body has more than 4096 bytes")
	}
	if m.Subject, err = s.checkSignature(r); err != nil {
		return m, err
	}
	text, err := browser.decrypt(body)
	if err != nil {
		return m, err
	}
	m.Text = string(text)
	return m, json.Unmarshal(text, &m.Content)
}

// checkSignature checks the VAPID header, and returns the token's subject.
func (s *Service) checkSignature(r *http.Request) (subject string, err error) {
	parts := authorizationForm.FindStringSubmatch(r.Header.Get("Authorization"))
	if parts == nil {
		return "", fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	decode := base64.RawURLEncoding.DecodeString
	header, err1 := decode(parts[1])
	claims, err2 := decode(parts[2])
	signature, err3 := decode(parts[3])
	point, err4 := decode(parts[4])
	err = errors.Join(err1, err2, err3, err4)
	if err != nil || len(signature) != 64 || len(point) != 65 {
		return "", fmt.Errorf("the token is not in the form of RFC 8292: %w", err)
	}
	if _, err := ecdh.P256().NewPublicKey(point); err != nil {
		return "", err
	}
	key := ecdsa.PublicKey{
		Curve: elliptic.P256(),
		X:     new(big.Int).SetBytes(point[1:33]),
		Y:     new(big.Int).SetBytes(point[33:]),
	}
	digest := sha256.Sum256([]byte(parts[1] + "." + parts[2]))
	left, right := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(&key, digest[:], left, right) {
		return "", errors.New("the token's signature is wrong")
	}
	var algorithm struct{ Typ, Alg string }
	var claim struct {
		Aud, Sub string
		Exp      int64
	}
	err = errors.Join(json.Unmarshal(header, &algorithm), json.Unmarshal(claims, &claim))
	if err != nil {
		return "", err
	}
	left24h := time.Until(time.Unix(claim.Exp, 0))
	isContact := strings.HasPrefix(claim.Sub, "mailto:") || strings.HasPrefix(claim.Sub, "https://")
	if algorithm.Alg != "ES256" || claim.Aud != s.server.URL || !isContact ||
		left24h <= 0 || left24h > 24*time.Hour {
		return "", fmt.Errorf("token %s %s", header, claims)
	}
	return claim.Sub, nil
}

// decrypt decrypts a body: RFC 8188, with the keys of RFC 8291.
func (b *Browser) decrypt(body []byte) ([]byte, error) {
	if len(body) < 86 || body[20] != 65 {
		return nil, errors.New("the body has no header of aes128gcm")
	}
	salt, recordSize, serverKey := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:86]
	public, err := ecdh.P256().NewPublicKey(serverKey)
	if err != nil {
		return nil, err
	}
	shared, err := b.private.ECDH(public)
	if err != nil {
		return nil, err
	}
	info := "WebPush: info\x00" + string(b.private.PublicKey().Bytes()) + string(serverKey)
	secret, err1 := hkdf.Key(sha256.New, shared, b.secret, info, 32)
	key, err2 := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce, err3 := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if len(body)-86 > int(recordSize) {
		return nil, errors.New("the body has more than one record")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	padded, err := gcm.Open(nil, nonce, body[86:], nil)
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(padded), "\x00")
	if !strings.HasSuffix(text, "\x02") {
		return nil, errors.New("the record is not the last one")
	}
	return []byte(text[:len(text)-1]), nil
}

// accept keeps a message for its browser, and delivers it unless that is off.
func (s *Service) accept(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.browsers[m.Browser]
	if b.isOff {
		isReplaced := func(old Message) bool { return old.Topic == m.Topic }
		b.stored = slices.DeleteFunc(b.stored, isReplaced)
		b.stored = append(b.stored, m)
	} else {
		b.deliver(m)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (b *Browser) deliver(m Message) {
	b.received = append(b.received, m)
	if m.Content.Type == "over" {
		delete(b.shown, m.Content.Tag)
		return
	}
	if !b.shown[m.Content.Tag] { // one of the same tag is replaced without a sound
		b.calls[m.Content.Tag]++
	}
	b.shown[m.Content.Tag] = true
}

// SwitchOff has a browser get nothing until SwitchOn.
func (s *Service) SwitchOff(b *Browser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.isOff = true
}

// SwitchOn delivers what came meanwhile, except what expired after that time.
func (s *Service) SwitchOn(b *Browser, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.isOff = false
	for _, m := range b.stored {
		if time.Duration(m.TTL)*time.Second >= after {
			b.deliver(m)
		}
	}
	b.stored = nil
}

// Received returns what a browser got.
func (s *Service) Received(b *Browser) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(b.received)
}

// Shown returns how many notifications a browser shows, and how often it rang.
func (s *Service) Shown(b *Browser) (shown, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range b.calls {
		calls += n
	}
	return len(b.shown), calls
}

// WaitFor waits until a browser got n messages, and returns them.
func (s *Service) WaitFor(b *Browser, n int) []Message {
	s.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		received, changed := slices.Clone(b.received), s.changed
		s.mu.Unlock()
		if len(received) >= n {
			return received
		}
		select {
		case <-changed:
		case <-timeout:
			s.t.Fatalf("%s got %d messages, want %d: %+v", b.Name, len(received), n, received)
		}
	}
}
