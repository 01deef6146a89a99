package gchat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"gchat-hooks/state"
)

// Refusal is what a token endpoint says when it knows the credentials and does not take them, or not any more.
type Refusal struct {
	Code  string // RFC 6749's "invalid_grant", or one of Google's own, "admin_policy_enforced"; the finer of two
	Words string // at most 400 bytes; the rest of an answer may hold what a log should not
}

// ReadRefusal reads a token endpoint's answer.
func ReadRefusal(body []byte) Refusal {
	var b struct {
		Error       json.RawMessage `json:"error"`
		Subtype     string          `json:"error_subtype"`
		Description string          `json:"error_description"`
	}
	var envelope struct { // a proxy of Google's in front of the endpoint answers as Google's APIs do
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &b)
	code := ""
	if json.Unmarshal(b.Error, &code) != nil && json.Unmarshal(b.Error, &envelope) == nil {
		code, b.Description = envelope.Status, envelope.Message
	}
	r := Refusal{Code: shorten(code, 60), Words: shorten(code, 60)}
	if description := shorten(b.Description, 200); description != "" {
		r.Words += ": " + description
	}
	if subtype := shorten(b.Subtype, 60); subtype != "" {
		r.Code = subtype
		if !strings.Contains(r.Words, subtype) {
			r.Words += " (" + subtype + ")"
		}
	}
	if strings.Contains(r.Words, "invalid_rapt") { // the subtype is left out at times
		r.Code = "invalid_rapt"
	}
	return r
}

// DesktopClient says how to get a client's file that a login can use.
const DesktopClient = "make an OAuth client of type Desktop app (console.cloud.google.com/auth/clients), download its file at " +
	"once, since its secret is shown only then, and log in with it (gchat-hooks login --client-id-file FILE)"

// LoginHint says what a person can do about a code of Google's, from the page in the browser or from the token endpoint.
func LoginHint(code string) string {
	switch code {
	case "invalid_rapt", "rapt_required":
		return "your organisation ends logins after some hours (Google Cloud session control): log in again (gchat-hooks login); " +
			"an administrator can exempt the OAuth client as a trusted app, or give you a service account"
	case "admin_policy_enforced", "org_internal", "access_denied", "restricted_client", "account_restricted":
		return "an administrator has to allow the OAuth client (Admin console > Security > Access and data control > API controls), " +
			"or the client has to be from your own organisation's project"
	case "invalid_grant":
		return "the login has ended: access was removed, the password was changed, or it was not used for six months. " +
			"Log in again (gchat-hooks login); if it ends every 7 days, the OAuth client is in Testing: make its consent screen " +
			"Internal or publish it"
	case "invalid_client", "deleted_client", "disabled_client", "unauthorized_client", "redirect_uri_mismatch":
		return "the OAuth client was deleted, has another secret now, or is not of type Desktop app: " + DesktopClient
	case "invalid_scope":
		return "the credentials may not read messages: log in with gchat-hooks login, which asks for chat.messages.readonly"
	}
	return "log in again (gchat-hooks login)"
}

// origin is what a credentials file says about itself that explains its end.
type origin struct {
	app      bool      // a service account's: a person cannot log in again
	loggedIn time.Time // zero where not known
	ends     time.Time // zero where not known
}

func readOrigin(file []byte) (o origin) {
	var f struct {
		Type     credentials.CredType `json:"type"`
		LoggedIn time.Time            `json:"logged_in_at"`
		Ends     time.Time            `json:"ends_at"`
	}
	_ = json.Unmarshal(file, &f)
	return origin{f.Type == credentials.ServiceAccount || f.Type == credentials.ImpersonatedServiceAccount, f.LoggedIn, f.Ends}
}

// testing says whether a login ended because its client is in Testing: Google ends those after seven days.
func (o origin) testing(now time.Time) bool {
	if !o.ends.IsZero() {
		return !now.Before(o.ends)
	}
	const day = 24 * time.Hour
	age := now.Sub(o.loggedIn)
	return !o.loggedIn.IsZero() && age >= 7*day && age < 8*day
}

// refused turns a failed request for a token into our errors: ErrCredentials with a hint, or an endpoint that has trouble.
func (o origin) refused(err *auth.Error, now time.Time) error {
	if err.Response != nil && (err.Response.StatusCode >= 500 || err.Response.StatusCode == http.StatusTooManyRequests) {
		return &APIError{HTTP: err.Response.StatusCode, Message: "no token", RetryAfter: retryAfter(err.Response.Header, now)}
	}
	r := ReadRefusal(err.Body)
	hint := LoginHint(r.Code)
	switch {
	case o.app:
		hint = "the service account's key was not taken: see that it still exists, that this machine's clock is right, " +
			"and that an administrator approved its scope"
	case r.Code == "invalid_grant" && o.testing(now):
		hint = "the OAuth client is in Testing, where a login ends after 7 days: make its consent screen Internal or publish it " +
			"(In production), then log in again (gchat-hooks login)"
	}
	words := errors.New(strings.TrimSuffix("token refused: "+r.Words, ": "))
	return &state.UserError{Err: fmt.Errorf("%w: %w", ErrCredentials, words), Hint: hint, Code: 1}
}
