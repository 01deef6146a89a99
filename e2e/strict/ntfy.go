package strict

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// CallServer takes the place of an ntfy server. It was compared with the real one, built
// from its source of 13 July 2025 (after v2.13.0), with our own requests. That one
// answered:
//
//	200  a call, an empty text (which becomes "triggered"), any Click, a title of 3000 letters
//	400  a priority that is not 1 to 5; a topic with a name of the server's own ("docs");
//	     a text of 4096 bytes or more, where files are off (where they are on, it becomes a
//	     file, and above the limit for files the answer is 413)
//	401  a token that it does not know
//	403  a protected topic, without a token or with one that may not write there
//	404  a topic's name with other characters than A-Z a-z 0-9 _ -, of more than 64, or
//	     with a "/"
//	429  too many requests, or the day's quota of messages; without Retry-After
//
// Its errors are JSON: {"code":40301,"http":403,"error":"forbidden","link":"…"}. It reads
// Title as RFC 2047. It does not know X-Sequence-ID: the end of a call is a message of its
// own, with the priority 1 that was sent. Servers from 2.16 on replace a message by the
// next one with the same X-Sequence-ID (docs.ntfy.sh/publish).
type CallServer struct {
	*httptest.Server
	IsOpen bool // its topics need no token
	t      testing.TB

	mu       sync.Mutex
	status   int
	tries    int
	received []ReceivedCall
	onCall   func()
}

// ReceivedCall is a message that the server took.
type ReceivedCall struct {
	Topic, Title, Text, Click, SequenceID string
	Priority                              int
}

// CallToken is the token that the server knows. Its topics are protected.
const CallToken = "tk_secret"

var topicPath = regexp.MustCompile(`^/[-_A-Za-z0-9]{1,64}$`)

// NewCallServer returns a server that runs until the test ends.
func NewCallServer(t testing.TB) *CallServer {
	c := &CallServer{t: t, status: http.StatusOK}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *CallServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	call, status, problem := c.readCall(r, body)
	for name, values := range r.Header {
		if strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' || c > '~' }) {
			c.t.Errorf("header %s: %q is not ASCII", name, values[0])
		}
	}
	c.mu.Lock()
	c.tries++
	if status == http.StatusOK && c.status != http.StatusOK {
		status, problem = c.status, "as the test wants it \x1b[31m"
	}
	onCall := c.onCall
	if status == http.StatusOK {
		c.received = append(c.received, call)
	}
	c.mu.Unlock()
	if onCall != nil {
		onCall()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status != http.StatusOK {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"code": status*100 + 1, "http": status, "error": problem,
		})
		return
	}
	fmt.Fprintf(w, `{"id":"x","event":"message","topic":%q}`, call.Topic)
}

// readCall reads a request as the server does, and returns what it answers.
func (c *CallServer) readCall(
	r *http.Request, body []byte,
) (call ReceivedCall, status int, problem string) {
	title, err := new(mime.WordDecoder).DecodeHeader(r.Header.Get("Title"))
	priority, priorityErr := strconv.Atoi(r.Header.Get("Priority"))
	token := r.Header.Get("Authorization")
	switch {
	case r.Method != http.MethodPost || !topicPath.MatchString(r.URL.Path):
		return call, http.StatusNotFound, "page not found"
	case token == "" && !c.IsOpen:
		return call, http.StatusForbidden, "forbidden"
	case token != "" && token != "Bearer "+CallToken:
		return call, http.StatusUnauthorized, "unauthorized"
	case err != nil || priorityErr != nil || priority < 1 || priority > 5:
		return call, http.StatusBadRequest, "invalid priority parameter"
	case len(body) >= 4096:
		return call, http.StatusBadRequest, "invalid request: attachments not allowed"
	}
	return ReceivedCall{
		Topic: r.URL.Path[1:], Title: title, Text: string(body), Click: r.Header.Get("Click"),
		SequenceID: r.Header.Get("X-Sequence-ID"), Priority: priority,
	}, http.StatusOK, ""
}

// AnswerWith sets the answer to calls that are right.
func (c *CallServer) AnswerWith(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// OnCall sets a function that runs after a call is received and before it is answered.
func (c *CallServer) OnCall(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onCall = f
}

// Tries is how many requests came.
func (c *CallServer) Tries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries
}

// Received are the calls that the server took.
func (c *CallServer) Received() []ReceivedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]ReceivedCall(nil), c.received...)
}

// Lines are the calls that the server took, as "PRIORITY TITLE: TEXT".
func (c *CallServer) Lines() (lines []string) {
	for _, call := range c.Received() {
		lines = append(lines, fmt.Sprintf("%d %s: %s", call.Priority, call.Title, call.Text))
	}
	return lines
}

// Shown is how many notifications the phone shows, if the server is of 2.16 or newer.
func (c *CallServer) Shown() int {
	ids := map[string]bool{}
	for _, call := range c.Received() {
		ids[call.SequenceID] = true
	}
	return len(ids)
}
