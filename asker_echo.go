package main

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// echo is whether a terminal shows what is typed. While it is hidden, Ctrl-Z and Ctrl-\ leave the terminal to somebody else,
// who wants to see what they type.
type echo struct {
	tty    *os.File
	watch  sync.Once
	mu     sync.Mutex
	hidden bool
}

// hide turns it off. Where that fails the text is shown.
func (e *echo) hide() error {
	// For good: Go gives no signal back its own way to stop a program.
	e.watch.Do(func() {
		signals := make(chan os.Signal, 8)
		signal.Notify(signals, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT)
		go func() {
			for s := range signals {
				e.meet(s)
			}
		}()
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.turn(false)
	e.hidden = err == nil
	return err
}

// show turns it on again.
func (e *echo) show() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hidden = false
	_ = e.turn(true)
}

func (e *echo) meet(s os.Signal) {
	if sid, err := unix.Getsid(0); s == unix.SIGTSTP && (err != nil || sid == os.Getpid()) {
		return // without a shell above nobody could make it go on, and nothing stops
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hidden {
		_ = e.turn(s != unix.SIGCONT)
	}
	switch s {
	case unix.SIGTSTP:
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case unix.SIGQUIT:
		os.Exit(128 + int(unix.SIGQUIT))
	}
}

// turn has stty do it, which every Unix has.
func (e *echo) turn(on bool) error {
	word := "-echo"
	if on {
		word = "echo"
	}
	cmd := exec.Command("stty", word)
	cmd.Stdin = e.tty
	return cmd.Run()
}
