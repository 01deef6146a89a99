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

// Server is one tmux server, by the path of its socket; "" is the person's default one.
type Server struct{ Socket string }

// Pane is a pane as tmux describes it.
type Pane struct {
	ID            string // %N
	Session       string
	PID           int // of what tmux started in it, mostly a shell
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
	return Server{socket}
}

// DefaultServer is the one that a plain `tmux` in a plain terminal speaks to: $TMUX_TMPDIR, or /tmp where that is unset or
// missing, then tmux-UID/default (tmux.c, make_label).
func DefaultServer(env state.Getenv) Server {
	dir := env("TMUX_TMPDIR")
	if _, err := os.Stat(dir); err != nil {
		dir = "/tmp"
	}
	return Server{filepath.Join(dir, fmt.Sprintf("tmux-%d", os.Getuid()), "default")}
}

func (s Server) socket() string { return cmp.Or(s.Socket, DefaultServer(os.Getenv).Socket) }
