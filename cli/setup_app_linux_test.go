package cli

import (
	"bytes"
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
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// fakeAppGoogle is a home, and Google as an app's setup meets it: each trap answers
// requests to a path with an error, until it is mended.
type fakeAppGoogle struct {
	*home
	space    *space.Space
	endpoint string

	mu       sync.Mutex
	traps    map[string]trap // by the path's end
	ackedIDs []string        // what was acknowledged
}

// trap is an answer in Google's place.
type trap struct {
	code int
	body string
}

func newFakeAppGoogle(t *testing.T) *fakeAppGoogle {
	t.Helper()
	c := &fakeAppGoogle{home: newHome(t), traps: map[string]trap{}}
	var server *httptest.Server
	c.space, server = serveSpace(t, space.Options{IsDirect: true},
		func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !c.answerInstead(w, r) {
					next.ServeHTTP(w, r)
				}
			})
		})
	c.endpoint = c.space.APIEndpoint(server.URL)
	c.env = append(c.env, "GCHAT_API_ENDPOINT="+c.endpoint, "GCHAT_PUBSUB_ENDPOINT="+c.endpoint)
	return c
}

// answerInstead answers in the space's place, and notes what is acknowledged.
func (c *fakeAppGoogle) answerInstead(w http.ResponseWriter, r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for suffix, trap := range c.traps {
		if strings.HasSuffix(r.URL.Path, suffix) {
			w.WriteHeader(trap.code)
			io.WriteString(w, trap.body)
			return true
		}
	}
	if strings.HasSuffix(r.URL.Path, ":acknowledge") {
		var ack struct{ AckIDs []string }
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &ack)
		c.ackedIDs = append(c.ackedIDs, ack.AckIDs...)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return false
}

// setTrap sets the answer to a path; a code of 0 removes it.
func (c *fakeAppGoogle) setTrap(suffix string, code int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.traps[suffix] = (trap{code, body}); code == 0 {
		delete(c.traps, suffix)
	}
}

var (
	ann     = &chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"}
	mallory = &chat.User{Name: "users/666", Type: "HUMAN", DisplayName: "Mallory"}
)

// tapCard taps the card that setup posted.
func tapCard(t testing.TB, s *space.Space, user *chat.User) {
	t.Helper()
	bound.Until(t, "there is a card to tap", func() bool {
		return slices.ContainsFunc(s.Messages(), func(m *chat.Message) bool {
			return len(m.CardsV2) > 0 && s.Tap(user, m.Name, "", "send", nil, "") == nil
		})
	})
}

// Setup names each step that is missing, and ends with a tap.
func TestSetupApp_NamesWhatIsMissing(t *testing.T) {
	c := newFakeAppGoogle(t)
	// so Google answers for a subscription that is not there, too
	c.setTrap(":testIamPermissions", 200, "{}")
	dialog := c.runSetup("--app", "--no-hooks")
	dialog.answerPrompt("The Cloud project's id", "my project")
	dialog.answerPrompt("The Cloud project's id", "local")
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(host, ".")
	name := "gchat-hooks-" + host + "-" + state.CardID(c.getenv, "of its own")[:6]
	dialog.expect(`subscriptions create `+regexp.QuoteMeta(name)+` --topic gchat-hooks `,
		`--expiration-period=never`,
		`--member serviceAccount:chat-api-push@system\.gserviceaccount\.com`,
		`roles/iam\.serviceAccountTokenCreator`,
		`make the subscription if it is missing, and grant roles/pubsub\.subscriber`)
	c.setTrap(":testIamPermissions", 0, "")
	c.setTrap("/v1/spaces", 404, `{"error":{"code":404,"message":"Google Chat app not found. `+
		`To create a Chat app, you must turn on the Chat API and configure the app"}}`)
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`clear it, and choose Disable, BEFORE the first save`,
		`fill in the app's page, and save it`)
	c.setTrap("/v1/spaces", 200, "{}")
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`write the app a direct message`)
	c.setTrap("/v1/spaces", 0, "")
	dialog.answerPrompt("Press Enter", "")
	dialog.expect(`Please tap its button`)
	tapCard(t, c.space, ann)
	dialog.expect(`Ann \(users/111\) tapped`)
	dialog.answerPrompt("Is that you", "y")
	dialog.wantExit(0)
	for _, want := range []string{
		`"projects/local/subscriptions/` + name + `"`, `"spaces/local"`, `"users/111"`,
	} {
		kit.Containsf(t, c.readFile(configFile), want, "the configuration")
	}
	last := c.space.Messages()[len(c.space.Messages())-1]
	kit.Containsf(t, last.Text, "Your taps arrive", "the card")
}

// In a script, all values are given. A stranger's tap puts nobody on the list. If no tap
// comes, the error says where to look.
func TestSetupApp_InAScript(t *testing.T) {
	c := newFakeAppGoogle(t)
	c.env = append(c.env, "GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription)
	const missing = "chat-api-push@system.gserviceaccount.com"
	c.wantRun(1, missing, "setup", "--app", "--no-hooks", "--wait", "300ms")
	tapped := make(chan bool)
	go func() {
		tapCard(t, c.space, mallory)
		close(tapped)
	}()
	c.mustRun("setup", "--app", "--no-hooks", "--allow", "users/111")
	<-tapped
	config := c.readFile(configFile)
	if strings.Contains(config, "users/666") || !strings.Contains(config, "users/111") {
		t.Errorf("the configuration is %s", config)
	}
}

// Enter puts no stranger on the list. Setup leaves a tap on a question and a reply to it
// to the poller, and acknowledges only the greeting and its own card.
func TestSetupApp_AcknowledgesOnlyItsOwn(t *testing.T) {
	c := newFakeAppGoogle(t)
	app, err := gchat.NewApp(t.Context(), &config.Config{
		SpaceID: "spaces/local", Subscription: space.Subscription,
		APIEndpoint: c.endpoint, PubSubEndpoint: c.endpoint,
	})
	kit.NoError(t, err)
	question := gchat.StoredCard(wording.NoticeCard("a question", strings.Repeat("a", 32)))
	posted, err := app.Post(t.Context(), gchat.Post{Text: "a question", Card: question})
	kit.NoError(t, err)
	for _, thread := range []string{"", posted.ThreadName} {
		// a greeting, and an answer to the question
		_, err := c.space.PostAs(nil, thread, "hello")
		kit.NoError(t, err)
	}
	kit.NoError(t, c.space.Tap(mallory, posted.Name, "", "send", nil, ""))
	c.env = append(c.env, "GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription)
	dialog := c.runSetup("--app", "--no-hooks")
	dialog.expect("Please tap its button")
	messages := c.space.Messages()
	kit.NoError(t, c.space.Tap(mallory, messages[len(messages)-1].Name, "", "send", nil, ""))
	dialog.answerPrompt("Is that you", "")
	dialog.expect("another person tapped")
	dialog.wantExit(1)
	if strings.Contains(c.readFile(configFile), "users/666") {
		t.Errorf("the configuration is %s", c.readFile(configFile))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kit.Equalf(t, len(c.ackedIDs), 2,
		"events were acknowledged, want the greeting's and the card's own")
}
