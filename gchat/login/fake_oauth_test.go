package login

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state/config"
)

// fakeGoogle stands in for Google: the page where a person agrees, the token endpoint,
// revocation, and a Chat API over TLS that accepts the access tokens it gave. Its fields
// say how it behaves.
type fakeGoogle struct {
	t    *testing.T
	web  *httptest.Server
	chat *httptest.Server
	home string // of the person who logs in
	env  map[string]string

	// the browser is sent back with these in place of a code
	deny url.Values
	// scopes said to be granted; "" for as asked, "-" for nothing said
	granted string
	// answers in place of the token endpoint
	tokenHandler func(w http.ResponseWriter, r *http.Request) bool
	// members of the token's answer; nil takes one away
	grant map[string]any
	// answers in place of revocation
	revokeHandler func(w http.ResponseWriter, r *http.Request) bool
	// changes what the browser is sent back with
	callback func(url.Values)

	mu       sync.Mutex
	codes    map[string]url.Values // by code: what it was asked for with
	refresh  map[string]bool       // refresh tokens, whether they live
	access   map[string]bool
	secrets  []string // that must not be shown
	revoked  []string
	listings int
}

const clientID, clientSecret = "123-abc.apps.googleusercontent.com", "GOCSPX-client-secret"

// idToken is a token that says who logged in.
func idToken(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
}

func newGoogle(t *testing.T) *fakeGoogle {
	g := &fakeGoogle{
		t: t, home: t.TempDir(), codes: map[string]url.Values{}, refresh: map[string]bool{},
		access: map[string]bool{}, secrets: []string{clientSecret},
	}
	g.env = map[string]string{"HOME": g.home}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", g.authorize)
	mux.HandleFunc("POST /token", g.exchange)
	mux.HandleFunc("POST /revoke", g.revoke)
	g.web = kit.NewServer(t, mux)
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/spaces/AAA/messages", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.listings++
		g.mu.Unlock()
		io.WriteString(w,
			`{"messages":[{"name":"spaces/AAA/messages/1","text":"2","sender":{"name":"users/7","type":"HUMAN"}}]}`)
	})
	google := strict.CheckRequests(t, api)
	g.chat = kit.NewTLSServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		ok := g.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		g.mu.Unlock()
		if !ok {
			w.WriteHeader(401)
			io.WriteString(w,
				`{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such token"}}`)
			return
		}
		google.ServeHTTP(w, r)
	}))
	kit.UseTransport(t, g.chat.Client().Transport)
	return g
}

func (g *fakeGoogle) getenv(name string) string { return g.env[name] }

// newSecret makes a value that must not be shown.
func (g *fakeGoogle) newSecret(prefix string) string {
	s := prefix + rand.Text()
	g.secrets = append(g.secrets, s)
	return s
}

// authorize is the page where a person agrees. This person does so at once.
func (g *fakeGoogle) authorize(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := r.URL.Query()
	want := []string{"access_type", "client_id", "code_challenge", "code_challenge_method",
		"prompt", "redirect_uri", "response_type", "scope", "state"}
	got := slices.Sorted(maps.Keys(q))
	kit.True(g.t, slices.Equal(got, want), "the address holds %v", got)
	kit.True(g.t, q.Get("client_id") == clientID && q.Get("response_type") == "code" &&
		q.Get("code_challenge_method") == "S256" && len(q.Get("code_challenge")) == 43 &&
		q.Get("access_type") == "offline" && q.Get("prompt") == "consent" &&
		len(q.Get("state")) >= 20 &&
		q.Get("scope") == "openid https://www.googleapis.com/auth/chat.messages.readonly https://www.googleapis.com/auth/chat.spaces.readonly",
		"asked %v", q)
	redirect, err := url.Parse(q.Get("redirect_uri"))
	kit.True(g.t, err == nil && redirect.Scheme == "http" && redirect.Hostname() == "127.0.0.1" &&
		redirect.Port() != "",
		"back to %s", q.Get("redirect_uri"))
	answer := url.Values{"state": {q.Get("state")}}
	if g.deny != nil {
		maps.Copy(answer, g.deny)
	} else {
		code := g.newSecret("4/0A")
		g.codes[code] = q
		answer.Set("code", code)
		answer.Set("scope", q.Get("scope"))
	}
	if g.callback != nil {
		g.callback(answer)
	}
	redirect.RawQuery = answer.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

// exchange is the token endpoint. It takes a code with its verifier, or a refresh token.
func (g *fakeGoogle) exchange(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if g.tokenHandler != nil && g.tokenHandler(w, r) {
		return
	}
	refuse := func(code string) {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":%q,"error_description":"Bad Request"}`, code)
	}
	_ = r.ParseForm()
	f := r.PostForm
	if f.Get("client_id") != clientID || f.Get("client_secret") != clientSecret ||
		r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
		refuse("invalid_client")
		return
	}
	access := g.newSecret("scope:chat.messages.readonly,chat.spaces.readonly,ya29.")
	answer := map[string]any{"access_token": access, "expires_in": 3599, "token_type": "Bearer"}
	switch f.Get("grant_type") {
	case "authorization_code":
		asked, ok := g.codes[f.Get("code")]
		delete(g.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		g.secrets = append(g.secrets, f.Get("code_verifier"))
		if !ok || f.Get("redirect_uri") != asked.Get("redirect_uri") ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
			refuse("invalid_grant")
			return
		}
		token := g.newSecret("1//0")
		g.refresh[token] = true
		answer["refresh_token"], answer["id_token"] = token, idToken(`{"aud":"`+clientID+
			`","sub":"7"}`)
		switch g.granted {
		case "":
			answer["scope"] = asked.Get("scope")
		case "-":
		default:
			answer["scope"] = g.granted
		}
	case "refresh_token":
		if !g.refresh[f.Get("refresh_token")] {
			refuse("invalid_grant")
			return
		}
	default:
		refuse("unsupported_grant_type")
		return
	}
	for k, v := range g.grant {
		if answer[k] = v; v == nil {
			delete(answer, k)
		}
	}
	g.access[access] = true
	_ = json.NewEncoder(w).Encode(answer)
}

func (g *fakeGoogle) revoke(w http.ResponseWriter, r *http.Request) {
	if g.revokeHandler != nil && g.revokeHandler(w, r) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	token := r.PostFormValue("token")
	if r.URL.RawQuery != "" || !g.refresh[token] {
		w.WriteHeader(400)
		io.WriteString(w,
			`{"error":"invalid_token","error_description":"Token expired or revoked"}`)
		return
	}
	g.refresh[token] = false
	g.revoked = append(g.revoked, token)
}

// clientFile is the file that the Google Cloud console offers for download.
func (g *fakeGoogle) clientFile() string {
	return g.writeClientFile(fmt.Sprintf(`{"installed":{"client_id":%q,"project_id":"p","auth_uri":%q,"token_uri":%q,"client_secret":%q,"redirect_uris":["http://localhost"]}}`,
		clientID, g.web.URL+"/auth", g.web.URL+"/token", clientSecret))
}

func (g *fakeGoogle) writeClientFile(content string) string {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "client_secret.json")
	kit.NoError(g.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// storedLogin is the login on disk, or nil.
func (g *fakeGoogle) storedLogin() *config.Login {
	l, err := config.ReadLogin(config.LoginFile(g.getenv))
	if err != nil {
		return nil
	}
	return l
}

// checkNoSecrets fails the test if a secret is in what a person or a log gets.
func (g *fakeGoogle) checkNoSecrets(what ...any) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range what {
		text := fmt.Sprintf("%+v", w)
		for _, s := range g.secrets {
			kit.True(g.t, s == "" ||
				!strings.Contains(text, s) && !strings.Contains(text, url.QueryEscape(s)),
				"the secret %q is shown: %s", s, text)
		}
	}
}
