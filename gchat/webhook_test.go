package gchat

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state/config"
)

func TestWebhook_Parse(t *testing.T) {
	for _, raw := range []string{
		"http://chat.googleapis.com/v1/spaces/A/messages?key=k&token=secret",
		"http://127.0.0.1.evil.example/v1/spaces/A/messages?token=secret",
		"https://chat.googleapis.com/v1/spaces/A?token=secret",
		"ftp://chat.googleapis.com/v1/spaces/A/messages?token=secret",
		"see secret", "", "https://%zz/secret", "//secret",
	} {
		_, err := ParseWebhook(&config.Config{}, raw)
		kit.True(t, errors.Is(err, ErrNotWebhook) && !strings.Contains(err.Error(), "secret"),
			"%q: %v", raw, err)
	}
	for raw, space := range map[string]string{
		"https://chat.googleapis.com/v1/spaces/AAAA-b_c/messages?key=k&token=t":    "spaces/AAAA-b_c",
		"  'https://chat.googleapis.com/v1/spaces/A/messages?key=k&amp;token=t'\n": "spaces/A",
		"http://127.0.0.1:8080/v1/spaces/local/messages?key=k&token=t":             "spaces/local",
		"http://localhost:8080/t/tok/v1/spaces/local/messages?key=k&token=t":       "spaces/local",
		"http://[::1]:8080/v1/spaces/local/messages?key=k&token=t":                 "spaces/local",
	} {
		w, err := ParseWebhook(&config.Config{}, raw)
		kit.NoError(t, err)
		kit.Equalf(t, w.Space, space, "the space of %q", raw)
	}
}

func TestWebhook_ConfiguredSpace(t *testing.T) {
	for raw, want := range map[string]string{
		"https://gateway.example/chat?token=t":                           "spaces/B",
		"https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t": "spaces/A",
	} {
		w, err := ParseWebhook(&config.Config{SpaceID: "spaces/B"}, raw)
		kit.True(t, err == nil && w.Space == want, "%s: %+v, %v; want %s", raw, w, err, want)
	}
}

func TestWebhook_Endpoint(t *testing.T) {
	const google = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
	for _, c := range []struct{ raw, endpoint, want string }{
		{google, "", google},
		{google, "http://127.0.0.1:8080/",
			"http://127.0.0.1:8080/v1/spaces/A/messages?key=k&token=t"},
		{google, "https://proxy.example/chat",
			"https://proxy.example/chat/v1/spaces/A/messages?key=k&token=t"},
		{google, "http://proxy.example/", ""},
		{"http://127.0.0.1:1/v1/spaces/A/messages", "http://127.0.0.1:2/",
			"http://127.0.0.1:1/v1/spaces/A/messages"},
	} {
		w, err := ParseWebhook(&config.Config{APIEndpoint: c.endpoint}, c.raw)
		if c.want == "" {
			kit.True(t, err != nil, "%s was taken", c.endpoint)
		} else if err != nil || w.baseURL.String() != c.want {
			t.Errorf("%s by %s: %v, %v; want %s", c.raw, c.endpoint, w, err, c.want)
		}
	}
}

func TestWebhook_PostRequest(t *testing.T) {
	for name, c := range map[string]struct {
		post  Post
		query map[string]string // "" for: not there
		body  string
	}{
		"a thread of a key": {Post{Text: "a <b> & c", ThreadKey: "ask-user-1",
			MessageID: "client-x"},
			map[string]string{"messageReplyOption": "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
				"messageId": "client-x", "requestId": "client-x", "threadKey": "", "key": "K+K",
				"token": "secret="},
			`{"text":"a <b> & c","markupSyntax":"MARKUP_SYNTAX_CHAT","thread":{"threadKey":"ask-user-1"}}`},
		"a thread's name beats its key": {Post{Text: "x", ThreadKey: "k",
			ThreadName: "spaces/AAA/threads/T"},
			map[string]string{"messageReplyOption": "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD",
				"messageId": "", "requestId": ""},
			`{"text":"x","markupSyntax":"MARKUP_SYNTAX_CHAT","thread":{"name":"spaces/AAA/threads/T"}}`},
		"no thread": {Post{Text: "x"}, map[string]string{"messageReplyOption": ""},
			`{"text":"x","markupSyntax":"MARKUP_SYNTAX_CHAT"}`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := chatServer(t, func(w http.ResponseWriter, r *http.Request) {
				for k, want := range c.query {
					kit.Equalf(t, r.URL.Query().Get(k), want, "query %s", k)
				}
				b, _ := io.ReadAll(r.Body)
				var got, want any
				_ = json.Unmarshal(b, &got)
				_ = json.Unmarshal([]byte(c.body), &want)
				kit.Equalf(t, got, want, "body")
				io.WriteString(w,
					`{"name":"spaces/AAA/messages/M.M","thread":{"name":"spaces/AAA/threads/M"},"retentionSettings":{}}`)
			})
			w := newWebhook(t, srv.URL)
			got, err := w.Post(t.Context(), c.post)
			kit.True(t, err == nil && got.Name == "spaces/AAA/messages/M.M" &&
				got.ThreadName == "spaces/AAA/threads/M" &&
				time.Since(got.ServerTime).Abs() <= time.Minute,
				"posted %+v, %v", got, err)
		})
	}
}

// postTo posts to the webhook of a server.
func postTo(t *testing.T, server string) error {
	_, err := newWebhook(t, server).Post(t.Context(), Post{Text: "x"})
	return err
}

func TestWebhook_PostErrors(t *testing.T) {
	envelope := func(w http.ResponseWriter, code int, status, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code,
			"status": status, "message": message}})
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		check func(err error) bool
		hint  string
	}{
		"400": {func(w http.ResponseWriter, r *http.Request) {
			envelope(w, 400, "INVALID_ARGUMENT", "API key not valid.")
		}, IsPermanent, "cut off"},
		"401": {func(w http.ResponseWriter, r *http.Request) {
			envelope(w, 401, "UNAUTHENTICATED",
				"")
		}, IsAuthFailure, "log in"},
		"403": {func(w http.ResponseWriter, r *http.Request) {
			envelope(w, 403, "PERMISSION_DENIED",
				"x")
		}, IsAuthFailure, "token"},
		"404": {func(w http.ResponseWriter, r *http.Request) { envelope(w, 404, "NOT_FOUND", "x") },
			IsPermanent, "deleted"},
		"409": {func(w http.ResponseWriter, r *http.Request) {
			envelope(w, 409, "ALREADY_EXISTS",
				"x")
		}, IsAlreadyExists, ""},
		"429": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			envelope(w, 429, "RESOURCE_EXHAUSTED", "x")
		}, func(err error) bool { return IsOverloaded(err) && RetryAfter(err) == 7*time.Second },
			"quota"},
		"429 for ever": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999999")
			envelope(w, 429, "RESOURCE_EXHAUSTED", "x")
		}, func(err error) bool { return RetryAfter(err) <= time.Hour }, "quota"},
		"500 with a page": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); io.WriteString(w, "<html>key=K") }, IsOverloaded, "trouble"},
		"another space's message": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"name":"spaces/OTHER/messages/M"}`)
		}, func(err error) bool { return errors.Is(err, ErrBadResponse) }, "in its place"},
		"garbage": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "\x00{") },
			func(err error) bool { return errors.Is(err, ErrBadResponse) }, "in its place"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < 64; i++ {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, func(err error) bool { return errors.Is(err, ErrBadResponse) }, "in its place"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			kit.True(t, r.URL.Path != "/stolen", "the redirect was followed")
			http.Redirect(w, r, "/stolen?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		}, func(err error) bool { return err != nil }, ""},
		"cut": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			func(err error) bool { return !IsPermanent(err) && !IsOverloaded(err) }, "reached"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := chatServer(t, c.serve)
			err := postTo(t, srv.URL)
			kit.Must(t, err != nil && c.check(err), "got %v", err)
			for _, secret := range []string{"secret", "K%2BK", "K+K", srv.URL} {
				kit.True(t, !strings.Contains(err.Error(), secret), "the error says %q", err)
			}
			kit.True(t, strings.Contains(Hint(err), c.hint),
				"hint %q, want something with %q", Hint(err), c.hint)
		})
	}
}

func TestWebhook_MayHaveArrived(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  bool
	}{
		"403": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, false},
		"429": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, false},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, true},
		"nonsense": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
			true},
		"cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		err := postTo(t, chatServer(t, c.serve).URL)
		kit.True(t, err != nil && MayHaveArrived(err) == c.want, "%s: %v", name, err)
	}
	err := postTo(t, "http://127.0.0.1:1")
	kit.True(t, err != nil && !MayHaveArrived(err), "nobody listens: %v", err)
}

func TestWebhook_PostEndsWithItsContext(t *testing.T) {
	srv := chatServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the caller go
		<-r.Context().Done()
	})
	w := newWebhook(t, srv.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.Post(ctx, Post{Text: "x"})
	kit.True(t, errors.Is(err, context.DeadlineExceeded) &&
		!strings.Contains(err.Error(), "secret"),
		"got %v", err)
}

// FuzzPosted reads any answer to a post.
func FuzzPosted(f *testing.F) {
	f.Add(200, `{"name":"spaces/AAA/messages/M","thread":{"name":"spaces/AAA/threads/T"}}`)
	f.Add(200, `{"name":7}`)
	f.Add(429, `{"error":{"message":["x"]}}`)
	f.Add(403, `{"error":{"message":"\u0000\ud800","status":"X"}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		client := &http.Client{Transport: fixedResponse{status, body}}
		svc, err := chat.NewService(t.Context(), option.WithHTTPClient(client))
		kit.NoError(t, err)
		p, err := (&API{Space: "spaces/AAA", chat: svc}).Post(t.Context(), Post{Text: "x"})
		kit.True(t, err != nil || strings.HasPrefix(p.Name, "spaces/AAA/messages/"),
			"taken for a message: %+v", p)
		kit.True(t, err == nil || len(err.Error()) <= 500, "a long error: %v", err)
	})
}

// fixedResponse is a transport that always gives the same answer.
type fixedResponse struct {
	status int
	body   string
}

func (a fixedResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func TestWebhook_ThreadLink(t *testing.T) {
	for _, c := range []struct{ chat, thread, want string }{
		{"chat.googleapis.com/spaces/AAQA-x_1", "spaces/AAQA-x_1/threads/Tq",
			"https://chat.google.com/room/AAQA-x_1/Tq"},
		{"127.0.0.1:8765/spaces/local", "spaces/local/threads/T", "http://127.0.0.1:8765/#T"},
		{"[::1]:8765/spaces/local", "spaces/local/threads/T", "http://[::1]:8765/#T"},
		{"localhost:1/spaces/local", "spaces/local/threads/T", "http://localhost:1/#T"},
		// a gateway of unknown make
		{"gateway.example/spaces/AAAA", "spaces/AAAA/threads/T", ""},
		// a proxy of Google's, perhaps
		{"127.0.0.1:8765/spaces/AAAA", "spaces/AAAA/threads/T", ""},
		{"chat.googleapis.com/spaces/AAAA", "spaces/BBBB/threads/T", ""},       // not that space's
		{"chat.googleapis.com/spaces/AAAA", "spaces/AAAA/threads/T?x=y#z", ""}, // no id
		{"chat.googleapis.com/spaces/AAAA", "", ""},
		{"", "spaces/AAAA/threads/T", ""},
	} {
		kit.Equalf(t, ThreadLink(c.chat, c.thread), c.want, "%s in %s", c.thread, c.chat)
	}
}

// The webhook works if the server answers with a message. Any other answer is not Chat's.
func TestWebhook_Probe(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int
		nonsense   bool
	}{
		{"a message", `{"name": "spaces/AAA/messages/m", "thread": {"name": "spaces/AAA/threads/t"}}`, 200, false},
		{"another name", `{"name": "projects/A"}`, 200, true},
		{"no name", `{}`, 200, true},
		{"no object", `"spaces/AAA/messages/m"`, 200, true},
		{"a page", `<html>spaces/AAA/messages/m</html>`, 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := chatServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := newWebhook(t, server.URL).Probe(t.Context())
			kit.True(t, errors.Is(err, ErrBadResponse) == c.nonsense && (c.nonsense || err == nil),
				"%v", err)
		})
	}
}
