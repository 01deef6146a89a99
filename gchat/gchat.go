// Package gchat speaks Google Chat. It posts through an incoming webhook or as a Chat
// app, lists messages through the Chat API, and receives taps and messages as events. It
// turns a card of gchat/wording into one of Google's. It knows spaces, threads, messages
// and senders, and nothing of Claude Code's hooks.
package gchat

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// APIError is an error response of Chat, in Google's JSON envelope or as bare HTTP.
type APIError struct {
	HTTP       int           // HTTP status
	Status     string        // google.rpc.Code, "PERMISSION_DENIED"; "" if the body has none
	Message    string        // Chat's text, shortened
	RetryAfter time.Duration // from the header, at most an hour; 0 for none
	serverTime time.Time     // from the Date header; zero if there is none
}

func (e *APIError) Error() string {
	s := "chat answered " + strconv.Itoa(e.HTTP)
	if e.Status != "" {
		s += " " + e.Status
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// ErrBadResponse means that a response has status 200 and is not one that Chat gives. A
// message that was posted may have arrived.
var ErrBadResponse = errors.New("the response is not from Google Chat")

// ErrNotWebhook means that the configured URL is not that of a webhook. Its text never
// quotes the URL, which is a secret.
var ErrNotWebhook = errors.New("not a Chat webhook URL")

// asAPIError returns Chat's error in err. If Chat did not answer, HTTP is 0 in it.
func asAPIError(err error) *APIError {
	e := &APIError{}
	errors.As(err, &e)
	return e
}

// IsAlreadyExists reports whether Chat has a message with that id: an earlier try has
// arrived.
func IsAlreadyExists(err error) bool {
	e := asAPIError(err)
	// 409 also comes with ABORTED, which asks for another try.
	return e.HTTP == http.StatusConflict && (e.Status == "ALREADY_EXISTS" || e.Status == "")
}

// IsAuthFailure reports whether Chat does not know who calls, or forbids them the call.
func IsAuthFailure(err error) bool {
	e := asAPIError(err)
	return e.HTTP == http.StatusUnauthorized || e.HTTP == http.StatusForbidden || e.hasBadKey() ||
		errors.Is(err, ErrCredentials)
}

// hasBadKey reports whether the webhook's key is cut off. Chat answers that with 400.
func (e *APIError) hasBadKey() bool {
	return e.HTTP == http.StatusBadRequest && strings.Contains(e.Message, "API key")
}

// IsRateLimited reports whether the space's quota is used up.
func IsRateLimited(err error) bool { return asAPIError(err).HTTP == http.StatusTooManyRequests }

// IsRefused reports whether Chat will never accept this message: it is malformed, or its
// space is gone.
func IsRefused(err error) bool {
	code := asAPIError(err).HTTP
	// Another try may succeed with these statuses. 0 means that Chat did not answer.
	retryable := []int{
		0, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooEarly,
	}
	return IsPermanent(err) && !IsAuthFailure(err) && !slices.Contains(retryable, code)
}

// IsMalformed reports whether Chat refuses the message because of what is in it. In a
// reply to a thread, that may be the thread's name.
func IsMalformed(err error) bool {
	return asAPIError(err).HTTP == http.StatusBadRequest && IsRefused(err)
}

func isNotFound(err error) bool { return asAPIError(err).HTTP == http.StatusNotFound }

// HasReachedChat reports whether err is an answer of Chat. A proxy that asks for a
// password is not Chat.
func HasReachedChat(err error) bool {
	e := asAPIError(err)
	return e.HTTP != 0 && e.HTTP != http.StatusProxyAuthRequired
}

// IsOverloaded reports whether Chat asks callers to wait: 429, or any 5xx.
func IsOverloaded(err error) bool { return IsRateLimited(err) || asAPIError(err).HTTP >= 500 }

// IsPermanent reports whether the same request will fail again until a person changes
// something.
func IsPermanent(err error) bool {
	code := asAPIError(err).HTTP
	isRetryable := code == http.StatusTooManyRequests || code == http.StatusConflict
	return code >= 400 && code < 500 && !isRetryable || errors.Is(err, ErrNotWebhook)
}

// MayHaveArrived reports whether a message may be in the space although the post failed:
// the connection broke, or Chat failed after it got the request. After a refusal, or
// without a connection, the message is certainly not there.
func MayHaveArrived(err error) bool {
	if e := asAPIError(err); e.HTTP != 0 {
		return e.HTTP < 400 || e.HTTP >= 500
	}
	var opErr *net.OpError
	isUnconnected := errors.As(err, &opErr) && opErr.Op == "dial"
	return !errors.Is(err, ErrNotWebhook) && !isUnconnected
}

// RetryAfter returns how long Chat asks callers to wait, or 0 if it does not say.
func RetryAfter(err error) time.Duration { return asAPIError(err).RetryAfter }

// NetworkHint returns what a person can do about something between this machine and
// Google: a proxy that asks for a password, or a program that decrypts TLS. It is "" for
// other errors.
func NetworkHint(err error) string {
	// Go 1.26 reports a proxy that refuses a tunnel by this text alone.
	proxyAuthText := http.StatusText(http.StatusProxyAuthRequired)
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "this machine does not trust the server's certificate: " +
			"if your company inspects TLS, set SSL_CERT_FILE to the file of its certificate, " +
			"or on a Mac add it to the keychain; " +
			"NODE_EXTRA_CA_CERTS works for Claude Code only"
	case asAPIError(err).HTTP == http.StatusProxyAuthRequired,
		strings.HasSuffix(err.Error(), proxyAuthText):
		return "the proxy wants a user and a password: " +
			"set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
	}
	return ""
}

const webhookHint = "the webhook URL is cut off or wrong: copy it whole from the space " +
	"(Apps & integrations > Webhooks), and run gchat-hooks setup; in a shell quote it, " +
	"since it contains &; plain http works only for the page's server on 127.0.0.1"

// hints are what a person can do about our own errors. The first that matches counts.
var hints = []struct {
	err  error
	hint string
}{
	{
		config.ErrFileGone,
		"restore that file, or create it with {} in it: " +
			"while it is missing, all places after it in docs/configuration.md are ignored",
	},
	{
		config.ErrUnreadableFile,
		"correct that file: until it is valid JSON, it and all places after it in " +
			"docs/configuration.md are ignored",
	},
	{
		config.ErrNoWebhook,
		"gchat-hooks setup connects Google Chat or the page; " +
			"or set GOOGLE_CHAT_WEBHOOK_URL (webhook_url in ~/.config/gchat-hooks/config.json)",
	},
	{ErrNotWebhook, webhookHint},
	{
		ErrEndpoint,
		"set api_endpoint (GCHAT_API_ENDPOINT) to an https address or to one on this machine, " +
			"or remove it to use Google's",
	},
	{
		ErrCredentials,
		"gchat-hooks login --client-id-file FILE; " +
			"or set GOOGLE_CHAT_CREDENTIALS_FILE to credentials that may read it",
	},
	{
		ErrUnknownPerson,
		"reply to a question: a note in its thread names your users/ID and what to set",
	},
	{
		ErrBadResponse,
		"something between here and Google Chat answers in its place " +
			"(a proxy, a hotel's network); gchat-hooks tries again",
	},
}

// apiErrorHints are what a person can do about Google's error responses. An entry matches
// a response with its status, or any status if http is 0, whose message contains says in
// upper or lower case. The first entry that matches counts.
var apiErrorHints = []struct {
	http       int
	says, hint string
}{
	{400, "API key", webhookHint},
	{401, "", "the credentials have expired or were revoked: log in again (gchat-hooks login)"},
	{
		403,
		"scope",
		"the credentials lack a Chat scope: log in with gchat-hooks login; for a service account, " +
			"an administrator has to approve chat.app.messages.readonly",
	},
	{
		0,
		"has not been used in project",
		"enable the Google Chat API in the credentials' Cloud project: " +
			"gcloud services enable chat.googleapis.com pubsub.googleapis.com",
	},
	{
		403,
		"",
		"the webhook's token is missing or wrong (quote the URL in the shell), " +
			"or the account or the Chat app is not in this space",
	},
	{
		0,
		"Chat app not found",
		"this needs a Chat app: configure one in the credentials' Cloud project " +
			"(Google Chat API > Configuration), and save it",
	},
	{404, "", "the webhook, the space or the subscription was deleted, or its name is wrong"},
	{429, "", "the space's quota is used up; gchat-hooks tries again"},
}

// Hint returns what a person can do about an error of posting or listing.
func Hint(err error) string {
	if hint := NetworkHint(err); hint != "" {
		return hint
	}
	if userErr, ok := errors.AsType[*state.UserError](err); ok {
		return userErr.Hint
	}
	for _, entry := range hints {
		if errors.Is(err, entry.err) {
			return entry.hint
		}
	}
	e := asAPIError(err)
	if e.HTTP == 0 {
		return "Google Chat could not be reached: check the network, " +
			"and GCHAT_API_ENDPOINT if it is set; gchat-hooks tries again"
	}
	for _, entry := range apiErrorHints {
		matches := strings.Contains(strings.ToLower(e.Message), strings.ToLower(entry.says))
		if matches && (entry.http == 0 || entry.http == e.HTTP) {
			return entry.hint
		}
	}
	if e.HTTP >= 500 {
		return "Google Chat has trouble; gchat-hooks tries again"
	}
	return "read Google Chat's message above"
}

const embeddedSpaceName = state.EmbeddedSpaceName

// embeddedAppName is the sender of an app's messages in the embedded space.
const embeddedAppName = "users/local-app"

// withEmbeddedSpaceHint gives an error of the embedded space a hint of its own, which
// does not mention Google. It returns errors of other spaces unchanged.
func withEmbeddedSpaceHint(err error, base *url.URL, space string) error {
	if base == nil || base.Scheme != "http" || space != embeddedSpaceName ||
		errors.As(err, new(*state.UserError)) {
		return err
	}
	setupCommand, hint := "gchat-hooks setup --space --listen ", ""
	switch e := asAPIError(err); {
	case IsAuthFailure(err), errors.Is(err, ErrNotWebhook):
		hint = setupCommand + base.Host + " (for a phone, with --phone) saves the token " +
			"and the whole URL of the page's server there"
	case e.HTTP == http.StatusNotFound, errors.Is(err, ErrBadResponse):
		hint = "another program answers there: " + setupCommand +
			"127.0.0.1:8766 moves the page to another port"
	default:
		hint = "the page's server has trouble; gchat-hooks tries again. If the trouble stays, " +
			"end that server, and run: gchat-hooks space --listen " + base.Host
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}

// withoutURL removes the URL from an error of net/http, since the URL holds the webhook's
// key and token.
func withoutURL(err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", strings.ToLower(urlErr.Op), urlErr.Err)
	}
	return err
}

// parseRetryAfter reads the Retry-After header, which Google gives in seconds. It returns
// at most an hour.
func parseRetryAfter(h http.Header) time.Duration {
	seconds, _ := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second
}

// isLoopback reports whether host (without port) is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// IsAllowedBaseURL reports whether requests may go there: over TLS to any host, over
// plain http only to this machine.
func IsAllowedBaseURL(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
}

// maxBodyBytes is the largest unpacked response body, in bytes. A page of 1,000 messages
// has a few MB.
const maxBodyBytes = 32 << 20

// dial connects to an address. To the embedded space it connects by the space's unix
// socket only. While the space is down, another user's process may listen at its port: it
// would get the token, and its answers would be believed.
//
// dial looks the socket up for each connection, since a poller outlives a space. A
// connection from before the socket was recorded may stay in use: its other end already
// has the same secrets. No proxy is involved, because http.ProxyFromEnvironment excludes
// this machine's own addresses.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	direct := &net.Dialer{Timeout: listTimeout}
	host, port, _ := net.SplitHostPort(address)
	if !isLoopback(host) {
		return direct.DialContext(ctx, network, address)
	}
	tcpAddress, err := net.ResolveTCPAddr(network,
		net.JoinHostPort(strings.Replace(host, "localhost", "127.0.0.1", 1), port))
	if err != nil {
		return nil, err
	}
	for hasStarted := false; ; hasStarted = true {
		socket, err := state.ReadSpaceSocket(os.Getenv, tcpAddress.Port)
		var conn net.Conn
		switch {
		case err == nil && socket == "": // no embedded space is recorded for this port
			conn, err = direct.DialContext(ctx, network, address)
			return conn, withNotListeningHint(err, tcpAddress)
		case err == nil:
			conn, err = direct.DialContext(ctx, "unix", socket)
		}
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			// The space is down. dial starts it once, and looks the socket up again.
			if StartEmbeddedSpace != nil && !hasStarted {
				StartEmbeddedSpace(tcpAddress.Port)
				continue
			}
			err = fmt.Errorf("the page's server does not run: %w", syscall.ECONNREFUSED)
		}
		return nil, withNotListeningHint(
			&net.OpError{Op: "dial", Net: network, Addr: tcpAddress, Err: err}, tcpAddress)
	}
}

// withNotListeningHint adds to a refused connection how to start the embedded space at
// that address of this machine. It returns other errors unchanged.
func withNotListeningHint(err error, address net.Addr) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return &state.UserError{
		Err: err,
		Hint: "nothing answers on this machine: gchat-hooks space --listen " + address.String() +
			" runs the page's server (for a phone, with --phone)",
		Code: 1,
	}
}

// StartEmbeddedSpace starts the embedded space of a port of this machine, and waits until
// it listens or fails. It is nil in a process whose program cannot run the space; then
// dial starts none.
var StartEmbeddedSpace func(port int)

// pingTimeout is how long an HTTP/2 connection may be silent before net/http pings it,
// and how long the ping may take. A pull is always under way, so its connection never
// counts as idle. After the computer slept or changed its network, the connection may be
// dead, which TCP finds out only after a quarter of an hour.
const pingTimeout = 15 * time.Second

func init() {
	http.DefaultTransport.(*http.Transport).HTTP2 = &http.HTTP2Config{
		SendPingTimeout: pingTimeout,
		PingTimeout:     pingTimeout,
	}
}

// ErrConnectionLost means that a connection is dead. The next request makes a new one.
var ErrConnectionLost = errors.New("the connection was lost")

// bodyLimiter keeps a response body that is endless, or that unpacks to a large one, from
// filling the memory.
type bodyLimiter struct{ next http.RoundTripper }

func (t bodyLimiter) RoundTrip(r *http.Request) (*http.Response, error) {
	state.BeforeSlowCall("calls " + r.URL.Host)
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxBodyBytes)
	}
	return resp, err
}
