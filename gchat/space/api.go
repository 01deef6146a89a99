package space

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
)

// apiRoutes are the methods of the Chat API that are served.
func (s *Space) apiRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/spaces/{space}/messages", s.apiMethod(s.createMessage))
	mux.Handle("GET /v1/spaces/{space}/messages", s.apiMethod(s.listMessages))
	mux.Handle("GET /v1/spaces/{space}/messages/{message}", s.apiMethod(s.getMessage))
	mux.Handle("PATCH /v1/spaces/{space}/messages/{message}", s.apiMethod(s.patchMessage))
	mux.Handle("GET /v1/spaces/{space}", s.apiMethod(func(*http.Request) (any, error) { return s.resource(), nil }))
	mux.HandleFunc("GET /v1/spaces", answering(func(*http.Request) (any, error) {
		return &chat.ListSpacesResponse{Spaces: []*chat.Space{s.resource()}}, nil
	}))
	mux.HandleFunc("POST /v1/projects/{project}/subscriptions/{subscription}", answering(s.callSubscription))
	mux.HandleFunc("/", answering(func(*http.Request) (any, error) { return nil, notFound("Method not found.") }))
	return mux
}

// answering serves what a call returns: an answer, or an error.
func answering(call func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := call(r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	}
}

// apiMethod wraps one method of the API: the call is made for those who may make it.
func (s *Space) apiMethod(call func(*http.Request) (any, error)) http.HandlerFunc {
	return answering(func(r *http.Request) (any, error) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, invalid("Invalid query string.")
		}
		if r.Method != http.MethodGet && (!fromApp(r) || query.Has("key")) { // creating is the one method that a webhook calls
			if err := s.checkWebhook(query); err != nil {
				return nil, err
			}
			if r.Method != http.MethodPost {
				return nil, denied("A webhook cannot change messages.")
			}
		}
		if alt := query.Get("alt"); alt != "" && alt != "json" {
			return nil, invalid("Only alt=json is served here.")
		}
		if space := "spaces/" + r.PathValue("space"); space != Name {
			return nil, notFound("Space " + space + " not found")
		}
		return call(r)
	})
}

// checkWebhook refuses what does not carry the secrets of the webhook's URL, in the order and with the words of Google.
func (s *Space) checkWebhook(query url.Values) error {
	switch {
	case !query.Has("key"):
		return denied("Method doesn't allow unregistered callers (callers without established identity). " +
			"Please use API Key or other form of API consumer identity to call this API.")
	case !same(query.Get("key"), s.secrets.Key):
		return invalid("API key not valid. Please pass a valid API key.") // a 400, not a 401
	case !same(query.Get("token"), s.secrets.Token):
		return denied("The API is called without a valid token. Instructions on how to use incoming webhooks " +
			"can be found at https://developers.google.com/chat/how-tos/webhooks")
	}
	return nil
}

// same compares two secrets in a time that does not depend on where they differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *Space) getMessage(r *http.Request) (any, error) {
	name := Name + "/messages/" + r.PathValue("message")
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[name]
	if found == nil {
		return nil, notFound("Message " + name + " not found")
	}
	return found.Message, nil
}

const (
	defaultPage = 25
	maxPage     = 1000
)

// listMessages is spaces.messages.list. Nothing is ever deleted here, so showDeleted changes nothing.
func (s *Space) listMessages(r *http.Request) (any, error) {
	query := r.URL.Query()
	f, err := parseFilter(query.Get("filter"))
	if err != nil {
		return nil, err
	}
	descending, err := parseOrder(query.Get("orderBy"))
	if err != nil {
		return nil, err
	}
	size, _ := strconv.Atoi(query.Get("pageSize")) // an int32, or absent
	switch {
	case size < 0:
		return nil, invalid("Page size must not be negative")
	case size == 0:
		size = defaultPage
	case size > maxPage:
		size = maxPage
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.rows
	from := 0 // rows already given, counted in the order asked for
	if descending {
		from = -len(rows) // rows that came in while paging must not shift the pages
	}
	if token := query.Get("pageToken"); token != "" { // the number of the next row
		if from, err = strconv.Atoi(token); err != nil {
			return nil, invalid("Invalid page token")
		}
	}
	answer := new(chat.ListMessagesResponse)
	for i := from; ; i++ {
		at := i
		if descending {
			at = -i - 1
		}
		if at < 0 || at >= len(rows) {
			return answer, nil
		}
		if rows[at].Patch || !f.matches(rows[at].Message) {
			continue
		}
		if len(answer.Messages) == size {
			answer.NextPageToken = strconv.Itoa(i)
			return answer, nil
		}
		answer.Messages = append(answer.Messages, s.byName[rows[at].Message.Name].Message)
	}
}

var orderForm = pattern(`(?i)^\s*(?:(?-i:createTime|create_time)(?:\s+(asc|desc))?\s*)?$`)

// parseOrder reads orderBy; it tells whether the newest come first.
func parseOrder(s string) (descending bool, err error) {
	m := orderForm().FindStringSubmatch(s)
	if m == nil {
		return false, invalid("Invalid order by: " + brief(s))
	}
	return strings.EqualFold(m[1], "desc"), nil
}

// A filter is what spaces.messages.list can be asked for:
//
//	createTime > "2026-01-02T15:04:05Z" AND createTime < "…" AND thread.name = spaces/S/threads/T
//
// each part at most once, in any order. Both bounds are exclusive.
type filter struct {
	after, before *time.Time
	thread        string
}

func (f filter) matches(m *chat.Message) bool {
	if f.thread != "" && m.Thread.Name != f.thread {
		return false
	}
	if f.after == nil && f.before == nil {
		return true
	}
	t, err := time.Parse(time.RFC3339Nano, m.CreateTime)
	return err == nil && (f.after == nil || t.After(*f.after)) && (f.before == nil || t.Before(*f.before))
}

var (
	filterAnd    = pattern(`\s+AND\s+`)
	filterTime   = pattern(`^(?:createTime|create_time)\s*([<>])\s*"([^"]*)"$`)
	filterThread = pattern(`^thread\.name\s*=\s*("?)(spaces/[^/\s"]+/threads/[^/\s"]+)("?)$`)
)

// parseFilter reads a filter. Google tells no more than that one is invalid.
func parseFilter(s string) (f filter, err error) {
	if strings.TrimSpace(s) == "" {
		return f, nil
	}
	for _, term := range filterAnd().Split(strings.TrimSpace(s), -1) {
		if !f.add(term) {
			return filter{}, invalid("Invalid filter query")
		}
	}
	return f, nil
}

// add takes one comparison into f, unless it makes no sense there.
func (f *filter) add(term string) bool {
	if m := filterThread().FindStringSubmatch(term); m != nil && m[1] == m[3] && f.thread == "" {
		f.thread = m[2]
		return true
	}
	m := filterTime().FindStringSubmatch(term)
	if m == nil {
		return false
	}
	bound := &f.after
	if m[1] == "<" {
		bound = &f.before
	}
	t, err := time.Parse(time.RFC3339Nano, m[2])
	if err != nil || *bound != nil {
		return false
	}
	*bound = &t
	return true
}

// An apiError is what Google's JSON error envelope holds.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

func (e *apiError) Error() string { return e.Message }

func invalid(message string) *apiError {
	return &apiError{Code: http.StatusBadRequest, Status: "INVALID_ARGUMENT", Message: message}
}

func notFound(message string) *apiError {
	return &apiError{Code: http.StatusNotFound, Status: "NOT_FOUND", Message: message}
}

func denied(message string) *apiError {
	return &apiError{Code: http.StatusForbidden, Status: "PERMISSION_DENIED", Message: message}
}

func unauthenticated(message string) *apiError {
	return &apiError{Code: http.StatusUnauthorized, Status: "UNAUTHENTICATED", Message: message}
}

// writeError answers with err in Google's envelope. What is not an apiError is
// our own trouble (a full disk), and a client may try again.
func writeError(w http.ResponseWriter, err error) {
	var e *apiError
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &e):
	case errors.As(err, &tooBig):
		e = &apiError{Code: http.StatusRequestEntityTooLarge, Status: "INVALID_ARGUMENT",
			Message: "Request payload size exceeds the limit."}
	default:
		e = &apiError{Code: http.StatusServiceUnavailable, Status: "UNAVAILABLE", Message: err.Error()}
	}
	writeJSON(w, e.Code, map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	w.Write(append(b, '\n'))
}
