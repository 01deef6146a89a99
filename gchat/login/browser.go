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

// invite tells the person where to log in, and opens the browser where there is one.
func (o Options) invite(address, redirectURL string) {
	open := o.OpenBrowser
	if open == nil {
		open = func(address string) error { return openBrowser(o.Getenv, address) }
	}
	if o.NoBrowser || open(address) != nil {
		fmt.Fprintf(o.Out, "Open this in a browser, and allow both:\n\n  %s\n\n", address)
	} else {
		fmt.Fprintf(o.Out, "Your browser opens; allow both there. If it does not, open this yourself:\n\n  %s\n\n", address)
	}
	if o.NextLine != nil {
		fmt.Fprintf(
			o.Out,
			"If that browser is on another machine, it ends on a page that it cannot show, at %s…:\n",
			redirectURL,
		)
		fmt.Fprintln(o.Out, "paste that page's address here.")
	}
}

// openBrowser has the system open an address. Over ssh it would open on a screen far from
// the person, and without a screen in the terminal itself, which is in use. A process
// list may show the address: it has no secret.
func openBrowser(env state.Getenv, address string) error {
	program, hasScreen := "xdg-open", env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""
	if runtime.GOOS == "darwin" {
		program, hasScreen = "open", true
	}
	if !hasScreen || env("SSH_CONNECTION") != "" || env("SSH_TTY") != "" {
		return errors.New("there is no screen")
	}
	cmd := exec.Command(program, address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C here is not meant for the browser
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // the browser may stay its child for as long as it lives
	return nil
}

// callbackServer is the person's browser as it comes back to a port of ours.
type callbackServer struct {
	state      string          // given to the browser with Google's address, and brought back by it
	callbacks  chan url.Values // what the browser brought
	ended      chan struct{}   // closed when the login has ended
	resultText string          // what came of it, once over is closed
}

// isOurs says that an answer is to our request. Every program on this machine, and every
// page in the browser, can send requests to our port.
func (b *callbackServer) isOurs(callback url.Values) bool {
	return callback.Get("state") == b.state
}

// serve answers the browser when it comes back. The returned function ends that, and
// tells the browser what came of it.
func (b *callbackServer) serve(l net.Listener) (end func(error)) {
	server := &http.Server{Handler: b, MaxHeaderBytes: 16 << 10, ReadTimeout: 10 * time.Second}
	server.SetKeepAlivesEnabled(false)
	go server.Serve(l)
	return func(err error) {
		b.resultText = "You are logged in: gchat-hooks may read your messages in Google Chat now. You can close this page."
		if err != nil {
			b.resultText = "You are not logged in: your terminal says why."
		}
		close(b.ended)
		// for the browser to get its page
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	}
}

// ServeHTTP takes the redirect, and shows what came of it.
func (b *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	callback := r.URL.Query()
	if !b.isOurs(callback) {
		http.Error(
			w,
			"This page does not belong to the login that waits in your terminal.",
			http.StatusBadRequest,
		)
		return
	}
	select {
	case b.callbacks <- callback: // the first one counts
	case <-b.ended:
	}
	<-b.ended
	fmt.Fprintln(w, b.resultText)
}

// readPasted reads the address that the browser ended on; a line that is none has no
// state.
func readPasted(line string) url.Values {
	_, query, _ := strings.Cut(strings.Trim(line, " \t\r\n\"'<>"), "?")
	callback, _ := url.ParseQuery(query) // as far as it is one
	return callback
}
