package inject

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

// Server is one tmux server.
type Server struct {
	Socket string // path; "" is the person's default one
	// Front, where set, is the program that keys are meant for, as tmux names it: tmux drops them when another one has the
	// pane's keyboard by then. Between our last look and a key Claude Code can end, and a shell take the key.
	Front string
}

// Pane is a pane as tmux describes it.
type Pane struct {
	ID            string // %N
	Session       string
	PID           int    // of what tmux started in it, mostly a shell
	Program       string // the name of what has its keyboard
	Width, Height int
	InMode        bool // scrolled back, or in another mode of tmux that takes the keys
	Dead          bool
	InputOff      bool
	Synchronized  bool // what is typed here goes to all panes of the window
}

var (
	ErrNoServer  = errors.New("no tmux server is running")
	ErrNoPane    = errors.New("no such pane")
	ErrNoSession = errors.New("no such session")

	// ErrNoKeys says that tmux would not hand keys to the pane's program; nothing was sent.
	ErrNoKeys = errors.New("the pane takes no keys")
)

// ServerOf is the server that $TMUX ("socket,pid,session") names. tmux itself cuts at the first comma.
func ServerOf(tmux string) Server {
	socket, _, _ := strings.Cut(tmux, ",")
	return Server{Socket: socket}
}

// DefaultServer is what a plain `tmux` in a plain terminal speaks to: $TMUX_TMPDIR, or /tmp where that is unset or
// missing, then tmux-UID/default (tmux.c, make_label).
func DefaultServer(env state.Getenv) Server {
	dir := env("TMUX_TMPDIR")
	if _, err := os.Stat(dir); err != nil {
		dir = "/tmp"
	}
	return Server{Socket: filepath.Join(dir, fmt.Sprintf("tmux-%d", os.Getuid()), "default")}
}

func (s Server) socket() string { return cmp.Or(s.Socket, DefaultServer(os.Getenv).Socket) }
