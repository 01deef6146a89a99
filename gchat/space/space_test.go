package space

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"gchat-hooks/e2e/kit"
)

const replyOrFallback = "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"

// testServer serves a space and holds every answer of the API to the discovery
// document.
func testServer(t testing.TB, opts Options) (*Space, *httptest.Server) {
	t.Helper()
	s, err := Open(opts)
	kit.NoError(t, err)
	srv := httptest.NewServer(withSchemaCheck(t, s.Handler()))
	t.Cleanup(func() {
		s.Close()
		srv.Close()
	})
	return s, srv
}

// withSchemaCheck wraps a handler: what it answers to a call of the API is validated.
func withSchemaCheck(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	})
}

func checkAnswer(method, path string, code int, body []byte) error {
	if code != http.StatusOK {
		var no struct{ Error apiError }
		if err := json.Unmarshal(body, &no); err != nil || no.Error.Code != code || no.Error.Status == "" || no.Error.Message == "" {
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
	c, err := chat.NewService(t.Context(), option.WithEndpoint(endpoint), option.WithoutAuthentication())
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

func TestConversation(t *testing.T) {
	s, srv := testServer(t, Options{})
	code, asked := postTo(t, s.WebhookURL(srv.URL)+"&messageReplyOption="+replyOrFallback,
		`{"text":"Which one?","thread":{"threadKey":"ask-1"},"sender":{"name":"users/liar"},"deleteTime":"2001-01-01T00:00:00Z"}`)
	if code != 200 {
		t.Fatal(code, asked)
	}
	thread := asked["thread"].(map[string]any)
	if len(asked) != 3 || asked["text"] != "Which one?" || thread["threadKey"] != "ask-1" {
		t.Errorf("a webhook is told more than name, thread and its own words: %v", asked)
	}
	name, id := thread["name"].(string), strings.TrimPrefix(thread["name"].(string), Name+"/threads/")
	if asked["name"] != Name+"/messages/"+id+"."+id {
		t.Errorf("root message %v does not belong to thread %v", asked["name"], name)
	}

	reply, err := s.PostAs(nil, name, "2")
	kit.NoError(t, err)
	if !strings.HasPrefix(reply.Name, Name+"/messages/"+id+".") {
		t.Errorf("reply is named %s", reply.Name)
	}
	api := newClient(t, s.APIEndpoint(srv.URL))
	list, err := api.Spaces.Messages.List(Name).Filter(`createTime > "2020-01-01T00:00:00Z"`).Do()
	kit.NoError(t, err)
	if len(list.Messages) != 2 || list.NextPageToken != "" {
		t.Fatalf("list gives %d messages", len(list.Messages))
	}
	q, a := list.Messages[0], list.Messages[1]
	if q.DeleteTime != "" {
		t.Error("an output-only field of the request is kept")
	}
	if q.Sender.Name != webhookName || q.Sender.Type != "BOT" || q.Sender.DisplayName != "gchat-hooks" {
		t.Errorf("question is from %+v", q.Sender)
	}
	if a.Sender.Name != PersonName || a.Sender.Type != "HUMAN" || a.Sender.DisplayName != "You" || a.Text != "2" || !a.ThreadReply {
		t.Errorf("reply is %+v from %+v", a, a.Sender)
	}
	if got, err := api.Spaces.Messages.Get(a.Name).Do(); err != nil || got.Text != "2" || got.CreateTime != a.CreateTime {
		t.Errorf("get: %+v, %v", got, err)
	}
}

func TestThreading(t *testing.T) {
	const fallback, orFail = "&messageReplyOption=" + replyOrFallback, "&messageReplyOption=" + replyOrFail
	for _, tt := range []struct {
		name, query, body string
		want              string // "same" or "new" thread, or an error
	}{
		{"key without option", "", `{"text":"x","thread":{"threadKey":"k"}}`, "new"},
		{"name without option", "", `{"text":"x","thread":{"name":"THREAD"}}`, "new"},
		{"bad name without option", "", `{"text":"x","thread":{"name":"nonsense"}}`, "new"},
		{"key, fallback", fallback, `{"text":"x","thread":{"threadKey":"k"}}`, "same"},
		{"key, or fail", orFail, `{"text":"x","thread":{"threadKey":"k"}}`, "same"},
		{"other key, or fail", orFail, `{"text":"x","thread":{"threadKey":"k2"}}`, "new"},
		{"name, fallback", fallback, `{"text":"x","thread":{"name":"THREAD"}}`, "same"},
		{"name wins over key", fallback, `{"text":"x","thread":{"name":"THREAD","threadKey":"k9"}}`, "same"},
		{"unknown name, fallback", fallback, `{"text":"x","thread":{"name":"spaces/local/threads/none"}}`, "new"},
		{"unknown name, or fail", orFail, `{"text":"x","thread":{"name":"spaces/local/threads/none"}}`, "NOT_FOUND: Thread spaces/local/threads/none not found"},
		{"malformed name, fallback", fallback, `{"text":"x","thread":{"name":"threads/none"}}`, "INVALID_ARGUMENT: The request contains an invalid thread resource name"},
		{"name of another space", fallback, `{"text":"x","thread":{"name":"spaces/other/threads/none"}}`, "INVALID_ARGUMENT: The request contains an invalid thread resource name"},
		{"option without thread", fallback, `{"text":"x"}`, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, srv := testServer(t, Options{})
			_, first := postTo(t, s.WebhookURL(srv.URL)+fallback, `{"text":"root","thread":{"threadKey":"k"}}`)
			thread := first["thread"].(map[string]any)["name"].(string)
			code, v := postTo(t, s.WebhookURL(srv.URL)+tt.query, strings.ReplaceAll(tt.body, "THREAD", thread))
			got := "new"
			if code != 200 {
				got = errorOf(v)
			} else if v["thread"].(map[string]any)["name"] == thread {
				got = "same"
			}
			kit.Equal(t, got, tt.want)
		})
	}
}

func TestCreateRefuses(t *testing.T) {
	s, srv := testServer(t, Options{})
	good := s.WebhookURL(srv.URL)
	key, token := "key="+s.secrets.WebhookKey, "token="+s.secrets.WebhookToken
	base := srv.URL + "/v1/" + Name + "/messages"
	for _, tt := range []struct {
		name, url, body string
		code            int
		want            string
	}{
		{"no key", base + "?" + token, `{"text":"x"}`, 403, "PERMISSION_DENIED: Method doesn't allow unregistered callers"},
		{"bad key", base + "?key=no&" + token, `{"text":"x"}`, 400, "INVALID_ARGUMENT: API key not valid"},
		{"no token", base + "?" + key, `{"text":"x"}`, 403, "PERMISSION_DENIED: The API is called without a valid token"},
		{"bad token", base + "?token=no&" + key, `{"text":"x"}`, 403, "PERMISSION_DENIED: The API is called without a valid token"},
		{"empty", good, `{}`, 400, "INVALID_ARGUMENT: Message cannot be empty."},
		{"blank", good, `{"text":" \n"}`, 400, "INVALID_ARGUMENT: Message cannot be empty."},
		{"too long", good, `{"text":"` + strings.Repeat("é", 16001) + `"}`, 400, "INVALID_ARGUMENT: Message content is too long"},
		{"huge", good, `{"text":"` + strings.Repeat("x", maxBodyBytes) + `"}`, 413, "INVALID_ARGUMENT: Request payload size exceeds the limit."},
		{"no JSON", good, `text=x`, 400, "INVALID_ARGUMENT: Invalid JSON payload received."},
		{"two values", good, `{"text":"x"}{}`, 400, "INVALID_ARGUMENT: Invalid JSON payload received."},
		{"array", good, `["x"]`, 400, "INVALID_ARGUMENT: Invalid JSON payload received."},
		{"unknown field", good, `{"txt":"x"}`, 400, `unknown field "txt"`},
		{"message id without client-", good + "&messageId=abc", `{"text":"x"}`, 400, "INVALID_ARGUMENT: The request contains an invalid message id"},
		{"message id in capitals", good + "&messageId=client-A", `{"text":"x"}`, 400, "invalid message id"},
		{"message id of 64", good + "&messageId=client-" + strings.Repeat("a", 57), `{"text":"x"}`, 400, "invalid message id"},
		{"other space", strings.Replace(good, Name, "spaces/other", 1), `{"text":"x"}`, 404, "NOT_FOUND"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, v := postTo(t, tt.url, tt.body)
			if code != tt.code || !strings.Contains(errorOf(v), tt.want) {
				t.Errorf("got %d %s, want %d %s", code, errorOf(v), tt.code, tt.want)
			}
		})
	}
	kit.Equalf(t, len(s.Messages()), 0, "refused messages are in the space")
}

func TestCreateAccepts(t *testing.T) {
	for name, body := range map[string]string{
		"32,000 bytes": `{"text":"` + strings.Repeat("é", 16000) + `"}`,
		"globals":      `{"text":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, srv := testServer(t, Options{})
			if code, v := postTo(t, s.WebhookURL(srv.URL)+"&alt=json&prettyPrint=false&fields=name&$.xgafv=2&messageId=client-"+strings.Repeat("a", 56), body); code != 200 {
				t.Errorf("%d %v", code, v)
			}
		})
	}
}

func TestIdempotency(t *testing.T) {
	s, srv := testServer(t, Options{})
	url := s.WebhookURL(srv.URL)
	_, first := postTo(t, url+"&requestId=r1&messageId=client-one", `{"text":"one"}`)
	code, again := postTo(t, url+"&requestId=r1&messageId=client-one", `{"text":"one, changed"}`)
	if code != 200 || again["name"] != first["name"] || again["text"] != "one" {
		t.Errorf("the same request id gives %d %v", code, again)
	}
	for _, query := range []string{"&messageId=client-one", "&messageId=client-one&requestId=r2"} {
		if code, v := postTo(t, url+query, `{"text":"two"}`); code != 409 || !strings.HasPrefix(errorOf(v), "ALREADY_EXISTS") {
			t.Errorf("%s gives %d %s", query, code, errorOf(v))
		}
	}
	kit.Equalf(t, len(s.Messages()), 1, "messages")
	got, err := newClient(t, s.APIEndpoint(srv.URL)).Spaces.Messages.Get(Name + "/messages/client-one").Do()
	if err != nil || got.Name != first["name"] || got.ClientAssignedMessageId != "client-one" {
		t.Errorf("get by client id: %+v, %v", got, err)
	}
}

func TestGeneratedClientAsWebhook(t *testing.T) {
	s, srv := testServer(t, Options{})
	m, err := newClient(t, srv.URL+"/").Spaces.Messages.Create(Name, &chat.Message{Text: "hello <b>", Thread: &chat.Thread{ThreadKey: "k"}}).
		MessageReplyOption(replyOrFallback).RequestId("r").
		Do(googleapi.QueryParameter("key", s.secrets.WebhookKey), googleapi.QueryParameter("token", s.secrets.WebhookToken))
	if err != nil || m.Text != "hello <b>" || m.CreateTime != "" || m.Sender != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestNotFound(t *testing.T) {
	s, srv := testServer(t, Options{})
	api := newClient(t, s.APIEndpoint(srv.URL))
	_, err := api.Spaces.Messages.Get(Name + "/messages/none").Do()
	var apiErr *googleapi.Error
	if !errors.As(err, &apiErr) || apiErr.Code != 404 {
		t.Errorf("get of no message: %v", err)
	}
	if _, err := api.Spaces.Messages.List("spaces/other").Do(); !errors.As(err, &apiErr) || apiErr.Code != 404 {
		t.Errorf("list of no space: %v", err)
	}
	for _, path := range []string{"v1", "v1/", "v1/users/me", "v2/spaces", "nothing", "page/", "page/../space.go"} {
		answer, err := http.Get(s.APIEndpoint(srv.URL) + path)
		kit.NoError(t, err)
		if code, v := readAnswer(t, answer); code != 404 || !strings.HasPrefix(errorOf(v), "NOT_FOUND") {
			t.Errorf("%s: %d %v", path, code, v)
		}
	}
	if _, err := s.PostAs(nil, Name+"/threads/none", "hello?"); err == nil {
		t.Error("Say talks into a thread that is not there")
	}
}

func TestTimesIncrease(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	clock := []time.Time{noon, noon, noon.Add(-time.Hour), noon.Add(time.Second)}
	s, _ := testServer(t, Options{Now: func() time.Time {
		now := clock[0]
		clock = clock[1:]
		return now
	}})
	for range 4 {
		if _, err := s.PostAs(nil, "", "tick"); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, m := range s.Messages() {
		got = append(got, strings.TrimPrefix(m.CreateTime, "2026-03-01T12:00:"))
	}
	if want := "[00.123456Z 00.123457Z 00.123458Z 01.123456Z]"; fmt.Sprint(got) != want {
		t.Errorf("times %v, want %s", got, want)
	}
}

func TestManyAtOnce(t *testing.T) {
	s, srv := testServer(t, Options{DataDir: t.TempDir()})
	url := s.WebhookURL(srv.URL) + "&messageReplyOption=" + replyOrFallback
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { postTo(t, url, fmt.Sprintf(`{"text":"n","thread":{"threadKey":"k%d"}}`, i%3)) })
		wg.Go(func() { s.Messages() })
	}
	wg.Wait()
	threads, last := map[string]bool{}, ""
	for _, m := range s.Messages() {
		if threads[m.Thread.Name] = true; m.CreateTime <= last {
			t.Errorf("%s comes after %s", m.CreateTime, last)
		}
		last = m.CreateTime
	}
	if len(s.Messages()) != 20 || len(threads) != 3 {
		t.Errorf("%d messages in %d threads", len(s.Messages()), len(threads))
	}
}

// FuzzCreate sends foreign bytes to the webhook: each is refused in Google's
// envelope, or becomes a message that the discovery document allows.
func FuzzCreate(f *testing.F) {
	for _, body := range []string{`{"text":"x"}`, `{"text":"x","thread":{"name":"spaces/local/threads/x"}}`, `{"cardsV2":[{}]}`, `{"text":null,"cards":[{"header":{"title":"\ud800"}}]}`,
		`[`, `null`, `{"annotations":[{"userMention":{"user":{}}}],"text":"x"}`, `{"text":"x","text":2}`} {
		f.Add(body, "k")
	}
	f.Fuzz(func(t *testing.T, body, key string) {
		s, err := Open(Options{})
		kit.NoError(t, err)
		call := func(method, url, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, url, strings.NewReader(body))
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			_, path, _ := strings.Cut(r.URL.Path, "/v1/")
			if err := checkAnswer(method, path, w.Code, w.Body.Bytes()); err != nil {
				t.Error(err)
			}
			if w.Code >= 500 {
				t.Errorf("%s %d: %s", method, w.Code, w.Body)
			}
			return w
		}
		url := s.WebhookURL("http://localhost") + "&messageReplyOption=" + replyOrFallback
		posted := call("POST", url, body)
		listed := call("GET", s.APIEndpoint("http://localhost")+"v1/"+Name+"/messages", "")
		if has := len(s.Messages()) == 1; has != (posted.Code == 200) || has != (listed.Body.String() != "{}\n") {
			t.Errorf("post says %d, list says %s", posted.Code, listed.Body)
		}
		call("POST", url, `{"text":"x","thread":{"threadKey":`+jsonText(key)+`}}`)
	})
}
