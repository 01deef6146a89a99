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

// syncBuffer is what the person reads. A test can wait for it.
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

// person logs in with a browser that follows redirects.
type person struct {
	*fakeGoogle
	out    syncBuffer
	opened chan string // the addresses that the browser was opened with
	pages  chan string // the pages that it ended on
}

func newPerson(t *testing.T) *person {
	return &person{fakeGoogle: newGoogle(t), opened: make(chan string, 9),
		pages: make(chan string, 9)}
}

// logIn logs in successfully and returns the user.
func (p *person) logIn(o Options) (user string) {
	p.t.Helper()
	user, err := Run(p.t.Context(), o)
	kit.NoError(p.t, err)
	return user
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

// hintOf returns what the person is told to do. A failure without a hint is a bug.
func hintOf(err error) string {
	var userErr *state.UserError
	if errors.As(err, &userErr) && userErr.Code == 1 {
		return userErr.Hint
	}
	return "no hint"
}

func TestLogin_IsUsedForReading(t *testing.T) {
	p := newPerson(t)
	user := p.logIn(p.options())
	page := <-p.pages
	kit.True(t, strings.HasPrefix(page, "200") && strings.Contains(page, "You are logged in"),
		"the page: %s", page)
	kit.True(t, user == "users/7", "%q logged in", user)
	info, err := os.Stat(config.LoginFile(p.getenv))
	kit.True(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
	l := p.storedLogin()
	kit.True(t, l != nil && l.User == "users/7" && l.ClientID == clientID &&
		l.TokenURI == p.web.URL+"/token",
		"kept %+v", l)
	kit.Containsf(t, p.out.String(), <-p.opened, "the address")
	p.checkNoSecrets(p.out.String(), page)

	// The way that replies are read, from the configuration on.
	cfg := config.Load(p.getenv, t.TempDir())
	kit.True(t, len(cfg.AllowedUsers) == 1 && cfg.AllowedUsers[0] == "users/7",
		"may answer: %v", cfg.AllowedUsers)
	r, err := gchat.NewReader(t.Context(), p.chat.URL, cfg.CredentialsFile)
	kit.NoError(t, err)
	n := 0
	for range 3 {
		kit.NoError(t, r.ListSince(t.Context(), "spaces/AAA", time.Now(),
			func(ms []gchat.Message) { n += len(ms) }))
	}
	if n != 3 || p.listings != 3 || len(p.access) != 2 { // one at the login, one for three lists
		t.Errorf("%d messages, %d lists, %d access tokens", n, p.listings, len(p.access))
	}

	for token := range p.refresh { // at myaccount.google.com
		p.refresh[token] = false
	}
	r, _ = gchat.NewReader(t.Context(), p.chat.URL, cfg.CredentialsFile)
	err = r.ListSince(t.Context(), "spaces/AAA", time.Now(), func([]gchat.Message) {})
	kit.True(t, errors.Is(err, gchat.ErrCredentials) &&
		strings.Contains(gchat.Hint(err), "gchat-hooks login"),
		"after its end: %v; hint: %s", err, gchat.Hint(err))
	p.checkNoSecrets(err, gchat.Hint(err))
}

// The ID token says who logged in. If it is another client's or not a person's, the login
// is kept without a name.
func TestLogin_NameFromTheIDToken(t *testing.T) {
	for name, c := range map[string]struct {
		token any
		want  string
	}{
		"a person": {idToken(`{"aud":"` + clientID + `","sub":"123456789012345678901"}`),
			"users/123456789012345678901"},
		"another client's": {idToken(`{"aud":"another","sub":"8"}`), ""},
		"no person":        {idToken(`{"aud":"` + clientID + `","sub":"app"}`), ""},
		"no JSON":          {idToken("{"), ""},
		"no JWT":           {"x", ""},
		"no text":          {8, ""},
		"none":             {nil, ""},
	} {
		p := newPerson(t)
		p.grant = map[string]any{"id_token": c.token}
		kit.Equalf(t, p.logIn(p.options()), c.want, "%s: the user", name)
		l := p.storedLogin()
		kit.True(t, l != nil && l.User == c.want, "%s: kept %+v", name, l)
	}
}

func TestLogin_SecondReplacesTheFirst(t *testing.T) {
	p := newPerson(t)
	p.logIn(p.options())
	first := p.storedLogin()
	p.deny = url.Values{"error": {"access_denied"}}
	_, err := Run(t.Context(), p.options())
	kit.Contains(t, hintOf(err), "allow both")
	l := p.storedLogin()
	kit.True(t, l != nil && l.RefreshToken == first.RefreshToken,
		"a login that failed took the older one away")
	p.deny, p.grant = nil, map[string]any{"id_token": nil}
	kit.Equalf(t, p.logIn(p.options()), "", "the user")
	l = p.storedLogin()
	kit.True(t, l.RefreshToken != first.RefreshToken && l.User == "", "the second login is %+v", l)
	kit.True(t, len(p.revoked) == 0,
		"revoking the first would have ended the second: Google forgets all of a client")
}

// To log in again, a person needs no client file: the kept login has the client.
func TestLogin_AgainWithTheKeptClient(t *testing.T) {
	p := newPerson(t)
	o := p.options()
	file := o.ClientFile
	o.ClientFile = ""
	_, err := Run(t.Context(), o)
	kit.True(t, strings.Contains(hintOf(err), "Desktop app"), "without any client: %v", err)
	o.ClientFile = file
	p.logIn(o)
	first := p.storedLogin()
	o.ClientFile = ""
	p.logIn(o)
	l := p.storedLogin()
	kit.True(t, l.RefreshToken != first.RefreshToken && l.ClientID == clientID,
		"the second login is %+v", l)
}

func TestLogin_GoogleRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		deny       url.Values
		says, hint string
	}{
		"the person": {url.Values{"error": {"access_denied"}}, "access_denied", "test user"},
		"the organisation": {url.Values{"error": {"admin_policy_enforced"}},
			"admin_policy_enforced", "administrator"},
		"another's project": {url.Values{"error": {"org_internal"}}, "org_internal",
			"your own organisation's project"},
		"with a subtype": {url.Values{"error": {"access_denied"},
			"error_subtype": {"admin_policy_enforced"}}, "admin_policy_enforced", "administrator"},
		"with a description": {url.Values{"error": {"invalid_request"},
			"error_description": {"\x1b[2J" + strings.Repeat("no", 500)}}, "no", "log in again"},
		"a code and an error": {url.Values{"error": {"access_denied"},
			"code": {"4/0Acode-of-somebody"}}, "access_denied", "test user"},
	} {
		p := newPerson(t)
		p.deny = c.deny
		_, err := Run(t.Context(), p.options())
		kit.True(t, err != nil && strings.Contains(err.Error(), c.says) &&
			strings.Contains(hintOf(err), c.hint) && !strings.Contains(err.Error(), "\x1b") &&
			len(err.Error()) <= 400 && p.storedLogin() == nil,
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
		change     func(p *person)
		hint, says string
	}{
		"code is used": {func(p *person) {
			p.tokenHandler = answer(400,
				`{"error":"invalid_grant","error_description":"Malformed auth code."}`)
		}, "too late", "Malformed auth code"},
		"secret is wrong": {func(p *person) {
			p.tokenHandler = answer(401,
				`{"error":"invalid_client"}`)
		}, "Desktop app", "invalid_client"},
		"client is gone": {func(p *person) {
			p.tokenHandler = answer(401,
				`{"error":"deleted_client"}`)
		}, "Desktop app", "deleted_client"},
		"policy": {func(p *person) {
			p.tokenHandler = answer(400,
				`{"error":"admin_policy_enforced"}`)
		}, "administrator", "admin_policy_enforced"},
		"trouble": {func(p *person) {
			p.tokenHandler = answer(503,
				`GOCSPX-client-secret`)
		}, "log in again", "503"},
		"nonsense": {func(p *person) {
			p.tokenHandler = answer(200,
				`GOCSPX-client-secret`)
		}, "HTTPS_PROXY", "not from Google"},
		"no access token": {func(p *person) { p.grant = map[string]any{"access_token": nil} },
			"HTTPS_PROXY", "not from Google"},
		"a box unticked": {func(p *person) { p.granted = spaces }, "every box",
			"chat.messages.readonly"},
		"the other unticked": {func(p *person) { p.granted = messages }, "every box",
			"chat.spaces.readonly"},
		"the wrong scope": {func(p *person) { p.granted = messages + "x " + spaces },
			"every box", "chat.messages.readonly"},
		"a redirect": {func(p *person) {
			p.tokenHandler = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", p.web.URL+"/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
			p.web.Config.Handler.(*http.ServeMux).HandleFunc("/elsewhere",
				func(http.ResponseWriter, *http.Request) { p.t.Error("a redirect took the code and the secret along") })
		}, "HTTPS_PROXY", "redirects"},
	} {
		p := newPerson(t)
		c.change(p)
		_, err := Run(t.Context(), p.options())
		kit.True(t, err != nil && strings.Contains(err.Error(), c.says) &&
			strings.Contains(hintOf(err), c.hint) && p.storedLogin() == nil,
			"%s: %v; hint: %s", name, err, hintOf(err))
		page := <-p.pages
		kit.Containsf(t, page, "You are not logged in", "%s: page", name)
		p.checkNoSecrets(err, hintOf(err), page, p.out.String())
	}
}

func TestLogin_UnnamedScopesAreThoseAskedFor(t *testing.T) {
	p := newPerson(t)
	p.granted = "-"
	p.logIn(p.options())
	kit.True(t, p.storedLogin() != nil, "it is not kept")
}

func TestLogin_WaitEnds(t *testing.T) {
	p := newPerson(t)
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
	kit.True(t, p.storedLogin() == nil, "something was kept")
}

func newLoggedIn(t *testing.T) *person {
	t.Helper()
	p := newPerson(t)
	p.logIn(p.options())
	return p
}

func TestLogout_RevokesAndForgets(t *testing.T) {
	p := newLoggedIn(t)
	token := p.storedLogin().RefreshToken
	notRevoked, err := Logout(t.Context(), p.getenv)
	kit.True(t, notRevoked == nil && err == nil, "%v, %v", notRevoked, err)
	kit.True(t, len(p.revoked) == 1 && p.revoked[0] == token, "revoked %v", p.revoked)
	_, err = os.Stat(config.LoginFile(p.getenv))
	kit.True(t, errors.Is(err, fs.ErrNotExist), "the file is there still: %v", err)
	cfg := config.Load(p.getenv, t.TempDir())
	kit.True(t, cfg.CredentialsFile == "" && len(cfg.AllowedUsers) == 0,
		"configured still: %q, %v", cfg.CredentialsFile, cfg.AllowedUsers)
	_, err = Logout(t.Context(), p.getenv)
	kit.True(t, strings.Contains(hintOf(err), "gchat-hooks login"), "again: %v", err)
}

func TestLogout_ForgetsTheFileInAnyCase(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, p *person) context.Context
		revoked bool
	}{
		"it is in trouble": {func(t *testing.T, p *person) context.Context {
			p.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(503); return true }
			return t.Context()
		}, false},
		"nobody answers": {func(t *testing.T, p *person) context.Context { p.web.Close(); return t.Context() }, false},
		"it hangs, and the person presses Ctrl-C": {func(t *testing.T, p *person) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			p.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool {
				_ = r.ParseForm() // only then is it seen that the caller hangs up
				cancel()
				<-r.Context().Done()
				return true
			}
			return ctx
		}, false},
		"it redirects": {func(t *testing.T, p *person) context.Context {
			p.revokeHandler = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, p.web.URL+"/elsewhere", http.StatusTemporaryRedirect)
				return true
			}
			p.web.Config.Handler.(*http.ServeMux).HandleFunc("/elsewhere",
				func(http.ResponseWriter, *http.Request) { t.Error("a redirect took the token along") })
			return t.Context()
		}, false},
		"the login had ended": {func(t *testing.T, p *person) context.Context {
			p.refresh = map[string]bool{}
			return t.Context()
		}, true},
	} {
		p := newLoggedIn(t)
		notRevoked, err := Logout(c.change(t, p), p.getenv)
		kit.True(t, err == nil && (notRevoked == nil) == c.revoked,
			"%s: %v, %v", name, notRevoked, err)
		_, err = os.Stat(config.LoginFile(p.getenv))
		kit.True(t, errors.Is(err, fs.ErrNotExist), "%s: the file is there still: %v", name, err)
		p.checkNoSecrets(notRevoked)
	}
}

// addressPattern finds the address that the person is told to open.
var addressPattern = regexp.MustCompile(`(?m)^  (http\S+)$`)
