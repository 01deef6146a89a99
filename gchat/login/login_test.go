package login

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// words is what the person gets to read, and what a test can wait for.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// person is somebody who logs in: with a browser that follows redirects.
type person struct {
	*google
	out    words
	opened chan string // the addresses that the browser was opened with
	pages  chan string // the pages that it ended on
}

func newPerson(g *google) *person {
	return &person{google: g, opened: make(chan string, 9), pages: make(chan string, 9)}
}

// options are those of a person who clicks "Allow".
func (p *person) options() Options {
	return Options{
		ClientFile: p.clientFile(), Env: p.getenv, Out: &p.out, Endpoint: p.chat.URL, Wait: 30 * time.Second,
		Open: func(address string) error {
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

// hint is what the person is told to do; a failure without a hint is a bug.
func hint(err error) string {
	var told *state.UserError
	if errors.As(err, &told) && told.Code == 1 {
		return told.Hint
	}
	return "no hint"
}

func TestLoginIsReadWith(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	acc, err := Run(t.Context(), p.options())
	if err != nil {
		t.Fatal(err)
	}
	page := <-p.pages
	if !strings.HasPrefix(page, "200") || !strings.Contains(page, "You are logged in") {
		t.Errorf("the page: %s", page)
	}
	if acc.Name != "users/7" || acc.Email != "ann@example.com" || acc.Unknown != nil || !acc.Ends.IsZero() || acc.String() != "Ann ann@example.com (users/7)" {
		t.Errorf("account %+v", acc)
	}
	if info, err := os.Stat(state.LoginFile(g.getenv)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	l := g.kept()
	if l == nil || l.User != "users/7" || l.ClientID != clientID || l.TokenURI != g.web.URL+"/token" || len(l.Scopes) != 2 || time.Since(l.At) > time.Minute {
		t.Errorf("kept %+v", l)
	}
	if !strings.Contains(p.out.String(), <-p.opened) {
		t.Errorf("the address is not printed: %s", p.out.String())
	}
	g.unseen(p.out.String(), page, acc)

	// The way that replies are read, from the configuration on.
	cfg := state.LoadConfig(g.getenv, t.TempDir())
	if len(cfg.AllowedUsers) != 1 || cfg.AllowedUsers[0] != "users/7" {
		t.Errorf("may answer: %v", cfg.AllowedUsers)
	}
	r, err := gchat.NewReader(t.Context(), g.chat.URL, cfg.CredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 3 {
		if _, err := r.Since(t.Context(), "spaces/AAA", time.Now(), func(ms []gchat.Message) { n += len(ms) }); err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 || g.listings != 3 || len(g.access) != 3 { // one at the login, one to ask who that is, one for three lists
		t.Errorf("%d messages, %d lists, %d access tokens", n, g.listings, len(g.access))
	}

	for token := range g.refresh { // at myaccount.google.com
		g.refresh[token] = false
	}
	r, _ = gchat.NewReader(t.Context(), g.chat.URL, cfg.CredentialsFile)
	_, err = r.Since(t.Context(), "spaces/AAA", time.Now(), func([]gchat.Message) {})
	if !errors.Is(err, gchat.ErrCredentials) || !strings.Contains(gchat.Hint(err), "gchat-hooks login") {
		t.Errorf("after its end: %v; hint: %s", err, gchat.Hint(err))
	}
	g.unseen(err, gchat.Hint(err))
}

func TestSecondLoginReplacesTheFirst(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	if _, err := Run(t.Context(), p.options()); err != nil {
		t.Fatal(err)
	}
	first := g.kept()
	g.deny = url.Values{"error": {"access_denied"}}
	if _, err := Run(t.Context(), p.options()); !strings.Contains(hint(err), "allow both") {
		t.Fatalf("denied: %v", err)
	}
	if l := g.kept(); l == nil || l.RefreshToken != first.RefreshToken {
		t.Error("a login that failed took the older one away")
	}
	g.deny, g.me = nil, ""
	acc, err := Run(t.Context(), p.options())
	if err != nil || acc.Name != "" || !errors.Is(acc.Unknown, gchat.ErrNotTold) {
		t.Errorf("%+v, %v", acc, err)
	}
	if l := g.kept(); l.RefreshToken == first.RefreshToken || l.User != "" {
		t.Errorf("the second login is %+v", l)
	}
	if len(g.revoked) > 0 {
		t.Error("revoking the first would have ended the second: Google forgets all of a client")
	}
}

// Whoever logs in again needs no client's file: the login that is kept has the client.
func TestLoginAgainWithTheKeptClient(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	if _, err := Run(t.Context(), p.options()); err != nil {
		t.Fatal(err)
	}
	first := g.kept()
	o := p.options()
	o.ClientFile = ""
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if l := g.kept(); l.RefreshToken == first.RefreshToken || l.ClientID != clientID || l.AuthURI != g.web.URL+"/auth" {
		t.Errorf("the second login is %+v", l)
	}
	first.AuthURI, first.TokenURI = "", "https://oauth2.googleapis.com/token" // as logins of old are
	if err := first.Save(state.LoginFile(g.getenv)); err != nil {
		t.Fatal(err)
	}
	o.ClientFile = ""
	if c, err := o.client(); err != nil || c.AuthURI != googleAuth || c.Secret != clientSecret {
		t.Errorf("of an old login: %v", err)
	}
	for _, damage := range []func(*state.Login){func(l *state.Login) { l.ClientSecret = "" }, func(l *state.Login) { l.AuthURI = "javascript:alert(1)" }, func(l *state.Login) { l.TokenURI = "http://example.com/token" }} {
		l := *first
		damage(&l)
		if err := l.Save(state.LoginFile(g.getenv)); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), o); !strings.Contains(hint(err), "Desktop app") {
			t.Errorf("%v", err)
		}
	}
}

func TestWhatGoogleSaysNo(t *testing.T) {
	for name, c := range map[string]struct {
		deny       url.Values
		says, hint string
	}{
		"the person":          {url.Values{"error": {"access_denied"}}, "access_denied", "test users"},
		"the organisation":    {url.Values{"error": {"admin_policy_enforced"}}, "admin_policy_enforced", "administrator"},
		"another's project":   {url.Values{"error": {"org_internal"}}, "org_internal", "your own organisation's project"},
		"with a subtype":      {url.Values{"error": {"access_denied"}, "error_subtype": {"admin_policy_enforced"}}, "admin_policy_enforced", "administrator"},
		"with a description":  {url.Values{"error": {"invalid_request"}, "error_description": {"<b>\x1b[2Jno</b>"}}, "no", "log in again"},
		"a code and an error": {url.Values{"error": {"access_denied"}, "code": {"4/0Acode-of-somebody"}}, "access_denied", "test users"},
	} {
		g := newGoogle(t)
		g.deny = c.deny
		p := newPerson(g)
		_, err := Run(t.Context(), p.options())
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint(err), c.hint) || strings.Contains(err.Error(), "\x1b") || g.kept() != nil {
			t.Errorf("%s: %v; hint: %s", name, err, hint(err))
		}
		if page := <-p.pages; !strings.Contains(page, "You are not logged in") {
			t.Errorf("%s: page %s", name, page)
		}
	}
}

func TestWhatTheTokenEndpointSays(t *testing.T) {
	answer := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(code)
			io.WriteString(w, body)
			return true
		}
	}
	const messages, spaces = "https://www.googleapis.com/auth/chat.messages.readonly", "https://www.googleapis.com/auth/chat.spaces.readonly"
	for name, c := range map[string]struct {
		change     func(g *google)
		hint, says string
	}{
		"code is used": {func(g *google) {
			g.token = answer(400, `{"error":"invalid_grant","error_description":"Malformed auth code."}`)
		}, "finish within a few minutes", "Malformed auth code"},
		"code is too old": {func(g *google) {
			g.token = answer(400, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
		}, "finish within a few minutes", "the code was used before, is too old"},
		"secret is wrong":    {func(g *google) { g.token = answer(401, `{"error":"invalid_client"}`) }, "Desktop app", "invalid_client"},
		"client is gone":     {func(g *google) { g.token = answer(401, `{"error":"deleted_client"}`) }, "Desktop app", "deleted_client"},
		"policy":             {func(g *google) { g.token = answer(400, `{"error":"admin_policy_enforced"}`) }, "administrator", "admin_policy_enforced"},
		"trouble":            {func(g *google) { g.token = answer(503, `GOCSPX-client-secret`) }, "HTTPS_PROXY", "503"},
		"nonsense":           {func(g *google) { g.token = answer(200, `GOCSPX-client-secret`) }, "HTTPS_PROXY", "none of Google's"},
		"no access token":    {func(g *google) { g.grant = map[string]any{"access_token": nil} }, "HTTPS_PROXY", "none of Google's"},
		"a box unticked":     {func(g *google) { g.granted = spaces }, "every box", "chat.messages.readonly"},
		"the other unticked": {func(g *google) { g.granted = messages }, "every box", "chat.spaces.readonly"},
		"the wrong scope":    {func(g *google) { g.granted = messages + "x " + spaces }, "every box", "chat.messages.readonly"},
		"nothing that lasts": {func(g *google) { g.grant = map[string]any{"refresh_token": nil} }, "myaccount.google.com", "refresh token"},
		"a redirect": {func(g *google) {
			g.token = func(w http.ResponseWriter, r *http.Request) bool {
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
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint(err), c.hint) || g.kept() != nil {
			t.Errorf("%s: %v; hint: %s", name, err, hint(err))
		}
		page := <-p.pages
		if !strings.Contains(page, "You are not logged in") {
			t.Errorf("%s: page %s", name, page)
		}
		g.unseen(err, hint(err), page, p.out.String())
	}
}

func TestScopesThatAreNotSaidAreThoseAskedFor(t *testing.T) {
	g := newGoogle(t)
	g.granted = "-"
	if _, err := Run(t.Context(), newPerson(g).options()); err != nil || len(g.kept().Scopes) != 2 {
		t.Errorf("%v", err)
	}
}

func TestLoginOfATestingClientSaysWhenItEnds(t *testing.T) {
	g := newGoogle(t)
	g.grant = map[string]any{"refresh_token_expires_in": 604799}
	acc, err := Run(t.Context(), newPerson(g).options())
	if in := time.Until(acc.Ends); err != nil || in < 6*24*time.Hour || in > 7*24*time.Hour || !g.kept().Ends.Equal(acc.Ends) {
		t.Errorf("ends %v, %v", acc.Ends, err)
	}
}

func TestChatOutOfReachIsNoReasonToLoseALogin(t *testing.T) {
	g := newGoogle(t)
	o := newPerson(g).options()
	g.chat.Close()
	acc, err := Run(t.Context(), o)
	if err != nil || acc.Unknown == nil || g.kept() == nil {
		t.Errorf("%+v, %v", acc, err)
	}
	g.unseen(acc.Unknown)
}

func TestAnothersFileIsNotLoggedInOver(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	if err := os.MkdirAll(state.UserState(g.getenv), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state.LoginFile(g.getenv), []byte(`{"type":"service_account"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), p.options()); !strings.Contains(hint(err), "move it away") || len(p.opened) > 0 {
		t.Errorf("%v, %d browsers", err, len(p.opened))
	}
	if _, err := Logout(t.Context(), g.getenv); !strings.Contains(hint(err), "move it away") {
		t.Errorf("log out: %v", err)
	}
	if b, _ := os.ReadFile(state.LoginFile(g.getenv)); string(b) != `{"type":"service_account"}` {
		t.Errorf("the file became %q", b)
	}
}

func TestWaitEnds(t *testing.T) {
	g := newGoogle(t)
	p := newPerson(g)
	o := p.options()
	ctx, cancel := context.WithCancel(t.Context())
	var back string
	o.Open = func(address string) error {
		u, _ := url.Parse(address)
		back = u.Query().Get("redirect_uri")
		cancel() // Ctrl-C
		return nil
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := http.Get(back); err == nil {
		t.Error("the port is open still")
	}
	o.Open, o.Wait = func(string) error { return nil }, 30*time.Millisecond
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "30ms") || !strings.Contains(hint(err), "org_internal") {
		t.Errorf("nobody came: %v", err)
	}
	if g.kept() != nil {
		t.Error("something was kept")
	}
}

// addressIn is the address that the person was told to open.
var addressIn = regexp.MustCompile(`(?m)^  (http\S+)$`)
