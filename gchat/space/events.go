package space

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	heartbeat  = 15 * time.Second
	eventWrite = 10 * time.Second // a reader that takes no bytes for so long is gone
	eventBatch = 200              // messages in one event
)

// serveEvents streams the messages: first those after the last one the browser has, then each as it comes. An event's id is
// "epoch-count"; a browser that comes with another epoch looks at another space's messages, and is told to forget them.
func (s *Space) serveEvents(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("after")
	}
	stream := &eventStream{w: w, control: http.NewResponseController(w), epoch: s.epoch()}
	stream.control.SetReadDeadline(time.Time{}) // the server's is for requests, not for streams
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)

	sent := 0
	if epoch, count, ok := strings.Cut(last, "-"); ok && epoch == stream.epoch {
		sent, _ = strconv.Atoi(count)
	}
	rows, changed := s.after(sent)
	if rows == nil {
		sent = 0
		rows, changed = s.after(0)
	}
	if sent == 0 {
		stream.send("reset", "", struct{}{})
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for ready := false; stream.err == nil; {
		for len(rows) > 0 && stream.err == nil {
			n := min(len(rows), eventBatch)
			batch := make([]pageMessage, n)
			for i, r := range rows[:n] {
				batch[i] = forPage(r)
			}
			rows, sent = rows[n:], sent+n
			stream.send("messages", stream.epoch+"-"+strconv.Itoa(sent), batch)
		}
		if !ready {
			ready = true
			stream.send("ready", "", struct{}{})
		}
		select {
		case <-changed:
			rows, changed = s.after(sent)
		case <-ticker.C:
			stream.send("heartbeat", "", struct{}{})
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// after is the messages behind the first n, and a channel that is closed when
// there are more. It is nil when there are not even n.
func (s *Space) after(n int) ([]*row, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 || n > len(s.rows) {
		return nil, s.changed
	}
	return append([]*row{}, s.rows[n:]...), s.changed
}

// epoch names this space's messages. The webhook's key lives exactly as long as they do; a hash of it is no secret.
func (s *Space) epoch() string {
	sum := sha256.Sum256([]byte("epoch " + s.secrets.Key))
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
	var b []byte
	if b, e.err = json.Marshal(data); e.err != nil {
		return
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	e.control.SetWriteDeadline(time.Now().Add(eventWrite))
	if _, e.err = fmt.Fprintf(e.w, "%sevent: %s\nretry: 1000\ndata: %s\n\n", id, event, b); e.err == nil {
		e.err = e.control.Flush()
	}
}
