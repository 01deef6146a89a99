package space

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state/config"
)

const replyOrFallback = "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"

// testServer serves a space and holds every answer of the API to the discovery
// document.
func testServer(t testing.TB, opts Options) (*Space, *httptest.Server) {
	t.Helper()
	s, err := Open(opts)
	kit.NoError(t, err)
	return s, serveWith(t, s, withSchemaCheck(t, s.Handler()))
}

// withSchemaCheck wraps a handler: what it answers to a call of the API is validated.
func withSchemaCheck(t testing.TB, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, path, isAPI := strings.Cut(r.URL.Path, "/v1/")
		if !isAPI {
			next.ServeHTTP(w, r)
			return
		}
		method := r.Method
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		if err := checkAnswer(method, path, rec.Code, rec.Body.Bytes()); err != nil {
			t.Errorf("%s %s: %v", method, r.URL.Path, err)
		}
		for name, v := range rec.Header() {
			w.Header()[name] = v
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}
}

func checkAnswer(method, path string, code int, body []byte) error {
	if code != http.StatusOK {
		var no struct{ Error apiError }
		if err := json.Unmarshal(body, &no); err != nil || no.Error.Code != code ||
			no.Error.Status == "" || no.Error.Message == "" {
			return fmt.Errorf("status %d with a strange error: %s", code, body)
		}
		return nil
	}
	var answer any = &chat.Message{}
	if strings.Count(path, "/") == 2 && method == http.MethodGet {
		answer = &chat.ListMessagesResponse{}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(answer)
}

func newClient(t testing.TB, endpoint string) *chat.Service {
	t.Helper()
	c, err := chat.NewService(t.Context(), option.WithEndpoint(endpoint),
		option.WithoutAuthentication())
	kit.NoError(t, err)
	return c
}

// postTo posts a body to an address and returns what came.
func postTo(t testing.TB, url, body string) (int, map[string]any) {
	t.Helper()
	answer, err := http.Post(url, "application/json; charset=UTF-8", strings.NewReader(body))
	kit.NoError(t, err)
	return readAnswer(t, answer)
}

func readAnswer(t testing.TB, answer *http.Response) (int, map[string]any) {
	t.Helper()
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	kit.NoError(t, err)
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%d, not JSON: %s", answer.StatusCode, b)
	}
	return answer.StatusCode, v
}

func errorOf(v map[string]any) string {
	e, _ := v["error"].(map[string]any)
	return fmt.Sprint(e["status"], ": ", e["message"])
}

// openApp is a space, its server, and an app that speaks with it.
func openApp(t *testing.T, opts Options) (*Space, *httptest.Server, *gchat.App) {
	t.Helper()
	s, err := Open(opts)
	kit.NoError(t, err)
	srv := serveWith(t, s, s.Handler().ServeHTTP)
	return s, srv, newApp(t, s, srv.URL)
}

func newApp(t testing.TB, s *Space, base string) *gchat.App {
	t.Helper()
	app, err := gchat.NewApp(t.Context(), &config.Config{
		SpaceID: Name, Subscription: Subscription,
		APIEndpoint: s.APIEndpoint(base), PubSubEndpoint: s.APIEndpoint(base),
	})
	kit.NoError(t, err)
	return app
}

// serveWith serves a space whose requests go through a handler of the test.
func serveWith(t testing.TB, s *Space, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close() // first: it ends the event streams
		srv.Close()
	})
	return srv
}

// postAsPerson is what the person writes: in a thread, or "" for a new one.
func postAsPerson(t testing.TB, s *Space, thread, text string) *chat.Message {
	t.Helper()
	m, err := s.PostAs(nil, thread, text)
	kit.NoError(t, err)
	return m
}

// wantFromPerson fails the test if a message is not the person's.
func wantFromPerson(t testing.TB, m *chat.Message) {
	t.Helper()
	kit.Equalf(t, m.Sender.Name+" "+m.Sender.Type, PersonName+" HUMAN", "the sender")
}

// mustPost is postTo for what must be taken.
func mustPost(t testing.TB, url, body string) map[string]any {
	t.Helper()
	code, v := postTo(t, url, body)
	if code != http.StatusOK {
		t.Fatal(code, v)
	}
	return v
}

// threadOf is the name of a message's thread.
func threadOf(v map[string]any) string { return v["thread"].(map[string]any)["name"].(string) }

// wantTexts compares what is in a space.
func wantTexts(t testing.TB, s *Space, want string) {
	t.Helper()
	kit.Equalf(t, joinTexts(s.Messages()), want, "in the space")
}

// buttonsCard is a card with these buttons.
func buttonsCard(b ...*chat.GoogleAppsCardV1Button) json.RawMessage {
	card, _ := json.Marshal(chat.CardWithId{CardId: "c", Card: &chat.GoogleAppsCardV1Card{Sections: []*chat.GoogleAppsCardV1Section{{
		Widgets: []*chat.GoogleAppsCardV1Widget{
			{ButtonList: &chat.GoogleAppsCardV1ButtonList{Buttons: b}},
		},
	}}}})
	return card
}

func tapButton(choice string) *chat.GoogleAppsCardV1Button {
	carried := []*chat.GoogleAppsCardV1ActionParameter{
		{Key: "question", Value: "x"}, {Key: "choice", Value: choice},
	}
	return &chat.GoogleAppsCardV1Button{Text: choice, OnClick: &chat.GoogleAppsCardV1OnClick{
		Action: &chat.GoogleAppsCardV1Action{Function: gchat.TapFunction, Parameters: carried},
	}}
}

// postCard has the app post a card with the buttons "1" and "2" and a link, and gives the
// message's name.
func postCard(t *testing.T, app *gchat.App) string {
	t.Helper()
	link := &chat.GoogleAppsCardV1Button{Text: "Docs", OnClick: &chat.GoogleAppsCardV1OnClick{
		OpenLink: &chat.GoogleAppsCardV1OpenLink{Url: "https://example.com"},
	}}
	p, err := app.Post(t.Context(),
		gchat.Post{Text: "Which?", Card: buttonsCard(link, tapButton("1"), tapButton("2"))})
	kit.NoError(t, err)
	return p.Name
}

func pullAll(t *testing.T, app *gchat.App, want int) []gchat.PulledEvent {
	t.Helper()
	events, err := app.Pull(t.Context())
	if err != nil || len(events) != want {
		t.Fatalf("pulled %d events, want %d (%v)", len(events), want, err)
	}
	return events
}

func sendTo(t *testing.T, method, url, body string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	kit.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	kit.NoError(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// callHandler sends one request to a space's handler, headers as "Name: value".
func callHandler(s *Space, method, url, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	// an event stream that is served ends then
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r.WithContext(ctx))
	return w
}

// pageKeyField is the header of a page that has its key.
func pageKeyField(s *Space) string { return pageKeyHeader + ": " + s.pageKey() }

func joinTexts(messages []*chat.Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Text)
	}
	return strings.Join(out, " ")
}

// TestMain can be the process that a test kills: it posts until then, and prints
// the name of each message that the space took. Or it serves a space that calls devices.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SPACE_TEST_SERVE"); dir != "" {
		fmt.Fprintln(os.Stderr, servePushes(dir))
		os.Exit(1)
	}
	dir := os.Getenv("SPACE_TEST_POST_TO")
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := Open(Options{DataDir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		message, err := s.PostAs(nil, "", strings.Repeat("x", i%5000))
		if err == nil {
			fmt.Println(message.Name)
		}
	}
}

func openSpace(t *testing.T, dir string) *Space {
	t.Helper()
	s, err := Open(Options{DataDir: dir})
	kit.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}
