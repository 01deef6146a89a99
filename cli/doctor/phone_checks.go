package doctor

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// checkPublicPage checks that the page's address by https leads to this very space. It
// sends no secret: only the space can answer its challenge.
func (e *exam) checkPublicPage(ctx context.Context, r *result) {
	if e.PublicPage == "" {
		return
	}
	_, _ = e.list() // starts the space if it is down
	embedded, err := space.LoadAddresses(filepath.Join(state.UserStateDir(e.Env), "space"))
	if err != nil {
		r.warn("%v", err).Fix = "gchat-hooks setup --space"
		return
	}
	if problem := e.askForIdentity(ctx, embedded); problem != "" {
		r.warn("no phone reaches this page at %s/: %s", e.PublicPage, problem)
	}
	r.ok("%s/ leads to this page", e.PublicPage)
}

// askForIdentity returns what is wrong with the page's address, or "".
func (e *exam) askForIdentity(ctx context.Context, embedded *space.Space) (problem string) {
	nonce := rand.Text()
	address := e.PublicPage + space.IdentityPath + "?nonce=" + nonce
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err.Error()
	}
	// A phone uses no proxy of this machine, and a page that moved is not this one.
	client := &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: e.roots},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	response, err := client.Do(request)
	if err != nil {
		return e.connectionProblem(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	var answer struct {
		Identity string `json:"identity"`
		Error    struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &answer)
	switch {
	case answer.Identity == embedded.Identity(nonce):
		return ""
	case answer.Identity != "":
		return "the page of another person or machine answers there"
	case strings.Contains(answer.Error.Message, "is not this machine"):
		return "the proxy passes on another host name: it has to keep the Host header"
	case response.StatusCode == http.StatusBadGateway,
		response.StatusCode == http.StatusServiceUnavailable,
		response.StatusCode == http.StatusGatewayTimeout:
		return fmt.Sprintf("a proxy answers there with %d: it does not reach the page's server on this machine",
			response.StatusCode)
	}
	return fmt.Sprintf("another server answers there, with %d", response.StatusCode)
}

// connectionProblem says why no server could be asked.
func (e *exam) connectionProblem(err error) string {
	nameError, isName := errors.AsType[*net.DNSError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUntrusted := errors.AsType[x509.UnknownAuthorityError](err)
	hostnameError, isOtherName := errors.AsType[x509.HostnameError](err)
	_, isNotTLS := errors.AsType[tls.RecordHeaderError](err)
	isPlain := isNotTLS || strings.Contains(err.Error(), "HTTP response to HTTPS client")
	switch {
	case isName:
		return "no address is known for the name " + nameError.Name
	case isInvalid && invalid.Reason == x509.Expired:
		return fmt.Sprintf("its certificate is valid from %s to %s only",
			invalid.Cert.NotBefore.Local().Format(time.DateTime),
			invalid.Cert.NotAfter.Local().Format(time.DateTime))
	case isUntrusted:
		return "this machine does not trust its certificate's issuer; " +
			"a phone has to be told to trust it, too"
	case isOtherName:
		return fmt.Sprintf("its certificate is for %q", hostnameError.Certificate.DNSNames)
	case isPlain:
		return "what listens there speaks no TLS"
	case strings.Contains(err.Error(), "remote error: tls"):
		return "TLS fails there: " + causeOf(err) + "; gchat-hooks logs may say why"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return causeOf(err)
}

// causeOf is an error's innermost text.
func causeOf(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// checkDevices says which devices are not notified, although their pages asked for it.
func (e *exam) checkDevices(_ context.Context, r *result) {
	devices, err := space.Devices(filepath.Join(state.UserStateDir(e.Env), "space"))
	if errors.As(err, new(*fs.PathError)) {
		return // the checks of our files say it
	}
	if err != nil {
		r.warn("%v", err)
		return
	}
	for _, d := range devices {
		if d.Refusal != "" {
			r.warn("%s is not notified: %s", state.OneLine(d.Name), state.OneLine(d.Refusal))
		}
	}
	if len(devices) > 0 {
		r.ok("devices that the page notifies: %d", len(devices))
	}
}

// checkCalls says how the person is notified, and how the last notification went.
// It sends none. A topic's name is a secret.
func (e *exam) checkCalls(_ context.Context, r *result) {
	if e.cfg.Notify == nil {
		r.ok("notify is not set up")
		return
	}
	where, last := e.cfg.Notify.Place(), state.ReadLastCall(e.Env)
	local := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	switch {
	case last.FailedAt.After(last.SucceededAt):
		r.warn("the last notification to %s failed on %s: %s", where, local(last.FailedAt), last.Error)
	case last.SucceededAt.IsZero():
		r.ok("you are notified through %s; nothing was sent yet", where)
	default:
		r.ok("you are notified through %s; the last notification was on %s", where, local(last.SucceededAt))
	}
}
