package gchat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// newHub is a hub in front of an embedded space, and the file of a machine that joined it.
func newHub(t *testing.T) (h *strict.Hub, file string) {
	t.Helper()
	sp, err := space.Open(space.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sp.Close() })
	inner := strict.Google(t, sp.Handler(), strict.Embedded, strict.DirectMessage)
	at := strings.TrimSuffix(sp.APIEndpoint("http://x"), "/")
	prefix := strings.TrimPrefix(at, "http://x")
	h = strict.NewHub(t, "spaces/local", space.Subscription, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = prefix + r.URL.Path
		inner.ServeHTTP(w, r)
	}))
	file = filepath.Join(t.TempDir(), "hub.json")
	join(t, h, file)
	return h, file
}

func join(t *testing.T, h *strict.Hub, file string) {
	t.Helper()
	hub, err := JoinHub(t.Context(), h.URL+"/", "good", "nonce", "(devel)")
	if err == nil {
		err = hub.Save(file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func appOf(t *testing.T, h *strict.Hub, file string) *App {
	t.Helper()
	a, err := NewApp(t.Context(), &config.Config{
		SpaceID: h.Space, Subscription: h.Subscription, CredentialsFile: file, APIEndpoint: h.URL, PubSubEndpoint: h.URL,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// edit changes a hub's file as time does, or another process.
func edit(t *testing.T, file string, change func(*Hub)) {
	t.Helper()
	h := ReadHub(file)
	if h == nil {
		t.Fatal("there is no hub in the file")
	}
	change(h)
	if err := h.Save(file); err != nil {
		t.Fatal(err)
	}
}

func TestAMachineSpeaksToItsHubAsToGoogle(t *testing.T) {
	h, file := newHub(t)
	a := appOf(t, h, file)
	id := state.MessageID("question", "1")
	posted, err := a.Post(t.Context(), Post{Text: "x", ThreadKey: "k", MessageID: id, Card: NoticeCard("words", "cafe12")})
	if err != nil || strings.Contains(posted.Name, "client-") {
		t.Fatalf("%+v, %v", posted, err)
	}
	if again, err := a.Post(t.Context(), Post{Text: "x", ThreadKey: "k", MessageID: id}); again.Name != posted.Name && !AlreadyExists(err) {
		t.Errorf("posted again: %+v, %v", again, err)
	}
	if _, err := a.Post(t.Context(), Post{Text: "y", ThreadName: posted.ThreadName, MessageID: state.MessageID("note")}); err != nil {
		t.Error(err)
	}
	found, err := a.Reader().ByClientID(t.Context(), a.Space, id)
	if err != nil || found.Name != posted.Name || found.ClientID != "client-0123456789ab-"+strings.TrimPrefix(id, "client-") {
		t.Errorf("%+v, %v", found, err)
	}
	if shows, err := a.Shows(t.Context(), found, "cafe12"); !shows || err != nil {
		t.Errorf("shows: %v, %v", shows, err)
	}
	if err := a.Patch(t.Context(), a.Space+"/messages/"+id, "x", NoticeCard("over", "")); err != nil {
		t.Error(err)
	}
	if shows, err := a.Shows(t.Context(), found, "cafe12"); shows || err != nil {
		t.Errorf("after the patch it shows: %v, %v", shows, err)
	}
	if direct, err := a.Direct(t.Context()); !direct || err != nil {
		t.Errorf("direct: %v, %v", direct, err)
	}
	if err := a.MayPull(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.Ack(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
	if _, _, refused := h.Seen(); len(refused) > 0 {
		t.Errorf("the hub refused %q", refused)
	}
	// A colleague's card is as much the app's as ours.
	if err := a.Patch(t.Context(), posted.Name, "x", nil); err == nil || !strings.Contains(Hint(err), "write join") {
		t.Errorf("patched by Chat's name: %v; %s", err, Hint(err))
	}
}

// A hub's token goes to that hub, whatever the endpoints are: not to Google, to another program on this machine, or to its port over TLS.
func TestAHubsTokenGoesNowhereElse(t *testing.T) {
	h, file := newHub(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked with %q", r.Host, r.Header.Get("Authorization"))
	}))
	other := httptest.NewServer(secure.Config.Handler)
	t.Cleanup(func() { secure.Close(); other.Close() })
	was := http.DefaultTransport
	http.DefaultTransport = secure.Client().Transport
	t.Cleanup(func() { http.DefaultTransport = was })
	for _, endpoint := range []string{"", other.URL, secure.URL, strings.Replace(h.URL, "http:", "https:", 1), strings.Replace(h.URL, "127.0.0.1", "localhost", 1)} {
		a, err := NewApp(t.Context(), &config.Config{
			SpaceID: h.Space, Subscription: h.Subscription, CredentialsFile: file, APIEndpoint: endpoint, PubSubEndpoint: endpoint,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, perr := a.Post(t.Context(), Post{Text: "x", MessageID: "client-x"})
		_, lerr := a.Pull(t.Context())
		for _, err := range []error{perr, lerr} {
			if !errors.Is(err, ErrCredentials) || !strings.Contains(Hint(err), h.URL) || strings.Contains(err.Error()+Hint(err), "token-") {
				t.Errorf("%s: %v; %s", endpoint, err, Hint(err))
			}
		}
	}
	// A redirect takes it nowhere.
	away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	edit(t, file, func(h *Hub) { h.URL = away.URL })
	h.URL = away.URL
	if _, err := appOf(t, h, file).Post(t.Context(), Post{Text: "x", MessageID: "client-x"}); err == nil {
		t.Error("a redirect was followed")
	}
	if err := appOf(t, h, file).MayPull(t.Context()); !errors.Is(err, errNoHub) {
		t.Errorf("joined by a redirect: %v", err)
	}
}

func TestAHubsTokenIsRenewed(t *testing.T) {
	got := func(ago time.Duration) func(*Hub) { return func(h *Hub) { h.Got = time.Now().Add(-ago) } }
	trouble := func(s *strict.HubState) { s.Trap = 503 }
	for name, c := range map[string]struct {
		file   func(*Hub)
		hub    func(*strict.HubState)
		before func(t *testing.T, h *strict.Hub, file string) // once the app read its file
		joined int                                            // tokens that the hub gave in the end
		kept   string                                         // the token in the file then
		fails  string                                         // words of the error or its hint; "" for none
	}{
		"fresh":                {file: got(11 * time.Hour), joined: 1, kept: "token-1"},
		"second half":          {file: got(13 * time.Hour), joined: 2, kept: "token-2"},
		"expired":              {file: got(99 * time.Hour), joined: 2, kept: "token-2"},
		"the clock was set":    {file: got(-time.Hour), joined: 2, kept: "token-2"},
		"a file of few words":  {file: func(h *Hub) { h.Got, h.Time = time.Time{}, time.Time{} }, joined: 2, kept: "token-2"},
		"the hub has trouble":  {file: got(13 * time.Hour), hub: trouble, joined: 1, kept: "token-1"},
		"trouble, and expired": {file: got(25 * time.Hour), hub: trouble, joined: 1, kept: "token-1", fails: "UNAVAILABLE"},
		"revoked": {file: got(13 * time.Hour), hub: func(s *strict.HubState) { s.Revoked = true },
			joined: 1, kept: "token-1", fails: "write join to the app"},
		"another key of the hub's": {hub: func(s *strict.HubState) { s.Forget = true },
			joined: 1, kept: "token-1", fails: "write join to the app"},
		"by another process": {file: got(13 * time.Hour), before: func(t *testing.T, h *strict.Hub, file string) {
			if err := appOf(t, h, file).MayPull(t.Context()); err != nil {
				t.Error(err)
			}
		}, joined: 2, kept: "token-2"},
		"joined anew meanwhile": {file: got(13 * time.Hour), before: func(t *testing.T, h *strict.Hub, file string) {
			edit(t, file, func(h *Hub) { h.Machine, h.Token = "ba9876543210", "another" })
		}, joined: 2, kept: "another"},
	} {
		t.Run(name, func(t *testing.T) {
			h, file := newHub(t)
			if c.file != nil {
				edit(t, file, c.file)
			}
			if c.hub != nil {
				h.Set(c.hub)
			}
			a := appOf(t, h, file)
			if c.before != nil {
				c.before(t, h, file)
			}
			posted, err := a.Post(t.Context(), Post{Text: "the whole text", MessageID: "client-x"})
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error()+Hint(err), c.fails) {
					t.Errorf("%v; %s", err, Hint(err))
				}
				if wants := c.fails != "UNAVAILABLE"; AuthFailure(err) != wants || Overloaded(err) == wants {
					t.Errorf("no failure of its kind: %v", err)
				}
			case err != nil:
				t.Fatal(err)
			default:
				if got, err := a.Reader().ByClientID(t.Context(), a.Space, "client-x"); err != nil || got.Text != "the whole text" || got.Name != posted.Name {
					t.Errorf("%+v, %v", got, err)
				}
			}
			joined, _, refused := h.Seen()
			now := ReadHub(file)
			if joined != c.joined || now.Token != c.kept || len(refused) > 0 {
				t.Errorf("%d tokens, %s is kept, refused %q", joined, now.Token, refused)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

// This machine's clock may be wrong by days: when the token is renewed follows from how long it lives, and a clock that is set loses nothing.
func TestAWrongClockRenewsNoTokenEarly(t *testing.T) {
	h, file := newHub(t)
	for _, off := range []time.Duration{-100 * time.Hour, 100 * time.Hour} {
		h.Set(func(s *strict.HubState) { s.Now = func() time.Time { return time.Now().Add(off) } })
		edit(t, file, func(h *Hub) { h.Got = time.Time{} })
		a := appOf(t, h, file)
		before, _, _ := h.Seen()
		for range 3 {
			if _, err := a.Direct(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := a.Ack(t.Context(), []string{"a"}); err != nil {
				t.Fatal(err)
			}
		}
		kept := ReadHub(file)
		if after, _, _ := h.Seen(); after != before+1 {
			t.Errorf("%s off: %d new tokens", off, after-before)
		}
		if wrong := fmt.Sprint(kept.Wrong("(devel)")); !strings.Contains(wrong, "clock is "+"100h0m") && !strings.Contains(wrong, "clock is 99h59m") {
			t.Errorf("%s off: %s", off, wrong)
		}
	}
}

// Several processes renew at once, each with a token that is good, and the file is a whole one all the time.
func TestProcessesRenewAtOnce(t *testing.T) {
	h, file := newHub(t)
	edit(t, file, func(h *Hub) { h.Got = time.Time{} })
	ctx, cancel := context.WithCancel(t.Context())
	var looks, all sync.WaitGroup
	looks.Go(func() {
		for ctx.Err() == nil {
			if ReadHub(file) == nil {
				t.Error("the file was broken")
			}
		}
	})
	for i := range 8 {
		a := appOf(t, h, file)
		for j := range 4 {
			all.Go(func() {
				if _, err := a.Post(t.Context(), Post{Text: "x", MessageID: fmt.Sprintf("client-%d-%d", i, j)}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	cancel()
	looks.Wait()
	if joined, requests, _ := h.Seen(); joined > 9 || len(requests) != 32 {
		t.Errorf("%d tokens, %d requests", joined, len(requests))
	}
}

func TestJoiningSaysWhatToDo(t *testing.T) {
	h, _ := newHub(t) // which used the code
	answers := func(code int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	good := map[string]any{
		"token": "t", "expires": "2026-11-27T00:00:00Z", "machine": "0123456789ab", "user": "users/1", "space": "spaces/S",
		"subscription": "projects/p/subscriptions/s", "time": "2026-11-26T00:00:00Z", "deciders": []string{"users/2"},
	}
	lies := func(member string, value any) string {
		lie := map[string]any{}
		for k, v := range good {
			lie[k] = v
		}
		lie[member] = value
		b, _ := json.Marshal(lie)
		return answers(200, string(b))
	}
	if j, err := JoinHub(t.Context(), lies("email", "a@example.com"), "c", "n", "v"); err != nil || j.Deciders[0] != "users/2" {
		t.Fatalf("%+v, %v", j, err)
	}
	for name, c := range map[string]struct{ url, code, nonce, says, hint string }{
		"the same machine again": {h.URL, "good", "nonce", "", ""},
		"another machine":        {h.URL, "good", "other", "The code was used", "write join"},
		"forged":                 {h.URL, "bad", "nonce", "forged or expired", "within ten minutes"},
		"nobody there":           {"http://127.0.0.1:1", "good", "nonce", "refused", "cannot be reached"},
		"not TLS":                {"http://hub.example.com", "good", "nonce", "neither https nor on this machine", "the hub's address"},
		"no address":             {"hub", "good", "nonce", "neither https", "the hub's address"},
		"another server":         {answers(404, "<html>no"), "good", "nonce", "there is no hub", "the hub's address"},
		"Google":                 {answers(404, `{"error":{"code":404,"status":"NOT_FOUND","message":"x"}}`), "good", "nonce", "there is no hub", "the hub's address"},
		"a page":                 {answers(200, "<html>hello"), "good", "nonce", "there is no hub", "the hub's address"},
		"trouble":                {answers(503, ""), "good", "nonce", "503", "tried again"},
		"a token that breaks":    {lies("token", "a\r\nb"), "good", "nonce", "there is no hub", ""},
		"no token":               {lies("token", ""), "good", "nonce", "there is no hub", ""},
		"no machine":             {lies("machine", "../x"), "good", "nonce", "there is no hub", ""},
		"another's decider":      {lies("deciders", []string{"users/2,users/3"}), "good", "nonce", "there is no hub", ""},
		"an app as person":       {lies("user", "bots/1"), "good", "nonce", "there is no hub", ""},
		"no space":               {lies("space", "spaces/S/messages/M"), "good", "nonce", "there is no hub", ""},
		"a wrong subscription":   {lies("subscription", "projects/p/subscriptions/s:pull"), "good", "nonce", "there is no hub", ""},
		"expired":                {lies("expires", "2026-11-25T00:00:00Z"), "good", "nonce", "there is no hub", ""},
		"endless":                {answers(200, `{"token":"`+strings.Repeat("a", 1<<17)), "good", "nonce", "there is no hub", ""},
	} {
		_, err := JoinHub(t.Context(), c.url, c.code, c.nonce, "v")
		var told *state.UserError
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &told) && name != "trouble" || !strings.Contains(err.Error(), c.says) || !strings.Contains(Hint(err), c.hint)) {
			t.Errorf("%s: %v; %s", name, err, Hint(err))
		}
	}
}
