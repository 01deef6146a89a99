package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gchat-hooks/gchat"
)

const (
	headerLimit = 16 << 10         // Google's redirect has about 500 bytes
	outcomeWait = time.Minute      // longer than an exchange takes
	partingWait = 2 * time.Second  // for the browser to get its page
	headerWait  = 10 * time.Second // for a request
)

// arrival is what the browser, or a paste, came back with: a code, or why there is none.
type arrival struct {
	code string
	err  error
}

// loopback is a server on this machine that the browser comes back to, once.
type loopback struct {
	state    string // told to Google and nobody else, and told back
	address  string // http://127.0.0.1:PORT/
	arrivals chan arrival
	taken    atomic.Bool // one arrived; there is no second

	srv     *http.Server
	done    chan struct{} // closed when outcome stands
	outcome error
	once    sync.Once
}

// listen begins to wait on a free port. An address, not "localhost": that may be resolved to somewhere else (RFC 8252, 8.3).
func listen(state string) (*loopback, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wait for the browser: %w", err)
	}
	b := &loopback{
		state: state, address: "http://" + l.Addr().String() + "/", arrivals: make(chan arrival, 1), done: make(chan struct{}),
	}
	b.srv = &http.Server{Handler: b, MaxHeaderBytes: headerLimit, ReadHeaderTimeout: headerWait, ReadTimeout: headerWait, IdleTimeout: headerWait}
	b.srv.SetKeepAlivesEnabled(false)
	go b.srv.Serve(l)
	return b, nil
}

// offer hands over the first arrival, and says of all others that they are none.
func (b *loopback) offer(a arrival) bool {
	if !b.taken.CompareAndSwap(false, true) {
		return false
	}
	b.arrivals <- a
	return true
}

// finish tells the browser what came of it; nil for the best.
func (b *loopback) finish(err error) {
	b.once.Do(func() {
		b.outcome = err
		close(b.done)
	})
}

func (b *loopback) close() {
	b.finish(errors.New("the login was given up"))
	ctx, cancel := context.WithTimeout(context.Background(), partingWait)
	defer cancel()
	if b.srv.Shutdown(ctx) != nil {
		b.srv.Close()
	}
}

// ServeHTTP takes the redirect. Anybody on this machine, and any page in the browser, can send requests here: what does
// not carry the state is refused and does not end the wait.
func (b *loopback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case "http://"+r.Host+"/" != b.address: // a name that somebody made point here
		show(w, http.StatusMisdirectedRequest, "Not here", "This address is not known here.")
		return
	case r.URL.Path != "/":
		show(w, http.StatusNotFound, "Not found", "There is nothing here.")
		return
	case r.Method != http.MethodGet:
		show(w, http.StatusMethodNotAllowed, "Not so", "A browser comes here with GET.")
		return
	}
	a, err := b.read(r.URL.Query())
	switch {
	case err != nil:
		show(w, http.StatusBadRequest, "Not this login", "This page does not belong to the login that waits in your terminal.")
		return
	case !b.offer(a):
		show(w, http.StatusGone, "This login is over", "It came back once already. To log in again, begin in your terminal.")
		return
	}
	select {
	case <-b.done:
	case <-time.After(outcomeWait):
		show(w, http.StatusGatewayTimeout, "Look into your terminal", "It takes longer than it should.")
		return
	}
	if b.outcome == nil {
		show(w, http.StatusOK, "You are logged in", "gchat-hooks may read your messages and spaces in Google Chat now. You can close this page.")
		return
	}
	hint := "Your terminal says more."
	var hinted interface{ Hint() string }
	if errors.As(b.outcome, &hinted) {
		hint = hinted.Hint()
	}
	show(w, http.StatusOK, "You are not logged in", b.outcome.Error(), hint)
}

var (
	errOtherLogin = errors.New("that belongs to another login")
	errNoCode     = errors.New("there is no code in it")
)

// read takes an arrival out of a redirect's query. Errors are errOtherLogin and errNoCode.
func (b *loopback) read(q url.Values) (arrival, error) {
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1 {
		return arrival{}, errOtherLogin
	}
	return readAnswer(q)
}

// readAnswer reads a redirect's query, whoever it is for. The error is errNoCode.
func readAnswer(q url.Values) (arrival, error) {
	if e := q.Get("error"); e != "" {
		return arrival{err: authorizeError(brief(e), brief(q.Get("error_subtype")), brief(q.Get("error_description")))}, nil
	}
	if code := q.Get("code"); wellFormed(code) {
		return arrival{code: code}, nil
	}
	return arrival{}, errNoCode
}

// brief makes foreign words fit for a terminal's line.
func brief(s string) string { return gchat.Line(strings.ToValidUTF8(s[:min(len(s), 200)], "")) }

// wellFormed says whether a code has a code's form: visible ASCII (RFC 6749, A.11), and not endless.
func wellFormed(code string) bool {
	for _, c := range []byte(code) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return code != "" && len(code) <= 2048
}
