// Package space is the embedded space: a small local server with the webhook and Chat API
// of Google, as far as this program calls them. It keeps its messages on disk, and shows
// them on a web page made for a phone. The demo and the tests use it, and a person can
// use it to work without Google.
//
// The tests check its responses against an extract of Google's discovery document, and
// this program's requests against the whole document. So a client that works here works
// with Google, too.
package space

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
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

// Name is the resource name of the only space that exists here.
const Name = "spaces/local"

// PersonName is the sender of messages that a person types on the page.
const PersonName = "users/local-human"

const webhookName = "users/local-webhook"

// ErrInUse means that another process has the same data folder open.
var ErrInUse = errors.New("another process serves the page from this folder")

// ErrClosed is the error of a message or an event that arrives after Close.
var ErrClosed = errors.New("the page's server has ended")

// Options configure a Space. The zero value is a space in memory, for this machine only.
type Options struct {
	// DataDir is the folder for the messages; it is created if needed. If it is "", the
	// messages are only in memory.
	DataDir string
	// LockFile is the file that is locked while a process serves DataDir. The default is
	// the file "lock" in DataDir.
	LockFile string
	// AllowsPhone means that other machines can reach the server. It then accepts every
	// Host header.
	AllowsPhone bool
	// HTTPSHost is the one host name, besides those of this machine, that the server
	// answers to: browsers reach it at https://HTTPSHost. It may be "".
	HTTPSHost string
	// IsDirect means that the space is a direct message with its Chat app, so that the
	// app gets every message.
	IsDirect bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// DescribeSession returns what the session of a thread does. It has describeTimeout
	// for that, and is called for a thread once in cachedSessionAge at most. If it is
	// nil, the page shows nothing about sessions.
	DescribeSession func(ctx context.Context, thread string) Session
	// ListSessions returns the sessions of this machine, in the order in which the page
	// shows them. It is called once in cachedSessionAge at most. If it is nil, the page
	// knows sessions only by their messages.
	ListSessions func(ctx context.Context) []ListedSession
	// ListProjects returns whether "/new PROJECT text" can start a session, and in which
	// projects. If it is nil, it cannot.
	ListProjects func() (names []string, canStart bool)
	// StartedThread returns the thread of the session that a "/new" message started; "" if
	// there is none yet. If it is nil, the page does not wait for it.
	StartedThread func(message string) string
	// DescribeWeek returns the figures that the page shows of the last seven days. It is
	// called only when a person opens them. If it is nil, the page shows nothing.
	DescribeWeek func() Week
	// PushSettings returns what the person set about the calls on their devices. It is
	// called before each of them. If it is nil, they have the defaults.
	PushSettings func() PushSettings
	// ReadShownText returns all that a permission is asked for, where its card shows a
	// part of it. cardID is the id in the card's buttons. It returns "" if the question is
	// over. If it is nil, the page asks for a message with the text instead.
	ReadShownText func(cardID string) string
	// CheckForm returns what is wrong with the inputs of a form that a person accepts, by
	// the names of the inputs. If it is nil, only the app checks them.
	CheckForm func(cardID string, inputs map[string][]string) map[string]string
	// OnActivity is called in a goroutine of its own: with false when a person wrote or
	// tapped something on the page, and with true while events wait for the Chat app.
	OnActivity func(isEventWaiting bool)

	pushRoots      *tls.Config   // for tests; see pusher
	pushRetryPause time.Duration // for tests
}

// Space stores the messages and serves them. Its methods may be called from several
// goroutines.
type Space struct {
	allowsPhone bool
	httpsHost   string
	isDirect    bool
	now         func() time.Time
	secrets     secrets
	done        chan struct{}

	describeSession func(context.Context, string) Session
	listSessions    func(context.Context) []ListedSession
	listProjects    func() ([]string, bool)
	startedThread   func(message string) string
	describeWeek    func() Week
	readShownText   func(cardID string) string
	checkForm       func(cardID string, inputs map[string][]string) map[string]string
	onActivity      func(isEventWaiting bool)
	sessionCache    sync.Map // thread name → *cachedSession
	listCache       cachedList
	lastUsed        atomic.Pointer[time.Time]
	pushes          *pusher // calls the person's devices; nil if the space is in memory

	mu       sync.Mutex
	store    *store       // nil: the messages are only in memory
	socket   net.Listener // see ListenOnSocket; nil: none
	isClosed bool
	// messages and their changes, in the order of arrival; a row in it is never modified
	rows        []*messageRow
	lastTime    time.Time              // createTime of the latest message
	byName      map[string]*messageRow // the latest row, also by client-assigned id
	byRequest   map[string]*messageRow
	threadByKey map[string]string // thread key → thread name
	threads     map[string]bool   // the names of all threads
	filesDir    string            // see filesFolder; "" before the first file
	attached    map[string]bool   // the ids of the files that messages name
	hasApp      bool              // a Chat app posted here, or pulls events
	isReminding bool              // onActivity is called until no event waits
	queue       []*queuedEvent    // events that the app did not acknowledge, the oldest first
	changed     chan struct{}     // closed and replaced with every new row and event
}

// secrets are the key and token of the webhook's URL, and the token of the API, from
// which the page's key is derived. They stay the same in later processes, because they
// are in configuration files and in a phone's link.
type secrets struct {
	WebhookKey   string `json:"key"`
	WebhookToken string `json:"token"`
	APIToken     string `json:"page"`
}

// Open locks the data folder and reads its messages. The error wraps ErrInUse if another
// process has locked the folder.
func Open(options Options) (*Space, error) {
	s := &Space{
		allowsPhone:     options.AllowsPhone,
		httpsHost:       options.HTTPSHost,
		isDirect:        options.IsDirect,
		now:             options.Now,
		describeSession: options.DescribeSession,
		listSessions:    options.ListSessions,
		listProjects:    options.ListProjects,
		startedThread:   options.StartedThread,
		describeWeek:    options.DescribeWeek,
		readShownText:   options.ReadShownText,
		checkForm:       options.CheckForm,
		onActivity:      options.OnActivity,
		done:            make(chan struct{}),
		byName:          map[string]*messageRow{},
		byRequest:       map[string]*messageRow{},
		threadByKey:     map[string]string{},
		threads:         map[string]bool{},
		attached:        map[string]bool{},
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
		return nil, fmt.Errorf("open the page's data: %w", err)
	}
	s.store, s.secrets = opened, opened.secrets
	for _, r := range rows {
		s.indexRow(r)
	}
	s.loadEvents(events)
	s.pushes = openPusher(s, options)
	if dir := filepath.Join(options.DataDir, "files"); isFolder(dir) {
		s.filesDir = dir
		s.sweepFiles()
	}
	return s, nil
}

func (s *Space) markUsed() { s.lastUsed.Store(new(time.Now())) }

// LastUsed returns the time of the last request of a program or a page. Without any, it
// is when the space was opened.
func (s *Space) LastUsed() time.Time { return *s.lastUsed.Load() }

// Close ends the event streams and unlocks the data folder.
func (s *Space) Close() error {
	if s.pushes != nil {
		s.pushes.close() // without the lock, which its goroutines may wait for
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		return nil
	}
	s.isClosed = true
	close(s.done)
	if s.socket != nil {
		_ = s.socket.Close() // Serve may have closed it
		// This removes a folder that ListenOnSocket made. It fails for the data folder,
		// which is not empty.
		_ = os.Remove(filepath.Dir(s.socket.Addr().String()))
	}
	if s.store == nil {
		if s.filesDir != "" {
			return os.RemoveAll(s.filesDir) // a temporary folder
		}
		return nil
	}
	return s.store.close()
}

// ListenOnSocket makes a unix socket, which Serve then serves, too. The space must have a
// data folder. ListenOnSocket returns the socket's path: in the data folder, or in a new
// folder if other users can write to the data folder or its path is too long (the limit
// is 103 bytes on macOS, 107 on Linux).
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
	// An existing socket is of a process that was killed: this process has the lock.
	_ = os.Remove(path)
	s.socket, err = net.Listen("unix", path)
	if err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o600)
}

// WebhookURL returns the URL to post to, for a server at base ("http://127.0.0.1:8080").
// It contains secrets. It stays the same as long as the data folder exists, with and
// without AllowsPhone.
func (s *Space) WebhookURL(base string) string {
	q := url.Values{"key": {s.secrets.WebhookKey}, "token": {s.secrets.WebhookToken}}
	return s.APIEndpoint(base) + "v1/" + Name + "/messages?" + q.Encode()
}

// PageURL returns the link that a person opens in a browser once. The page keeps the key
// from it. The key is after the "#", so that it is in no request line, log or referrer.
func (s *Space) PageURL(base string) string {
	return strings.TrimSuffix(base, "/") + "/#key=" + s.pageKey()
}

// APIEndpoint returns the base URL for a chat/v1 client. The client needs no credentials:
// the token is part of the path.
func (s *Space) APIEndpoint(base string) string {
	return strings.TrimSuffix(base, "/") + "/t/" + s.secrets.APIToken + "/"
}

// Messages returns all messages with the changes made so far, in order of creation. The
// caller must not modify them.
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

// randomText returns n random bytes in a form that needs no escaping in a URL.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // it never returns an error: without randomness it ends the program
	return base64.RawURLEncoding.EncodeToString(b)
}

// Person returns the user who types on the page.
func Person() *chat.User {
	return &chat.User{Name: PersonName, Type: "HUMAN", DisplayName: "You"}
}

// Serve serves s on the listener, and on the socket of ListenOnSocket, until ctx ends. It
// then waits up to five seconds for the running requests. It closes both listeners, but
// not s.
func Serve(ctx context.Context, listener net.Listener, s *Space) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       20 * time.Second,
		WriteTimeout:      30 * time.Second, // event streams set their own
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(handshakeErrorFilter{os.Stderr}, "", log.LstdFlags),
		// Without this, the event streams would not end with ctx, and Shutdown would wait
		// for them.
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
		return fmt.Errorf("serve the page: %w", errors.Join(err, server.Close()))
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
