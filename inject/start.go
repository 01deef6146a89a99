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

// ProgramOf is how a process was started, without its arguments: a program, or an engine
// and the script that it runs, by absolute paths; nil where that is not known.
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

// IsSessionRunning says whether a process that runs has a session, by Claude Code's own
// files of sessions: see Waits.
func IsSessionRunning(transcript, id string) bool {
	paths, _ := filepath.Glob(filepath.Join(sessionFilesDir(transcript), "*.json"))
	return slices.ContainsFunc(paths, func(path string) bool {
		pid, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".json"))
		file, known := readSessionFile(path)
		return known && file.ID == id && pid > 1 && isAlive(pid)
	})
}

// ownTmuxSession is the name of our own server's session.
const ownTmuxSession = "gchat-hooks"

// OwnServer is our own tmux server, for sessions that no terminal of the person's has: it
// goes on when the login shell ends. To look at it: tmux -S SOCKET attach.
func OwnServer(userState string) Server { return Server{Socket: filepath.Join(userState, "tmux")} }

// OpenWindow starts a program in a new window of a session, argument by argument, without
// a shell. Our own server is started where it does not run. The pane is as it was just
// then: its program may have ended.
func (s Server) OpenWindow(ctx context.Context, session, dir string, argv []string) (Pane, error) {
	// it is a format: #(…) would run
	args := []string{"-d", "-P", "-F", paneFormat, "-c", strings.ReplaceAll(dir, "#", "##")}
	args = append(args, argv...)
	for i, arg := range args {
		if strings.HasSuffix(arg, ";") { // else the next command would begin
			args[i] = strings.TrimSuffix(arg, ";") + `\;`
		}
	}
	newWindow := append([]string{"new-window", "-t", "=" + TmuxName(session) + ":"}, args...)
	out, err := s.callTmux(ctx, nil, newWindow...)
	if session == ownTmuxSession && (errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoSession)) {
		out, err = s.callTmux(
			ctx,
			nil,
			append([]string{"new-session", "-s", session, "-x", "200", "-y", "50"}, args...)...)
		if err != nil && strings.Contains(err.Error(), "duplicate session") {
			// another one began it just now
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

// OpenSessionWindow starts a program in a window beside the session's last one, where its
// tmux session is still there, else in our own server.
func OpenSessionWindow(
	ctx context.Context,
	userState string,
	session *state.Session,
	argv []string,
) (Server, Pane, error) {
	server := Server{Socket: session.TmuxSocket}
	// tmux would take it for a session's number (3.3a)
	isID := strings.HasPrefix(session.TmuxSession, "$")
	if session.TmuxSession != "" && !isID && isOwnedByUser(session.TmuxSocket) {
		pane, err := server.OpenWindow(ctx, session.TmuxSession, session.ProjectDir, argv)
		if !errors.Is(err, ErrNoServer) && !errors.Is(err, ErrNoSession) &&
			!errors.Is(err, ErrNoPane) {
			return server, pane, err
		}
	}
	server = OwnServer(userState)
	pane, err := server.OpenWindow(ctx, ownTmuxSession, session.ProjectDir, argv)
	return server, pane, err
}

// isOwnedByUser says whether a socket is this user's: after a reboot, another's tmux may
// listen at a path in /tmp.
func isOwnedByUser(socket string) bool {
	info, err := os.Stat(socket)
	if err != nil {
		return false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && int(stat.Uid) == os.Getuid()
}
