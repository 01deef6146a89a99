package login

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"gchat-hooks/state"
)

// invite tells the person where to log in, and opens the browser where there is one.
func (o Options) invite(address, back string) {
	open := o.Open
	if open == nil {
		open = func(address string) error { return openBrowser(o.Env, address) }
	}
	var err error
	if !o.NoBrowser {
		err = open(address)
	}
	switch {
	case o.NoBrowser || errors.Is(err, errNoScreen):
		fmt.Fprintf(o.Out, "Open this in a browser, and allow both:\n\n  %s\n\n", address)
	case err != nil:
		fmt.Fprintf(o.Out, "The browser did not open (%s). Open this yourself, and allow both:\n\n  %s\n\n", brief(err.Error()), address)
	default:
		fmt.Fprintf(o.Out, "Your browser opens; allow both there. If it does not, open this yourself:\n\n  %s\n\n", address)
	}
	if o.Pasted != nil {
		fmt.Fprintf(o.Out, "If that browser is on another machine, it ends on a page that it cannot show, at %s…:\npaste that page's address here.\n", back)
	}
}

var errNoScreen = errors.New("there is no screen")

// openBrowser has the system open an address. Over ssh it would open on a screen that nobody sits at, and with no screen in
// the terminal itself, which is in use.
func openBrowser(env state.Getenv, address string) error {
	name := "xdg-open"
	switch {
	case env("SSH_CONNECTION") != "" || env("SSH_TTY") != "":
		return errNoScreen
	case runtime.GOOS == "darwin":
		name = "open"
	case env("DISPLAY") == "" && env("WAYLAND_DISPLAY") == "":
		return errNoScreen
	}
	// Not through a shell, and the address begins with a scheme: it is no option. What is in it may be seen in a process
	// list: client id, challenge and state.
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return errors.New("not an address")
	}
	cmd := exec.Command(name, address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C here is not meant for the browser
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // the browser may stay its child for as long as it lives
	return nil
}
