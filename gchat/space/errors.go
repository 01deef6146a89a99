package space

import (
	"encoding/json"
	"errors"
	"net/http"
)

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
