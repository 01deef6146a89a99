package space

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/api/chat/v1"
)

// apiRoutes are the methods of the Chat API that are served, each checked
// against the discovery document before it is called.
func (s *Space) apiRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/spaces/{space}/messages", s.apiMethod("chat.spaces.messages.create", s.createMessage))
	mux.Handle("GET /v1/spaces/{space}/messages", s.apiMethod("chat.spaces.messages.list", s.listMessages))
	mux.Handle("GET /v1/spaces/{space}/messages/{message}", s.apiMethod("chat.spaces.messages.get", s.getMessage))
	mux.Handle("GET /v1/spaces/{space}", s.apiMethod("chat.spaces.get", s.getSpace))
	mux.Handle("GET /v1/spaces", s.apiMethod("chat.spaces.list", s.listSpaces))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, notFound("Method not found."))
	})
	return mux
}

// apiMethod wraps one method of the API: the call returns what to answer.
func (s *Space) apiMethod(id string, call func(*http.Request) (any, error)) http.Handler {
	m := google().Methods[id]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.callMethod(m, call, r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, answer)
	})
}

func (s *Space) callMethod(m *method, call func(*http.Request) (any, error), r *http.Request) (any, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("Invalid query string.")
	}
	if m.Request != nil { // the one method that a webhook calls
		if err := s.checkWebhook(query); err != nil {
			return nil, err
		}
		query.Del("token") // the webhook's own; no method knows it
	}
	if bad := google().checkQuery(m, query); len(bad) > 0 {
		return nil, invalid(bad[0])
	}
	if alt := query.Get("alt"); alt != "" && alt != "json" {
		return nil, invalid("Only alt=json is served here.")
	}
	for name, p := range m.Parameters {
		if p.Location != "path" {
			continue
		}
		if v := resourceName(r, name); !p.accepts(v) {
			return nil, invalid("Invalid value at '" + name + "', " + brief(v))
		}
	}
	if space := r.PathValue("space"); space != "" && "spaces/"+space != Name {
		return nil, notFound("Space spaces/" + space + " not found")
	}
	return call(r)
}

// resourceName is the path parameter of a method: {parent} is the space, {name} the whole of it.
func resourceName(r *http.Request, param string) string {
	name := "spaces/" + r.PathValue("space")
	if message := r.PathValue("message"); param == "name" && message != "" {
		name += "/messages/" + message
	}
	return name
}

// checkWebhook refuses what does not carry the secrets of the webhook's URL, in the order and with the words of Google.
func (s *Space) checkWebhook(query url.Values) error {
	switch {
	case !query.Has("key"):
		return denied("Method doesn't allow unregistered callers (callers without established identity). " +
			"Please use API Key or other form of API consumer identity to call this API.")
	case !same(query.Get("key"), s.secrets.Key):
		return badKey()
	case !same(query.Get("token"), s.secrets.Token):
		return denied("The API is called without a valid token. Instructions on how to use incoming webhooks " +
			"can be found at https://developers.google.com/chat/how-tos/webhooks")
	}
	return nil
}

// same compares two secrets in a time that does not depend on where they differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (s *Space) getMessage(r *http.Request) (any, error) {
	name := resourceName(r, "name")
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.byName[name]
	if found == nil {
		return nil, notFound("Message " + name + " not found")
	}
	return found.Message, nil
}

func (s *Space) getSpace(*http.Request) (any, error) {
	return &chat.Space{
		Name:                Name,
		DisplayName:         "Local space",
		Type:                "ROOM",
		SpaceType:           "SPACE",
		SpaceThreadingState: "THREADED_MESSAGES",
		SpaceHistoryState:   "HISTORY_ON",
	}, nil
}

// spaceTypes is the filter of spaces.list: space types, with OR between them.
var spaceTypes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(space_type|spaceType) = "[A-Z_]+"( OR (space_type|spaceType) = "[A-Z_]+")*$`)
})

func (s *Space) listSpaces(r *http.Request) (any, error) {
	filter := r.URL.Query().Get("filter")
	if filter != "" && !spaceTypes().MatchString(filter) {
		return nil, invalid("Invalid filter query")
	}
	if filter != "" && !strings.Contains(filter, `"SPACE"`) {
		return &chat.ListSpacesResponse{}, nil
	}
	space, err := s.getSpace(r)
	if err != nil {
		return nil, err
	}
	return &chat.ListSpacesResponse{Spaces: []*chat.Space{space.(*chat.Space)}}, nil
}

// An apiError is what Google's JSON error envelope holds.
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []any  `json:"details,omitempty"`
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

// badKey is what Google says to a wrong API key: a 400, not a 401.
func badKey() *apiError {
	e := invalid("API key not valid. Please pass a valid API key.")
	e.Details = []any{map[string]any{
		"@type":    "type.googleapis.com/google.rpc.ErrorInfo",
		"reason":   "API_KEY_INVALID",
		"domain":   "googleapis.com",
		"metadata": map[string]string{"service": "chat.googleapis.com"},
	}}
	return e
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
