package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// showProgress says every second how long is left, in a line that it wipes at the end, where w is a terminal.
func showProgress(w io.Writer, until time.Time) (stop func()) {
	if f, ok := w.(*os.File); !ok || !isTerminal(f) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			left := time.Until(until).Round(time.Second)
			fmt.Fprintf(w, "\r\x1b[Kwaiting for a reply, %s left", max(left, 0))
			select {
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
