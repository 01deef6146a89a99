package gchat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// NewTokenClient asks for tokens, within 30 seconds. A request holds a refresh token, a
// client's secret or a signed claim, which a redirect would take along; a redirect is no
// refusal of the credentials.
func NewTokenClient() *http.Client {
	return &http.Client{
		Timeout: listTimeout, Transport: bodyLimiter{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the token endpoint redirects, and secrets stay")
		},
	}
}

// findCredentials reads the file, or finds the application default: a service account's
// with the scope of an app, a person's login with the scope of a user; "" where only an
// app's are of use, which may be of an account that gcloud impersonates. messages.list
// takes a user's token, or a service account's with the one-time approved app scope;
// chat.bot is not enough for it.
func findCredentials(path, appScope, userScope string) (*auth.Credentials, error) {
	appOptions := &credentials.DetectOptions{Client: NewTokenClient(), Scopes: []string{appScope}}
	userOptions := &credentials.DetectOptions{Client: NewTokenClient(), Scopes: []string{userScope}}
	var file struct {
		Type     credentials.CredType `json:"type"`
		TokenURI string               `json:"token_uri"`
		As       string               `json:"service_account_impersonation_url"`
	}
	switch {
	case path == "" && userScope == "":
		return credentials.DetectDefault(appOptions)
	case path == "":
		creds, err := credentials.DetectDefault(userOptions)
		accounts := []credentials.CredType{
			credentials.ServiceAccount,
			credentials.ImpersonatedServiceAccount,
		}
		if err == nil && json.Unmarshal(creds.JSON(), &file) == nil &&
			slices.Contains(accounts, file.Type) {
			return credentials.DetectDefault(appOptions)
		}
		return creds, err
	case path == config.NoCredentials:
		return nil, errors.New(path)
	}
	b, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("credentials file: %w", err)
	}
	isGoogleURL := strings.HasPrefix(file.As, "https://iamcredentials.googleapis.com/")
	impersonates := userScope == "" && isGoogleURL &&
		file.Type == credentials.ImpersonatedServiceAccount
	switch { // no other kind: one may name a file or a program, and a host that gets what it holds
	case file.Type == credentials.ServiceAccount || impersonates:
		return credentials.NewCredentialsFromJSON(file.Type, b, appOptions)
	case file.Type == credentials.AuthorizedUser && userScope != "":
		// Google's library takes its own address whatever the file says; a login goes
		// back to where it came from.
		if u, err := url.Parse(file.TokenURI); file.TokenURI != "" {
			if err != nil || !IsAllowedBaseURL(u) {
				return nil, errors.New(
					"credentials file: token_uri is neither https nor on this machine",
				)
			}
			userOptions.TokenURL = file.TokenURI
		}
		return credentials.NewCredentialsFromJSON(file.Type, b, userOptions)
	case userScope == "":
		return nil, fmt.Errorf(
			"credentials file: type %q is neither service_account nor impersonated_service_account",
			file.Type,
		)
	}
	return nil, fmt.Errorf(
		"credentials file: type %q is neither service_account nor authorized_user",
		file.Type,
	)
}

// renewingTransport adds a token. One that Google takes no more, before its time is up,
// it replaces by a new one, and asks once more.
type renewingTransport struct {
	file, appScope, userScope string // see findCredentials
	mu                        sync.Mutex
	transport                 http.RoundTripper
}

// renew reads the credentials anew, unless that was done since was.
func (t *renewingTransport) renew(original http.RoundTripper) (http.RoundTripper, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.transport != original {
		return t.transport, nil
	}
	creds, err := findCredentials(t.file, t.appScope, t.userScope)
	if err != nil {
		return nil, err
	}
	client, err := httptransport.NewClient(&httptransport.Options{
		Credentials: creds, BaseRoundTripper: bodyLimiter{http.DefaultTransport}, DisableTelemetry: true,
	})
	if err == nil {
		t.transport = client.Transport
	}
	return t.transport, err
}

// RoundTrip sends a request, whose body can be had again: those of Google's libraries
// can.
func (t *renewingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	transport := t.transport
	t.mu.Unlock()
	response, err := transport.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusUnauthorized ||
		r.Body != nil && r.GetBody == nil {
		return response, err
	}
	renewed, err := t.renew(transport)
	if err != nil {
		return response, nil
	}
	retry := r.Clone(r.Context())
	if r.GetBody != nil {
		retry.Body, _ = r.GetBody() // of bytes: it cannot fail
	}
	response.Body.Close()
	return renewed.RoundTrip(retry)
}

// ReadTokenError is what a token endpoint says when it knows the credentials and does not
// take them, or not any more, in at most 300 bytes; the rest of an answer may hold what a
// log should not.
func ReadTokenError(body []byte) string {
	var b struct {
		// RFC 6749's "invalid_grant", or Google's own "admin_policy_enforced"
		Error       string `json:"error"`
		Subtype     string `json:"error_subtype"` // "invalid_rapt"; left out at times
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(body, &b)
	return cmp.Or(shorten(b.Error+" "+b.Subtype+" "+b.Description, 300), "no reason was given")
}

// DesktopClientHint says how to get a client's file that a login can use.
const DesktopClientHint = "make an OAuth client of type Desktop app (console.cloud.google.com/auth/clients), download its file at " +
	"once, since its secret is shown only then, and log in with it (gchat-hooks login --client-id-file FILE)"

// loginHints are what a person can do about Google's words. The first row counts that has
// a word which Google said: finer words, which come beside a general one, are above it.
var loginHints = []struct{ words, hint string }{
	{
		"invalid_rapt rapt_required",
		"your organisation ends logins after some hours (Google Cloud session control): log in " +
			"again (gchat-hooks login; for an account that you impersonate, gcloud auth application-default login " +
			"--impersonate-service-account ADDRESS); an administrator can exempt the OAuth client as a trusted app, or give you " +
			"a service account",
	},
	{
		"JWT",
		"the service account's key was not taken: see that it still exists, that this machine's clock is right, " +
			"and that an administrator approved its scope",
	},
	{
		"admin_policy_enforced org_internal restricted_client account_restricted",
		"an administrator has to allow the OAuth " +
			"client (Admin console > Security > Access and data control > API controls), or the client has to be from your own " +
			"organisation's project",
	},
	{
		"access_denied",
		"log in again (gchat-hooks login) and allow both; with a client in Testing, you have to be among its " +
			"test users (console.cloud.google.com/auth/audience); in an organisation, an administrator may have to allow the client",
	},
	{
		"invalid_grant",
		"the login has ended: access was removed, the password was changed, it was not used for six months, or " +
			"its code was used before or too late. Log in again (gchat-hooks login); if it ends every 7 days, the OAuth client is " +
			"in Testing: make its consent screen Internal or publish it",
	},
	{
		"invalid_client deleted_client disabled_client unauthorized_client redirect_uri_mismatch",
		"the OAuth client was deleted, " +
			"has another secret now, or is not of type Desktop app: " + DesktopClientHint,
	},
	{
		"invalid_scope",
		"the credentials may not read messages: log in with gchat-hooks login, which asks for " +
			"chat.messages.readonly",
	},
}

// LoginHint says what a person can do about what Google said, on its page in the browser
// or at the token endpoint.
func LoginHint(reason string) string {
	for _, row := range loginHints {
		if slices.ContainsFunc(
			strings.Fields(row.words),
			func(word string) bool { return strings.Contains(reason, word) },
		) {
			return row.hint
		}
	}
	return "log in again (gchat-hooks login)"
}

// tokenError is the error of a refused token: ErrCredentials with a hint; or of an
// endpoint that has trouble.
func tokenError(statusCode int, h http.Header, reason, hint string) error {
	if e := (&APIError{HTTP: statusCode, Message: "no token", RetryAfter: parseRetryAfter(h)}); IsOverloaded(
		e,
	) {
		return e
	}
	return &state.UserError{
		Err:  fmt.Errorf("%w: token refused: %s", ErrCredentials, reason),
		Hint: hint,
		Code: 1,
	}
}

// impersonationPattern is the whole error of a refused impersonation, which the library
// gives as a text.
var impersonationPattern = state.LazyPattern(`credentials: status code (\d+): ((?s).*)`)

const impersonationHint = "run gcloud services enable iamcredentials.googleapis.com, and grant yourself " +
	"roles/iam.serviceAccountTokenCreator on the service account; where your organisation ends logins after some hours, log in " +
	"again: gcloud auth application-default login --impersonate-service-account ADDRESS"
