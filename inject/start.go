package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gchat-hooks/state"
)

// ProgramOf returns how a process was started, without its arguments: a program, or an
// interpreter and its script, by absolute paths. It is nil if that is not known.
func ProgramOf(pid int) []string {
	if pid <= 1 {
		return nil
	}
	argv := argsOf(pid)
	if len(argv) == 0 {
		return nil
	}
	path, err := exec.LookPath(argv[0])
	if err != nil || !filepath.IsAbs(path) {
		return nil
	}
	switch filepath.Base(path) {
	case "node", "nodejs", "bun":
		if len(argv) < 2 || !filepath.IsAbs(argv[1]) {
			return nil
		}
		return []string{path, argv[1]}
	}
	return []string{path}
}

// IsSessionRunning reports whether a running process has a session, by Claude Code's own
// files of sessions (see IsWaiting).
func IsSessionRunning(transcript, id string) bool {
	paths, _ := filepath.Glob(filepath.Join(sessionFilesDir(transcript), "*.json"))
	return slices.ContainsFunc(paths, func(path string) bool {
		pid, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
		file, known := readSessionFile(path)
		return known && file.ID == id && pid > 1 && isAlive(pid)
	})
}

// ownTmuxSession is the name of the session in our own tmux server.
const ownTmuxSession = "gchat-hooks"

// OwnServer is our own tmux server, for sessions that have no tmux server of the
// person's. It keeps running after the person logs out. To look at it: tmux -S SOCKET
// attach.
func OwnServer(userState string) Server { return Server{Socket: filepath.Join(userState, "tmux")} }

// OpenWindow starts a program in a new window of a session. It passes each argument as it
// is, without a shell. If our own server does not run, OpenWindow starts it. The program
// may already have ended when the pane is returned.
func (s Server) OpenWindow(ctx context.Context, session, dir string, argv []string) (Pane, error) {
	// -c takes a format, in which #(…) would run a command.
	args := []string{"-d", "-P", "-F", paneFormat, "-c", strings.ReplaceAll(dir, "#", "##")}
	args = append(args, argv...)
	for i, arg := range args {
		if strings.HasSuffix(arg, ";") { // tmux would begin its next command there
			args[i] = strings.TrimSuffix(arg, ";") + `\;`
		}
	}
	newWindow := append([]string{"new-window", "-t", "=" + TmuxName(session) + ":"}, args...)
	out, err := s.callTmux(ctx, nil, newWindow...)
	isMissing := errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoSession)
	if session == ownTmuxSession && isMissing {
		newSession := []string{"new-session", "-s", session, "-x", "200", "-y", "50"}
		out, err = s.callTmux(ctx, nil, append(newSession, args...)...)
		if err != nil && strings.Contains(err.Error(), "duplicate session") {
			// Another process has just started it.
			out, err = s.callTmux(ctx, nil, newWindow...)
		}
	}
	if err != nil {
		return Pane{}, fmt.Errorf("open a tmux window: %w", err)
	}
	p, ok := parsePane(out)
	if !ok {
		return Pane{}, fmt.Errorf("open a tmux window: %w", ErrNoPane)
	}
	return p, nil
}

// OpenSessionWindow starts a program in a new window of the tmux session in which the
// session last ran. If that tmux session is gone, it uses our own server.
func OpenSessionWindow(
	ctx context.Context, userState string, session *state.Session, argv []string,
) (Server, Pane, error) {
	server := Server{Socket: session.TmuxSocket}
	// tmux reads a name that begins with $ as a session's id (3.3a).
	isID := strings.HasPrefix(session.TmuxSession, "$")
	if session.TmuxSession != "" && !isID && isOwnedByUser(session.TmuxSocket) {
		pane, err := server.OpenWindow(ctx, session.TmuxSession, session.ProjectDir, argv)
		isGone := errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoSession) ||
			errors.Is(err, ErrNoPane)
		if !isGone {
			return server, pane, err
		}
	}
	server = OwnServer(userState)
	pane, err := server.OpenWindow(ctx, ownTmuxSession, session.ProjectDir, argv)
	return server, pane, err
}

// isOwnedByUser reports whether a socket belongs to this user. After a reboot, another
// user's tmux may listen at the same path in /tmp.
func isOwnedByUser(socket string) bool {
	info, err := os.Stat(socket)
	if err != nil {
		return false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && int(stat.Uid) == os.Getuid()
}
