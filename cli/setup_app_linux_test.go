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
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// fakeAppGoogle is Google as an app's setup meets it: each trap answers requests to a
// path with an error, until it is mended.
type fakeAppGoogle struct {
	*space.Space
	endpoint string

	mu       sync.Mutex
	traps    map[string]string // path's end → status and error's message
	ackedIDs []string          // what was acknowledged
}

func newFakeAppGoogle(t *testing.T) *fakeAppGoogle {
	sp, err := space.Open(space.Options{IsDirect: true})
	kit.NoError(t, err)
	c := &fakeAppGoogle{Space: sp, traps: map[string]string{}}
	handler := sp.Handler()
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for suffix, response := range c.traps {
			if strings.HasSuffix(r.URL.Path, suffix) {
				w.WriteHeader(map[string]int{"404": 404, "403": 403, "200": 200}[response[:3]])
				if response[:3] == "200" {
					w.Write([]byte(response[4:]))
					return
				}
				w.Write([]byte(`{"error":{"code":` + response[:3] + `,"message":"` + response[4:] + `"}}`))
				return
			}
		}
		if strings.HasSuffix(r.URL.Path, ":acknowledge") {
			var ack struct{ AckIDs []string }
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &ack)
			c.ackedIDs = append(c.ackedIDs, ack.AckIDs...)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		c.mu.Unlock()
		handler.ServeHTTP(w, r)
		c.mu.Lock()
	}), strict.Embedded, strict.DirectMessage))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); sp.Close() })
	c.endpoint = sp.APIEndpoint(server.URL)
	return c
}

func (c *fakeAppGoogle) setTrap(suffix, response string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.traps, suffix); response != "" {
		c.traps[suffix] = response
	}
}

// tapCard taps the card that setup posted.
func (c *fakeAppGoogle) tapCard(t *testing.T, user *chat.User) {
	t.Helper()
	bound.Until(t, "there is a card to tap", func() bool {
		return slices.ContainsFunc(c.Messages(), func(m *chat.Message) bool {
			return len(m.CardsV2) > 0 && c.Tap(user, m.Name, "", "send", nil, "") == nil
		})
	})
}

// A person is led past every trap, and ends with a tap.
func TestSetupApp_NamesWhatIsMissing(t *testing.T) {
	s, c := newSetupHome(t), newFakeAppGoogle(t)
	// so Google answers for a subscription that is not there, too
	c.setTrap(":testIamPermissions", "200 {}")
	dialog := startInTerminal(t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + c.endpoint, "GCHAT_PUBSUB_ENDPOINT=" + c.endpoint},
		s.program, "setup", "--app", "--no-hooks")
	dialog.answerPrompt("The Cloud project's id", "my project")
	dialog.answerPrompt("The Cloud project's id", "local")
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	name := "gchat-hooks-" + host + "-" + state.CardID(getenvOf([]string{"HOME=" + s.home}), "of its own")[:6]
	dialog.expect(`subscriptions create ` + regexp.QuoteMeta(name) + ` --topic gchat-hooks `)
	subscription := "projects/local/subscriptions/" + name
	dialog.expect(`--expiration-period=never`)
	dialog.expect(`--member serviceAccount:chat-api-push@system\.gserviceaccount\.com`)
	dialog.expect(`roles/iam\.serviceAccountTokenCreator`)
	dialog.expect(`make the subscription if it is missing, and grant roles/pubsub\.subscriber`)
	c.setTrap(":testIamPermissions", "")
	c.setTrap("/v1/spaces", "404 Google Chat app not found. To create a Chat app, you must turn on the Chat API and configure the app")
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`clear it, and choose Disable, BEFORE the first save`)
	dialog.expect(`fill in the app's page, and save it`)
	c.setTrap("/v1/spaces", "200 {}")
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`write the app a direct message`)
	c.setTrap("/v1/spaces", "")
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`Please tap its button`)
	c.tapCard(t, &chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"})
	dialog.expect(`Ann \(users/111\) tapped`)
	dialog.answerPrompt("Is that you", "y")
	if code := dialog.waitExit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, dialog.screen())
	}
	config := s.readConfig()
	for _, want := range []string{`"` + subscription + `"`, `"spaces/local"`, `"users/111"`} {
		kit.Containsf(t, config, want, "the configuration")
	}
	last := c.Messages()[len(c.Messages())-1]
	kit.Containsf(t, last.Text, "Your taps arrive", "the card")
}

// In a script all is given; a stranger's tap puts no one on the list, and a tap that
// never comes is an error that says where to look.
func TestSetupApp_InAScript(t *testing.T) {
	s, c := newSetupHome(t), newFakeAppGoogle(t)
	run := func(args ...string) (code int, said string) {
		cmd := bound.Command(t, s.program, append([]string{"setup", "--app", "--no-hooks"}, args...)...)
		cmd.Env = []string{
			"HOME=" + s.home, "PATH=/usr/bin:/bin", "GCHAT_API_ENDPOINT=" + c.endpoint, "GCHAT_PUBSUB_ENDPOINT=" + c.endpoint,
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
	if config := s.readConfig(); code != 0 || strings.Contains(config, "users/666") || !strings.Contains(config, "users/111") {
		t.Errorf("%d: %s\n%s", code, said, config)
	}
}

// Enter puts no stranger on the list, and a question's tap or reply that setup pulls is
// left to the poller; the greeting is not.
func TestSetupApp_AcknowledgesOnlyItsOwn(t *testing.T) {
	s, c := newSetupHome(t), newFakeAppGoogle(t)
	app, err := gchat.NewApp(context.Background(), &config.Config{
		SpaceID: "spaces/local", Subscription: space.Subscription, APIEndpoint: c.endpoint, PubSubEndpoint: c.endpoint,
	})
	kit.NoError(t, err)
	question := gchat.StoredCard(wording.NoticeCard("a question", strings.Repeat("a", 32)))
	posted, err := app.Post(context.Background(), gchat.Post{Text: "a question", Card: question})
	kit.NoError(t, err)
	for _, thread := range []string{"", posted.ThreadName} {
		// a greeting, and an answer to the question
		if _, err := c.PostAs(nil, thread, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	stranger := &chat.User{Name: "users/666", Type: "HUMAN", DisplayName: "Mallory"}
	kit.NoError(t, c.Tap(stranger, posted.Name, "", "send", nil, ""))
	env := []string{
		"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + c.endpoint, "GCHAT_PUBSUB_ENDPOINT=" + c.endpoint,
		"GCHAT_PUBSUB_SUBSCRIPTION=" + space.Subscription,
	}
	dialog := startInTerminal(t, env, s.program, "setup", "--app", "--no-hooks")
	dialog.expect("Please tap its button")
	ms := c.Messages()
	kit.NoError(t, c.Tap(stranger, ms[len(ms)-1].Name, "", "send", nil, ""))
	dialog.answerPrompt("Is that you", "")
	dialog.expect("another person tapped")
	if code := dialog.waitExit(); code == 0 {
		t.Error("a stranger's tap ended it well")
	}
	if strings.Contains(s.readConfig(), "users/666") {
		t.Errorf("the configuration is %s", s.readConfig())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kit.Equalf(t, len(c.ackedIDs), 2, "events were acknowledged, want the greeting's and the card's own")
}
