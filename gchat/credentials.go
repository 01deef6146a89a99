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

// NewTokenClient returns the HTTP client for requests to a token endpoint. A request may
// take 30 seconds. It holds a refresh token, a client's secret or a signed claim, so the
// client follows no redirect to another host. A redirect is an error of its own, and not
// taken for a refusal of the credentials.
func NewTokenClient() *http.Client {
	return &http.Client{
		Timeout: listTimeout, Transport: bodyLimiter{http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the token endpoint redirects, and secrets are not sent elsewhere")
		},
	}
}

// findCredentials reads the credentials in a file. For the path "" it finds Application
// Default Credentials. A service account gets appScope, a person's login gets userScope.
// If userScope is "", only an app's credentials are accepted: a service account's, or
// those of a service account that a person impersonates with gcloud.
//
// messages.list accepts a user's token, or a service account's with the app scope that an
// administrator approves once. chat.bot is not enough for it.
func findCredentials(path, appScope, userScope string) (*auth.Credentials, error) {
	appOptions := &credentials.DetectOptions{Client: NewTokenClient(), Scopes: []string{appScope}}
	userOptions := &credentials.DetectOptions{Client: NewTokenClient(), Scopes: []string{userScope}}
	var file struct {
		Type             credentials.CredType `json:"type"`
		TokenURI         string               `json:"token_uri"`
		ImpersonationURL string               `json:"service_account_impersonation_url"`
	}
	switch {
	case path == "" && userScope == "":
		return credentials.DetectDefault(appOptions)
	case path == "":
		// Only the credentials that were found show whether they need the app scope.
		creds, err := credentials.DetectDefault(userOptions)
		accounts := []credentials.CredType{
			credentials.ServiceAccount, credentials.ImpersonatedServiceAccount,
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
	impersonates := userScope == "" && file.Type == credentials.ImpersonatedServiceAccount &&
		strings.HasPrefix(file.ImpersonationURL, "https://iamcredentials.googleapis.com/")
	// No other type is accepted. One of another type may name a file or a program to get
	// a secret from, and the host to send it to.
	switch {
	case file.Type == credentials.ServiceAccount || impersonates:
		return credentials.NewCredentialsFromJSON(file.Type, b, appOptions)
	case file.Type == credentials.AuthorizedUser && userScope != "":
		// Google's library ignores the file's token_uri. A login's refresh token has to
		// go to the endpoint that issued it.
		if u, err := url.Parse(file.TokenURI); file.TokenURI != "" {
			if err != nil || !IsAllowedBaseURL(u) {
				return nil, errors.New(
					"credentials file: token_uri is neither https nor on this machine")
			}
			userOptions.TokenURL = file.TokenURI
		}
		return credentials.NewCredentialsFromJSON(file.Type, b, userOptions)
	case userScope == "":
		return nil, fmt.Errorf("credentials file: type %q is neither service_account "+
			"nor impersonated_service_account", file.Type)
	}
	return nil, fmt.Errorf("credentials file: type %q is neither service_account "+
		"nor authorized_user", file.Type)
}

// renewingTransport adds an access token to requests. If Google rejects the token before
// it expires, renewingTransport gets a new one and sends the request once more.
type renewingTransport struct {
	file, appScope, userScope string // see findCredentials
	mu                        sync.Mutex
	transport                 http.RoundTripper
}

// renew reads the credentials and returns a transport that uses them. If another call has
// replaced the rejected transport meanwhile, renew returns that one's.
func (t *renewingTransport) renew(rejected http.RoundTripper) (http.RoundTripper, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.transport != rejected {
		return t.transport, nil
	}
	creds, err := findCredentials(t.file, t.appScope, t.userScope)
	if err != nil {
		return nil, err
	}
	client, err := httptransport.NewClient(&httptransport.Options{
		Credentials:      creds,
		BaseRoundTripper: bodyLimiter{http.DefaultTransport},
		DisableTelemetry: true,
	})
	if err == nil {
		t.transport = client.Transport
	}
	return t.transport, err
}

// RoundTrip sends a request. It can send it again only if the request has GetBody or no
// body. The requests of Google's libraries have GetBody.
func (t *renewingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	transport := t.transport
	t.mu.Unlock()
	response, err := transport.RoundTrip(r)
	canRepeat := r.Body == nil || r.GetBody != nil
	if err != nil || response.StatusCode != http.StatusUnauthorized || !canRepeat {
		return response, err
	}
	renewed, err := t.renew(transport)
	if err != nil {
		return response, nil
	}
	retry := r.Clone(r.Context())
	if r.GetBody != nil {
		retry.Body, _ = r.GetBody() // it cannot fail: the body is in memory
	}
	response.Body.Close()
	return renewed.RoundTrip(retry)
}

// ReadTokenError returns the reason that a token endpoint gives for refusing credentials,
// in at most 300 bytes. It leaves out the rest of the response, which may hold what
// should not be in a log.
func ReadTokenError(body []byte) string {
	var b struct {
		// RFC 6749's "invalid_grant", or Google's own "admin_policy_enforced"
		Error       string `json:"error"`
		Subtype     string `json:"error_subtype"` // "invalid_rapt"; sometimes missing
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(body, &b)
	return cmp.Or(shorten(b.Error+" "+b.Subtype+" "+b.Description, 300), "no reason was given")
}

// DesktopClientHint says how to get an OAuth client's file that a login can use.
const DesktopClientHint = "make an OAuth client of type Desktop app " +
	"(console.cloud.google.com/auth/clients), download its file at once, since its secret is " +
	"shown only then, and log in with it (gchat-hooks login --client-id-file FILE)"

// loginHints are what a person can do about a reason that Google gives for refusing a
// login. The first row counts that has one of its words in the reason. A specific word
// may come together with a general one, so its row is above the general one's.
var loginHints = []struct{ words, hint string }{
	{
		"invalid_rapt rapt_required",
		"your organisation ends logins after some hours (Google Cloud session control): " +
			"log in again (gchat-hooks login; if it acts as a service account, gcloud auth " +
			"application-default login --impersonate-service-account ADDRESS); an administrator " +
			"can exempt the OAuth client as a trusted app, or give you a service account",
	},
	{
		"JWT",
		"Google refused the service account's key: check that the key still exists, that this " +
			"machine's clock is right, and that an administrator approved its scope",
	},
	{
		"admin_policy_enforced org_internal restricted_client account_restricted",
		"an administrator has to allow the OAuth client (Admin console > Security > Access and " +
			"data control > API controls), or the client has to be from your own " +
			"organisation's project",
	},
	{
		"access_denied",
		"log in again (gchat-hooks login) and allow both; with a client in Testing, add yourself " +
			"as a test user (console.cloud.google.com/auth/audience); in an organisation, " +
			"an administrator may have to allow the client",
	},
	{
		"invalid_grant",
		"the login has ended: access was removed, the password was changed, it was not used for " +
			"six months, or its code was used before or too late. Log in again (gchat-hooks " +
			"login); if it ends every 7 days, the OAuth client is in Testing: make its consent " +
			"screen Internal or publish it",
	},
	{
		"invalid_client deleted_client disabled_client unauthorized_client redirect_uri_mismatch",
		"the OAuth client was deleted, its secret was replaced, " +
			"or it is not of type Desktop app: " + DesktopClientHint,
	},
	{
		"invalid_scope",
		"the credentials may not read messages: log in with gchat-hooks login, " +
			"which asks for chat.messages.readonly",
	},
}

// LoginHint returns what a person can do about a reason that Google gives for refusing a
// login, on its page in the browser or at the token endpoint.
func LoginHint(reason string) string {
	for _, row := range loginHints {
		for _, word := range strings.Fields(row.words) {
			if strings.Contains(reason, word) {
				return row.hint
			}
		}
	}
	return "log in again (gchat-hooks login)"
}

// tokenError returns the error of a refused token, which is ErrCredentials with a hint.
// If the token endpoint has trouble, it returns an *APIError instead.
func tokenError(statusCode int, h http.Header, reason, hint string) error {
	e := &APIError{HTTP: statusCode, Message: "no token", RetryAfter: parseRetryAfter(h)}
	if IsOverloaded(e) {
		return e
	}
	return &state.UserError{
		Err:  fmt.Errorf("%w: token refused: %s", ErrCredentials, reason),
		Hint: hint,
		Code: 1,
	}
}

// impersonationPattern matches the error of a refused impersonation. Google's library has
// no type for it, so its text is all there is.
var impersonationPattern = state.LazyPattern(`credentials: status code (\d+): ((?s).*)`)

const impersonationHint = "run gcloud services enable iamcredentials.googleapis.com, " +
	"and grant yourself roles/iam.serviceAccountTokenCreator on the service account; " +
	"if your organisation ends logins after some hours, log in again: " +
	"gcloud auth application-default login --impersonate-service-account ADDRESS"
