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

// pageSecurityPolicy keeps the page to itself: no inline script, nothing from elsewhere.
const pageSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageRoutes are the page, its files, its events and what is typed on it.
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
	mux.HandleFunc("GET /events", s.requirePageKey(s.serveEvents))
	mux.HandleFunc("GET /page/session", s.requirePageKey(jsonHandler(s.serveSession)))
	mux.HandleFunc("GET /page/projects", s.requirePageKey(jsonHandler(s.serveProjects)))
	mux.HandleFunc("GET /page/week", s.requirePageKey(jsonHandler(s.serveWeek)))
	mux.HandleFunc("POST /page/messages", s.requirePageKey(jsonHandler(s.postFromPage)))
	mux.HandleFunc("/", jsonHandler(func(*http.Request) (any, error) {
		return nil, notFound("There is nothing at this address.")
	}))
	return mux
}

func servePageFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Security-Policy", pageSecurityPolicy)
	// a window that opened it has no hold on it
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	http.ServeFileFS(w, r, pageFiles, "page/"+cmp.Or(r.PathValue("file"), "index.html"))
}

// postFromPage takes what a person typed or tapped. A cross-origin page cannot send it: a
// browser asks before it sends JSON elsewhere, and says where the request came from.
func (s *Space) postFromPage(r *http.Request) (any, error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, &apiError{
			http.StatusUnsupportedMediaType,
			"The content type must be application/json.",
			"INVALID_ARGUMENT",
		}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return nil, permissionDenied("Only the space's own page may post here.")
	}
	var typed struct {
		Thread   string              `json:"thread"`
		Text     string              `json:"text"`
		Message  string              `json:"message"` // whose card was tapped
		Choice   string              `json:"choice"`
		Inputs   map[string][]string `json:"inputs"`
		ClientID string              `json:"clientId"`
	}
	if err := decodeBody(r, &typed); err != nil {
		return nil, err
	}
	if typed.ClientID == "" || len(typed.ClientID) > 64 {
		return nil, invalidArgument("clientId must have 1 to 64 bytes")
	}
	defer func() { go s.onActivity(false) }()
	if typed.Message != "" {
		return struct{}{}, s.Tap(
			nil,
			typed.Message,
			"",
			typed.Choice,
			typed.Inputs,
			"tap:"+typed.ClientID,
		)
	}
	m, err := s.postAs(nil, typed.Thread, typed.Text, "page:"+typed.ClientID)
	if err != nil {
		return nil, err
	}
	return map[string]string{"name": m.Name, "thread": m.Thread.Name}, nil
}

const (
	heartbeatInterval = 15 * time.Second
	eventWriteTimeout = 10 * time.Second // a reader that takes no bytes for so long is gone
	maxEventMessages  = 200              // messages in one event
)

// serveEvents streams the messages: first those after the last one the browser has, then
// each as it comes. An event's id is "epoch-count"; a browser that comes with another
// epoch looks at another space's messages, and is told to forget them.
func (s *Space) serveEvents(w http.ResponseWriter, r *http.Request) {
	lastID := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	stream := &eventStream{w: w, control: http.NewResponseController(w), epoch: s.epoch()}
	stream.control.SetReadDeadline(time.Time{}) // the server's is for requests, not for streams
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
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for isReady := false; stream.err == nil; {
		for len(rows) > 0 && stream.err == nil {
			n := min(len(rows), maxEventMessages)
			batch := []*messageRow{}
			for _, r := range rows[:n] {
				if viewer := r.Message.PrivateMessageViewer; viewer == nil ||
					viewer.Name == PersonName {
					batch = append(batch, pageRow(r))
				}
			}
			rows, sent = rows[n:], sent+n
			stream.send("messages", stream.epoch+"-"+strconv.Itoa(sent), batch)
		}
		if !isReady {
			isReady = true
			stream.send("ready", "", struct{}{})
		}
		select {
		case <-changed:
			rows, sent, changed = s.rowsAfter(sent)
		case <-ticker.C:
			stream.send("heartbeat", "", struct{}{})
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// pageRow is a row with what the page shows: a text once, though the API has it three
// times.
func pageRow(r *messageRow) *messageRow {
	message, requestID := *r.Message, ""
	message.ArgumentText, message.FormattedText, message.ClientAssignedMessageId, message.Space, message.ThreadReply = "", "", "", nil, false
	if strings.HasPrefix(r.RequestID, "page:") { // by it the page knows its own
		requestID = r.RequestID
	}
	return &messageRow{
		Message:   &message,
		RequestID: requestID,
		IsPatch:   r.IsPatch,
		Kind:      r.Kind,
		Session:   r.Session,
	}
}

// rowsAfter is the messages behind the first n, all where there are not even n, from
// which on they are, and a channel that is closed when there are more.
func (s *Space) rowsAfter(n int) (rows []*messageRow, from int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n > len(s.rows) {
		n = 0
	}
	return slices.Clone(s.rows[n:]), n, s.changed
}

// epoch names this space's messages. The webhook's key lives exactly as long as they do;
// a hash of it is no secret.
func (s *Space) epoch() string {
	sum := sha256.Sum256([]byte("epoch " + s.secrets.WebhookKey))
	return hex.EncodeToString(sum[:6])
}

// An eventStream writes server-sent events until the first error.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	epoch   string
	err     error
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

// Session is what the page tells of the session that a thread is of.
type Session struct {
	// Does is "works", "waits for you", "dialog open", "idle", "ended" or "out of reach";
	// "" where the thread is of no session.
	State string `json:"does"`
	// Commands says that commands in its thread are read.
	AcceptsCommands bool `json:"commands"`
	// Outside says, for the person, that it runs outside of tmux: what takes a terminal
	// does not work. It is "" in tmux.
	OutsideTmux string `json:"outside,omitempty"`
}

const (
	cachedSessionAge = 2 * time.Second // for so long an answer serves all pages
	describeTimeout  = 8 * time.Second // a tmux that hangs gives up before
)

// cachedSession is what was seen of a session last. Its lock is held while somebody
// looks, so that the others wait for what is seen.
type cachedSession struct {
	sync.Mutex
	seenAt time.Time
	Session
}

// serveSession says what the session of a thread does.
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
		// A page that goes away must not leave its broken look to the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), describeTimeout)
		defer cancel()
		cached.Session, cached.seenAt = s.describeSession(ctx, thread), s.now()
	}
	return cached.Session, nil
}

// serveWeek says what came of the last seven days.
func (s *Space) serveWeek(*http.Request) (any, error) {
	if s.describeWeek == nil {
		return struct{}{}, nil
	}
	return map[string]string{"week": s.describeWeek()}, nil
}

// serveProjects says whether the page may begin sessions, and in which projects.
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
