package login

import (
	"errors"
	"fmt"

	"gchat-hooks/gchat"
)

// Reason is the kind of an Error.
type Reason string

// Why a login or a logout failed.
const (
	WrongClient  Reason = "wrong client"  // the client file is none, or of another type than Desktop app
	Denied       Reason = "denied"        // the person said no, or may not say yes
	Policy       Reason = "policy"        // the organisation does not let the client in
	MissingScope Reason = "missing scope" // the person left a box unticked
	NoRefresh    Reason = "no refresh"    // Google gave nothing that lasts
	Refused      Reason = "refused"       // the token endpoint did not take the code
	Unreachable  Reason = "unreachable"   // the token endpoint did not answer as one
	TimedOut     Reason = "timed out"     // nobody came back from the browser
	Foreign      Reason = "foreign"       // a file that is not ours stands where the login is kept
	NotLoggedIn  Reason = "not logged in" // there is nothing to log out from
)

// Error is what went wrong. It holds no secret.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what the person can do about it.
func (e *Error) Hint() string {
	switch e.Reason {
	case WrongClient:
		return "make an OAuth client of type Desktop app (console.cloud.google.com/auth/clients), download its JSON file at once, since its secret is shown only then, and give that to --client-id-file"
	case Denied:
		return "log in again and allow both; with a client in Testing, you have to be among its test users (console.cloud.google.com/auth/audience)"
	case Policy:
		return "an administrator has to allow the OAuth client (Admin console > Security > Access and data control > API controls), or the client has to be from your own organisation's project"
	case MissingScope:
		return "log in again and tick every box on Google's page: both only read"
	case NoRefresh:
		return "remove the client's access at myaccount.google.com/connections, then log in again"
	case Refused:
		return "log in again, and finish within a few minutes: a code can be used once"
	case Unreachable:
		return "see that this machine reaches the token_uri of the client's file (a proxy: HTTPS_PROXY), then log in again"
	case TimedOut:
		return "log in again. If Google's page said org_internal or admin_policy_enforced, an administrator has to allow the OAuth client; if access_denied, you have to be among its test users"
	case Foreign:
		return "that file is somebody's own: move it away, or name it in credentials_file and do not log in"
	case NotLoggedIn:
		return "gchat-hooks login --client-id-file FILE"
	}
	return ""
}

// authorizeError is what the browser came back with in place of a code.
func authorizeError(code, subtype, description string) *Error {
	e := &gchat.TokenError{Code: code, Subtype: subtype, Description: description}
	reason := Denied
	if code != "access_denied" && e.PolicyForbids() || subtype == "admin_policy_enforced" || subtype == "org_internal" {
		reason = Policy
	}
	words := "google says no: " + code
	if subtype != "" && subtype != code {
		words += " (" + subtype + ")"
	}
	if description != "" {
		words += ": " + description
	}
	return &Error{reason, errors.New(words)}
}

// refusal is a code that was not exchanged.
func refusal(e *gchat.TokenError) *Error {
	switch {
	case e.ClientGone() || e.Code == "redirect_uri_mismatch":
		return &Error{WrongClient, e}
	case e.PolicyForbids():
		return &Error{Policy, e}
	case e.Code == "invalid_grant": // whose words are about logins mostly
		return &Error{Refused, fmt.Errorf("the code was used before, is too old, or is another login's; what was answered is %w", e)}
	}
	return &Error{Refused, e}
}
