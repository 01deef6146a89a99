package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Only complete addresses of a domain may join. An empty domain admits nobody.
func TestHub_WhoMayJoin(t *testing.T) {
	h := &Hub{Options: Options{Domains: []string{"example.com", "", "ms.example.com"}}}
	kit.True(t, h.canJoin("Ann@Example.com"), "Ann may not")
	for _, email := range []string{
		"", "example.com", "@example.com.evil.org", `"a@example.com"@evil.org`,
		"a@example.com@evil.org", "a@sub.example.com", "@",
		"a@mſ.example.com",
	} {
		kit.True(t, !h.canJoin(email), "%q may join", email)
	}
}

// While Google does not say whether a machine is a member, one that was a member stays
// one for a while. One that was removed does not.
func TestHub_MembersAreUnknown(t *testing.T) {
	var answer atomic.Int32
	answer.Store(http.StatusTooManyRequests)
	h := newHubAtGoogle(t, "p", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(answer.Load()))
		_, _ = w.Write([]byte(`{}`))
	})
	for stood, wantValid := range map[time.Duration]bool{0: true, 2 * stateMaxAge: true,
		2 * staleStateMaxAge: false} {
		h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now().Add(-stood)}
		err := h.checkSubscription(t.Context(), &Claims{Machine: "m"})
		kit.True(t, (err == nil) == wantValid, "it stood %v ago: %v", stood, err)
	}
	h.subscriptions[h.subscriptionName("m")] = subscriptionState{true,
		time.Now().Add(-2 * stateMaxAge)}
	answer.Store(http.StatusNotFound)
	err := h.checkSubscription(t.Context(), &Claims{Machine: "m"})
	kit.True(t, err != nil, "it is gone")
	answer.Store(http.StatusTooManyRequests)
	err = h.checkSubscription(t.Context(), &Claims{Machine: "m"})
	kit.True(t, err != nil, "it was gone")
}

// If the policy is broken while the hub runs, no machine gets it and no code is used up.
// A repaired policy counts at once.
func TestHub_PolicyBreaksWhileItRuns(t *testing.T) {
	var log bytes.Buffer
	file := filepath.Join(t.TempDir(), "policy.json")
	h := New(t.Context(), Options{Policy: file, SigningKey: []byte("k"), Log: zerolog.New(&log)})
	write := func(text string) {
		kit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`{"never_remot": ["Bash"]}`)
	refused := &refusal{}
	_, err := h.getPolicy(nil)
	kit.True(t, errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable,
		"a broken policy: %v", err)
	kit.True(t, strings.Contains(log.String(), `"level":"error"`) &&
		strings.Contains(log.String(), "never_remot"),
		"the log says %s", &log)
	code := h.Sign(Claims{Kind: codeKind, Machine: "m",
		ExpiresAt: time.Now().Add(time.Minute).Unix()})
	join := httptest.NewRequest(http.MethodPost, "/hub/join", nil)
	_, _, err = h.issueToken(join, joinRequest{Code: code, Nonce: "n"})
	kit.True(t, errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable,
		"join: %v", err)
	write(`{"never_remote": ["Bash"], "spaces": {"spaces/A": ["users/1"]}}`)
	got, err := h.getPolicy(nil)
	b := kit.JSON(t, got)
	kit.True(t, err == nil && strings.Contains(string(b), `"policy":{"never_remote":["Bash"]}`),
		"mended: %s, %v", b, err)
}

// Some messages are for the hub itself, the others for machines.
func TestHub_MessagesForTheHubItself(t *testing.T) {
	for _, c := range []struct {
		said          string
		direct, reply bool
		want          string
	}{
		{"join", true, false, "join"}, {" Join.", true, false, "join"},
		{"JOIN!", true, false, "join"}, {"/join", true, false, "join"},
		{"“join”", true, true, "join"}, {"`join`", false, false, "join"}, {"join", false, true, ""},
		{"join us", true, false, ""},
		{"help", true, false, "help"}, {"help", true, true, ""}, {"help", false, false, ""},
		{"", true, false, ""}, {"1.", true, true, ""},
	} {
		in := &chat.Space{Name: "spaces/A", SingleUserBotDm: c.direct}
		e := &chat.DeprecatedEvent{Type: "MESSAGE", Space: in, User: &chat.User{}}
		e.Message = &chat.Message{Text: c.said, ThreadReply: c.reply}
		got := requestedAction(e)
		kit.True(t, got == c.want && isForHub(e) == (c.want != ""), "%+v: %q", c, got)
	}
}

// If Chat is busy, an answer is posted again later. If Chat refuses it, the hub gives up.
func TestHub_ChatRefusesAnAnswer(t *testing.T) {
	code := http.StatusTooManyRequests
	google := kit.NewServer(t, http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	messages, err := chat.NewService(t.Context(), option.WithEndpoint(google.URL),
		option.WithHTTPClient(google.Client()))
	kit.NoError(t, err)
	h := New(t.Context(), Options{Chat: messages})
	err = h.postOnce(t.Context(), "spaces/A", "1", "hello")
	kit.True(t, err != nil, "429: it is not said again")
	code = http.StatusForbidden
	kit.NoError(t, h.postOnce(t.Context(), "spaces/A", "1", "hello"))
}

// A machine that asks too often may go on after a second. Its allowance grows back
// slowly.
func TestHub_Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(t.Context(), Options{})
		passed := func() (n int) {
			for range 100 {
				if h.limitRate("m", 60) == nil {
					n++
				}
			}
			return n
		}
		for _, want := range []int{30, 1, 1} {
			kit.Equalf(t, passed(), want, "pass")
			time.Sleep(time.Second)
		}
	})
}

// A replica is healthy while it can read the app's events. It is not if the first pull
// fails, or two in a row, or while it drains.
func TestHub_Health(t *testing.T) {
	for _, c := range []struct {
		pulls []int // how they are answered; another one waits
		want  int
	}{
		{nil, 200}, {[]int{403}, 503}, {[]int{200}, 200}, {[]int{200, 403}, 200},
		{[]int{200, 403, 403}, 503}, {[]int{403, 403, 200}, 200},
	} {
		t.Run(fmt.Sprint(c.pulls), func(t *testing.T) {
			t.Parallel()
			var pulled atomic.Int32
			h := newHubAtGoogle(t, "p", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				n := int(pulled.Add(1))
				if n > len(c.pulls) {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(c.pulls[n-1])
				_, _ = w.Write([]byte(`{}`))
			})
			ctx, end := context.WithCancel(t.Context())
			h.drainContext = ctx
			health := func() int {
				w := httptest.NewRecorder()
				h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
				return w.Code
			}
			done := make(chan struct{})
			go func() { defer close(done); h.Relay(ctx) }()
			bound.Until(t, "all are answered",
				func() bool { return int(pulled.Load()) > len(c.pulls) })
			kit.Equalf(t, health(), c.want, "while it serves")
			end()
			<-done
			kit.Equalf(t, health(), http.StatusServiceUnavailable, "while it drains")
		})
	}
}

// A hub whose clock was ahead signs codes and tokens that would last too long. With the
// right clock, such a code is refused and such a token must be renewed.
func TestHub_TokenSignedByAFastClock(t *testing.T) {
	h := New(t.Context(),
		Options{Topic: "projects/p/topics/t", SigningKey: []byte("k"), Log: zerolog.Nop()})
	h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now()}
	year2100 := time.Until(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	for left, good := range map[time.Duration]bool{
		-time.Minute: false, time.Second: true, codeLife: true, codeLife + maxClockSkew/2: true,
		codeLife + 2*maxClockSkew: false, year2100: false,
	} {
		until := time.Now().Add(left).Unix()
		_, err := h.redeemCode(t.Context(),
			joinRequest{Code: h.Sign(Claims{Kind: codeKind, Machine: "c", ExpiresAt: until})})
		if isOver := refusalStatus(err) == http.StatusUnauthorized; isOver == good {
			// a good one lacks a nonce
			t.Errorf("a code that is good for %v: %v", left, err)
		}
	}
	for left, good := range map[time.Duration]bool{
		-time.Minute: false, time.Minute: true, tokenLife + maxClockSkew/2: true,
		tokenLife + 2*maxClockSkew: false, year2100: false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/hub/policy", nil)
		token := h.Sign(Claims{Kind: tokenKind, Machine: "m",
			ExpiresAt: time.Now().Add(left).Unix()})
		r.Header.Set("Authorization", "Bearer "+token)
		_, err := h.authenticate(r)
		kit.True(t, (err == nil) == good, "a token that is good for %v: %v", left, err)
	}
}

func refusalStatus(err error) int {
	refused, _ := err.(*refusal)
	if refused == nil {
		return 0
	}
	return refused.Code
}

// Without a token, only a small body is read, and only a few at once. So slow requests
// cost the hub little, and a colleague can join meanwhile.
func TestHub_SlowJoins(t *testing.T) {
	h := New(t.Context(), Options{SigningKey: []byte("k"), Log: zerolog.Nop()})
	server := kit.NewServer(t, h.Handler())
	large, err := http.Post(server.URL+"/hub/join", "application/json",
		strings.NewReader(`{"code": "`+strings.Repeat("x", maxJoinBodyBytes)+`"}`))
	kit.NoError(t, err)
	defer large.Body.Close()
	said, _ := io.ReadAll(large.Body)
	kit.True(t, large.StatusCode == http.StatusBadRequest,
		"a body of over 4 kB: %d: %s", large.StatusCode, said)
	for range maxJoining { // requests that are being read
		h.joinSlots <- struct{}{}
	}
	answer := func() int {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		kit.NoError(t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn,
			"POST /hub/join HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{")
		b := make([]byte, len("HTTP/1.1 503"))
		_, err = io.ReadFull(conn, b)
		kit.True(t, err == nil, "no answer: %v", err)
		code, _ := strconv.Atoi(string(b[len(b)-3:]))
		return code
	}
	kit.Equalf(t, answer(), http.StatusServiceUnavailable, "one more")
	<-h.joinSlots
	// It is read now, and its time is up before the byte that it holds back comes.
	kit.Equalf(t, answer(), http.StatusBadRequest, "one that is read")
}

// A flood of refusals leaves a few lines in the log and a count of the rest. A machine's
// version cannot colour or reorder these lines.
func TestHub_CountsRefusals(t *testing.T) {
	var log bytes.Buffer
	h := New(t.Context(), Options{SigningKey: []byte("k"), Log: zerolog.New(&log)})
	const requests = 500
	for range requests {
		r := httptest.NewRequest(http.MethodGet, "/hub/policy", nil)
		h.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Count(log.String(), "\n")
	kit.True(t, lines != 0 && lines <= maxLoggedRefusals,
		"%d requests left %d lines", requests, lines)
	counted := int(h.unloggedRefusals.Load())
	for _, match := range regexp.MustCompile(`"refused_unlogged":(\d+)`).
		FindAllStringSubmatch(log.String(), -1) {
		n, _ := strconv.Atoi(match[1])
		counted += n
	}
	kit.Equalf(t, counted, requests-lines, "refusals are counted")
	got := logText("1.0\x1b[2J\u202eevil")
	kit.True(t, !strings.ContainsAny(got, "\x1b\u202e"), "the log shows %q", got)
}

// One person who writes join 200 times does not delay a colleague, even if Chat is slow.
func TestHub_JoinsOfOnePersonLeaveRoom(t *testing.T) {
	slow := make(chan struct{})
	var colleague atomic.Bool
	google := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(r.URL.Path, "spaces/flood/"):
			<-slow
		case strings.Contains(r.URL.Path, "spaces/colleague/"):
			colleague.Store(strings.Contains(string(body), "setup --hub"))
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	defer close(slow)
	at := []option.ClientOption{option.WithEndpoint(google.URL),
		option.WithHTTPClient(google.Client())}
	messages, err := chat.NewService(t.Context(), at...)
	kit.NoError(t, err)
	events, err := pubsub.NewService(t.Context(), at...)
	kit.NoError(t, err)
	h := New(t.Context(), Options{
		Chat: messages, PubSub: events, SigningKey: []byte("k"), Domains: []string{"example.com"},
		Log: zerolog.Nop(),
	})
	join := func(user, space, id string) {
		e := &chat.DeprecatedEvent{
			Type:    "MESSAGE",
			Space:   &chat.Space{Name: space, SingleUserBotDm: true},
			User:    &chat.User{Name: user, Email: "x@example.com"},
			Message: &chat.Message{Text: "join"},
		}
		data := kit.JSON(t, e)
		h.startGreeting(e, &pubsub.ReceivedMessage{Message: &pubsub.PubsubMessage{
			MessageId: id, Data: base64.StdEncoding.EncodeToString(data),
		}})
	}
	for n := range 200 {
		join("users/1", "spaces/flood", strconv.Itoa(n))
	}
	join("users/2", "spaces/colleague", "c")
	bound.Until(t, "the colleague is answered", colleague.Load)
	n := len(h.greetSlots)
	kit.True(t, n <= maxGreetings+1, "%d answers to one person are under way", n)
}

// newHubAtGoogle returns a hub whose Pub/Sub is served by handler.
func newHubAtGoogle(t *testing.T, project string, handler http.HandlerFunc) *Hub {
	google := kit.NewServer(t, handler)
	events, err := pubsub.NewService(t.Context(), option.WithEndpoint(google.URL),
		option.WithHTTPClient(google.Client()))
	kit.NoError(t, err)
	return New(t.Context(), Options{
		Topic: "projects/" + project + "/topics/t", PubSub: events, SigningKey: []byte("k"),
		Log: zerolog.Nop(),
	})
}

// The name of a project that belongs to a domain has a colon.
func TestHub_ServesTheProjectOfADomain(t *testing.T) {
	var path string
	h := newHubAtGoogle(t, "example.com:p", func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		_, _ = w.Write([]byte(`{}`))
	})
	h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now()}
	token := h.Sign(Claims{Kind: tokenKind, Machine: "m",
		ExpiresAt: time.Now().Add(time.Minute).Unix()})
	r := httptest.NewRequest(http.MethodPost, "/v1/"+h.subscriptionName("m")+":acknowledge",
		strings.NewReader(`{"ackIds": ["1"]}`))
	r.Header.Set("Authorization", "Bearer "+token)
	response := httptest.NewRecorder()
	h.Handler().ServeHTTP(response, r)
	kit.Equalf(t, response.Code, http.StatusOK, "status")
	kit.Equalf(t, path, "/v1/"+h.subscriptionName("m")+":acknowledge", "path")
}

// An administrator may have removed a subscription's labels.
func TestHub_RevokesASubscriptionWithoutLabels(t *testing.T) {
	var patched string
	h := newHubAtGoogle(t, "p", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			body, _ := io.ReadAll(r.Body)
			patched = string(body)
		}
		_, _ = w.Write([]byte(`{"name": "projects/p/subscriptions/s", "topic": "projects/p/topics/t"}`))
	})
	kit.NoError(t, h.Revoke(t.Context(), nil, Machine{ID: "m"}))
	kit.Contains(t, patched, `"labels":{"`+revokedLabel+`":"1"}`)
}

// A machine gets a file that is attached to a message in a thread of its own, and no
// other. What it gets is the whole file, or more than the limit, or an error.
func TestHub_RelaysFiles(t *testing.T) {
	const limit = 10 << 20
	var opened atomic.Int32
	var served http.HandlerFunc
	messages := map[string]string{ // the threads, by the message
		"spaces/DM/messages/1.2":   "spaces/DM/threads/1",
		"spaces/room/messages/a.a": "spaces/room/threads/a",
		"spaces/room/messages/a.b": "spaces/room/threads/a",
		"spaces/room/messages/x.y": "spaces/room/threads/x",
	}
	google := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/v1/")
		switch thread := messages[name]; {
		case strings.HasPrefix(name, "media/"):
			opened.Add(1)
			served(w, r)
		case thread != "":
			m := &chat.Message{Name: name, Thread: &chat.Thread{Name: thread}}
			m.Attachment = []*chat.Attachment{{Source: "DRIVE_FILE"}, {
				AttachmentDataRef: &chat.AttachmentDataRef{ResourceName: "a/b+c=="},
			}}
			if name == "spaces/room/messages/a.a" {
				m.ClientAssignedMessageId = "client-m-1"
			}
			_ = json.NewEncoder(w).Encode(m)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error": {"code": 404, "status": "NOT_FOUND"}}`))
		}
	}))
	service, err := chat.NewService(t.Context(), option.WithEndpoint(google.URL),
		option.WithHTTPClient(google.Client()))
	kit.NoError(t, err)
	var h *Hub
	server := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Handler().ServeHTTP(w, r)
	}))
	start := func() (token string) {
		h = New(t.Context(), Options{
			Topic: "projects/p/topics/t", Chat: service, SigningKey: []byte("k"), Log: zerolog.Nop(),
		})
		h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now()}
		return h.Sign(Claims{Kind: tokenKind, Machine: "m", User: "users/1", Space: "spaces/room",
			DirectSpace: "spaces/DM", ExpiresAt: time.Now().Add(time.Minute).Unix()})
	}
	token := start()
	get := func(resource, query string) (code int, content []byte, err error) {
		r, err := http.NewRequest(http.MethodGet, server.URL+"/v1/media/"+resource+"?"+query, nil)
		kit.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		kit.NoError(t, err)
		defer response.Body.Close()
		content, err = io.ReadAll(response.Body)
		return response.StatusCode, content, err
	}
	served = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<script>") }
	for _, c := range []struct {
		resource, query string
		want            int
	}{
		{"a/b+c==", "alt=media&message=spaces/DM/messages/1.2", 200},
		{"a/b+c==", "message=spaces/room/messages/a.b", 200},
		{"a/b+c==", "message=spaces/room/messages/x.y", 400}, // a colleague's thread
		{"a/b+c==", "message=spaces/other/messages/1.2", 403},
		{"a/b", "message=spaces/DM/messages/1.2", 403},
		{"a/b+c==", "message=spaces/DM/messages/9.9", 404},
		{"a/b+c==", "message=spaces/DM/messages/..%2f..%2fother", 400},
		{"a/b+c==", "message=spaces/DM", 400},
		{"a/b+c==", "", 400},
		{"a/b+c==", "message=spaces/DM/messages/1.2&message=spaces/other/messages/1.2", 400},
		{"a/b+c==", "message=spaces/DM/messages/1.2&key=x", 400},
	} {
		before := opened.Load()
		code, content, err := get(c.resource, c.query)
		kit.Must(t, err == nil && code == c.want, "%+v: %d %s, %v", c, code, content, err)
		isOpened := opened.Load() > before
		kit.True(t, isOpened == (c.want == 200) && isOpened == (string(content) == "<script>"),
			"%+v: opened %v: %s", c, isOpened, content)
	}
	const own = "message=spaces/DM/messages/1.2"
	served = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2*limit)) // it claims no length
	}
	_, content, err := get("a/b+c==", own)
	kit.True(t, err == nil && len(content) == limit+1, "a large file: %d, %v", len(content), err)
	served = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<20))
		panic(http.ErrAbortHandler)
	}
	_, _, err = get("a/b+c==", own)
	kit.True(t, err != nil, "a file that broke off seems whole")
	served = func(w http.ResponseWriter, _ *http.Request) {}
	token = start()
	refused := 0
	for range maxMachineFiles {
		if code, _, _ := get("a/b+c==", own); code == http.StatusTooManyRequests {
			refused++
		}
	}
	kit.True(t, refused > maxMachineFiles/3, "%d of %d were refused", refused, maxMachineFiles)
	token = "x"
	code, _, _ := get("a/b+c==", own)
	kit.Equalf(t, code, http.StatusUnauthorized, "without a token")
}
