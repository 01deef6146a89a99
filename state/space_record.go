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

// Space is how far the messages of one space were read, and when this machine may write
// to it again: file spaces/{host and space}.json in the user state. It is shared by the
// pollers of all environments.
type Space struct {
	Record
	Chat string `json:"chat"` // host/spaces/S

	// Watermark is the createTime of the newest message that the last list came to, never
	// later than the server's own clock.
	Watermark time.Time `json:"watermark"`
	// Trouble is why replies cannot be read at present; nil when they can.
	ReadTrouble *ReadTrouble `json:"trouble,omitempty"`

	// Next is when the allowance for one write after another would be used up: a token
	// bucket in one number.
	NextWriteAt time.Time `json:"next,omitzero"`
	// Chat wants to be left alone, or is out of reach
	NotBefore     time.Time `json:"not_before,omitzero"`
	IsAskedByChat bool      `json:"asked,omitempty"` // Chat itself asked for that
	Why           string    `json:"why,omitempty"`
	Failures      int       `json:"failures,omitempty"` // one after another
	// Paused are the webhooks through which nothing goes until a person mends something,
	// by a hash of the URL: a space can have several, and one of them be wrong. Every now
	// and then one message tries.
	PausedWebhooks map[string]WebhookPause `json:"paused,omitempty"`
}

// ReadTrouble is what keeps a space from being read.
type ReadTrouble struct {
	Since      time.Time `json:"since"`
	Why        string    `json:"why"` // without secrets
	IsDegraded bool      `json:"degraded"`
	IsRefused  bool      `json:"refused,omitempty"` // only a person can mend it
}

// WebhookPause is why nothing goes through a webhook.
type WebhookPause struct {
	Since      time.Time `json:"since"`
	NotBefore  time.Time `json:"not_before"`
	Why        string    `json:"why"`
	IsNotified bool      `json:"told,omitempty"` // a session's person was told
}

func (s *Space) check(time.Time) error { return nil }

// WriteDelay is how long the space is to be left alone; 0 when it may be written to.
func (s *Space) WriteDelay(now time.Time) time.Duration {
	if wait := s.NotBefore.Sub(now); wait <= time.Hour {
		// what says more comes from a clock that was set back
		return max(wait, 0)
	}
	return 0
}

// TakeWrite takes one write, when every is the time per write on average and burst how
// many may come at once. It returns how long to wait when there is none.
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

// SpacesIn is the folder spaces of a user state folder.
func SpacesIn(userState string) Spaces {
	return Spaces{Folder[Space]{Dir: filepath.Join(userState, "spaces"), durability: inPlace}}
}

// Get is what is known of a space, by host/spaces/S; an empty one when nothing is.
func (s Spaces) Get(chat string) *Space {
	if space, err := s.Load(safeFileName(chat)); err == nil {
		return space
	}
	return &Space{Chat: chat}
}

// Change updates a space. Where the disk fails the change is lost with it: a pace that is
// not kept is better than silence.
func (s Spaces) Change(chat string, change func(*Space)) (*Space, error) {
	s.initRecord = func(space *Space) { space.Chat = chat }
	return s.Folder.Change(safeFileName(chat), change)
}

// LockReader makes the caller the one process of this machine that lists a space;
// ErrLocked when there is one.
func (s Spaces) LockReader(chat string) (*Lock, error) {
	return TryLock(filepath.Join(s.Dir, ".locks", safeFileName(chat)+".reader"))
}

// The embedded space has a port of this machine. While the space is down, another user's
// process can take that port. So the space listens on a unix socket, too, in a folder
// where only this user can make one, and the file local-spaces/PORT of the user state
// holds its path. The file stays when the space ends: the port of a space is never
// trusted again.

// WriteSpaceSocket notes that the space of a port is reached by this unix socket. The
// error says so where others could replace it.
func WriteSpaceSocket(env Getenv, port int, socket string) error {
	if err := checkOwnFolder(filepath.Dir(socket)); err != nil {
		return err
	}
	return WriteFile(spaceSocketFile(env, port), []byte(socket+"\n"))
}

// ReadSpaceSocket is the unix socket of the space that has a port of this machine, at
// whatever loopback address; "" where none has. Errors say that the socket is not to be
// trusted, and that it is unknown.
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

// checkOwnFolder is an error where others could put a file into a folder, or it is a
// link, which its owner could turn elsewhere.
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

// ErrNotOwnFolder says that other users of this machine could change what is in a folder.
var ErrNotOwnFolder = errors.New("other users may write there")
