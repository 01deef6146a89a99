package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
	apioption "google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
)

var ann, bob, eve = person(1, "ann@example.com"), person(2, "Bob@Example.com"), person(9, "eve@example.com.evil.org")

// joinRequest is what a machine says to join.
type joinRequest struct {
	Code    string `json:"code"`
	Nonce   string `json:"nonce"`
	Version string `json:"version"`
}

const hubKey = "q7Vt0fXbE3mJ9aKcR1sLwYhU6pZdN2gT"

// signedCode are claims as a hub with that key signs them.
func signedCode(key string, c hub.Claims) string {
	b, _ := json.Marshal(c)
	said := base64.RawURLEncoding.EncodeToString(b)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("claims " + said))
	return said + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// testTeam is a hub before a Google, and two replicas of it.
type testTeam struct {
	*testing.T
	*fakeGoogle
	hubs  []*hub.Hub
	urls  []string
	stops []func() // of the hubs' relaying and pulls
	log   bytes.Buffer
}

func newTestTeam(t *testing.T) *testTeam {
	t.Helper()
	x := &testTeam{T: t, fakeGoogle: newFakeGoogle(t)}
	options := []apioption.ClientOption{apioption.WithEndpoint(x.URL + "/"), apioption.WithHTTPClient(http.DefaultClient)}
	messages, err := chat.NewService(t.Context(), options...)
	kit.NoError(t, err)
	events, err := pubsub.NewService(t.Context(), options...)
	kit.NoError(t, err)
	log := zerolog.New(zerolog.SyncWriter(&x.log))
	for range 2 {
		o := hub.Options{
			Subscription: appSubscription, Topic: machineTopic, Domains: []string{"example.com"}, Version: "1",
			Policy: filepath.Join(t.TempDir(), "policy.json"), SigningKey: []byte(hubKey), Log: log, Chat: messages, PubSub: events,
		}
		kit.NoError(t, os.WriteFile(o.Policy, []byte(`{"titles_only":true,"spaces":{"spaces/room":["users/2"]}}`), 0o600))
		h := x.newRelayingHub(o)
		server := httptest.NewServer(h.Handler())
		h.URL = server.URL
		t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
		x.hubs, x.urls = append(x.hubs, h), append(x.urls, server.URL)
	}
	return x
}

// newRelayingHub is a hub that relays.
func (x *testTeam) newRelayingHub(o hub.Options) *hub.Hub {
	ctx, cancel := context.WithCancel(x.Context())
	h := hub.New(ctx, o)
	done := make(chan struct{})
	go func() { defer close(done); h.Relay(ctx) }()
	end := func() { cancel(); <-done }
	x.Cleanup(end)
	x.stops = append(x.stops, end)
	return h
}

// request is a request of a machine's to a replica; body may be nil. The answer is
// decoded into into.
func (x *testTeam) request(replica int, token, request string, body, into any) (code int) {
	x.Helper()
	method, path, _ := strings.Cut(request, " ")
	b, _ := json.Marshal(body)
	if raw, is := body.(string); is {
		b = []byte(raw)
	}
	r, err := http.NewRequestWithContext(x.Context(), method, x.urls[replica]+path, bytes.NewReader(b))
	kit.NoError(x, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	kit.NoError(x, err)
	defer resp.Body.Close()
	b, _ = io.ReadAll(resp.Body)
	if into != nil && resp.StatusCode == http.StatusOK {
		kit.NoError(x, json.Unmarshal(b, into))
	}
	if resp.StatusCode != http.StatusOK && googleapi.CheckResponse(&http.Response{StatusCode: resp.StatusCode, Body: io.NopCloser(bytes.NewReader(b))}) == nil {
		x.Errorf("%s: %d without an envelope: %s", request, resp.StatusCode, b)
	}
	return resp.StatusCode
}

// joinCode has a person join, and gives the code that came into their direct message.
func (x *testTeam) joinCode(u *chat.User, space string) string {
	x.Helper()
	_, code := x.joinLine(u, space)
	return code
}

// joinHub has a person's machine join.
func (x *testTeam) joinHub(u *chat.User, space string) (j gchat.JoinResponse) {
	x.Helper()
	if got := x.request(0, "", "POST /hub/join", joinRequest{Code: x.joinCode(u, space), Nonce: u.Name}, &j); got != http.StatusOK {
		x.Fatalf("join: %d", got)
	}
	return j
}

func messageID(j gchat.JoinResponse, n int) string {
	return fmt.Sprintf("client-%s-%040d", j.Machine, n)
}

func createMessage(j gchat.JoinResponse, n int) string {
	return "POST /v1/" + j.Space + "/messages?messageId=" + messageID(j, n) + "&requestId=" + messageID(j, n)
}

func TestAMachineJoins(t *testing.T) {
	x := newTestTeam(t)
	code := x.joinCode(ann, "")
	var one, two gchat.JoinResponse
	if got := x.request(0, "", "POST /hub/join", joinRequest{Code: code, Nonce: "a"}, &one); got != http.StatusOK {
		t.Fatalf("join: %d", got)
	}
	if one.User != "users/1" || one.Space != "spaces/dm1" || one.Email != "ann@example.com" || len(one.Machine) != 12 ||
		time.Until(one.Expires) > 24*time.Hour || one.Subscription != "projects/p/subscriptions/gchat-hooks-"+one.Machine {
		t.Errorf("joined as %+v", one)
	}
	if got := x.request(1, "", "POST /hub/join", joinRequest{Code: code, Nonce: "a"}, &two); got != http.StatusOK || two.Machine != one.Machine {
		t.Errorf("the same again, its answer was lost: %d, %+v", got, two)
	}
	kit.Equalf(t, x.request(1, "", "POST /hub/join", joinRequest{Code: code, Nonce: "b"}, nil), http.StatusConflict, "another machine with the same code")
	if got := x.request(1, one.Token, "POST /hub/join", struct{}{}, &two); got != http.StatusOK || two.Token == "" || two.Space != one.Space {
		t.Errorf("renewed: %d, %+v", got, two)
	}
	var told struct {
		Policy  map[string]any
		Version string
	}
	if got := x.request(0, two.Token, "GET /hub/policy", nil, &told); got != http.StatusOK || told.Policy["titles_only"] != true || told.Policy["spaces"] != nil {
		t.Errorf("policy: %d, %v", got, told)
	}
	x.AddSpace("room")
	if j := x.joinHub(bob, "spaces/room"); j.Space != "spaces/room" || len(j.Deciders) != 1 {
		t.Errorf("joined in a room: %+v", j)
	}
	if log := x.log.String(); strings.Contains(log, one.Token) || strings.Contains(log, code) {
		t.Error("the log has a secret")
	}
}

// Who is not of the domain gets a polite no, once; and one without a direct message is
// told to write one.
func TestWhoMayNotJoin(t *testing.T) {
	x := newTestTeam(t)
	dm := x.AddDirectMessage(eve)
	x.Say(eve, dm, nil, "join")
	x.Await(dm, "only people of this organisation")
	x.AddSpace("room")
	x.Say(ann, "spaces/room", nil, "join")
	x.Await("spaces/room", "direct message first")
}

// A code and a token are good for what they were signed for, until they end.
func TestCodesAndTokens(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, "")
	said, mac, _ := strings.Cut(j.Token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(said)
	var c hub.Claims
	if err := json.Unmarshal(raw, &c); err != nil || signedCode(hubKey, c) != j.Token {
		t.Fatalf("the token says %s, %v", raw, err)
	}
	const other = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	ended, code := c, c
	ended.ExpiresAt = time.Now().Add(-time.Second).Unix()
	code.Kind, code.Machine = "code", "0123456789ab"
	code.ExpiresAt = time.Now().Add(time.Minute).Unix()
	late := code
	late.ExpiresAt = time.Now().Add(-time.Second).Unix()
	for name, token := range map[string]string{
		"none": "", "no token": "x", "cut": said, "without a signature": said + ".", "another key's": signedCode(other, c), "a code": signedCode(hubKey, code),
		"ended": signedCode(hubKey, ended), "other claims": strings.ToUpper(said) + "." + mac,
	} {
		kit.Equalf(t, x.request(0, token, "GET /hub/policy", nil, nil), http.StatusUnauthorized, "%s", name)
	}
	kit.Equalf(t, x.request(0, signedCode(hubKey, ended), "POST /hub/join", struct{}{}, nil), http.StatusOK, "a token that has ended is renewed while its subscription stands")
	for name, code := range map[string]string{"a token": j.Token, "late": signedCode(hubKey, late), "another key's": signedCode(other, code)} {
		kit.Equalf(t, x.request(0, "", "POST /hub/join", joinRequest{Code: code, Nonce: "n"}, nil), http.StatusUnauthorized, "code, %s", name)
	}
	kit.Equalf(t, x.request(0, "", "POST /hub/join", joinRequest{Code: signedCode(hubKey, code)}, nil), http.StatusBadRequest, "without a nonce")
}

// A machine reaches its own spaces, messages and subscription, and nothing else.
func TestWhatAMachineReaches(t *testing.T) {
	x := newTestTeam(t)
	room := x.AddSpace("room")
	a, b := x.joinHub(ann, room), x.joinHub(bob, room)
	text := &chat.Message{Text: "hello", Thread: &chat.Thread{ThreadKey: "k"}}
	var posted chat.Message
	const reply = "&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
	if got := x.request(0, a.Token, createMessage(a, 1)+reply, text, &posted); got != http.StatusOK || posted.ClientAssignedMessageId != messageID(a, 1) {
		t.Fatalf("post: %d, %+v", got, posted)
	}
	var bobs chat.Message
	if got := x.request(0, b.Token, createMessage(b, 1)+reply, text, &bobs); got != http.StatusOK || bobs.Thread.Name == posted.Thread.Name {
		t.Errorf("two machines have one thread of a key: %d", got)
	}
	own := room + "/messages/" + messageID(a, 1)
	const mask = "?updateMask=text"
	for request, want := range map[string]int{
		createMessage(a, 1): http.StatusConflict, // Google's, as it is
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) + "&requestId=" + messageID(b, 1): http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=" + messageID(b, 2):                                   http.StatusForbidden,
		"POST /v1/" + room + "/messages":                                                                http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=client-" + a.Machine + "-":                            http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=client-" + a.Machine + "-A":                           http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) + "&messageId=" + messageID(b, 2): http.StatusBadRequest,
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) + "&threadKey=x":                  http.StatusBadRequest,
		"POST /v1/spaces/dm2/messages?messageId=" + messageID(a, 2):                                     http.StatusForbidden,
		"POST /v1/spaces/dm1%2F..%2Fdm2/messages?messageId=" + messageID(a, 2):                          http.StatusForbidden,
		"PATCH /v1/" + own + mask:                                                                  http.StatusOK,
		"PATCH /v1/" + posted.Name + mask:                                                          http.StatusForbidden,
		"PATCH /v1/" + bobs.Name + mask:                                                            http.StatusForbidden,
		"PATCH /v1/" + room + "/messages/" + messageID(b, 1) + mask:                                http.StatusForbidden,
		"PATCH /v1/" + own + mask + "&allowMissing=true":                                           http.StatusBadRequest,
		"PATCH /v1/" + room + "/messages/" + messageID(a, 1) + "%2f..%2f" + messageID(b, 1) + mask: http.StatusForbidden,
		"GET /v1/" + own: http.StatusOK,
		"GET /v1/" + room + "/messages/" + messageID(b, 1):  http.StatusForbidden,
		"GET /v1/" + room + "/messages":                     http.StatusNotFound,
		"GET /v1/" + room:                                   http.StatusOK,
		"GET /v1/spaces/dm2":                                http.StatusForbidden,
		"GET /v1/spaces":                                    http.StatusNotFound,
		"DELETE /v1/" + own:                                 http.StatusNotFound,
		"GET /v1/" + room + "/members":                      http.StatusNotFound,
		"POST /v1/" + a.Subscription + ":acknowledge":       http.StatusOK,
		"POST /v1/" + b.Subscription + ":acknowledge":       http.StatusForbidden,
		"POST /v1/" + b.Subscription + ":pull":              http.StatusForbidden,
		"POST /v1/" + appSubscription + ":pull":             http.StatusForbidden,
		"POST /v1/" + a.Subscription + ":modifyPushConfig":  http.StatusNotFound,
		"DELETE /v1/" + a.Subscription:                      http.StatusNotFound,
		"POST /v1/" + machineTopic + ":publish":             http.StatusNotFound,
		"POST /v1/projects/p/subscriptions/%2e%2e%2fx:pull": http.StatusForbidden,
		"GET /hub/join":                                     http.StatusNotFound,
	} {
		body := any(&chat.Message{Text: "x"})
		if strings.Contains(request, ":acknowledge") {
			body = map[string]any{"ackIds": []string{"x"}}
		} else if strings.HasPrefix(request, "GET") || strings.HasPrefix(request, "DELETE") {
			body = ""
		}
		kit.Equalf(t, x.request(1, a.Token, request, body, nil), want, "%s", request)
	}
	for name, c := range map[string]struct {
		thread string
		want   int
	}{
		"its own": {posted.Thread.Name, http.StatusOK}, "a colleague's": {bobs.Thread.Name, http.StatusBadRequest},
		"its person's":          {x.Say(ann, room, nil, "hello").Thread.Name, http.StatusOK},
		"a colleague's words":   {x.Say(bob, room, nil, "hello").Thread.Name, http.StatusBadRequest},
		"none":                  {room + "/threads/T999", http.StatusBadRequest},
		"of another space":      {"spaces/dm2/threads/T1", http.StatusBadRequest},
		"with a path in it":     {posted.Thread.Name + "/../T2", http.StatusBadRequest},
		"with another question": {posted.Thread.Name + "?x", http.StatusBadRequest},
	} {
		n := 100 + len(name)
		kit.Equalf(t, x.request(0, a.Token, createMessage(a, n)+reply, &chat.Message{Text: "hello", Thread: &chat.Thread{Name: c.thread}}, nil), c.want, "a thread, %s", name)
	}
	kit.Equalf(t, x.request(0, a.Token, createMessage(a, 3), strings.Repeat(" ", 256<<10)+`{"text":"x"}`, nil), http.StatusBadRequest, "a large body")
}

// What each machine of a person's may say, one does; another person's is not kept from
// saying it.
func TestWhatIsSaidOnce(t *testing.T) {
	x := newTestTeam(t)
	room := x.AddSpace("room")
	post := func(j gchat.JoinResponse) int {
		id := strings.Replace(messageID(j, 7), j.Machine+"-", j.Machine+"-"+gchat.OnceMark, 1)
		return x.request(0, j.Token, "POST /v1/"+room+"/messages?messageId="+id+"&requestId="+id, &chat.Message{Text: "x"}, nil)
	}
	one, two, other := x.joinHub(ann, room), x.joinHub(ann, room), x.joinHub(bob, room)
	if a, b, c := post(one), post(two), post(other); a != http.StatusOK || b != http.StatusConflict || c != http.StatusOK {
		t.Errorf("%d, %d, and the other's %d", a, b, c)
	}
	for _, m := range x.Messages(room) {
		if id := m.ClientAssignedMessageId; id != "" && x.request(0, one.Token, "PATCH /v1/"+room+"/messages/"+id+"?updateMask=text", m, nil) != http.StatusForbidden {
			t.Errorf("it changes %s", id)
		}
	}
}

// What people do reaches the machines of that space and no others, once by its id, also
// where replicas hear it twice.
func TestEventsReachTheirMachines(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	pull := func(j gchat.JoinResponse) (got pubsub.PullResponse) {
		x.request(1, j.Token, "POST /v1/"+j.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 100}, &got)
		return got
	}
	for range 20 {
		x.Say(ann, a.Space, nil, "hello")
	}
	x.Say(bob, b.Space, nil, "hi")
	seen := map[string]bool{}
	bound.Until(t, "all events", func() bool {
		got := pull(a)
		ack := &pubsub.AcknowledgeRequest{}
		for _, m := range got.ReceivedMessages {
			if seen[m.Message.MessageId] || len(m.Message.Attributes) > 0 {
				t.Errorf("twice, or with attributes: %+v", m.Message)
			}
			seen[m.Message.MessageId] = true
			ack.AckIds = append(ack.AckIds, m.AckId)
		}
		return x.request(0, a.Token, "POST /v1/"+a.Subscription+":acknowledge", ack, nil) == http.StatusOK && len(seen) == 20
	})
	if got := pull(b); len(got.ReceivedMessages) != 1 {
		t.Errorf("bob's machine hears %d", len(got.ReceivedMessages))
	}
}

// An event that was published and not acknowledged is published again, under the same id.
func TestAnEventOfAKilledReplica(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	b, _ := json.Marshal(map[string]any{"type": "MESSAGE", "space": map[string]string{"name": a.Space}, "message": map[string]string{"text": "hello"}})
	m := &pubsub.PubsubMessage{Data: base64.StdEncoding.EncodeToString(b), Attributes: map[string]string{"space": a.Space, "id": "77"}}
	for range 2 {
		publish := &pubsub.PublishRequest{Messages: []*pubsub.PubsubMessage{m}}
		if _, err := x.hubs[0].PubSub.Projects.Topics.Publish(machineTopic, publish).Do(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	bound.Until(t, "both", func() bool {
		var got pubsub.PullResponse
		x.request(0, a.Token, "POST /v1/"+a.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 100}, &got)
		for _, m := range got.ReceivedMessages {
			if n++; m.Message.MessageId != "77" {
				t.Errorf("id %s", m.Message.MessageId)
			}
		}
		return n >= 2
	})
}

// A machine that is revoked is let in nowhere, and its code makes it no more.
func TestRevoked(t *testing.T) {
	x := newTestTeam(t)
	code := x.joinCode(ann, "")
	var j gchat.JoinResponse
	x.request(0, "", "POST /hub/join", joinRequest{Code: code, Nonce: "a"}, &j)
	h := x.hubs[0]
	all, err := h.ListMachines(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != j.Machine || all[0].User != "users-1" {
		t.Fatalf("machines %+v, %v", all, err)
	}
	if err := h.Revoke(t.Context(), nil, hub.Machine{ID: j.Machine}); err != nil {
		// as though its code had ended long ago
		t.Fatal(err)
	}
	for i := range x.hubs {
		kit.Equalf(t, x.request(i, j.Token, "GET /v1/"+j.Space, nil, nil), http.StatusUnauthorized, "replica %d", i)
		kit.Equalf(t, x.request(i, j.Token, "POST /hub/join", struct{}{}, nil), http.StatusUnauthorized, "renewed at replica %d", i)
	}
}

// While the code of a revoked machine is good, what it made stays in its place.
func TestRevokedWhileItsCodeIsGood(t *testing.T) {
	x := newTestTeam(t)
	code := x.joinCode(ann, "")
	var j gchat.JoinResponse
	x.request(0, "", "POST /hub/join", joinRequest{Code: code, Nonce: "a"}, &j)
	all, _ := x.hubs[0].ListMachines(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	waits := 0
	if err := x.hubs[0].Revoke(ctx, func(until time.Time) { waits++ }, all[0]); err == nil || waits != 1 {
		t.Fatal("it did not wait for the code's end")
	}
	kit.Equalf(t, x.request(1, "", "POST /hub/join", joinRequest{Code: code, Nonce: "a"}, nil), http.StatusConflict, "its code joins again")
	kit.Equalf(t, x.request(1, j.Token, "GET /v1/"+j.Space, nil, nil), http.StatusUnauthorized, "its token")
}

// A machine that posts without an end is stopped; others are not.
func TestAMachinePostsTooMuch(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	refused := 0
	for n := range 200 {
		if x.request(0, a.Token, createMessage(a, n), &chat.Message{Text: "x"}, nil) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of 200 were refused", refused)
	}
	kit.Equalf(t, x.request(0, b.Token, createMessage(b, 1), &chat.Message{Text: "x"}, nil), http.StatusOK, "the other")
}

// Google's own refusals come through; that it does not know the hub is no refusal of the
// machine.
func TestGooglesErrors(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	for google, want := range map[int]int{429: 429, 403: 403, 500: 500, 401: 503} {
		x.Refuse(func(*http.Request) int { return google })
		kit.Equalf(t, x.request(0, a.Token, createMessage(a, google), &chat.Message{Text: "x"}, nil), want, "%d becomes", google)
	}
}

// A replica that ends lets its pulls go.
func TestDrain(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	ctx, end := context.WithCancel(t.Context())
	h := hub.New(ctx, x.hubs[0].Options)
	server := httptest.NewServer(h.Handler())
	defer server.Close()
	x.urls = append(x.urls, server.URL)
	done := make(chan int)
	go func() {
		done <- x.request(2, a.Token, "POST /v1/"+a.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 1}, nil)
	}()
	time.Sleep(100 * time.Millisecond)
	end()
	kit.Equalf(t, <-done, http.StatusOK, "the pull")
	kit.Equalf(t, x.request(2, "", "GET /healthz", nil, nil), http.StatusServiceUnavailable, "healthz")
}
