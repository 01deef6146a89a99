package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// appCloud is Google as an app's setup meets it: each trap answers requests to a path with an error, until it is mended.
type appCloud struct {
	*space.Space
	url string

	mu    sync.Mutex
	traps map[string]string // path's end → status and error's message
	acked []string          // what was acknowledged
}

func newAppCloud(t *testing.T) *appCloud {
	sp, err := space.Open(space.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &appCloud{Space: sp, traps: map[string]string{}}
	inner := sp.Handler()
	server := httptest.NewServer(strict.Google(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for end, says := range c.traps {
			if strings.HasSuffix(r.URL.Path, end) {
				w.WriteHeader(map[string]int{"404": 404, "403": 403, "200": 200}[says[:3]])
				if says[:3] == "200" {
					w.Write([]byte(says[4:]))
					return
				}
				w.Write([]byte(`{"error":{"code":` + says[:3] + `,"message":"` + says[4:] + `"}}`))
				return
			}
		}
		if strings.HasSuffix(r.URL.Path, ":acknowledge") {
			var ack struct{ AckIDs []string }
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &ack)
			c.acked = append(c.acked, ack.AckIDs...)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		c.mu.Unlock()
		inner.ServeHTTP(w, r)
		c.mu.Lock()
	}), strict.Embedded, strict.DirectMessage))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); sp.Close() })
	c.url = sp.APIEndpoint(server.URL)
	return c
}

func (c *appCloud) trap(end, says string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.traps, end); says != "" {
		c.traps[end] = says
	}
}

// tapCard taps the card that setup posted.
func (c *appCloud) tapCard(t *testing.T, by *chat.User) {
	t.Helper()
	bound.Until(t, "there is a card to tap", func() bool {
		return slices.ContainsFunc(c.Messages(), func(m *chat.Message) bool {
			return len(m.CardsV2) > 0 && c.Tap(by, m.Name, "", "send", nil, "") == nil
		})
	})
}

// A person is led past every trap, and ends with a tap.
func TestSetupOfAnAppNamesWhatIsMissing(t *testing.T) {
	s, c := newSettler(t), newAppCloud(t)
	c.trap(":testIamPermissions", "200 {}") // so Google answers for a subscription that is not there, too
	x := inTerminal(t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + c.url, "GCHAT_PUBSUB_ENDPOINT=" + c.url},
		s.program, "setup", "--app", "--no-hooks")
	x.answer("The Cloud project's id", "my project")
	x.answer("The Cloud project's id", "local")
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	name := "gchat-hooks-" + host + "-" + state.CardID(getenv([]string{"HOME=" + s.home}), "of its own")[:6]
	x.expect(`subscriptions create ` + regexp.QuoteMeta(name) + ` --topic gchat-hooks `)
	subscription := "projects/local/subscriptions/" + name
	x.expect(`--expiration-period=never`)
	x.expect(`--member serviceAccount:chat-api-push@system\.gserviceaccount\.com`)
	x.expect(`roles/iam\.serviceAccountTokenCreator`)
	x.expect(`make the subscription where it is missing, and grant roles/pubsub\.subscriber`)
	c.trap(":testIamPermissions", "")
	c.trap("/v1/spaces", "404 Google Chat app not found. To create a Chat app, you must turn on the Chat API and configure the app")
	x.answer("Press Enter", "")
	x.expect(`clear it, and say Disable, BEFORE the first save`)
	x.expect(`fill in the app's page, and save it`)
	c.trap("/v1/spaces", "200 {}")
	x.answer("Press Enter", "")
	x.expect(`write the app a direct message`)
	c.trap("/v1/spaces", "")
	x.answer("Press Enter", "")
	x.expect(`Please tap its button`)
	c.tapCard(t, &chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"})
	x.expect(`Ann \(users/111\) tapped`)
	x.answer("Is that you", "y")
	if code := x.ends(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, x.screen())
	}
	config := s.config()
	for _, want := range []string{`"` + subscription + `"`, `"spaces/local"`, `"users/111"`} {
		if !strings.Contains(config, want) {
			t.Errorf("the configuration has no %s:\n%s", want, config)
		}
	}
	last := c.Messages()[len(c.Messages())-1]
	if !strings.Contains(last.Text, "Your taps arrive") {
		t.Errorf("the card says %q", last.Text)
	}
}

// In a script all is given; a stranger's tap puts no one on the list, and a tap that never comes is an error that says where to look.
func TestSetupOfAnAppInAScript(t *testing.T) {
	s, c := newSettler(t), newAppCloud(t)
	run := func(args ...string) (code int, said string) {
		cmd := bound.Command(t, s.program, append([]string{"setup", "--app", "--no-hooks"}, args...)...)
		cmd.Env = []string{
			"HOME=" + s.home, "PATH=/usr/bin:/bin", "GCHAT_API_ENDPOINT=" + c.url, "GCHAT_PUBSUB_ENDPOINT=" + c.url,
			"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
		}
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, said := run("--wait", "300ms"); code == 0 || !strings.Contains(said, "chat-api-push@system.gserviceaccount.com") {
		t.Errorf("%d: %s", code, said)
	}
	tapped := make(chan bool)
	go func() {
		c.tapCard(t, &chat.User{Name: "users/666", Type: "HUMAN", DisplayName: "Mallory"})
		close(tapped)
	}()
	code, said := run("--allow", "users/111")
	<-tapped
	if config := s.config(); code != 0 || strings.Contains(config, "users/666") || !strings.Contains(config, "users/111") {
		t.Errorf("%d: %s\n%s", code, said, config)
	}
}

// Enter puts no stranger on the list, and a question's tap or reply that setup pulls is left to the poller; the greeting is not.
func TestSetupOfAnAppTakesOnlyWhatItCaused(t *testing.T) {
	s, c := newSettler(t), newAppCloud(t)
	app, err := gchat.NewApp(context.Background(), &config.Config{
		SpaceID: "spaces/local", Subscription: space.Subscription, APIEndpoint: c.url, PubSubEndpoint: c.url,
	})
	if err != nil {
		t.Fatal(err)
	}
	question := gchat.StoredCard(wording.NoticeCard("a question", strings.Repeat("a", 32)))
	posted, err := app.Post(context.Background(), gchat.Post{Text: "a question", Card: question})
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range []string{"", posted.ThreadName} { // a greeting, and an answer to the question
		if _, err := c.Say(nil, thread, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	stranger := &chat.User{Name: "users/666", Type: "HUMAN", DisplayName: "Mallory"}
	if err := c.Tap(stranger, posted.Name, "", "send", nil, ""); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + c.url, "GCHAT_PUBSUB_ENDPOINT=" + c.url,
		"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
	}
	x := inTerminal(t, env, s.program, "setup", "--app", "--no-hooks")
	x.expect("Please tap its button")
	ms := c.Messages()
	if err := c.Tap(stranger, ms[len(ms)-1].Name, "", "send", nil, ""); err != nil {
		t.Fatal(err)
	}
	x.answer("Is that you", "")
	x.expect("another person tapped")
	if code := x.ends(); code == 0 {
		t.Error("a stranger's tap ended it well")
	}
	if strings.Contains(s.config(), "users/666") {
		t.Errorf("the configuration is %s", s.config())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.acked) != 2 {
		t.Errorf("%d events were acknowledged, want the greeting's and the card's own", len(c.acked))
	}
}
