package space

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page
var pageFiles embed.FS

// pageSecurityPolicy is the page's Content-Security-Policy: no inline scripts, and
// nothing from or to another origin.
const pageSecurityPolicy = "default-src 'none'; " +
	"script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pagePermissions takes from the page what it does not use, and https would allow.
const pagePermissions = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

// pageRoutes returns the handler of the page: its files, its data, and what a person
// sends from it.
func (s *Space) pageRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("token") {
			s.redirectOldLink(w, r)
			return
		}
		servePageFile(w, r)
	})
	mux.HandleFunc("GET /page/{file}", servePageFile)
	s.addPushRoutes(mux)
	mux.HandleFunc("GET /events", s.requirePageKey(s.serveEvents))
	mux.HandleFunc("GET /page/session", s.requirePageKey(jsonHandler(s.serveSession)))
	mux.HandleFunc("GET /page/sessions", s.requirePageKey(jsonHandler(s.serveSessions)))
	mux.HandleFunc("GET /page/projects", s.requirePageKey(jsonHandler(s.serveProjects)))
	mux.HandleFunc("GET /page/started", s.requirePageKey(jsonHandler(s.serveStarted)))
	mux.HandleFunc("GET /page/week", s.requirePageKey(jsonHandler(s.serveWeek)))
	mux.HandleFunc("POST /page/files", s.requirePageKey(s.uploadFromPage))
	mux.HandleFunc("GET /page/files/{id}", s.requirePageKey(s.serveFile))
	mux.HandleFunc("GET /page/shown", s.requirePageKey(jsonHandler(s.serveShownText)))
	mux.HandleFunc("POST /page/messages", s.requirePageKey(jsonHandler(s.postFromPage)))
	mux.HandleFunc("GET "+IdentityPath, jsonHandler(s.serveIdentity))
	mux.HandleFunc("/", jsonHandler(func(*http.Request) (any, error) {
		return nil, notFound("There is nothing at this address.")
	}))
	return mux
}

func servePageFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Security-Policy", pageSecurityPolicy)
	// A page of another origin that opens this one gets no reference to its window.
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Header().Set("Permissions-Policy", pagePermissions)
	http.ServeFileFS(w, r, pageFiles, "page/"+cmp.Or(r.PathValue("file"), "index.html"))
}

// decodePageBody parses the body of a request that the page makes. A page of another
// origin cannot make it: a browser asks this server before it sends JSON to another
// origin, and names the origin of each request.
func decodePageBody(r *http.Request, v any) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return &apiError{415, "The content type must be application/json.", "INVALID_ARGUMENT"}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return permissionDenied("Only the page itself may post here.")
	}
	return decodeBody(r, v)
}

// postFromPage posts what a person typed, or does what they tapped.
func (s *Space) postFromPage(r *http.Request) (any, error) {
	var typed struct {
		Thread   string              `json:"thread"`
		Text     string              `json:"text"`
		Message  string              `json:"message"` // the message whose card was tapped
		Choice   string              `json:"choice"`
		Inputs   map[string][]string `json:"inputs"`
		ClientID string              `json:"clientId"`
		Files    []sentFile          `json:"files"`
	}
	if err := decodePageBody(r, &typed); err != nil {
		return nil, err
	}
	if typed.ClientID == "" || len(typed.ClientID) > 64 {
		return nil, invalidArgument("clientId must have 1 to 64 bytes")
	}
	if len(typed.Files) > MaxFiles {
		return nil, tooManyFiles()
	}
	defer func() { go s.onActivity(false) }()
	if typed.Message != "" {
		requestID := "tap:" + typed.ClientID
		if s.hasRequest(requestID) { // the answer to the same tap was lost
			return struct{}{}, nil
		}
		if err := s.checkTap(typed.Message, typed.Choice, typed.Inputs); err != nil {
			return nil, err
		}
		return struct{}{}, s.Tap(nil, typed.Message, "", typed.Choice, typed.Inputs, requestID)
	}
	if err := s.checkQueue(); err != nil {
		return nil, err
	}
	m, err := s.postAs(nil, typed.Thread, typed.Text, "page:"+typed.ClientID, typed.Files...)
	if err != nil {
		return nil, err
	}
	return map[string]string{"name": m.Name, "thread": m.Thread.Name}, nil
}

const (
	heartbeatInterval = 15 * time.Second
	eventWriteTimeout = 10 * time.Second // a reader that reads nothing for so long is gone
	maxEventMessages  = 200              // messages in one event
)

// serveEvents streams the messages: first those after the last one that the browser has,
// then each new one. An event's id is "epoch-count". A browser that has another epoch
// shows the messages of another space; the event "reset" has it forget them.
func (s *Space) serveEvents(w http.ResponseWriter, r *http.Request) {
	lastID := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	stream := &eventStream{w: w, control: http.NewResponseController(w), epoch: s.epoch()}
	// The server's read deadline is meant for requests, not for streams.
	stream.control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)

	sent := 0
	if epoch, count, ok := strings.Cut(lastID, "-"); ok && epoch == stream.epoch {
		sent, _ = strconv.Atoi(count)
	}
	rows, sent, changed := s.rowsAfter(sent)
	if sent == 0 {
		stream.send("reset", "", struct{}{})
	}
	sent = stream.sendRows(rows, sent)
	stream.send("ready", "", struct{}{})
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for stream.err == nil {
		select {
		case <-changed:
			rows, sent, changed = s.rowsAfter(sent)
			sent = stream.sendRows(rows, sent)
		case <-ticker.C:
			stream.send("heartbeat", "", struct{}{})
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// pageRow returns a row with only what the page shows. The text is in it once, and not
// three times as in the API.
func pageRow(r *messageRow) *messageRow {
	message, requestID := *r.Message, ""
	message.ArgumentText, message.FormattedText, message.ClientAssignedMessageId = "", "", ""
	message.Space, message.ThreadReply = nil, false
	if strings.HasPrefix(r.RequestID, "page:") { // by this id the page finds its own messages
		requestID = r.RequestID
	}
	return &messageRow{
		Message:   &message,
		RequestID: requestID,
		IsPatch:   r.IsPatch,
		Kind:      r.Kind,
		Session:   r.Session,
		SessionID: r.SessionID,
	}
}

// rowsAfter returns the rows after the first n, the number of rows before them, and a
// channel that is closed when there are more. If there are fewer than n rows, it returns
// all.
func (s *Space) rowsAfter(n int) (rows []*messageRow, from int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n > len(s.rows) {
		n = 0
	}
	return slices.Clone(s.rows[n:]), n, s.changed
}

// epoch returns a name for this space's messages. It is a hash of the webhook's key,
// which exists exactly as long as the messages do. The hash is not secret.
func (s *Space) epoch() string {
	sum := sha256.Sum256([]byte("epoch " + s.secrets.WebhookKey))
	return hex.EncodeToString(sum[:6])
}

// eventStream writes server-sent events until the first error.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	epoch   string
	err     error
}

// sendRows sends rows, of which sent came before, and returns how many are sent then. It
// leaves out messages that only another person may see.
func (e *eventStream) sendRows(rows []*messageRow, sent int) int {
	for batch := range slices.Chunk(rows, maxEventMessages) {
		visible := []*messageRow{}
		for _, r := range batch {
			viewer := r.Message.PrivateMessageViewer
			if viewer == nil || viewer.Name == PersonName {
				visible = append(visible, pageRow(r))
			}
		}
		sent += len(batch)
		e.send("messages", e.epoch+"-"+strconv.Itoa(sent), visible)
	}
	return sent
}

func (e *eventStream) send(event, id string, data any) {
	if e.err != nil {
		return
	}
	b, _ := json.Marshal(data) // texts always encode
	if id != "" {
		id = "id: " + id + "\n"
	}
	e.control.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
	_, err := fmt.Fprintf(e.w, "%sevent: %s\ndata: %s\n\n", id, event, b)
	e.err = cmp.Or(err, e.control.Flush())
}

// Session is what the page shows of a thread's session.
type Session struct {
	// State is "works", "waits for you", "dialog open", "idle", "ended" or "out of
	// reach"; "" if the thread belongs to no session.
	State string `json:"does"`
	// AcceptsCommands means that commands in the session's thread are read.
	AcceptsCommands bool `json:"commands"`
	// OutsideTmux is a warning for the person: outside of tmux, a command that needs a
	// terminal does not work. It is "" if the session runs in tmux.
	OutsideTmux string `json:"outside,omitempty"`
	// Progress is what Claude does; nil if it does not work.
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is what the page shows of a turn while Claude works on it.
type Progress struct {
	Calls []string `json:"calls"` // the last tools, the oldest first
	Words string   `json:"words"` // Claude's last words
}

const (
	cachedSessionAge = 2 * time.Second // how long all pages get the same description
	describeTimeout  = 8 * time.Second // a call of tmux that hangs times out earlier
)

// cachedSession is the last description of a session. Its lock is held while one request
// asks for a new description, so that the others wait for it.
type cachedSession struct {
	sync.Mutex
	seenAt time.Time
	Session
}

// serveSession serves the description of a thread's session.
func (s *Space) serveSession(r *http.Request) (any, error) {
	thread := r.URL.Query().Get("thread")
	s.mu.Lock()
	isKnown := s.threads[thread]
	s.mu.Unlock()
	if s.describeSession == nil || !isKnown {
		return Session{}, nil
	}
	entry, _ := s.sessionCache.LoadOrStore(thread, new(cachedSession))
	cached := entry.(*cachedSession)
	cached.Lock()
	defer cached.Unlock()
	if age := s.now().Sub(cached.seenAt); age < 0 || age >= cachedSessionAge {
		// If this page closes its request, the other pages still need the description.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), describeTimeout)
		defer cancel()
		cached.Session, cached.seenAt = s.describeSession(ctx, thread), s.now()
	}
	return cached.Session, nil
}

// serveProjects serves whether the page may start sessions, and in which projects.
func (s *Space) serveProjects(*http.Request) (any, error) {
	var response struct {
		Start    bool     `json:"start"`
		Projects []string `json:"projects"`
	}
	if s.listProjects != nil {
		response.Projects, response.Start = s.listProjects()
	}
	return response, nil
}

// serveStarted serves the thread of the session that a message of the person's started.
func (s *Space) serveStarted(r *http.Request) (any, error) {
	message := r.URL.Query().Get("message")
	s.mu.Lock()
	isKnown := s.byName[message] != nil
	s.mu.Unlock()
	thread := ""
	if isKnown && s.startedThread != nil {
		thread = s.startedThread(message)
	}
	return map[string]string{"thread": thread}, nil
}
