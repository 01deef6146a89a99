package gchat

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
)

// TokenError is the refusal of a token: Google knows the credentials and does not take them, or not any more.
type TokenError struct {
	Code        string // RFC 6749's "invalid_grant", or one of Google's own, "admin_policy_enforced"
	Subtype     string // Google's error_subtype: "invalid_rapt"; "" mostly
	Description string // shortened
	Testing     bool   // the login is as old as logins of a client in Testing get
	App         bool   // the credentials are a service account's: nobody can log in again
}

func (e *TokenError) Error() string {
	s := "token refused: " + e.Code
	if e.Code == "" {
		s = "token refused"
	}
	if e.Subtype != "" && !strings.Contains(e.Description, e.Subtype) {
		s += " (" + e.Subtype + ")"
	}
	if e.Description != "" {
		s += ": " + e.Description
	}
	return s
}

// Hint says what a person can do about it.
func (e *TokenError) Hint() string {
	const again = "gchat-hooks login"
	switch {
	case e.App:
		return "the service account's key was not taken: see that it still exists, that this machine's clock is right, and that an administrator approved its scope"
	case e.Subtype == "invalid_rapt" || e.Subtype == "rapt_required":
		return "your organisation ends logins after some hours (Google Cloud session control): log in again (" + again +
			"); an administrator can exempt the OAuth client as a trusted app, or give you a service account"
	case e.PolicyForbids():
		return "an administrator has to allow the OAuth client: Admin console > Security > Access and data control > API controls"
	case e.Code == "invalid_grant" && e.Testing:
		return "the OAuth client is in Testing, where a login ends after 7 days: make its consent screen Internal or publish it (In production), then log in again (" + again + ")"
	case e.Code == "invalid_grant":
		return "the login has ended: access was removed, the password was changed, or it was not used for six months. Log in again (" + again +
			"); if it ends every 7 days, the OAuth client is in Testing: make its consent screen Internal or publish it"
	case e.ClientGone():
		return "the OAuth client was deleted or has another secret now: make one of type Desktop app, download its file, and log in with it (" + again + " --client-id-file FILE)"
	case e.Code == "invalid_scope":
		return "the credentials may not read messages: log in with " + again + ", which asks for chat.messages.readonly"
	}
	return "log in again (" + again + ")"
}

// PolicyForbids says that the organisation does not let the client in, whoever logs in.
func (e *TokenError) PolicyForbids() bool {
	switch e.Code {
	case "admin_policy_enforced", "org_internal", "access_denied", "restricted_client", "account_restricted":
		return true
	}
	return e.Subtype == "admin_policy_enforced" || e.Subtype == "access_denied"
}

// ClientGone says that Google does not know the OAuth client, or not with this secret.
func (e *TokenError) ClientGone() bool {
	switch e.Code {
	case "invalid_client", "deleted_client", "disabled_client", "unauthorized_client":
		return true
	}
	return false
}

// ReadTokenError reads a token endpoint's refusal. Only its words are taken over: the rest of a body may hold more than
// a log should.
func ReadTokenError(body []byte) *TokenError {
	var b struct {
		Error       json.RawMessage `json:"error"`
		Subtype     string          `json:"error_subtype"`
		Description string          `json:"error_description"`
	}
	_ = json.Unmarshal(body, &b)
	e := &TokenError{Subtype: shorten(b.Subtype, 60), Description: shorten(b.Description, 200)}
	var envelope struct { // what stands before the endpoint answers as Google's APIs do
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if json.Unmarshal(b.Error, &e.Code) != nil && json.Unmarshal(b.Error, &envelope) == nil {
		e.Code, e.Description = envelope.Status, shorten(envelope.Message, 200)
	}
	e.Code = shorten(e.Code, 60)
	if strings.Contains(e.Description, "invalid_rapt") { // the subtype is left out at times
		e.Subtype = "invalid_rapt"
	}
	return e
}

// tokenFailure turns a failed request for a token into our errors: a refusal, or an endpoint that has trouble.
func tokenFailure(err *auth.Error) error {
	if err.Response != nil && (err.Response.StatusCode >= 500 || err.Response.StatusCode == http.StatusTooManyRequests) {
		return &APIError{HTTP: err.Response.StatusCode, Message: "no token", RetryAfter: retryAfter(err.Response.Header, time.Now())}
	}
	return ReadTokenError(err.Body)
}

// origin is what a credentials file says about itself that explains its end.
type origin struct {
	app      bool
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

const (
	testingLogin = 7 * 24 * time.Hour // how long Google lets a login of a client in Testing live
	testingSlack = 24 * time.Hour     // until somebody looked
)

// explain adds to a refused token what the credentials file says.
func (o origin) explain(err error, now time.Time) error {
	var e *TokenError
	if errors.As(err, &e) {
		e.App = o.app
		age := now.Sub(o.loggedIn)
		e.Testing = !o.ends.IsZero() && !now.Before(o.ends) ||
			o.ends.IsZero() && !o.loggedIn.IsZero() && age >= testingLogin && age < testingLogin+testingSlack
	}
	return err
}
