package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The embedded space has a port of this machine. While the space is down, another user's process can take that port. So the space
// listens on a unix socket, too, in a folder where only this user can make one, and the file local-spaces/PORT of the user state
// holds its path. The file stays when the space ends: the port of a space is never trusted again.

// KeepSocket notes that the space of a port is reached by this unix socket. The error says so where others could replace it.
func KeepSocket(env Getenv, port int, socket string) error {
	file := socketFile(env, port)
	err := ownFolder(filepath.Dir(socket))
	if err == nil {
		err = MakeDir(filepath.Dir(file))
	}
	if err != nil {
		return err
	}
	return WriteFile(file, []byte(socket+"\n"))
}

// SocketOf is the unix socket of the space that has a port of this machine, at whatever loopback address; "" where none has.
// Errors say that the socket is not to be trusted, and that it is unknown.
func SocketOf(env Getenv, port int) (string, error) {
	b, err := ReadPlain(socketFile(env, port), 4096)
	if Missing(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read local-spaces/%d: %w", port, err)
	}
	socket := strings.TrimSpace(string(b))
	return socket, ownFolder(filepath.Dir(socket))
}

func socketFile(env Getenv, port int) string {
	return filepath.Join(UserState(env), "local-spaces", strconv.Itoa(port))
}

// ownFolder is an error where others could put a file into a folder, or it is a link, which its owner could turn elsewhere.
func ownFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotOwn)
	}
	return nil
}

// ErrNotOwn says that other users of this machine could change what is in a folder.
var ErrNotOwn = errors.New("other users may write there")
