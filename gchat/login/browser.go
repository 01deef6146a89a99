package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// invite tells the person where to log in, and opens the browser where there is one.
func (o Options) invite(address, redirect string) {
	open := o.Open
	if open == nil {
		open = func(address string) error { return openBrowser(o.Env, address) }
	}
	if o.NoBrowser || open(address) != nil {
		fmt.Fprintf(o.Out, "Open this in a browser, and allow both:\n\n  %s\n\n", address)
	} else {
		fmt.Fprintf(o.Out, "Your browser opens; allow both there. If it does not, open this yourself:\n\n  %s\n\n", address)
	}
	if o.Paste != nil {
		fmt.Fprintf(o.Out, "If that browser is on another machine, it ends on a page that it cannot show, at %s…:\n", redirect)
		fmt.Fprintln(o.Out, "paste that page's address here.")
	}
}

var errNoScreen = errors.New("there is no screen")

// openBrowser has the system open an address. Over ssh it would open on a screen far from the person, and without a screen
// in the terminal itself, which is in use. A process list may show the address: it has no secret.
func openBrowser(env state.Getenv, address string) error {
	program, screen := "xdg-open", env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""
	if runtime.GOOS == "darwin" {
		program, screen = "open", true
	}
	if !screen || env("SSH_CONNECTION") != "" || env("SSH_TTY") != "" {
		return errNoScreen
	}
	cmd := exec.Command(program, address)                // checked to begin with http: it is no option
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C here is not meant for the browser
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // the browser may stay its child for as long as it lives
	return nil
}

// serve answers the browser when it comes back, until the returned function is called.
func (f *flow) serve(l net.Listener) (end func()) {
	const patience = 10 * time.Second
	server := &http.Server{Handler: f, MaxHeaderBytes: 16 << 10, ReadTimeout: patience, IdleTimeout: patience}
	server.SetKeepAlivesEnabled(false)
	go server.Serve(l)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // for the browser to get its page
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

// ServeHTTP takes the redirect. Every program on this machine, and every page in the browser, can send requests here: one
// without the state does not end the wait.
func (f *flow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if "http://"+r.Host+"/" != f.config.RedirectURL || r.URL.Path != "/" || r.Method != http.MethodGet {
		show(w, http.StatusNotFound, "There is nothing here.")
		return
	}
	answer := r.URL.Query()
	if !f.mine(answer.Get("state")) || !usable(answer) {
		show(w, http.StatusBadRequest, "This page does not belong to the login that waits in your terminal.")
		return
	}
	err := f.take(answer)
	hint := &state.UserError{}
	errors.As(err, &hint)
	switch {
	case err == nil:
		show(w, http.StatusOK, "You are logged in: gchat-hooks may read your messages in Google Chat now. You can close this page.")
	case errors.Is(err, errOver):
		show(w, http.StatusGone, "This login is over: it came back once already. To log in again, begin in your terminal.")
	default:
		show(w, http.StatusOK, "You are not logged in.", err.Error(), hint.Hint)
	}
}

func (f *flow) mine(state string) bool {
	return subtle.ConstantTimeCompare([]byte(state), []byte(f.state)) == 1
}

// usable says whether an answer has an error, or a code in a code's form: visible ASCII (RFC 6749, A.11), and not endless.
func usable(answer url.Values) bool {
	code := answer.Get("code")
	for _, c := range []byte(code) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return answer.Get("error") != "" || code != "" && len(code) <= 2048
}

// paste takes the address that the browser ended on, its query, or the code alone. Its error says what is wrong with the
// line; what the login comes to is told as for the browser.
func (f *flow) paste(line string) error {
	answer, err := readPasted(line)
	switch {
	case err != nil:
		return err
	case answer.Has("state") && !f.mine(answer.Get("state")):
		return errOtherLogin // without a state, PKCE keeps a foreign code out
	}
	_ = f.take(answer)
	return nil
}

// readPasted reads what a person pasted: an address or its query, or a code alone, as it is or as an address has it.
func readPasted(line string) (url.Values, error) {
	line = strings.Trim(strings.TrimSpace(line), `"'<>`)
	_, query, found := strings.Cut(line, "?")
	if !found {
		query = line
	}
	answer, err := url.ParseQuery(query)
	if err == nil && !answer.Has("code") && !answer.Has("error") && !strings.ContainsAny(line, "?=&: ") && len(line) >= 8 {
		code, _ := url.PathUnescape(line)
		answer = url.Values{"code": {code}}
	}
	if err != nil || !usable(answer) {
		return nil, errNoCode
	}
	return answer, nil
}

// show writes a page of plain words that no cache keeps: the address it is at holds a code, if a used one.
func show(w http.ResponseWriter, status int, words ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	fmt.Fprintln(w, strings.Join(words, "\n\n"))
}
