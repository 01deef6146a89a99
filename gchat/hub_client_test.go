package gchat_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/team"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// startHub starts a hub in front of an embedded space. It also returns the file of a
// machine that joined it.
func startHub(t *testing.T) (h *team.Hub, file string) {
	t.Helper()
	h, _ = team.StartLocal(t)
	file = filepath.Join(t.TempDir(), "hub.json")
	hub, err := gchat.JoinHub(t.Context(), h.URL+"/", h.Code, "nonce", "(devel)")
	if err == nil {
		err = hub.Save(file)
	}
	kit.NoError(t, err)
	return h, file
}

func newHubApp(t *testing.T, h *team.Hub, file string) *gchat.App {
	t.Helper()
	a, err := gchat.NewApp(t.Context(), &config.Config{
		SpaceID: h.Space, Subscription: h.Subscription, CredentialsFile: file, APIEndpoint: h.URL,
		PubSubEndpoint: h.URL,
	})
	kit.NoError(t, err)
	return a
}

// editHubFile changes a hub's file, as another process or the passing of time would.
func editHubFile(t *testing.T, file string, edit func(*gchat.HubClient)) {
	t.Helper()
	h := gchat.LoadHubClient(file)
	kit.Must(t, h != nil, "there is no hub in the file")
	edit(h)
	kit.NoError(t, h.Save(file))
}

func TestHubClient_SpeaksAsToGoogle(t *testing.T) {
	h, file := startHub(t)
	a := newHubApp(t, h, file)
	id := state.MessageID("question", "1")
	posted, err := a.Post(t.Context(),
		gchat.Post{Text: "x", ThreadKey: "k", MessageID: id,
			Card: gchat.StoredCard(wording.NoticeCard("words", "cafe12"))})
	kit.Must(t, err == nil && !strings.Contains(posted.Name, "client-"), "%+v, %v", posted, err)
	postedAgain, err := a.Post(t.Context(), gchat.Post{Text: "x", ThreadKey: "k", MessageID: id})
	kit.True(t, postedAgain.Name == posted.Name || gchat.IsAlreadyExists(err),
		"posted again: %+v, %v", postedAgain, err)
	_, err = a.Post(t.Context(),
		gchat.Post{Text: "y", ThreadName: posted.ThreadName, MessageID: state.MessageID("note")})
	kit.True(t, err == nil, "%v", err)
	found, err := a.GetByClientID(t.Context(), a.Space, id)
	kit.True(t, err == nil && found.Name == posted.Name &&
		found.ClientID == "client-0123456789ab-"+strings.TrimPrefix(id, "client-"),
		"%+v, %v", found, err)
	shows, err := a.HasButtonOf(t.Context(), found, "cafe12")
	kit.True(t, shows && err == nil, "shows: %v, %v", shows, err)
	kit.NoError(t, a.Patch(t.Context(), a.Space+"/messages/"+id, "x",
		gchat.StoredCard(wording.NoticeCard("over", ""))))
	shows, err = a.HasButtonOf(t.Context(), found, "cafe12")
	kit.True(t, !shows && err == nil, "after the patch it shows: %v, %v", shows, err)
	direct, err := a.IsDirect(t.Context())
	kit.True(t, direct && err == nil, "direct: %v, %v", direct, err)
	kit.NoError(t, a.CheckPullAccess(t.Context()))
	kit.NoError(t, a.Ack(t.Context(), []string{"a"}))
	_, _, refused := h.Seen()
	kit.True(t, len(refused) == 0, "the hub refused %q", refused)
	// A colleague's card is as much the app's as ours.
	err = a.Patch(t.Context(), posted.Name, "x", nil)
	kit.True(t, err != nil && strings.Contains(gchat.Hint(err), "add the app, or write join"),
		"patched by Chat's name: %v; %s", err, gchat.Hint(err))
}

// A hub's token goes only to that hub, whatever the endpoints are: not to Google, not to
// another program on this machine, and not to the hub's port over TLS.
func TestHubClient_TokenGoesToTheHubOnly(t *testing.T) {
	h, file := startHub(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked with %q", r.Host, r.Header.Get("Authorization"))
	}))
	other := httptest.NewServer(secure.Config.Handler)
	t.Cleanup(func() { secure.Close(); other.Close() })
	kit.UseTransport(t, secure.Client().Transport)
	for _, endpoint := range []string{"", other.URL, secure.URL,
		strings.Replace(h.URL, "http:", "https:", 1),
		strings.Replace(h.URL, "127.0.0.1", "localhost", 1)} {
		a, err := gchat.NewApp(t.Context(), &config.Config{
			SpaceID: h.Space, Subscription: h.Subscription, CredentialsFile: file,
			APIEndpoint: endpoint, PubSubEndpoint: endpoint,
		})
		kit.NoError(t, err)
		_, perr := a.Post(t.Context(), gchat.Post{Text: "x", MessageID: "client-x"})
		_, lerr := a.Pull(t.Context())
		for _, err := range []error{perr, lerr} {
			kit.True(t, errors.Is(err, gchat.ErrCredentials) &&
				strings.Contains(gchat.Hint(err), h.URL) &&
				!strings.Contains(err.Error()+gchat.Hint(err), gchat.LoadHubClient(file).Token),
				"%s: %v; %s", endpoint, err, gchat.Hint(err))
		}
	}
	// A redirect takes it nowhere.
	away := kit.NewServer(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	editHubFile(t, file, func(h *gchat.HubClient) { h.URL = away.URL })
	h.URL = away.URL
	_, err := newHubApp(t, h, file).Post(t.Context(), gchat.Post{Text: "x", MessageID: "client-x"})
	kit.True(t, err != nil, "a redirect was followed")
	err = newHubApp(t, h, file).CheckPullAccess(t.Context())
	kit.True(t, err != nil && strings.Contains(err.Error(), "there is no hub"),
		"joined by a redirect: %v", err)
}

func TestHubClient_RenewsItsToken(t *testing.T) {
	got := func(ago time.Duration) func(*gchat.HubClient) {
		return func(h *gchat.HubClient) { h.ReceivedAt = time.Now().Add(-ago) }
	}
	trouble := func(h *team.Hub) { h.RefusesJoins.Store(true) }
	for name, c := range map[string]struct {
		file   func(*gchat.HubClient)
		hub    func(*team.Hub)
		before func(t *testing.T, h *team.Hub, file string) // once the app read its file
		joined int                                          // tokens that the hub gave in the end
		saved  bool                                         // a new one is in the file then
		// words of the error or its hint; "" for none
		fails string
	}{
		"fresh":               {file: got(11 * time.Hour), joined: 1},
		"second half":         {file: got(13 * time.Hour), joined: 2, saved: true},
		"expired":             {file: got(99 * time.Hour), joined: 2, saved: true},
		"the clock was set":   {file: got(-time.Hour), joined: 2, saved: true},
		"a file of few words": {file: func(h *gchat.HubClient) { h.ReceivedAt, h.Time = time.Time{}, time.Time{} }, joined: 2, saved: true},
		"the hub has trouble": {file: got(13 * time.Hour), hub: trouble, joined: 1},
		"trouble, and expired": {file: got(25 * time.Hour), hub: trouble, joined: 1,
			fails: "UNAVAILABLE"},
		"revoked": {file: got(13 * time.Hour), hub: func(h *team.Hub) { h.Revoke() },
			joined: 1, fails: "write join to the app"},
		"another key of the hub's": {hub: func(h *team.Hub) { h.Replace(func(o *hub.Options) { o.SigningKey = []byte(strings.Repeat("x", 32)) }) },
			joined: 1, fails: "write join to the app"},
		"by another process": {file: got(13 * time.Hour),
			before: func(t *testing.T, h *team.Hub, file string) {
				err := newHubApp(t, h, file).CheckPullAccess(t.Context())
				kit.True(t, err == nil, "%v", err)
			}, joined: 2},
		"joined anew meanwhile": {file: got(13 * time.Hour),
			before: func(t *testing.T, h *team.Hub, file string) {
				editHubFile(t, file,
					func(h *gchat.HubClient) { h.Machine, h.Token = "ba9876543210", "another" })
			}, joined: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h, file := startHub(t)
			if c.file != nil {
				editHubFile(t, file, c.file)
			}
			if c.hub != nil {
				c.hub(h)
			}
			a := newHubApp(t, h, file)
			if c.before != nil {
				c.before(t, h, file)
			}
			before := gchat.LoadHubClient(file)
			posted, err := a.Post(t.Context(),
				gchat.Post{Text: "the whole text", MessageID: "client-x"})
			switch {
			case c.fails != "":
				kit.True(t, err != nil && strings.Contains(err.Error()+gchat.Hint(err), c.fails),
					"%v; %s", err, gchat.Hint(err))
				wants := c.fails != "UNAVAILABLE"
				kit.True(t, gchat.IsAuthFailure(err) == wants && gchat.IsOverloaded(err) != wants,
					"no failure of its kind: %v", err)
			case err != nil:
				t.Fatal(err)
			default:
				got, err := a.GetByClientID(t.Context(), a.Space, "client-x")
				kit.True(t, err == nil && got.Text == "the whole text" && got.Name == posted.Name,
					"%+v, %v", got, err)
			}
			joined, _, refused := h.Seen()
			renewed := gchat.LoadHubClient(file)
			saved := !renewed.ReceivedAt.Equal(before.ReceivedAt) &&
				time.Since(renewed.ReceivedAt).Abs() < time.Minute
			kit.True(t, joined == c.joined && saved == c.saved &&
				(saved || renewed.Token == before.Token) && len(refused) == 0,
				"%d tokens, a new one is in the file: %t, refused %q", joined, saved, refused)
			info, err := os.Stat(file)
			kit.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info.Mode(), err)
		})
	}
}

// This machine's clock may be wrong by days. The renewal depends only on how long the
// token lives.
func TestHubClient_WrongClockRenewsNoTokenEarly(t *testing.T) {
	h, file := startHub(t)
	for _, off := range []time.Duration{-100 * time.Hour, 100 * time.Hour} {
		h.ClockAhead.Store(int64(off))
		editHubFile(t, file, func(h *gchat.HubClient) { h.ReceivedAt = time.Time{} })
		a := newHubApp(t, h, file)
		before, _, _ := h.Seen()
		for range 3 {
			_, err := a.IsDirect(t.Context())
			kit.NoError(t, err)
			kit.NoError(t, a.Ack(t.Context(), []string{"a"}))
		}
		kept := gchat.LoadHubClient(file)
		after, _, _ := h.Seen()
		kit.True(t, after == before+1, "%s off: %d new tokens", off, after-before)
		wrong := fmt.Sprint(kept.Problems("(devel)"))
		kit.True(t, strings.Contains(wrong, "clock is "+"100h0m") ||
			strings.Contains(wrong, "clock is 99h59m"),
			"%s off: %s", off, wrong)
	}
}

// If several processes renew at once, each gets a good token, and the file is complete at
// all times.
func TestHubClient_ProcessesRenewAtOnce(t *testing.T) {
	h, file := startHub(t)
	editHubFile(t, file, func(h *gchat.HubClient) { h.ReceivedAt = time.Time{} })
	ctx, cancel := context.WithCancel(t.Context())
	var looks, group sync.WaitGroup
	looks.Go(func() {
		for ctx.Err() == nil {
			kit.True(t, gchat.LoadHubClient(file) != nil, "the file was broken")
		}
	})
	for i := range 8 {
		a := newHubApp(t, h, file)
		for j := range 4 {
			group.Go(func() {
				// a hub serves eight at once
				err := error(&gchat.APIError{HTTP: http.StatusTooManyRequests})
				for gchat.IsRateLimited(err) {
					_, err = a.Post(t.Context(),
						gchat.Post{Text: "x", MessageID: fmt.Sprintf("client-%d-%d", i, j)})
				}
				kit.True(t, err == nil, "%v", err)
			})
		}
	}
	group.Wait()
	cancel()
	looks.Wait()
	joined, requests, refused := h.Seen()
	kit.True(t, joined <= 9 && len(requests)-len(refused) == 32,
		"%d tokens, %d requests, of which %d were refused", joined, len(requests), len(refused))
}

func TestHubClient_JoinErrors(t *testing.T) {
	h, _ := startHub(t) // which used the code
	answers := func(code int, body string) string {
		server := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, body)
		}))
		return server.URL
	}
	good := map[string]any{
		"token": "t", "expires": "2026-11-27T00:00:00Z", "machine": "0123456789ab",
		"user": "users/1", "space": "spaces/S",
		"subscription": "projects/p/subscriptions/s", "time": "2026-11-26T00:00:00Z",
		"deciders": []string{"users/2"},
	}
	lies := func(member string, value any) string {
		lie := maps.Clone(good)
		lie[member] = value
		return answers(200, string(kit.JSON(t, lie)))
	}
	if j, err := gchat.JoinHub(t.Context(), lies("email", "a@example.com"), "c", "n", "v"); err != nil || j.Deciders[0] != "users/2" {
		t.Fatalf("%+v, %v", j, err)
	}
	for name, c := range map[string]struct{ url, code, nonce, says, hint string }{
		"the same machine again": {h.URL, h.Code, "nonce", "", ""},
		"another machine":        {h.URL, h.Code, "other", "the code was used", "write join"},
		"forged": {h.URL, h.Code + "x", "nonce", "not one of this hub's",
			"within ten minutes"},
		"nobody there": {"http://127.0.0.1:1", "good", "nonce", "refused",
			"cannot be reached"},
		"not TLS": {"http://hub.example.com", "good", "nonce",
			"neither https nor on this machine", "the hub's address"},
		"no address": {"hub", "good", "nonce", "neither https", "the hub's address"},
		"another server": {answers(404, "<html>no"), "good", "nonce", "there is no hub",
			"the hub's address"},
		"Google": {answers(404,
			`{"error":{"code":404,"status":"NOT_FOUND","message":"x"}}`), "good", "nonce",
			"there is no hub", "the hub's address"},
		"a page": {answers(200, "<html>hello"), "good", "nonce", "there is no hub",
			"the hub's address"},
		"trouble":             {answers(503, ""), "good", "nonce", "503", "tries again"},
		"a token that breaks": {lies("token", "a\r\nb"), "good", "nonce", "there is no hub", ""},
		"no token":            {lies("token", ""), "good", "nonce", "there is no hub", ""},
		"no machine":          {lies("machine", "../x"), "good", "nonce", "there is no hub", ""},
		"another's decider": {lies("deciders", []string{"users/2,users/3"}), "good", "nonce",
			"there is no hub", ""},
		"an app as person": {lies("user", "bots/1"), "good", "nonce", "there is no hub", ""},
		"no space": {lies("space", "spaces/S/messages/M"), "good", "nonce",
			"there is no hub", ""},
		"a wrong subscription": {lies("subscription", "projects/p/subscriptions/s:pull"), "good",
			"nonce", "there is no hub", ""},
		"expired": {lies("expires", "2026-11-25T00:00:00Z"), "good", "nonce",
			"there is no hub", ""},
		"endless": {answers(200, `{"token":"`+strings.Repeat("a", 1<<17)), "good",
			"nonce", "there is no hub", ""},
	} {
		_, err := gchat.JoinHub(t.Context(), c.url, c.code, c.nonce, "v")
		var userErr *state.UserError
		kit.True(t, (err == nil) == (c.says == "") &&
			(err == nil || (errors.As(err, &userErr) || name == "trouble") &&
				strings.Contains(err.Error(), c.says) && strings.Contains(gchat.Hint(err), c.hint)),
			"%s: %v; %s", name, err, gchat.Hint(err))
	}
}
