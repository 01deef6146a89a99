package gchat

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/wording"
)

// writeUserFile writes a login whose tokens come from tokenURI.
func writeUserFile(t *testing.T, tokenURI string) string {
	t.Helper()
	f := map[string]string{"type": "authorized_user", "client_id": "id",
		"client_secret": "GOCSPX-secret", "refresh_token": "1//refresh", "token_uri": tokenURI}
	return writeFile(t, string(kit.JSON(t, f)))
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials.json")
	kit.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// refuseTokens is a token endpoint that answers 400 with this body.
func refuseTokens(t *testing.T, body string) *httptest.Server {
	return tokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		io.WriteString(w, body)
	})
}

func TestCredentials_ExpiredLogin(t *testing.T) {
	expired := `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`
	for name, c := range map[string]struct {
		body, says, hint string
	}{
		"session control":                     {`{"error":"invalid_grant","error_subtype":"invalid_rapt","error_description":"reauth related error (invalid_rapt)"}`, "invalid_rapt", "session control"},
		"session control without its subtype": {`{"error":"invalid_grant","error_description":"reauth related error (invalid_rapt)"}`, "invalid_rapt", "session control"},
		"revoked": {expired, "expired or revoked",
			"access was removed"},
		"Testing": {expired, "", "in Testing"},
		"policy": {`{"error":"admin_policy_enforced"}`,
			"admin_policy_enforced", "administrator"},
		"policy, as subtype": {`{"error":"access_denied","error_subtype":"access_denied","error_description":"Account restricted"}`, "Account restricted", "administrator"},
		"client deleted":     {`{"error":"deleted_client","error_description":"The OAuth client was deleted."}`, "deleted", "--client-id-file"},
		"secret changed": {`{"error":"invalid_client","error_description":"Unauthorized"}`,
			"invalid_client", "--client-id-file"},
		"gcloud's scopes": {`{"error":"invalid_scope"}`, "invalid_scope",
			"chat.messages.readonly"},
		"another form": {`{"error":{"code":403,"status":"PERMISSION_DENIED","message":"no"}}`,
			"token refused: no reason was given", "log in again"},
		"nothing to read": {`<html>GOCSPX-secret 1//refresh`, "token refused",
			"log in again"},
	} {
		tokens := refuseTokens(t, c.body)
		r := newReader(t, nobodyListens, writeUserFile(t, tokens.URL+"/token"))
		_, err := listAll(t, r)
		kit.True(t, errors.Is(err, ErrCredentials) && IsAuthFailure(err) &&
			strings.Contains(err.Error(), c.says) && strings.Contains(Hint(err), c.hint),
			"%s: %v; hint: %s", name, err, Hint(err))
		s := err.Error() + Hint(err)
		kit.True(t, !strings.Contains(s, "GOCSPX") && !strings.Contains(s, "1//"),
			"%s tells a secret: %s", name, s)
	}
}

func TestCredentials_DisabledServiceAccount(t *testing.T) {
	tokens := refuseTokens(t,
		`{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`)
	r := newReader(t, nobodyListens, strict.ServiceAccount(t, tokens.URL))
	_, err := listAll(t, r)
	hint := Hint(err)
	kit.True(t, errors.Is(err, ErrCredentials) && IsAuthFailure(err), "%v", err)
	kit.True(t, strings.Contains(err.Error(), "Invalid JWT") &&
		strings.Contains(hint, "service account") && !strings.Contains(hint, "log in"),
		"%v; hint: %s", err, hint)
}

func TestCredentials_TokenEndpointFails(t *testing.T) {
	for _, code := range []int{429, 500, 503} {
		tokens := tokenServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		})
		r := newReader(t, nobodyListens, writeUserFile(t, tokens.URL+"/token"))
		_, err := listAll(t, r)
		kit.True(t, !IsAuthFailure(err) && IsOverloaded(err) && RetryAfter(err) == 7*time.Second,
			"%d: %v", code, err)
	}
}

func TestCredentials_RefreshTokenGoesToGoogleOnly(t *testing.T) {
	for _, uri := range []string{"http://oauth2.example/token", "ftp://127.0.0.1/token",
		"http://127.0.0.1.oauth2.example/token", "token", ":"} {
		_, err := NewReader(t.Context(), "", writeUserFile(t, uri))
		kit.True(t, errors.Is(err, ErrCredentials) && strings.Contains(err.Error(), "token_uri"),
			"%s: %v", uri, err)
	}
}

func TestCredentials_RedirectCarriesNoSecret(t *testing.T) {
	elsewhere := tokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		t.Errorf("%s took %v along", r.URL.Path, r.Form)
	})
	for _, code := range []int{302, 307, 308} {
		asked := 0
		srv := kit.NewTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, code)
		}))
		kit.UseTransport(t, srv.Client().Transport)
		for name, file := range map[string]string{"login": writeUserFile(t, srv.URL+"/login"),
			"service account": strict.ServiceAccount(t, srv.URL+"/account")} {
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			for _, path := range []string{file, ""} {
				if path == "" && name == "login" {
					continue // Google's library asks Google then
				}
				r := newReader(t, nobodyListens, path)
				_, err := listAll(t, r)
				kit.True(t, err != nil && !IsAuthFailure(err) &&
					strings.Contains(err.Error(), "redirects"),
					"%s, %d: %v", name, code, err)
			}
		}
		kit.Equalf(t, asked, 3, "%d: asked", code)
	}
}

// If Google refuses a token, we get another one and repeat the call, once.
func TestCredentials_RefusedTokenIsReplaced(t *testing.T) {
	accepted, got, bodies := 2, 0, []string{}
	srv := kit.NewTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			got++
			fmt.Fprintf(w, `{"access_token":"t%d","expires_in":3600,"token_type":"Bearer"}`, got)
			return
		}
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		if r.Header.Get("Authorization") != fmt.Sprint("Bearer t", accepted) {
			w.WriteHeader(401)
		}
		io.WriteString(w,
			`{"name":"spaces/AAA/messages/1","thread":{"name":"spaces/AAA/threads/1"}}`)
	}))
	kit.UseTransport(t, srv.Client().Transport)
	app := newTestApp(t, srv.URL, strict.ServiceAccount(t, srv.URL+"/token"))
	_, err := app.Post(t.Context(), Post{Text: "hello"})
	kit.True(t, err == nil && got == 2 && len(bodies) == 2 && bodies[0] == bodies[1] &&
		bodies[0] != "",
		"%v, %d tokens, posted %q", err, got, bodies)
	accepted = 0
	_, err = app.Post(t.Context(), Post{Text: "hello"})
	kit.True(t, IsAuthFailure(err) && got == 3, "%v, %d tokens", err, got)
}

// impersonationServer stands in for Google when a login asks for a service account's
// token. It answers with refusal, if there is one.
type impersonationServer struct {
	code    int
	refusal string
	scopes  []string // that were asked for
	bearers []string // what Chat was asked with
}

func (i *impersonationServer) RoundTrip(r *http.Request) (*http.Response, error) {
	code, answer := 200, `{"access_token":"ya29.login","expires_in":3600,"token_type":"Bearer"}`
	switch r.URL.Host {
	case "iamcredentials.googleapis.com":
		var asked struct{ Scope []string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		i.scopes = append(i.scopes, asked.Scope...)
		if answer = `{"accessToken":"scope:account","expireTime":"2099-01-01T00:00:00Z"}`; i.refusal != "" {
			code, answer = i.code, i.refusal
		}
	case "chat.googleapis.com", "pubsub.googleapis.com":
		i.bearers = append(i.bearers, r.Header.Get("Authorization"))
		answer = "{}"
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header,
		Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// writeImpersonatedFile makes this process's default credentials a login that
// impersonates a service account.
func writeImpersonatedFile(t *testing.T, i *impersonationServer) (file string) {
	kit.UseTransport(t, i)
	const as = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/x@p.iam.gserviceaccount.com:generateAccessToken"
	file = writeFile(t, `{"type":"impersonated_service_account","service_account_impersonation_url":"`+as+`",
		"source_credentials":{"type":"authorized_user","client_id":"id","client_secret":"GOCSPX-secret","refresh_token":"1//refresh"}}`)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	return file
}

// An impersonated service account reads with an app's scope. It cannot have a person's.
func TestCredentials_ImpersonatedAccountReadsAsAnApp(t *testing.T) {
	i := &impersonationServer{}
	writeImpersonatedFile(t, i)
	r := newReader(t, "", "")
	_, err := listAll(t, r)
	kit.NoError(t, err)
	kit.Equalf(t, strings.Join(i.scopes, " "),
		"https://www.googleapis.com/auth/chat.app.messages.readonly", "asked for")
	kit.True(t, len(i.bearers) == 1 && i.bearers[0] == "Bearer scope:account",
		"asked Chat with %q", i.bearers)
}

func TestCredentials_RefusedImpersonation(t *testing.T) {
	denied := `{"error":{"code":403,"message":"Permission 'iam.serviceAccounts.getAccessToken' denied","status":"PERMISSION_DENIED"}}`
	for name, c := range map[string]struct {
		code    int
		refusal string
		says    string
		busy    bool
	}{
		"not granted": {403, denied, "403 Permission 'iam.serviceAccounts.getAccessToken' denied",
			false},
		"another's":  {403, "<html>ya29.login", "403 no reason was given", false},
		"overloaded": {503, "{}", "503", true},
	} {
		file := writeImpersonatedFile(t, &impersonationServer{code: c.code, refusal: c.refusal})
		for _, file := range []string{file, ""} {
			app := newTestApp(t, "", file)
			err := app.CheckPullAccess(t.Context())
			kit.True(t, IsAuthFailure(err) != c.busy && errors.Is(err, ErrCredentials) != c.busy &&
				IsOverloaded(err) == c.busy && strings.Contains(err.Error(), c.says),
				"%s: %v", name, err)
			_, pullErr := app.Pull(t.Context())
			kit.True(t, IsAuthFailure(pullErr) != c.busy, "%s, pulled: %v", name, pullErr)
			for _, hint := range []string{Hint(err), AppHint(err)} {
				isTold := strings.Contains(hint, "iamcredentials.googleapis.com") &&
					strings.Contains(hint, "roles/iam.serviceAccountTokenCreator")
				kit.True(t, isTold != c.busy && !strings.Contains(err.Error()+hint, "ya29"),
					"%s: %v; hint: %s", name, err, hint)
			}
		}
	}
}

// tlsChatServer is a Chat API over TLS that this process trusts. It accepts one access
// token, or any if token is empty.
func tlsChatServer(t *testing.T, token string, h http.HandlerFunc) *httptest.Server {
	google := strict.CheckRequests(t, h)
	srv := kit.NewTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(401)
			io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no"}}`)
			return
		}
		google.ServeHTTP(w, r)
	}))
	kit.UseTransport(t, srv.Client().Transport)
	return srv
}

func TestCredentials_WhoAmI(t *testing.T) {
	tokens := tokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w,
			`{"access_token":"scope:chat.messages.readonly","expires_in":3600,"token_type":"Bearer"}`)
	})
	row := func(name, kind string) string {
		return fmt.Sprintf(`{"message":{"sender":{"name":%q,"type":%q,"email":"ann@example.com","displayName":"Ann"}}}`, name, kind)
	}
	for name, c := range map[string]struct{ rows, want string }{
		"one message": {row("users/7", "HUMAN"), "users/7"},
		"several": {row("users/7", "HUMAN") + `,{"message":{}},{},null,` +
			row("users/7", "HUMAN"), "users/7"},
		"none yet":         {"", ""},
		"filter ignored":   {row("users/7", "HUMAN") + "," + row("users/8", "HUMAN"), ""},
		"an app":           {row("users/7", "BOT"), ""},
		"an alias":         {row("users/ann@example.com", "HUMAN"), ""},
		"nobody's message": {`{"message":{"sender":{"type":"HUMAN"}}}`, ""},
	} {
		srv := tlsChatServer(t, "scope:chat.messages.readonly", func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				Filter   string `json:"filter"`
				PageSize int    `json:"pageSize"`
			}
			_ = json.NewDecoder(r.Body).Decode(&body)
			kit.True(t, r.Method == "POST" && r.URL.Path == "/v1/spaces/-/messages:search" &&
				body.Filter == `sender.name = "users/me"` &&
				r.URL.Query().Get("fields") == "results/message/sender",
				"asked %s %s %+v", r.Method, r.URL, body)
			io.WriteString(w, `{"results":[`+c.rows+`]}`)
		})
		r := newReader(t, srv.URL, writeUserFile(t, tokens.URL+"/token"))
		me, err := r.Me(t.Context())
		kit.True(t, me.Name == c.want && (c.want == "") == errors.Is(err, ErrUnknownPerson) &&
			(c.want == "" || me.Email == "ann@example.com" && me.DisplayName == "Ann"),
			"%s: %+v, %v", name, me, err)
	}
	srv := tlsChatServer(t, "another", nil)
	r := newReader(t, srv.URL, writeUserFile(t, tokens.URL+"/token"))
	_, err := r.Me(t.Context())
	kit.True(t, IsAuthFailure(err) && !errors.Is(err, ErrUnknownPerson), "refused: %v", err)
}

// Every call has a token with a scope that its method accepts: an app's, a reading
// service account's or a login's.
func TestCredentials_ScopesOfTheMethods(t *testing.T) {
	tokens := tokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		// a login's, which package login asks for
		scopes := "https://www.googleapis.com/auth/chat.messages.readonly"
		if parts := strings.Split(r.PostFormValue("assertion"), "."); len(parts) == 3 {
			var claims struct{ Scope string }
			b, _ := base64.RawURLEncoding.DecodeString(parts[1])
			_ = json.Unmarshal(b, &claims)
			scopes = claims.Scope
		}
		names := strings.ReplaceAll(strings.ReplaceAll(scopes, "https://www.googleapis.com/auth/",
			""), " ", ",")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"scope:%s","expires_in":3600,"token_type":"Bearer"}`, names)
	})
	asked := 0
	srv := tlsChatServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		asked++
		io.WriteString(w, `{"name":"spaces/AAA/messages/M"}`)
	})
	account := strict.ServiceAccount(t, tokens.URL)
	for _, file := range []string{account, writeUserFile(t, tokens.URL+"/token")} {
		r := newReader(t, srv.URL, file)
		_, _ = listAll(t, r)
		_, _ = r.GetByClientID(t.Context(), "spaces/AAA", "client-x")
		if file != account {
			_, _ = r.Me(t.Context())
		}
	}
	a := newTestApp(t, srv.URL, account)
	card := StoredCard(wording.NoticeCard("words", "id"))
	_, _ = a.Post(t.Context(),
		Post{Text: "x", ThreadKey: "k", MessageID: "client-x", Card: card, Viewer: "users/1"})
	_ = a.Patch(t.Context(), "spaces/AAA/messages/client-x", "x", card)
	_, _ = a.GetByClientID(t.Context(), a.Space, "client-x")
	_, _ = a.HasButtonOf(t.Context(), Message{Name: "spaces/AAA/messages/M"}, "q")
	_, _ = a.IsDirect(t.Context())
	_, _ = a.Spaces(t.Context())
	_, _ = a.Pull(t.Context())
	_ = a.Ack(t.Context(), []string{"a"})
	_ = a.CheckPullAccess(t.Context())
	kit.True(t, asked == 14, "Google took %d of 14 calls", asked)
}

func TestCredentials_HintsForLogins(t *testing.T) {
	for want, err := range map[string]error{
		"enable the Google Chat API": &APIError{HTTP: 403,
			Message: "Google Chat API has not been used in project 1 before or it is disabled."},
		"configure one": &APIError{HTTP: 404,
			Message: "Google Chat app not found. To create a Chat app, you must turn on the Chat API"},
		"was deleted":       &APIError{HTTP: 404, Message: "Space not found."},
		"users/ID":          fmt.Errorf("ask: %w", ErrUnknownPerson),
		"gchat-hooks login": fmt.Errorf("x: %w", ErrCredentials),
	} {
		kit.Containsf(t, Hint(err), want, "%v", err)
	}
}

// FuzzRefusal reads any answer of a token endpoint.
func FuzzRefusal(f *testing.F) {
	f.Add(`{"error":"invalid_grant","error_description":"reauth related error (invalid_rapt)"}`)
	f.Add(`{"error":{"status":"X","message":"y"}}`)
	f.Add("\xff{")
	f.Fuzz(func(t *testing.T, body string) {
		said := ReadTokenError([]byte(body))
		kit.True(t, said != "" && len(said) <= 400 && LoginHint(said) != "" &&
			!strings.Contains(said, "\n"),
			"%q became %q", body, said)
	})
}

func TestCredentials_EndpointGetsNone(t *testing.T) {
	for _, endpoint := range []string{"http://chat.example/", "ftp://127.0.0.1/",
		"http://127.0.0.1.chat.example", "not a url"} {
		_, err := NewReader(t.Context(), endpoint, "")
		kit.True(t, err != nil, "%s was taken", endpoint)
	}
}

// Credentials of other kinds are refused: they could name a file of the person's, and a
// host to send it to.
func TestCredentials_FilesThatAreNone(t *testing.T) {
	leads := `{"type": "%s", "source_credentials": {"type": "external_account"}}`
	for content, says := range map[string]string{
		"{": "", "{}": "",
		fmt.Sprintf(leads, "impersonated_service_account"):     "is neither",
		fmt.Sprintf(leads, "external_account"):                 "is neither",
		fmt.Sprintf(leads, "external_account_authorized_user"): "is neither",
		fmt.Sprintf(leads, "gdch_service_account"):             "is neither",
	} {
		_, err := NewReader(t.Context(), "", writeFile(t, content))
		kit.True(t, errors.Is(err, ErrCredentials) && strings.Contains(err.Error(), says), "%s: %v",
			content, err)
	}
	_, err := NewReader(t.Context(), "", filepath.Join(t.TempDir(), "missing"))
	kit.True(t, errors.Is(err, ErrCredentials), "missing: %v", err)
	newReader(t, "", writeFile(t,
		`{"type":"authorized_user","client_id":"1","client_secret":"s","refresh_token":"r"}`))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", strict.ServiceAccount(t, nobodyListens))
	newReader(t, "", "") // by default
}
