package space

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/api/chat/v1"
)

// apiRoutes returns the handler of the Chat API's methods that the space serves.
func (s *Space) apiRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/spaces/{space}/messages", s.apiMethod(s.createMessage))
	mux.Handle("GET /v1/spaces/{space}/messages", s.apiMethod(s.listMessages))
	mux.Handle("GET /v1/spaces/{space}/messages/{message}", s.apiMethod(s.getMessage))
	mux.Handle("PATCH /v1/spaces/{space}/messages/{message}", s.apiMethod(s.patchMessage))
	mux.Handle("GET /v1/spaces/{space}", s.apiMethod(func(*http.Request) (any, error) {
		return s.spaceResource(), nil
	}))
	mux.HandleFunc("GET /v1/media/{id}", s.downloadMedia)
	mux.HandleFunc("POST /upload/v1/spaces/{space}/attachments:upload", s.uploadMedia)
	mux.Handle("GET /v1/spaces", jsonHandler(func(*http.Request) (any, error) {
		return &chat.ListSpacesResponse{Spaces: []*chat.Space{s.spaceResource()}}, nil
	}))
	mux.Handle("POST /v1/projects/{project}/subscriptions/{subscription}",
		jsonHandler(s.callSubscription))
	mux.Handle("/", jsonHandler(func(*http.Request) (any, error) {
		return nil, notFound("Method not found.")
	}))
	return mux
}

// jsonHandler returns a handler that serves the call's response as JSON, or its error.
func jsonHandler(call func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		response, err := call(r)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, response)
	}
}

// apiMethod returns a handler for one method of the API. It makes the call only if the
// caller may make it.
func (s *Space) apiMethod(call func(*http.Request) (any, error)) http.HandlerFunc {
	return jsonHandler(func(r *http.Request) (any, error) {
		query := r.URL.Query()
		if r.Method != http.MethodGet && (!isFromApp(r) || query.Has("key")) {
			// Here the caller can only be a webhook, which may only create messages.
			if err := s.checkWebhook(query); err != nil {
				return nil, err
			}
			if r.Method != http.MethodPost {
				return nil, permissionDenied("A webhook cannot change messages.")
			}
		}
		if space := "spaces/" + r.PathValue("space"); space != Name {
			return nil, notFound("Space " + space + " not found")
		}
		return call(r)
	})
}

// decodeBody parses the body of a request into v. A member that v does not have is an
// error.
func decodeBody(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.Decode(new(any)) != io.EOF {
		err = errors.New("there is more after the JSON value")
	}
	if err != nil && !errors.As(err, new(*http.MaxBytesError)) {
		return invalidArgument("Invalid JSON payload received. " + err.Error())
	}
	return err
}

// checkWebhook returns an error if a request lacks the secrets of the webhook's URL. It
// checks in the same order and with the same texts as Google.
func (s *Space) checkWebhook(query url.Values) error {
	switch {
	case !query.Has("key"):
		return permissionDenied(
			"Method doesn't allow unregistered callers (callers without established identity). " +
				"Please use API Key or other form of API consumer identity to call this API.",
		)
	case !isSameSecret(query.Get("key"), s.secrets.WebhookKey):
		// Google answers this with 400, not 401.
		return invalidArgument("API key not valid. Please pass a valid API key.")
	case !isSameSecret(query.Get("token"), s.secrets.WebhookToken):
		return permissionDenied(
			"The API is called without a valid token. Instructions on how to use incoming " +
				"webhooks can be found at https://developers.google.com/chat/how-tos/webhooks",
		)
	}
	return nil
}

// isSameSecret reports whether two secrets are equal. Its time does not depend on where
// they differ.
func isSameSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

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
	defaultPageSize = 25
	maxPageSize     = 1000
)

// createdAfterFilter is the form of the only filter of spaces.messages.list that the
// space supports, as a layout for time.Parse. The filter excludes a message of that very
// time.
const createdAfterFilter = `createTime > "` + time.RFC3339Nano + `"`

// listMessages serves spaces.messages.list in the default order, the oldest first. The
// space never deletes a message, so showDeleted changes nothing.
func (s *Space) listMessages(r *http.Request) (any, error) {
	query, after := r.URL.Query(), time.Time{}
	if filter := query.Get("filter"); filter != "" {
		var err error
		after, err = time.Parse(createdAfterFilter, filter)
		if err != nil {
			return nil, invalidArgument("Invalid filter query")
		}
	}
	size, _ := strconv.Atoi(cmp.Or(query.Get("pageSize"), strconv.Itoa(defaultPageSize)))
	// A page token is the index of the page's first row.
	firstRow, err := strconv.Atoi(cmp.Or(query.Get("pageToken"), "0"))
	switch {
	case query.Get("orderBy") != "":
		return nil, invalidArgument("Invalid order by: none is served here")
	case size <= 0:
		return nil, invalidArgument("Page size must be positive")
	case err != nil || firstRow < 0:
		return nil, invalidArgument("Invalid page token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	response := new(chat.ListMessagesResponse)
	for i := firstRow; i < len(s.rows); i++ {
		m := s.rows[i].Message
		created, _ := time.Parse(time.RFC3339Nano, m.CreateTime)
		if s.rows[i].IsPatch || !created.After(after) {
			continue
		}
		if len(response.Messages) == min(size, maxPageSize) {
			response.NextPageToken = strconv.Itoa(i)
			break
		}
		response.Messages = append(response.Messages, s.byName[m.Name].Message)
	}
	return response, nil
}

// apiError is an error as Google's APIs return it, in the member "error".
type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

func (e *apiError) Error() string { return e.Message }

func invalidArgument(text string) *apiError  { return &apiError{400, text, "INVALID_ARGUMENT"} }
func unauthenticated(text string) *apiError  { return &apiError{401, text, "UNAUTHENTICATED"} }
func permissionDenied(text string) *apiError { return &apiError{403, text, "PERMISSION_DENIED"} }
func notFound(text string) *apiError         { return &apiError{404, text, "NOT_FOUND"} }

// writeError answers with err in the form of Google's errors. An error that is not an
// apiError is the space's own, such as a full disk. The client may then try again.
func writeError(w http.ResponseWriter, err error) {
	var e *apiError
	var f *formError
	switch {
	case errors.As(err, &f):
		writeJSON(w, f.Code, map[string]any{"error": f})
		return
	case errors.As(err, &e):
	case errors.As(err, new(*http.MaxBytesError)):
		e = &apiError{413, "Request payload size exceeds the limit.", "INVALID_ARGUMENT"}
	case errors.Is(err, errQueueFull): // for a person, without what was tried
		e = &apiError{http.StatusServiceUnavailable, errQueueFull.Error(), "UNAVAILABLE"}
	default:
		e = &apiError{http.StatusServiceUnavailable, err.Error(), "UNAVAILABLE"}
	}
	writeJSON(w, e.Code, map[string]any{"error": e})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, _ := json.Marshal(v) // it always encodes: it was decoded from JSON, or is our own
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	w.Write(append(b, '\n'))
}
