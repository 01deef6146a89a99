package space

import (
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"

	"gchat-hooks/e2e/kit"
)

func TestPost_Threads(t *testing.T) {
	const fallback, orFail = "&messageReplyOption=" +
		replyOrFallback, "&messageReplyOption=" + replyOrFail
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
		{
			"name wins over key", fallback,
			`{"text":"x","thread":{"name":"THREAD","threadKey":"k9"}}`, "same",
		},
		{
			"unknown name, fallback", fallback,
			`{"text":"x","thread":{"name":"spaces/local/threads/none"}}`, "new",
		},
		{
			"unknown name, or fail", orFail,
			`{"text":"x","thread":{"name":"spaces/local/threads/none"}}`,
			"NOT_FOUND: Thread spaces/local/threads/none not found",
		},
		{
			"malformed name, fallback", fallback,
			`{"text":"x","thread":{"name":"threads/none"}}`,
			"INVALID_ARGUMENT: The request contains an invalid thread resource name",
		},
		{
			"name of another space", fallback,
			`{"text":"x","thread":{"name":"spaces/other/threads/none"}}`,
			"INVALID_ARGUMENT: The request contains an invalid thread resource name",
		},
		{"option without thread", fallback, `{"text":"x"}`, "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, srv := testServer(t, Options{})
			thread := threadOf(mustPost(t, s.WebhookURL(srv.URL)+fallback,
				`{"text":"root","thread":{"threadKey":"k"}}`))
			code, v := postTo(t, s.WebhookURL(srv.URL)+tt.query,
				strings.ReplaceAll(tt.body, "THREAD", thread))
			got := "new"
			if code != 200 {
				got = errorOf(v)
			} else if threadOf(v) == thread {
				got = "same"
			}
			kit.Equal(t, got, tt.want)
		})
	}
}

func TestPost_Refuses(t *testing.T) {
	s, srv := testServer(t, Options{})
	good := s.WebhookURL(srv.URL)
	key, token := "key="+s.secrets.WebhookKey, "token="+s.secrets.WebhookToken
	base := srv.URL + "/v1/" + Name + "/messages"
	for _, tt := range []struct {
		name, url, body string
		code            int
		want            string
	}{
		{
			"no key", base + "?" + token, `{"text":"x"}`, 403,
			"PERMISSION_DENIED: Method doesn't allow unregistered callers",
		},
		{
			"bad key", base + "?key=no&" + token, `{"text":"x"}`, 400,
			"INVALID_ARGUMENT: API key not valid",
		},
		{
			"no token", base + "?" + key, `{"text":"x"}`, 403,
			"PERMISSION_DENIED: The API is called without a valid token",
		},
		{
			"bad token", base + "?token=no&" + key, `{"text":"x"}`, 403,
			"PERMISSION_DENIED: The API is called without a valid token",
		},
		{"empty", good, `{}`, 400, "INVALID_ARGUMENT: Message cannot be empty."},
		{"blank", good, `{"text":" \n"}`, 400, "INVALID_ARGUMENT: Message cannot be empty."},
		{
			"too long", good, `{"text":"` + strings.Repeat("é", 16001) + `"}`, 400,
			"INVALID_ARGUMENT: Message content is too long",
		},
		{
			"huge", good, `{"text":"` + strings.Repeat("x", maxBodyBytes) + `"}`, 413,
			"INVALID_ARGUMENT: Request payload size exceeds the limit.",
		},
		{"no JSON", good, `text=x`, 400, "INVALID_ARGUMENT: Invalid JSON payload received."},
		{
			"two values", good, `{"text":"x"}{}`, 400,
			"INVALID_ARGUMENT: Invalid JSON payload received.",
		},
		{"array", good, `["x"]`, 400, "INVALID_ARGUMENT: Invalid JSON payload received."},
		{"unknown field", good, `{"txt":"x"}`, 400, `unknown field "txt"`},
		{
			"message id without client-", good + "&messageId=abc", `{"text":"x"}`, 400,
			"INVALID_ARGUMENT: The request contains an invalid message id",
		},
		{
			"message id in capitals", good + "&messageId=client-A", `{"text":"x"}`, 400,
			"invalid message id",
		},
		{
			"message id of 64", good + "&messageId=client-" + strings.Repeat("a", 57),
			`{"text":"x"}`, 400, "invalid message id",
		},
		{
			"other space", strings.Replace(good, Name, "spaces/other", 1), `{"text":"x"}`, 404,
			"NOT_FOUND",
		},
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

func TestPost_Accepts(t *testing.T) {
	for name, body := range map[string]string{
		"32,000 bytes": `{"text":"` + strings.Repeat("é", 16000) + `"}`,
		"globals":      `{"text":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, srv := testServer(t, Options{})
			globals := "&alt=json&prettyPrint=false&fields=name&$.xgafv=2&messageId=client-" +
				strings.Repeat("a", 56)
			mustPost(t, s.WebhookURL(srv.URL)+globals, body)
		})
	}
}

func TestPost_SameIDOnce(t *testing.T) {
	s, srv := testServer(t, Options{})
	url := s.WebhookURL(srv.URL)
	first := mustPost(t, url+"&requestId=r1&messageId=client-one", `{"text":"one"}`)
	again := mustPost(t, url+"&requestId=r1&messageId=client-one", `{"text":"one, changed"}`)
	kit.Equalf(t, again, first, "the same request id gives")
	for _, query := range []string{"&messageId=client-one", "&messageId=client-one&requestId=r2"} {
		if code, v := postTo(t, url+query, `{"text":"two"}`); code != 409 ||
			!strings.HasPrefix(errorOf(v), "ALREADY_EXISTS") {
			t.Errorf("%s gives %d %s", query, code, errorOf(v))
		}
	}
	kit.Equalf(t, len(s.Messages()), 1, "messages")
	got, err := newClient(t,
		s.APIEndpoint(srv.URL)).Spaces.Messages.Get(Name + "/messages/client-one").Do()
	if err != nil || got.Name != first["name"] || got.ClientAssignedMessageId != "client-one" {
		t.Errorf("get by client id: %+v, %v", got, err)
	}
}

func TestPost_GeneratedClient(t *testing.T) {
	s, srv := testServer(t, Options{})
	m, err := newClient(t, srv.URL+"/").Spaces.Messages.Create(Name,
		&chat.Message{Text: "hello <b>", Thread: &chat.Thread{ThreadKey: "k"}}).
		MessageReplyOption(replyOrFallback).RequestId("r").
		Do(googleapi.QueryParameter("key", s.secrets.WebhookKey),
			googleapi.QueryParameter("token", s.secrets.WebhookToken))
	if err != nil || m.Text != "hello <b>" || m.CreateTime != "" || m.Sender != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// FuzzPost_AnyBody sends foreign bytes to the webhook: each is refused in Google's
// envelope, or becomes a message that the discovery document allows.
func FuzzPost_AnyBody(f *testing.F) {
	for _, body := range []string{`{"text":"x"}`, `{"text":"x","thread":{"name":"spaces/local/threads/x"}}`, `{"cardsV2":[{}]}`, `{"text":null,"cards":[{"header":{"title":"\ud800"}}]}`,
		`[`, `null`, `{"annotations":[{"userMention":{"user":{}}}],"text":"x"}`,
		`{"text":"x","text":2}`} {
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
		if has := len(s.Messages()) == 1; has != (posted.Code == 200) ||
			has != (listed.Body.String() != "{}\n") {
			t.Errorf("post says %d, list says %s", posted.Code, listed.Body)
		}
		call("POST", url, `{"text":"x","thread":{"threadKey":`+jsonText(key)+`}}`)
	})
}
