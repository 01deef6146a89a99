// Package gchat speaks Google Chat: it posts through an incoming webhook or as an app,
// lists messages through the Chat API, and hears what people tap. It turns a card of
// gchat/wording into one of Google's. It knows spaces, threads, messages and senders, and
// nothing of Claude Code's hooks.
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

// APIError is an error that Chat answered with, in Google's JSON envelope or as bare
// HTTP.
type APIError struct {
	HTTP       int           // HTTP status
	Status     string        // google.rpc.Code, "PERMISSION_DENIED"; "" when the body had none
	Message    string        // Chat's words, shortened
	RetryAfter time.Duration // from the header, at most an hour; 0 for none
	serverTime time.Time     // by Chat's clock; zero where it did not say
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

// ErrBadResponse is an answer with status 200 that is no Chat message. The message may
// have arrived.
var ErrBadResponse = errors.New("the answer is not one of Chat's")

// ErrNotWebhook is a webhook URL that is none. It never quotes the URL.
var ErrNotWebhook = errors.New("not a Chat webhook URL")

// asAPIError is Chat's error in err; one without a status where Chat did not answer.
func asAPIError(err error) *APIError {
	e := &APIError{}
	errors.As(err, &e)
	return e
}

// IsAlreadyExists says that Chat has a message with that id: an earlier try had arrived.
func IsAlreadyExists(err error) bool {
	e := asAPIError(err)
	// 409 is ABORTED too, which asks for another try.
	return e.HTTP == http.StatusConflict && (e.Status == "ALREADY_EXISTS" || e.Status == "")
}

// IsAuthFailure says that Chat knows who calls and does not let them, or does not know
// them.
func IsAuthFailure(err error) bool {
	e := asAPIError(err)
	return e.HTTP == http.StatusUnauthorized || e.HTTP == http.StatusForbidden || e.hasBadKey() ||
		errors.Is(err, ErrCredentials)
}

// hasBadKey says that the webhook's key is cut off, which Chat answers with 400.
func (e *APIError) hasBadKey() bool { return e.HTTP == 400 && strings.Contains(e.Message, "API key") }

// IsRateLimited says that the space's quota is used up.
func IsRateLimited(err error) bool { return asAPIError(err).HTTP == http.StatusTooManyRequests }

// IsRefused says that Chat will never take this message: it is malformed, or its space is
// gone.
func IsRefused(err error) bool {
	code := asAPIError(err).HTTP
	retryable := []int{
		0,
		http.StatusProxyAuthRequired,
		http.StatusRequestTimeout,
		http.StatusTooEarly,
	}
	return IsPermanent(err) && !IsAuthFailure(err) && !slices.Contains(retryable, code)
}

// IsMalformed says that Chat does not take the message as it is: of one to a thread, that
// may be the thread's name.
func IsMalformed(err error) bool {
	return asAPIError(err).HTTP == http.StatusBadRequest && IsRefused(err)
}

func isNotFound(err error) bool { return asAPIError(err).HTTP == http.StatusNotFound }

// HasReachedChat says that Chat answered, if only with an error. A proxy that wants a
// password is not Chat.
func HasReachedChat(err error) bool {
	e := asAPIError(err)
	return e.HTTP != 0 && e.HTTP != http.StatusProxyAuthRequired
}

// IsOverloaded says that Chat wants to be left alone for a while: 429 or 5xx.
func IsOverloaded(err error) bool { return IsRateLimited(err) || asAPIError(err).HTTP >= 500 }

// IsPermanent says that the same request will fail again until a person changes
// something.
func IsPermanent(err error) bool {
	e := asAPIError(err)
	return e.HTTP >= 400 && e.HTTP < 500 && e.HTTP != http.StatusTooManyRequests &&
		e.HTTP != http.StatusConflict ||
		errors.Is(err, ErrNotWebhook)
}

// MayHaveArrived says that a message may be in the space although posting it failed: the
// connection broke or Chat stumbled after it had the request. A refusal, or no connection
// at all, leaves no doubt.
func MayHaveArrived(err error) bool {
	if e := asAPIError(err); e.HTTP != 0 {
		return e.HTTP < 400 || e.HTTP >= 500
	}
	var op *net.OpError
	return !errors.Is(err, ErrNotWebhook) && !(errors.As(err, &op) && op.Op == "dial")
}

// RetryAfter is how long Chat asked to be left alone; 0 when it did not say.
func RetryAfter(err error) time.Duration { return asAPIError(err).RetryAfter }

// NetworkHint says what a person can do about what stands between this machine and
// Google: a proxy that wants a password, and a program that opens TLS. It is "" for other
// errors.
func NetworkHint(err error) string {
	// of a tunnel Go tells these words alone (1.26)
	proxyAuthText := http.StatusText(http.StatusProxyAuthRequired)
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "this machine does not trust the certificate that it was shown: where your company inspects TLS, name the file " +
			"of its certificate in SSL_CERT_FILE, or on a Mac add it to the keychain; " +
			"NODE_EXTRA_CA_CERTS is Claude Code's alone"
	case asAPIError(err).HTTP == http.StatusProxyAuthRequired,
		strings.HasSuffix(err.Error(), proxyAuthText):
		return "the proxy wants a user and a password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
	}
	return ""
}

const webhookHint = "copy the webhook URL again, for it is cut off or wrong: copy it whole from the space " +
	"(Apps & integrations > Webhooks), and run gchat-hooks setup; in a shell put it in quotes, " +
	"for it has an & in it; plain http is for the embedded space on 127.0.0.1 only"

// hints say what a person can do about our own errors. The first that fits counts.
var hints = []struct {
	err  error
	hint string
}{
	{
		config.ErrFileGone,
		"put that file back, or an empty {}: while it is missing, no place below it counts",
	},
	{
		config.ErrUnreadableFile,
		"correct that file: while it does not parse, neither it nor a place below it counts",
	},
	{
		config.ErrNoWebhook,
		"gchat-hooks setup connects a space, also without Google; or set GOOGLE_CHAT_WEBHOOK_URL " +
			"(webhook_url in ~/.config/gchat-hooks/config.json)",
	},
	{ErrNotWebhook, webhookHint},
	{
		ErrEndpoint,
		"set api_endpoint (GCHAT_API_ENDPOINT) to an https address or to one on this machine, or take it out: " +
			"Google's is the usual one",
	},
	{
		ErrCredentials,
		"gchat-hooks login --client-id-file FILE; or set GOOGLE_CHAT_CREDENTIALS_FILE to credentials " +
			"that may read it",
	},
	{ErrUnknownPerson, "reply to a question: its thread tells your users/ID and what to set"},
	{
		ErrBadResponse,
		"something between here and Google Chat answers in its place (a proxy, a hotel's network); " +
			"it is tried again",
	},
}

// apiErrorHints say what a person can do about Google's answers: those of that status, 0
// for any, that say so, in capitals or not. The first that fits counts.
var apiErrorHints = []struct {
	http       int
	says, hint string
}{
	{400, "API key", webhookHint},
	{401, "", "the credentials are not valid any more: log in again (gchat-hooks login)"},
	{
		403,
		"scope",
		"the credentials lack a Chat scope: log in with chat.messages.readonly (gchat-hooks login)",
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
		"the webhook's token is missing or wrong (quote the URL in the shell), or the account or the Chat app is not in " +
			"this space",
	},
	{
		0,
		"Chat app not found",
		"Google wants a Chat app for this: configure one in the credentials' Cloud project " +
			"(Google Chat API > Configuration), and save it",
	},
	{404, "", "the webhook, the space or the subscription was deleted, or its name is wrong"},
	{429, "", "the space's quota is used up; it is tried again"},
}

// Hint says what a person can do about an error of posting or listing.
func Hint(err error) string {
	if hint := NetworkHint(err); hint != "" {
		return hint
	}
	if userErr, is := errors.AsType[*state.UserError](err); is {
		return userErr.Hint
	}
	for _, entry := range hints {
		if errors.Is(err, entry.err) {
			return entry.hint
		}
	}
	e := asAPIError(err)
	if e.HTTP == 0 {
		return "Google Chat could not be reached: check the network, and GCHAT_API_ENDPOINT where it is set; it is tried again"
	}
	for _, entry := range apiErrorHints {
		matches := strings.Contains(strings.ToLower(e.Message), strings.ToLower(entry.says))
		if matches && (entry.http == 0 || entry.http == e.HTTP) {
			return entry.hint
		}
	}
	if e.HTTP >= 500 {
		return "Google Chat has trouble; it is tried again"
	}
	return "see what Chat says"
}

const embeddedSpaceName = state.EmbeddedSpaceName

// embeddedAppName is the sender of what an app posts in the embedded space.
const embeddedAppName = "users/local-app"

// withEmbeddedSpaceHint gives an error of the embedded space, which is where base is on
// this machine, a hint that knows nothing of Google.
func withEmbeddedSpaceHint(err error, base *url.URL, space string) error {
	if base == nil || base.Scheme != "http" || space != embeddedSpaceName ||
		errors.As(err, new(*state.UserError)) {
		return err
	}
	setupCommand, hint := "gchat-hooks setup --space --listen ", ""
	switch e := asAPIError(err); {
	case IsAuthFailure(err), errors.Is(err, ErrNotWebhook):
		hint = setupCommand + base.Host + " (for a phone, with --phone) writes down the token and the whole URL of the embedded " +
			"space there"
	case e.HTTP == http.StatusNotFound, errors.Is(err, ErrBadResponse):
		hint = "another program answers there: " + setupCommand + "127.0.0.1:8766 has the embedded space run at another port"
	default:
		hint = "the embedded space is in trouble; it is tried again. If it stays so, end the space and run: " +
			"gchat-hooks space --listen " + base.Host
	}
	return &state.UserError{Err: err, Hint: hint, Code: 1}
}

// withoutURL takes the URL out of an error of net/http: it quotes the webhook's key and
// token.
func withoutURL(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return fmt.Errorf("%s: %w", strings.ToLower(u.Op), u.Err)
	}
	return err
}

// parseRetryAfter reads the header, in seconds, as Google gives it: at most an hour.
func parseRetryAfter(h http.Header) time.Duration {
	seconds, _ := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second
}

// isLoopback says whether host (without port) is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// IsAllowedBaseURL says whether requests may go there: TLS anywhere, plain http only to
// this machine.
func IsAllowedBaseURL(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
}

// maxBodyBytes is what one answer may hold when it is unpacked, in bytes. A page of 1,000
// messages has a few MB.
const maxBodyBytes = 32 << 20

// dial connects to an address, and to the embedded space by its unix socket alone: at its
// port another user's process may listen while the space is down, and would get the
// token, and be believed. The address is looked up each time, for a poller outlives a
// space. A connection that was made before the address was listed may be used on: its
// other end got the same secrets then. No proxy comes in between:
// http.ProxyFromEnvironment leaves this machine's own addresses out.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	direct := &net.Dialer{Timeout: listTimeout}
	host, port, _ := net.SplitHostPort(address)
	if !isLoopback(host) {
		return direct.DialContext(ctx, network, address)
	}
	tcpAddress, err := net.ResolveTCPAddr(
		network,
		net.JoinHostPort(strings.Replace(host, "localhost", "127.0.0.1", 1), port),
	)
	if err != nil {
		return nil, err
	}
	for hasStarted := false; ; hasStarted = true {
		socket, err := state.ReadSpaceSocket(os.Getenv, tcpAddress.Port)
		var conn net.Conn
		switch {
		case err == nil && socket == "":
			conn, err = direct.DialContext(ctx, network, address)
			return conn, withNotListeningHint(err, tcpAddress)
		case err == nil:
			conn, err = direct.DialContext(ctx, "unix", socket)
		}
		if err == nil {
			return conn, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			if StartEmbeddedSpace != nil && !hasStarted {
				StartEmbeddedSpace(tcpAddress.Port)
				continue
			}
			err = fmt.Errorf("the embedded space is down: %w", syscall.ECONNREFUSED)
		}
		return nil, withNotListeningHint(
			&net.OpError{Op: "dial", Net: network, Addr: tcpAddress, Err: err},
			tcpAddress,
		)
	}
}

// withNotListeningHint says what to do where nothing listens at an address of this
// machine.
func withNotListeningHint(err error, address net.Addr) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return &state.UserError{
		Err: err,
		Hint: "nothing answers on this machine: gchat-hooks space --listen " + address.String() +
			" runs the embedded space (for a phone, with --phone)",
		Code: 1,
	}
}

// StartSpaceCommand starts the embedded space that has a port of this machine, and waits
// until it listens or fails. Nil starts none. It is set where this process is the program
// that runs the space.
var StartEmbeddedSpace func(port int)

// pingTimeout is how long an HTTP/2 connection may be silent before it is asked for a
// sign of life, and how long that may take. A pull is always under way, so its connection
// is never idle; after a computer's sleep or a change of network it may lead nowhere,
// which TCP finds out after a quarter of an hour.
const pingTimeout = 15 * time.Second

func init() {
	http.DefaultTransport.(*http.Transport).HTTP2 = &http.HTTP2Config{
		SendPingTimeout: pingTimeout,
		PingTimeout:     pingTimeout,
	}
}

// ErrConnectionLost says that a connection leads nowhere any more. The next request makes
// a new one.
var ErrConnectionLost = errors.New("the connection was lost")

// bodyLimiter keeps an answer that has no end, or unpacks to a large one, from filling
// the memory.
type bodyLimiter struct{ next http.RoundTripper }

func (t bodyLimiter) RoundTrip(r *http.Request) (*http.Response, error) {
	state.BeforeSlowCall("calls " + r.URL.Host)
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxBodyBytes)
	}
	return resp, err
}
