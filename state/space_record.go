package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Space is how far the messages of one Chat space were read, and when this machine may
// write to it again: the file spaces/{host and space}.json in the user's state. The
// pollers of all environments share it.
type Space struct {
	Record
	Chat string `json:"chat"` // host/spaces/S

	// Watermark is the createTime of the newest message that the last list reached, never
	// later than the server's own clock.
	Watermark time.Time `json:"watermark"`
	// ReadTrouble is why replies cannot be read at present; nil when they can.
	ReadTrouble *ReadTrouble `json:"trouble,omitempty"`

	// NextWriteAt is when the allowance for writes would be used up if each write took
	// its average time: a token bucket in one number.
	NextWriteAt time.Time `json:"next,omitzero"`
	// when to write again, since Chat asked us to wait or cannot be reached
	NotBefore     time.Time `json:"not_before,omitzero"`
	IsAskedByChat bool      `json:"asked,omitempty"` // Chat itself asked us to wait
	Why           string    `json:"why,omitempty"`
	Failures      int       `json:"failures,omitempty"` // how many failures in a row
	// PausedWebhooks are the webhooks that nothing is sent through until a person fixes
	// something, by a hash of their URL: a space may have several, of which one is wrong.
	// From time to time one message is tried.
	PausedWebhooks map[string]WebhookPause `json:"paused,omitempty"`
}

// ReadTrouble is why a space cannot be read.
type ReadTrouble struct {
	Since      time.Time `json:"since"`
	Why        string    `json:"why"` // without secrets
	IsDegraded bool      `json:"degraded"`
	IsRefused  bool      `json:"refused,omitempty"` // only a person can fix it
}

// WebhookPause is why nothing is sent through a webhook.
type WebhookPause struct {
	Since      time.Time `json:"since"`
	NotBefore  time.Time `json:"not_before"`
	Why        string    `json:"why"`
	IsNotified bool      `json:"told,omitempty"` // the person of a session was notified
}

func (s *Space) check(time.Time) error { return nil }

// WriteDelay returns how long to wait before the next write to the space; 0 for none.
func (s *Space) WriteDelay(now time.Time) time.Duration {
	if wait := s.NotBefore.Sub(now); wait <= time.Hour {
		// a longer wait comes from a clock that was set back
		return max(wait, 0)
	}
	return 0
}

// TakeWrite uses up one write. interval is the average time per write, and burst how many
// writes may come at once. Where none is left, it returns how long to wait; otherwise 0.
func (s *Space) TakeWrite(now time.Time, interval time.Duration, burst int) (wait time.Duration) {
	allowance := time.Duration(burst) * interval
	ahead := s.NextWriteAt.Sub(now)
	if ahead < 0 || ahead > 2*allowance {
		ahead = 0
	}
	wait = ahead + interval - allowance
	if wait > 0 {
		return wait
	}
	s.NextWriteAt = now.Add(ahead + interval)
	return 0
}

// Spaces is the folder of spaces.
type Spaces struct{ Folder[Space] }

// SpacesIn returns the folder spaces of a user state folder.
func SpacesIn(userState string) Spaces {
	return Spaces{Folder[Space]{Dir: filepath.Join(userState, "spaces"), durability: inPlace}}
}

// Get returns what is known of a space, by host/spaces/S; an empty Space where nothing
// is.
func (s Spaces) Get(chat string) *Space {
	if space, err := s.Load(safeFileName(chat)); err == nil {
		return space
	}
	return &Space{Chat: chat}
}

// Change updates a space. If the disk fails, the change is lost: to write too fast is
// better than silence.
func (s Spaces) Change(chat string, change func(*Space)) (*Space, error) {
	s.initRecord = func(space *Space) { space.Chat = chat }
	return s.Folder.Change(safeFileName(chat), change)
}

// LockReader makes the caller the one process of this machine that lists a space. The
// error is ErrLocked where another process does.
func (s Spaces) LockReader(chat string) (*Lock, error) {
	return TryLock(filepath.Join(s.Dir, ".locks", safeFileName(chat)+".reader"))
}

// The embedded space listens on a port of this machine. While it is down, a process of
// another user can take that port. So the space also listens on a unix socket, in a
// folder where only this user can create one; the file local-spaces/PORT in the user's
// state holds the socket's path. That file stays when the space ends, so that nothing
// else at its port is ever trusted.

// WriteSpaceSocket records the unix socket of the space at a port. It is an error where
// other users could replace the socket.
func WriteSpaceSocket(env Getenv, port int, socket string) error {
	if err := checkOwnFolder(filepath.Dir(socket)); err != nil {
		return err
	}
	return WriteFile(spaceSocketFile(env, port), []byte(socket+"\n"))
}

// ReadSpaceSocket returns the unix socket of the space at a port of this machine, at
// whatever loopback address; "" where no space has that port. An error means that the
// socket cannot be trusted, or is unknown.
func ReadSpaceSocket(env Getenv, port int) (string, error) {
	b, err := ReadPlain(spaceSocketFile(env, port), 4096)
	if IsMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read local-spaces/%d: %w", port, err)
	}
	socket := strings.TrimSpace(string(b))
	return socket, checkOwnFolder(filepath.Dir(socket))
}

func spaceSocketFile(env Getenv, port int) string {
	return filepath.Join(UserStateDir(env), "local-spaces", strconv.Itoa(port))
}

// checkOwnFolder returns an error where others could put a file into the folder, or it is
// a link, whose owner could change its target.
func checkOwnFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Getuid() || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotOwnFolder)
	}
	return nil
}

// ErrNotOwnFolder means that other users of this machine could change the files in a
// folder.
var ErrNotOwnFolder = errors.New("other users may write there")
