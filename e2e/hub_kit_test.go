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
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
	apioption "google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
)

var (
	ann = person(1, "ann@example.com")
	bob = person(2, "Bob@Example.com")
	eve = person(9, "eve@example.com.evil.org") // of another domain
)

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
	claims := base64.RawURLEncoding.EncodeToString(b)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("claims " + claims))
	return claims + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
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
	options := []apioption.ClientOption{
		apioption.WithEndpoint(x.URL + "/"), apioption.WithHTTPClient(http.DefaultClient),
	}
	messages, err := chat.NewService(t.Context(), options...)
	kit.NoError(t, err)
	events, err := pubsub.NewService(t.Context(), options...)
	kit.NoError(t, err)
	log := zerolog.New(zerolog.SyncWriter(&x.log))
	for range 2 {
		o := hub.Options{
			Subscription: appSubscription,
			Topic:        machineTopic,
			Domains:      []string{"example.com"},
			Version:      "1",
			Policy:       filepath.Join(t.TempDir(), "policy.json"),
			SigningKey:   []byte(hubKey),
			Log:          log,
			Chat:         messages,
			PubSub:       events,
		}
		kit.WriteFile(t, o.Policy,
			`{"titles_only":true,"spaces":{"spaces/room":["users/2"]}}`, 0o600)
		h := x.newRelayingHub(o)
		h.URL = kit.NewServer(t, h.Handler()).URL
		x.hubs, x.urls = append(x.hubs, h), append(x.urls, h.URL)
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
	r, err := http.NewRequestWithContext(x.Context(), method, x.urls[replica]+path,
		bytes.NewReader(b))
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
	if resp.StatusCode != http.StatusOK &&
		googleapi.CheckResponse(&http.Response{
			StatusCode: resp.StatusCode, Body: io.NopCloser(bytes.NewReader(b)),
		}) == nil {
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

// useCode has a machine join with a code.
func (x *testTeam) useCode(replica int, code, nonce string) (status int, j gchat.JoinResponse) {
	x.Helper()
	status = x.request(replica, "", "POST /hub/join", joinRequest{Code: code, Nonce: nonce}, &j)
	return status, j
}

// renew has a machine renew its token.
func (x *testTeam) renew(replica int, token string) (status int) {
	x.Helper()
	return x.request(replica, token, "POST /hub/join", struct{}{}, nil)
}

// pull is what a machine pulls.
func (x *testTeam) pull(replica int, j gchat.JoinResponse) []*pubsub.ReceivedMessage {
	x.Helper()
	var got pubsub.PullResponse
	x.request(replica, j.Token, "POST /v1/"+j.Subscription+":pull",
		&pubsub.PullRequest{MaxMessages: 100}, &got)
	return got.ReceivedMessages
}

// readSpace has a machine read its space.
func (x *testTeam) readSpace(replica int, j gchat.JoinResponse) (status int) {
	x.Helper()
	return x.request(replica, j.Token, "GET /v1/"+j.Space, nil, nil)
}

// listMachines are the machines of the hub.
func (x *testTeam) listMachines(n int) []hub.Machine {
	x.Helper()
	all, err := x.hubs[0].ListMachines(x.Context())
	kit.NoError(x, err)
	if len(all) != n {
		x.Fatalf("machines: %+v, not %d", all, n)
	}
	return all
}

// joinHub has a person's machine join.
func (x *testTeam) joinHub(u *chat.User, space string) gchat.JoinResponse {
	x.Helper()
	status, j := x.useCode(0, x.joinCode(u, space), u.Name)
	kit.Equalf(x, status, http.StatusOK, "join")
	return j
}

func messageID(j gchat.JoinResponse, n int) string {
	return fmt.Sprintf("client-%s-%040d", j.Machine, n)
}

func createMessage(j gchat.JoinResponse, n int) string {
	return "POST /v1/" + j.Space + "/messages?messageId=" + messageID(j, n) + "&requestId=" +
		messageID(j, n)
}
