package login

import (
	"context"
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

// invite shows the person the address to log in at, and opens the browser if there is
// one.
func (o Options) invite(address, redirectURL string) {
	open := o.OpenBrowser
	if open == nil {
		open = func(address string) error { return openBrowser(o.Getenv, address) }
	}
	if o.NoBrowser || open(address) != nil {
		fmt.Fprintf(o.Out, "Open this in a browser, and allow both:\n\n  %s\n\n", address)
	} else {
		fmt.Fprintf(o.Out, "Your browser opens; allow both there. "+
			"If it does not open, open this yourself:\n\n  %s\n\n", address)
	}
	if o.NextLine != nil {
		fmt.Fprintf(o.Out, "If that browser is on another machine, "+
			"it then fails to load a page at %s…. That is expected:\n"+
			"paste that page's address here.\n", redirectURL)
	}
}

// openBrowser has the system open an address. Over ssh it does not: the browser would
// open on a screen far from the person. Without a screen it does not either: a browser
// would open in the terminal, which is in use. The address may show up in a process list,
// since it has no secret.
func openBrowser(env state.Getenv, address string) error {
	program, hasScreen := "xdg-open", env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""
	if runtime.GOOS == "darwin" {
		program, hasScreen = "open", true
	}
	if !hasScreen || env("SSH_CONNECTION") != "" || env("SSH_TTY") != "" {
		return errors.New("there is no screen")
	}
	cmd := exec.Command(program, address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in the terminal does not end it
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // the browser may run as the program's child for as long as it is open
	return nil
}

// callbackServer serves the port of this machine to which Google redirects the person's
// browser after the login.
type callbackServer struct {
	state      string          // sent to Google with the browser, which brings it back
	callbacks  chan url.Values // the queries of the redirect
	ended      chan struct{}   // closed when the login has ended
	resultText string          // what the browser shows; set before ended is closed
}

// isOurs reports whether a redirect belongs to this login. Every program on this machine,
// and every page in the browser, can send requests to the port.
func (b *callbackServer) isOurs(callback url.Values) bool {
	return callback.Get("state") == b.state
}

// serve waits for the browser's request. The returned function ends the login: it answers
// the browser with a success or a failure, and stops the server.
func (b *callbackServer) serve(l net.Listener) (end func(error)) {
	server := &http.Server{Handler: b, MaxHeaderBytes: 16 << 10, ReadTimeout: 10 * time.Second}
	server.SetKeepAlivesEnabled(false)
	go server.Serve(l)
	return func(err error) {
		b.resultText = "You are logged in: gchat-hooks can read your messages in Google Chat. " +
			"You can close this page."
		if err != nil {
			b.resultText = "You are not logged in: your terminal says why."
		}
		close(b.ended)
		// Shutdown waits until the browser has its page.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

// ServeHTTP receives the redirect, waits until the login has ended, and shows its result.
func (b *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	callback := r.URL.Query()
	if !b.isOurs(callback) {
		http.Error(w, "This page does not belong to the login that waits in your terminal.",
			http.StatusBadRequest)
		return
	}
	select {
	case b.callbacks <- callback: // only the first redirect is received
	case <-b.ended:
	}
	<-b.ended
	fmt.Fprintln(w, b.resultText)
}

// pastedCallback returns the query of the address that the person pasted, which is that
// of the redirect. The query of a line that is no such address has no state.
func pastedCallback(line string) url.Values {
	_, query, _ := strings.Cut(strings.Trim(line, " \t\r\n\"'<>"), "?")
	callback, _ := url.ParseQuery(query) // it keeps the pairs that it can parse
	return callback
}
