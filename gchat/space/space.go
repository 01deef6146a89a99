// Package space is the embedded space: a small local server that speaks the same webhook
// and Chat API as Google for the calls this program uses, keeps its messages on disk, and
// shows them on a web page made for a phone. It is the demo's Chat, the tests' Chat, and
// a way to use the program without Google.
//
// The tests hold its answers to an extract of Google's own discovery document, and what
// we ask of it to the whole of that, so that a client that works here is not surprised
// there.
package space

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/api/chat/v1"
)

// Name is the resource name of the one space there is.
const Name = "spaces/local"

// PersonName is the sender of what is typed on the page.
const PersonName = "users/local-human"

const webhookName = "users/local-webhook"

// ErrInUse says that another process has the same data folder open.
var ErrInUse = errors.New("the space is open in another process")

// ErrClosed is returned for what arrives after Close.
var ErrClosed = errors.New("the space is closed")

// Options says where a Space keeps its messages and who may see them. The zero
// value is a space in memory for this machine only.
type Options struct {
	// Data is the folder for the messages, made when missing. "" keeps them in memory
	// only.
	DataDir string
	// Lock is the file whose lock says that a process serves Data; "" is the file lock in
	// it.
	LockFile string
	// Phone says that the server can be reached from beyond loopback: then it answers to
	// every Host.
	AllowsPhone bool
	// Direct says that the space is a direct message with its Chat app, which hears all
	// that is said there.
	IsDirect bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Session says what the session of a thread does, within a few seconds. It is asked
	// for each thread once in 2 s at most. Nil: nothing is known of sessions.
	DescribeSession func(ctx context.Context, thread string) Session
	// Projects says whether sessions can be begun by "/new PROJECT words", and in which
	// projects. Nil: they cannot.
	ListProjects func() (names []string, start bool)
	// Week is what the page tells of the last seven days, in lines; nil: nothing. It is
	// asked only when a person opens it.
	DescribeWeek func() string
	// Said is called, in a goroutine of its own, when a person wrote or tapped something
	// on the page, and while events wait for the Chat app, which waits says. Nil: nothing
	// is.
	OnActivity func(waits bool)
}

// A Space holds the messages and serves them. Its methods may be called from several
// goroutines.
type Space struct {
	allowsPhone bool
	isDirect    bool
	now         func() time.Time
	secrets     secrets
	done        chan struct{}

	describeSession func(context.Context, string) Session
	listProjects    func() ([]string, bool)
	describeWeek    func() string
	onActivity      func(waits bool)
	sessionCache    sync.Map // thread name → *glance
	lastUsed        atomic.Pointer[time.Time]

	mu       sync.Mutex
	store    *store       // nil: in memory
	socket   net.Listener // nil: none
	isClosed bool
	// messages and changes of them, in their order; never changed once they are in
	rows        []*messageRow
	lastTime    time.Time
	byName      map[string]*messageRow // also by client-assigned id
	byRequest   map[string]*messageRow
	threadByKey map[string]string // thread key → thread name
	threads     map[string]bool
	hasApp      bool           // a Chat app wrote here, or fetches events
	isReminding bool           // Said is called until no event waits
	queue       []*queuedEvent // events that the app did not acknowledge, the oldest first
	changed     chan struct{}  // closed, and replaced, with every new message and event
}

// secrets are what a webhook URL carries, and the token for the page and the API. They
// outlive the process: they are written into configuration files, and into a phone's
// link.
type secrets struct {
	WebhookKey   string `json:"key"`
	WebhookToken string `json:"token"`
	APIToken     string `json:"page"`
}

// Open reads the messages of opts.Data and locks the folder. It returns an error
// that is ErrInUse when another process holds it.
func Open(options Options) (*Space, error) {
	s := &Space{
		allowsPhone:     options.AllowsPhone,
		isDirect:        options.IsDirect,
		now:             options.Now,
		describeSession: options.DescribeSession,
		listProjects:    options.ListProjects,
		describeWeek:    options.DescribeWeek,
		onActivity:      options.OnActivity,
		done:            make(chan struct{}),
		byName:          map[string]*messageRow{},
		byRequest:       map[string]*messageRow{},
		threadByKey:     map[string]string{},
		threads:         map[string]bool{},
		changed:         make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.onActivity == nil {
		s.onActivity = func(bool) {}
	}
	s.markUsed()
	if options.DataDir == "" {
		s.secrets = newSecrets()
		return s, nil
	}
	opened, rows, events, err := openStore(options.DataDir, options.LockFile)
	if err != nil {
		return nil, fmt.Errorf("open space: %w", err)
	}
	s.store, s.secrets = opened, opened.secrets
	for _, r := range rows {
		s.indexRow(r)
	}
	s.loadEvents(events)
	return s, nil
}

func (s *Space) markUsed() { s.lastUsed.Store(new(time.Now())) }

// LastUsed is when the space was asked for something last, by a program or a page, or
// opened.
func (s *Space) LastUsed() time.Time { return *s.lastUsed.Load() }

// Close ends the event streams and gives the data folder free.
func (s *Space) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil
	}
	s.isClosed = true
	close(s.done)
	if s.socket != nil {
		_ = s.socket.Close() // Serve may have closed it
		// where it was alone there: a data folder is not empty
		_ = os.Remove(filepath.Dir(s.socket.Addr().String()))
	}
	if s.store == nil {
		return nil
	}
	return s.store.close()
}

// ListenOnSocket has a space with a data folder listen on a unix socket, too, which Serve
// serves. It returns the socket's path: in the data folder, or in a new one where that is
// open to others or its path is too long (macOS takes 103 bytes, Linux 107).
func (s *Space) ListenOnSocket() (path string, err error) {
	dir, err := filepath.Abs(s.store.dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if info, _ := os.Stat(dir); info != nil && (len(dir) > 90 || info.Mode().Perm()&0o022 != 0) {
		temp := os.TempDir()
		if len(temp) > 60 {
			temp = "/tmp"
		}
		dir, err = os.MkdirTemp(temp, "gchat-hooks-")
	}
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "socket")
	_ = os.Remove(path) // a process that was killed left it: this one has the folder's lock
	s.socket, err = net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o600)
}

// WebhookURL is the address to post to, for a server at base ("http://127.0.0.1:8080").
// It carries secrets and stays the same as long as the data folder does, whether a phone
// reaches the server or not.
func (s *Space) WebhookURL(base string) string {
	q := url.Values{"key": {s.secrets.WebhookKey}, "token": {s.secrets.WebhookToken}}
	return s.APIEndpoint(base) + "v1/" + Name + "/messages?" + q.Encode()
}

// PageURL is the link to open in a browser once. The page keeps the key behind the "#",
// which no request line, log or referrer holds.
func (s *Space) PageURL(base string) string {
	return strings.TrimSuffix(base, "/") + "/#key=" + s.pageKey()
}

// APIEndpoint is the base address for a chat/v1 client, which gets no credentials: the
// token is part of the path.
func (s *Space) APIEndpoint(base string) string {
	return strings.TrimSuffix(base, "/") + "/t/" + s.secrets.APIToken + "/"
}

// Messages are all messages as they are now, in order. They do not change.
func (s *Space) Messages() []*chat.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var messages []*chat.Message
	for _, r := range s.rows {
		if !r.IsPatch {
			messages = append(messages, s.byName[r.Message.Name].Message)
		}
	}
	return messages
}

func newSecrets() secrets {
	return secrets{
		WebhookKey:   randomText(24),
		WebhookToken: randomText(32),
		APIToken:     randomText(24),
	}
}

// randomText is n random bytes in a form that needs no escaping in an address.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails; it ends the program rather than be weak
	return base64.RawURLEncoding.EncodeToString(b)
}

// Person is who types on the page.
func Person() *chat.User {
	return &chat.User{Name: PersonName, Type: "HUMAN", DisplayName: "You"}
}

// Serve answers on ln, and on the space's own socket, until ctx ends, then lets running
// requests finish for at most five seconds. It closes both, and leaves s open.
func Serve(ctx context.Context, listener net.Listener, s *Space) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      30 * time.Second, // event streams set their own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// The event streams end with ctx, or Shutdown would wait for them.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	listeners := []net.Listener{listener}
	if s.socket != nil {
		listeners = append(listeners, s.socket)
	}
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { served <- server.Serve(l) }()
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve space: %w", errors.Join(err, server.Close()))
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if server.Shutdown(shutdownCtx) != nil {
		server.Close()
	}
	for range listeners {
		<-served
	}
	return nil
}
