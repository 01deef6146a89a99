package webpush

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/SherClockHolmes/webpush-go"
)

// Urgency says whether a push service wakes a sleeping device for a message (RFC 8030,
// section 5.3). On Android, a sleeping device gets what is not of UrgencyHigh only in the
// pauses of its sleep.
// https://firebase.google.com/docs/cloud-messaging/android/message-priority
type Urgency = webpush.Urgency

const (
	UrgencyNormal = webpush.UrgencyNormal
	UrgencyHigh   = webpush.UrgencyHigh
)

// Message is what is sent to one browser.
type Message struct {
	Payload []byte
	// ShortPayload is sent in its place if the push service says that it is too large.
	ShortPayload []byte
	// Topic names the message: a later one of the same topic replaces it as long as it is
	// not delivered. It has at most 32 characters of base64url (RFC 8030, section 5.4).
	Topic   string
	TTL     time.Duration // how long the push service keeps it for a device that is off
	Urgency Urgency
}

// ErrGone means that the browser has no such subscription (RFC 8030, section 7.3).
var ErrGone = errors.New("the push service does not know the subscription: " +
	"the browser removed it")

// LaterError means that the message may be sent again.
type LaterError struct {
	After  time.Duration // what the push service asks for; 0 if it says nothing
	Reason string
	// MayHaveArrived means that the push service got the message, and that its answer did
	// not come.
	MayHaveArrived bool
}

func (e *LaterError) Error() string { return e.Reason }

const (
	sendTimeout     = 10 * time.Second
	maxReasonBytes  = 120
	maxRetryAfter   = 24 * time.Hour
	shortRecordSize = 1024 // bytes; RFC 8030 lets no push service refuse 4096
)

// Client sends messages. Its methods may be called from several goroutines.
type Client struct {
	keys         Keys
	allowedHosts func() []string
	http         *http.Client
}

// NewClient returns a client with these keys. allowedHosts returns the hosts that a
// person allowed beyond the known push services (see Subscription.Check). roots are
// certificates that tests trust; nil is the system's.
func NewClient(keys Keys, allowedHosts func() []string, roots *tls.Config) *Client {
	c := &Client{keys: keys, allowedHosts: allowedHosts}
	c.http = &http.Client{
		Timeout: sendTimeout,
		// A redirect could lead anywhere. The protocol has none.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            c.dial,
			TLSClientConfig:        roots,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    sendTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        time.Minute,
		},
	}
	return c
}

// dial connects to a known push service only at an address on the Internet: its name
// could be made to lead into the person's network. A host that the person allowed may be
// anywhere. Any other address is the proxy of the person's environment: Send calls no
// other host.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: sendTimeout}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	allowed := c.allowedHosts()
	isAllowed := slices.Contains(allowed, address) ||
		port == "443" && slices.Contains(allowed, host)
	if !isAllowed && isKnownHost(strings.ToLower(host)) {
		dialer.Control = refuseInsideNetwork
	}
	return dialer.DialContext(ctx, network, address)
}

// refuseInsideNetwork is a net.Dialer's Control: it gets each address that a name leads
// to.
func refuseInsideNetwork(_, address string, _ syscall.RawConn) error {
	ip, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if isInsideNetwork(ip.Addr()) {
		return fmt.Errorf("%s is an address inside of a network: no push service is there", ip.Addr())
	}
	return nil
}

// Send sends a message to a subscription. contact is an https or e-mail address for the
// push service's operator. The error is ErrGone, a LaterError, or final for this message.
func (c *Client) Send(ctx context.Context, to Subscription, contact string, m Message) error {
	if err := to.Check(c.allowedHosts()); err != nil {
		return err
	}
	response, err := c.post(ctx, to, contact, m.Payload, m, 0)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusRequestEntityTooLarge {
		response, err = c.post(ctx, to, contact, m.ShortPayload, m, shortRecordSize)
		if err != nil {
			return err
		}
	}
	return response.result()
}

// answer is a push service's response.
type answer struct {
	*http.Response
	reason string // the beginning of its body
}

func (c *Client) post(
	ctx context.Context,
	to Subscription,
	contact string,
	payload []byte,
	m Message,
	recordSize uint32,
) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var isWritten atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { isWritten.Store(true) },
	})
	response, err := webpush.SendNotificationWithContext(ctx, payload,
		&webpush.Subscription{
			Endpoint: to.Endpoint,
			Keys: webpush.Keys{
				Auth:   strings.TrimRight(to.Keys.Auth, "="),
				P256dh: strings.TrimRight(to.Keys.P256DH, "="),
			},
		},
		&webpush.Options{
			HTTPClient:      c.http,
			RecordSize:      recordSize,
			Subscriber:      contact,
			Topic:           m.Topic,
			TTL:             int(m.TTL / time.Second),
			Urgency:         m.Urgency,
			VAPIDPublicKey:  c.keys.Public,
			VAPIDPrivateKey: c.keys.Private,
		})
	if errors.Is(err, webpush.ErrMaxPadExceeded) {
		return nil, errors.New("the message is too long for a push service")
	}
	if err != nil {
		return nil, &LaterError{
			Reason:         "the push service cannot be reached: " + reachProblem(err),
			MayHaveArrived: isWritten.Load(),
		}
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxReasonBytes))
	return &answer{response, printable(body)}, nil
}

// reachProblem returns an error without the endpoint, which is a secret: whoever knows it
// could try to call the device.
func reachProblem(err error) string {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	return err.Error()
}

// printable returns the text with a space for each character that is not printable ASCII.
func printable(body []byte) string {
	return string(bytes.TrimSpace(bytes.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, body)))
}

// result returns what an answer means for its message (RFC 8030, sections 5 and 8.4).
func (a *answer) result() error {
	reason := fmt.Sprintf("the push service answered %d %s", a.StatusCode, a.reason)
	reason = strings.TrimSpace(reason)
	switch code := a.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return ErrGone
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return &LaterError{After: retryAfter(a.Header.Get("Retry-After")), Reason: reason}
	}
	return errors.New(reason)
}

// retryAfter reads a Retry-After header: a number of seconds, or a date.
func retryAfter(value string) time.Duration {
	var pause time.Duration
	if seconds, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		pause = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		pause = time.Until(at)
	}
	return min(max(pause, 0), maxRetryAfter)
}
