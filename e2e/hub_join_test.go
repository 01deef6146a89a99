package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	apioption "google.golang.org/api/option"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/hub"
)

func TestHubJoin_TokenAndPolicy(t *testing.T) {
	x := newTestTeam(t)
	code := x.joinCode(ann, "")
	_, one := x.useCode(0, code, "a")
	kit.True(t, one.User == "users/1" && one.Space == "spaces/dm1" &&
		one.Email == "ann@example.com" && len(one.Machine) == 12 && len(one.Deciders) == 0 &&
		time.Until(one.Expires) <= 24*time.Hour &&
		one.Subscription == "projects/p/subscriptions/gchat-hooks-"+one.Machine,
		"joined as %+v", one)
	_, two := x.useCode(1, code, "a")
	kit.Equalf(t, two.Machine, one.Machine, "the same again, its answer was lost")
	status, _ := x.useCode(1, code, "b")
	kit.Equalf(t, status, http.StatusConflict, "another machine with the same code")
	got := x.request(1, one.Token, "POST /hub/join", struct{}{}, &two)
	kit.True(t, got == http.StatusOK && two.Token != "" && two.Space == one.Space,
		"renewed: %d, %+v", got, two)
	var told struct {
		Policy  map[string]any
		Version string
	}
	got = x.request(0, two.Token, "GET /hub/policy", nil, &told)
	kit.True(t, got == http.StatusOK && told.Policy["titles_only"] == true &&
		told.Policy["spaces"] == nil, "policy: %d, %v", got, told)
	x.AddSpace("room")
	j := x.joinHub(bob, "spaces/room")
	kit.True(t, j.Space == "spaces/room" && len(j.Deciders) == 1, "joined in a room: %+v", j)
	checkLacks(t, x.log.String(), one.Token)
	checkLacks(t, x.log.String(), code)
}

// Who is not of the domain gets a polite no, once; and one without a direct message is
// told to write one.
func TestHubJoin_StrangersRefused(t *testing.T) {
	x := newTestTeam(t)
	dm := x.AddDirectMessage(eve)
	x.Say(eve, dm, nil, "join")
	x.Await(dm, "only people of this organisation")
	x.AddSpace("room")
	x.Say(ann, "spaces/room", nil, "join")
	x.Await("spaces/room", "direct message first")
}

// A code and a token are good for what they were signed for, until they end.
func TestHubJoin_CodesAndTokensExpire(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, "")
	claims, mac, _ := strings.Cut(j.Token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(claims)
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
		"none": "", "no token": "x", "cut": claims, "without a signature": claims + ".",
		"another key's": signedCode(other, c), "a code": signedCode(hubKey, code),
		"ended": signedCode(hubKey, ended), "other claims": strings.ToUpper(claims) + "." + mac,
	} {
		kit.Equalf(t, x.request(0, token, "GET /hub/policy", nil, nil), http.StatusUnauthorized,
			"%s", name)
	}
	// It is renewed while its subscription stands, but not as an old backup has it.
	for days, want := range map[int]int{
		0: http.StatusOK, 7: http.StatusOK, 40: http.StatusUnauthorized,
	} {
		ended.ExpiresAt = time.Now().AddDate(0, 0, -days).Add(-time.Second).Unix()
		kit.Equalf(t, x.renew(0, signedCode(hubKey, ended)), want, "ended %d days ago", days)
	}
	for name, code := range map[string]string{
		"a token":       j.Token,
		"late":          signedCode(hubKey, late),
		"another key's": signedCode(other, code),
	} {
		status, _ := x.useCode(0, code, "n")
		kit.Equalf(t, status, http.StatusUnauthorized, "code, %s", name)
	}
	status, _ := x.useCode(0, signedCode(hubKey, code), "")
	kit.Equalf(t, status, http.StatusBadRequest, "without a nonce")
}

// hangingTransport is a Chat that does not answer what is posted into a space, until over
// is closed.
type hangingTransport struct {
	space   string
	posts   atomic.Int32
	release chan struct{}
}

func (h *hangingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.Contains(r.URL.Path, h.space) {
		h.posts.Add(1)
		select {
		case <-r.Context().Done():
		case <-h.release:
		}
		return nil, context.DeadlineExceeded
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A join that cannot be answered holds up nobody else's events.
func TestHubJoin_HangingChatDelaysNobody(t *testing.T) {
	x := newTestTeam(t)
	b := x.joinHub(bob, "")
	for _, end := range x.stops { // those two hubs relay no more
		end()
	}
	room := x.AddSpace("room")
	hangs := &hangingTransport{space: room, release: make(chan struct{})}
	o := x.hubs[0].Options
	var err error
	client := &http.Client{Transport: hangs}
	o.Chat, err = chat.NewService(t.Context(), apioption.WithEndpoint(x.URL+"/"),
		apioption.WithHTTPClient(client))
	kit.NoError(t, err)
	server := httptest.NewServer(x.newRelayingHub(o).Handler())
	t.Cleanup(func() { close(hangs.release); server.Close() })
	x.urls = append(x.urls, server.URL)
	x.Say(eve, room, nil, "join")
	bound.Until(t, "the hub answers Eve", func() bool { return hangs.posts.Load() > 0 })
	x.Say(bob, b.Space, nil, "hello")
	bound.Until(t, "Bob's machine hears him", func() bool {
		return len(x.pull(2, b)) > 0
	})
}

// A code goes where only its asker reads: a direct message of two people is no such
// place. In a named space a reply is a machine's; in a direct message join is the hub's,
// in a thread, too.
func TestHubJoin_AnsweredInPrivate(t *testing.T) {
	x := newTestTeam(t)
	direct := x.AddDirectMessage(ann)
	j := x.joinHub(ann, "")
	both := x.AddSpace("both")
	x.mu.Lock()
	x.spaces[both].SpaceType = "DIRECT_MESSAGE"
	x.mu.Unlock()
	before := len(x.Messages(direct))
	x.Say(ann, both, nil, "join")
	bound.Until(t, "a code",
		func() bool { return len(x.Messages(direct))+len(x.Messages(both)) > before+1 })
	for _, m := range x.Messages(both) {
		checkLacks(t, m.Text, codeIntro) // both people would see the code of one
	}
	var greeting, question chat.Message
	x.request(0, j.Token, createMessage(j, 1), &chat.Message{Text: "Hello."}, &greeting)
	before = len(x.Messages(direct))
	x.Say(ann, direct, &greeting, "“Join.”")
	bound.Until(t, "another code", func() bool { return len(x.Messages(direct)) == before+2 })
	room := x.AddSpace("room")
	j = x.joinHub(ann, room)
	x.request(0, j.Token, createMessage(j, 1), &chat.Message{Text: "Merge or join?"}, &question)
	x.Say(ann, room, &question, "join")
	bound.Until(t, "her machine hears the answer", func() bool {
		return len(x.pull(0, j)) > 0
	})
}

// Who adds the app to a room by its mention joins by the same message: Chat tells of it
// once, as what added it.
func TestHubJoin_ByAddingTheApp(t *testing.T) {
	x := newTestTeam(t)
	direct, room := x.AddDirectMessage(ann), x.AddSpace("room")
	x.mu.Lock()
	e := x.event("ADDED_TO_SPACE", ann,
		x.addMessage(room, &chat.Message{ArgumentText: " join", Sender: ann}))
	x.mu.Unlock()
	x.Publish(t, appTopic, e)
	x.Await(direct, codeIntro)
}

// A join that Chat had no answer for is answered when it has.
func TestHubJoin_RetriedAfterError(t *testing.T) {
	t.Parallel()
	x := newTestTeam(t)
	direct := x.AddDirectMessage(ann)
	x.Refuse(func(*http.Request) int { return http.StatusInternalServerError })
	x.Say(ann, direct, nil, "join")
	bound.Until(t, "the hub tries to answer", func() bool { return len(x.Requests()) > 0 })
	x.Refuse(nil)
	x.Await(direct, codeIntro)
}
