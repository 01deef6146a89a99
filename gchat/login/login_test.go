package login

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// syncBuffer is what the person gets to read, and what a test can wait for.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (w *syncBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.Write(p)
}

func (w *syncBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.String()
}

// person logs in: with a browser that follows redirects.
type person struct {
	*fakeGoogle
	out    syncBuffer
	opened chan string // the addresses that the browser was opened with
	pages  chan string // the pages that it ended on
}

func newPerson(g *fakeGoogle) *person {
	return &person{fakeGoogle: g, opened: make(chan string, 9), pages: make(chan string, 9)}
}

// options are those of a person who clicks "Allow".
func (p *person) options() Options {
	return Options{
		ClientFile: p.clientFile(), Getenv: p.getenv, Out: &p.out, Timeout: 30 * time.Second,
		OpenBrowser: func(address string) error {
			p.opened <- address
			go p.browse(address)
			return nil
		},
	}
}

func (p *person) browse(address string) {
	resp, err := new(http.Client).Get(address) // its own transport, as a browser is another program
	if err != nil {
		p.pages <- "no page: " + err.Error()
		return
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	p.pages <- resp.Status + "\n" + string(b)
}

// hintOf is what the person is told to do; a failure without a hint is a bug.
func hintOf(err error) string {
	var userErr *state.UserError
	if errors.As(err, &userErr) && userErr.Code == 1 {
		return userErr.Hint
	}
	return "no hint"
}

func TestLogin_IsUsedForReading(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	user, err := Run(t.Context(), p.options())
	kit.NoError(t, err)
	page := <-p.pages
	kit.True(t, strings.HasPrefix(page, "200") && strings.Contains(page, "You are logged in"),
		"the page: %s", page)
	kit.True(t, user == "users/7", "%q logged in", user)
	info, err := os.Stat(config.LoginFile(g.getenv))
	kit.True(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
	l := g.storedLogin()
	kit.True(t, l != nil && l.User == "users/7" && l.ClientID == clientID &&
		l.TokenURI == g.web.URL+"/token",
		"kept %+v", l)
	kit.Containsf(t, p.out.String(), <-p.opened, "the address")
	g.checkNoSecrets(p.out.String(), page)

	// The way that replies are read, from the configuration on.
	cfg := config.Load(g.getenv, t.TempDir())
	kit.True(t, len(cfg.AllowedUsers) == 1 && cfg.AllowedUsers[0] == "users/7",
		"may answer: %v", cfg.AllowedUsers)
	r, err := gchat.NewReader(t.Context(), g.chat.URL, cfg.CredentialsFile)
	kit.NoError(t, err)
	n := 0
	for range 3 {
		kit.NoError(t, r.ListSince(t.Context(), "spaces/AAA", time.Now(), func(ms []gchat.Message) { n += len(ms) }))
	}
	if n != 3 || g.listings != 3 || len(g.access) != 2 { // one at the login, one for three lists
		t.Errorf("%d messages, %d lists, %d access tokens", n, g.listings, len(g.access))
	}

	for token := range g.refresh { // at myaccount.google.com
		g.refresh[token] = false
	}
	r, _ = gchat.NewReader(t.Context(), g.chat.URL, cfg.CredentialsFile)
	err = r.ListSince(t.Context(), "spaces/AAA", time.Now(), func([]gchat.Message) {})
	kit.True(t, errors.Is(err, gchat.ErrCredentials) &&
		strings.Contains(gchat.Hint(err), "gchat-hooks login"),
		"after its end: %v; hint: %s", err, gchat.Hint(err))
	g.checkNoSecrets(err, gchat.Hint(err))
}

// Who logged in is the person of the ID token. A token of another client's, or of no
// person, tells nothing, and the login is kept.
func TestLogin_NameFromTheIDToken(t *testing.T) {
	for name, c := range map[string]struct {
		token any
		want  string
	}{
		"a person":         {idToken(`{"aud":"` + clientID + `","sub":"123456789012345678901"}`), "users/123456789012345678901"},
		"another client's": {idToken(`{"aud":"another","sub":"8"}`), ""},
		"no person":        {idToken(`{"aud":"` + clientID + `","sub":"app"}`), ""},
		"no JSON":          {idToken("{"), ""},
		"no JWT":           {"x", ""},
		"no text":          {8, ""},
		"none":             {nil, ""},
	} {
		g := newGoogle(t)
		g.grant = map[string]any{"id_token": c.token}
		user, err := Run(t.Context(), newPerson(g).options())
		kit.True(t, err == nil && user == c.want, "%s: %q, %v", name, user, err)
		l := g.storedLogin()
		kit.True(t, l != nil && l.User == c.want, "%s: kept %+v", name, l)
	}
}

func TestLogin_SecondReplacesTheFirst(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	if _, err := Run(t.Context(), p.options()); err != nil {
		t.Fatal(err)
	}
	first := g.storedLogin()
	g.deny = url.Values{"error": {"access_denied"}}
	if _, err := Run(t.Context(), p.options()); !strings.Contains(hintOf(err), "allow both") {
		t.Fatalf("denied: %v", err)
	}
	l := g.storedLogin()
	kit.True(t, l != nil && l.RefreshToken == first.RefreshToken,
		"a login that failed took the older one away")
	g.deny, g.grant = nil, map[string]any{"id_token": nil}
	user, err := Run(t.Context(), p.options())
	kit.True(t, err == nil && user == "", "%q, %v", user, err)
	l = g.storedLogin()
	kit.True(t, l.RefreshToken != first.RefreshToken && l.User == "", "the second login is %+v", l)
	kit.True(t, len(g.revoked) == 0,
		"revoking the first would have ended the second: Google forgets all of a client")
}

// A person who logs in again needs no client's file: the login that is kept has the
// client.
func TestLogin_AgainWithTheKeptClient(t *testing.T) {
	g := newGoogle(t)
	o := newPerson(g).options()
	file := o.ClientFile
	o.ClientFile = ""
	_, err := Run(t.Context(), o)
	kit.True(t, strings.Contains(hintOf(err), "Desktop app"), "without any client: %v", err)
	o.ClientFile = file
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	first := g.storedLogin()
	o.ClientFile = ""
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l := g.storedLogin()
	kit.True(t, l.RefreshToken != first.RefreshToken && l.ClientID == clientID,
		"the second login is %+v", l)
}

func TestLogin_GoogleRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		deny       url.Values
		says, hint string
	}{
		"the person":          {url.Values{"error": {"access_denied"}}, "access_denied", "test user"},
		"the organisation":    {url.Values{"error": {"admin_policy_enforced"}}, "admin_policy_enforced", "administrator"},
		"another's project":   {url.Values{"error": {"org_internal"}}, "org_internal", "your own organisation's project"},
		"with a subtype":      {url.Values{"error": {"access_denied"}, "error_subtype": {"admin_policy_enforced"}}, "admin_policy_enforced", "administrator"},
		"with a description":  {url.Values{"error": {"invalid_request"}, "error_description": {"\x1b[2J" + strings.Repeat("no", 500)}}, "no", "log in again"},
		"a code and an error": {url.Values{"error": {"access_denied"}, "code": {"4/0Acode-of-somebody"}}, "access_denied", "test user"},
	} {
		g := newGoogle(t)
		g.deny = c.deny
		p := newPerson(g)
		_, err := Run(t.Context(), p.options())
		kit.True(t, err != nil && strings.Contains(err.Error(), c.says) &&
			strings.Contains(hintOf(err), c.hint) && !strings.Contains(err.Error(), "\x1b") &&
			len(err.Error()) <= 400 && g.storedLogin() == nil,
			"%s: %v; hint: %s", name, err, hintOf(err))
		kit.Containsf(t, <-p.pages, "You are not logged in", "%s: page", name)
	}
}

func TestLogin_TokenEndpointAnswers(t *testing.T) {
	answer := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(code)
			io.WriteString(w, body)
			return true
		}
	}
	const messages, spaces = "https://www.googleapis.com/auth/chat.messages.readonly", "https://www.googleapis.com/auth/chat.spaces.readonly"
	for name, c := range map[string]struct {
		change     func(g *fakeGoogle)
		hint, says string
	}{
		"code is used": {func(g *fakeGoogle) {
			g.tokenHandler = answer(400, `{"error":"invalid_grant","error_description":"Malformed auth code."}`)
		}, "too late", "Malformed auth code"},
		"secret is wrong":    {func(g *fakeGoogle) { g.tokenHandler = answer(401, `{"error":"invalid_client"}`) }, "Desktop app", "invalid_client"},
		"client is gone":     {func(g *fakeGoogle) { g.tokenHandler = answer(401, `{"error":"deleted_client"}`) }, "Desktop app", "deleted_client"},
		"policy":             {func(g *fakeGoogle) { g.tokenHandler = answer(400, `{"error":"admin_policy_enforced"}`) }, "administrator", "admin_policy_enforced"},
		"trouble":            {func(g *fakeGoogle) { g.tokenHandler = answer(503, `GOCSPX-client-secret`) }, "log in again", "503"},
		"nonsense":           {func(g *fakeGoogle) { g.tokenHandler = answer(200, `GOCSPX-client-secret`) }, "HTTPS_PROXY", "not from Google"},
		"no access token":    {func(g *fakeGoogle) { g.grant = map[string]any{"access_token": nil} }, "HTTPS_PROXY", "not from Google"},
		"a box unticked":     {func(g *fakeGoogle) { g.granted = spaces }, "every box", "chat.messages.readonly"},
		"the other unticked": {func(g *fakeGoogle) { g.granted = messages }, "every box", "chat.spaces.readonly"},
		"the wrong scope":    {func(g *fakeGoogle) { g.granted = messages + "x " + spaces }, "every box", "chat.messages.readonly"},
		"a redirect": {func(g *fakeGoogle) {
			g.tokenHandler = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", g.web.URL+"/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
			g.web.Config.Handler.(*http.ServeMux).HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { g.t.Error("a redirect took the code and the secret along") })
		}, "HTTPS_PROXY", "redirects"},
	} {
		g := newGoogle(t)
		c.change(g)
		p := newPerson(g)
		_, err := Run(t.Context(), p.options())
		kit.True(t, err != nil && strings.Contains(err.Error(), c.says) &&
			strings.Contains(hintOf(err), c.hint) && g.storedLogin() == nil,
			"%s: %v; hint: %s", name, err, hintOf(err))
		page := <-p.pages
		kit.Containsf(t, page, "You are not logged in", "%s: page", name)
		g.checkNoSecrets(err, hintOf(err), page, p.out.String())
	}
}

func TestLogin_UnnamedScopesAreThoseAskedFor(t *testing.T) {
	g := newGoogle(t)
	g.granted = "-"
	_, err := Run(t.Context(), newPerson(g).options())
	kit.True(t, err == nil && g.storedLogin() != nil, "%v", err)
}

func TestLogin_WaitEnds(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	ctx, cancel := context.WithCancel(t.Context())
	var back string
	o.OpenBrowser = func(address string) error {
		u, _ := url.Parse(address)
		back = u.Query().Get("redirect_uri")
		cancel() // Ctrl-C
		return nil
	}
	_, err := Run(ctx, o)
	kit.True(t, errors.Is(err, context.Canceled), "cancelled: %v", err)
	_, err = http.Get(back)
	kit.True(t, err != nil, "the port is open still")
	o.OpenBrowser, o.Timeout = func(string) error { return nil }, 30*time.Millisecond
	_, err = Run(t.Context(), o)
	kit.True(t, err != nil && strings.Contains(err.Error(), "30ms") &&
		strings.Contains(hintOf(err), "org_internal"),
		"nobody came: %v", err)
	kit.True(t, g.storedLogin() == nil, "something was kept")
}

func newLoggedIn(t *testing.T) *fakeGoogle {
	t.Helper()
	g := newGoogle(t)
	if _, err := Run(t.Context(), newPerson(g).options()); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLogout_RevokesAndForgets(t *testing.T) {
	g := newLoggedIn(t)
	token := g.storedLogin().RefreshToken
	notRevoked, err := Logout(t.Context(), g.getenv)
	kit.True(t, notRevoked == nil && err == nil, "%v, %v", notRevoked, err)
	kit.True(t, len(g.revoked) == 1 && g.revoked[0] == token, "revoked %v", g.revoked)
	_, err = os.Stat(config.LoginFile(g.getenv))
	kit.True(t, errors.Is(err, fs.ErrNotExist), "the file is there still: %v", err)
	cfg := config.Load(g.getenv, t.TempDir())
	kit.True(t, cfg.CredentialsFile == "" && len(cfg.AllowedUsers) == 0,
		"configured still: %q, %v", cfg.CredentialsFile, cfg.AllowedUsers)
	_, err = Logout(t.Context(), g.getenv)
	kit.True(t, strings.Contains(hintOf(err), "gchat-hooks login"), "again: %v", err)
}

func TestLogout_ForgetsTheFileInAnyCase(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, g *fakeGoogle) context.Context
		revoked bool
	}{
		"it is in trouble": {func(t *testing.T, g *fakeGoogle) context.Context {
			g.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(503); return true }
			return t.Context()
		}, false},
		"nobody answers": {func(t *testing.T, g *fakeGoogle) context.Context { g.web.Close(); return t.Context() }, false},
		"it hangs, and the person presses Ctrl-C": {func(t *testing.T, g *fakeGoogle) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			g.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool {
				_ = r.ParseForm() // only then is it seen that the caller hangs up
				cancel()
				<-r.Context().Done()
				return true
			}
			return ctx
		}, false},
		"it redirects": {func(t *testing.T, g *fakeGoogle) context.Context {
			g.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, g.web.URL+"/elsewhere", http.StatusTemporaryRedirect)
				return true
			}
			g.web.Config.Handler.(*http.ServeMux).HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("a redirect took the token along") })
			return t.Context()
		}, false},
		"the login had ended": {func(t *testing.T, g *fakeGoogle) context.Context {
			g.refresh = map[string]bool{}
			return t.Context()
		}, true},
	} {
		g := newLoggedIn(t)
		notRevoked, err := Logout(c.change(t, g), g.getenv)
		kit.True(t, err == nil && (notRevoked == nil) == c.revoked,
			"%s: %v, %v", name, notRevoked, err)
		_, err = os.Stat(config.LoginFile(g.getenv))
		kit.True(t, errors.Is(err, fs.ErrNotExist), "%s: the file is there still: %v", name, err)
		g.checkNoSecrets(notRevoked)
	}
}

// addressPattern is the address that the person was told to open.
var addressPattern = regexp.MustCompile(`(?m)^  (http\S+)$`)
