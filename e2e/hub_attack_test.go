package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	apioption "google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
)

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
func TestAJoinIsNotAnswered(t *testing.T) {
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
	o.Chat, err = chat.NewService(t.Context(), apioption.WithEndpoint(x.URL+"/"), apioption.WithHTTPClient(client))
	kit.NoError(t, err)
	server := httptest.NewServer(x.newRelayingHub(o).Handler())
	t.Cleanup(func() { close(hangs.release); server.Close() })
	x.urls = append(x.urls, server.URL)
	x.Say(eve, room, nil, "join")
	bound.Until(t, "the hub answers Eve", func() bool { return hangs.posts.Load() > 0 })
	x.Say(bob, b.Space, nil, "hello")
	bound.Until(t, "Bob's machine hears him", func() bool {
		var got pubsub.PullResponse
		x.request(2, b.Token, "POST /v1/"+b.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 1}, &got)
		return len(got.ReceivedMessages) > 0
	})
}

// A code goes where only its asker reads: a direct message of two people is no such
// place. In a named space a reply is a machine's; in a direct message join is the hub's,
// in a thread, too.
func TestWhereJoinIsAnswered(t *testing.T) {
	x := newTestTeam(t)
	direct := x.AddDirectMessage(ann)
	j := x.joinHub(ann, "")
	both := x.AddSpace("both")
	x.mu.Lock()
	x.spaces[both].SpaceType = "DIRECT_MESSAGE"
	x.mu.Unlock()
	before := len(x.Messages(direct))
	x.Say(ann, both, nil, "join")
	bound.Until(t, "a code", func() bool { return len(x.Messages(direct))+len(x.Messages(both)) > before+1 })
	for _, m := range x.Messages(both) {
		if strings.Contains(m.Text, codeIntro) {
			t.Error("both people see the code of one")
		}
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
		var got pubsub.PullResponse
		x.request(0, j.Token, "POST /v1/"+j.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 1}, &got)
		return len(got.ReceivedMessages) > 0
	})
}

// All machines of a person's are revoked before the first of their codes is waited for.
func TestAPersonIsRevoked(t *testing.T) {
	x := newTestTeam(t)
	one, two := x.joinHub(ann, ""), x.joinHub(ann, "")
	all, err := x.hubs[0].ListMachines(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := x.hubs[0].Revoke(ctx, func(time.Time) {}, all...); err == nil {
		t.Error("it did not wait for the codes' end")
	}
	for _, j := range []gchat.JoinResponse{one, two} {
		kit.Equalf(t, x.request(1, j.Token, "GET /v1/"+j.Space, nil, nil), http.StatusUnauthorized, "machine %s", j.Machine)
	}
}

// A token that ended long ago, as an old backup has it, is not renewed.
func TestAnOldTokenIsNotRenewed(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, "")
	old := hub.Claims{Kind: "token", Machine: j.Machine, User: j.User, Space: j.Space, DirectSpace: j.Space}
	for days, want := range map[int]int{7: http.StatusOK, 40: http.StatusUnauthorized} {
		old.ExpiresAt = time.Now().AddDate(0, 0, -days).Unix()
		kit.Equalf(t, x.request(0, signedCode(hubKey, old), "POST /hub/join", struct{}{}, nil), want, "ended %d days ago", days)
	}
}

// A message has text and cards. It shows nobody else's words or files in the app's name.
func TestWhatAMessageIs(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, x.AddSpace("room"))
	said := x.Say(bob, j.Space, nil, "between us")
	body := fmt.Sprintf(`{"text":"x","TEXT":"y","attachment":[{"attachmentDataRef":{"resourceName":"1"}}],"accessoryWidgets":[{}],
		"quotedMessageMetadata":{"name":%q,"lastUpdateTime":%q},"cardsV2":[{"cardId":"c","card":{}}]}`,
		said.Name, said.CreateTime)
	patch := "PATCH /v1/" + j.Space + "/messages/" + messageID(j, 1) + "?updateMask=text,cardsV2"
	for _, request := range []string{createMessage(j, 1), patch} {
		if got := x.request(0, j.Token, request, body, nil); got != http.StatusOK {
			t.Fatalf("%s: %d", request, got)
		}
		m := x.message(j.Space + "/messages/" + messageID(j, 1))
		more := len(m.Attachment)+len(m.AccessoryWidgets) > 0 || m.QuotedMessageMetadata != nil
		if m.Text != "y" || len(m.CardsV2) != 1 || more {
			t.Errorf("%s: %+v", request, m)
		}
	}
}

// A machine that asks without an end is stopped, before Google's quota for the whole team
// is used up.
func TestAMachineAsksTooMuch(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	for name, request := range map[string]string{"reads": "GET /v1/" + a.Space, "renews": "POST /hub/join"} {
		refused := 0
		for range 800 {
			if x.request(0, a.Token, request, struct{}{}, nil) == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused < 100 {
			t.Errorf("it %s 800 times, and %d were refused", name, refused)
		}
	}
	kit.Equalf(t, x.request(0, b.Token, "GET /v1/"+b.Space, nil, nil), http.StatusOK, "the other")
}

// A machine has few calls under way at once.
func TestAMachinePullsTooMuch(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	var refused atomic.Int32
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			got := x.request(0, a.Token, "POST /v1/"+a.Subscription+":pull", &pubsub.PullRequest{MaxMessages: 1}, nil)
			if got == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	bound.Until(t, "some are refused", func() bool { return refused.Load() >= 20 })
	x.stops[0]()
	all.Wait()
	kit.Equalf(t, x.request(0, a.Token, "GET /v1/"+a.Space, nil, nil), http.StatusOK, "after them")
}

// A pull whose body never ends is given up.
func TestAPullIsSentInPart(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	x.Say(ann, a.Space, nil, "hello") // the pull is answered at once
	server := httptest.NewUnstartedServer(x.hubs[0].Handler())
	server.Config.ReadTimeout = time.Second
	server.Start()
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	kit.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/%s:pull HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{}",
		a.Subscription, a.Token)
	_ = conn.SetReadDeadline(time.Now().Add(bound.Patience / 2))
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 400" {
		t.Errorf("%q, %v", answer, err)
	}
}

// Who adds the app to a room by its mention joins by the same words: Chat tells of them
// once, as what added it.
func TestJoinAddsTheApp(t *testing.T) {
	x := newTestTeam(t)
	direct, room := x.AddDirectMessage(ann), x.AddSpace("room")
	x.mu.Lock()
	e := x.event("ADDED_TO_SPACE", ann, x.addMessage(room, &chat.Message{ArgumentText: " join", Sender: ann}))
	x.mu.Unlock()
	x.Publish(t, appTopic, e)
	x.Await(direct, codeIntro)
}

// Who was taken out of a room has no machine there for long.
func TestAPersonLeavesARoom(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, x.AddSpace("room"))
	renew := func() int { return x.request(1, j.Token, "POST /hub/join", struct{}{}, nil) }
	kit.Equalf(t, renew(), http.StatusOK, "renewed in the room")
	members := func(code int) func(*http.Request) int {
		return func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/room/members/1") {
				return code
			}
			return 0
		}
	}
	x.Refuse(members(http.StatusTooManyRequests))
	kit.Equalf(t, renew(), http.StatusOK, "renewed while Chat does not say who is in the room")
	x.Refuse(members(http.StatusNotFound))
	kit.Equalf(t, renew(), http.StatusUnauthorized, "renewed outside of the room")
	x.Refuse(nil)
	x.mu.Lock()
	x.leftSpaces = map[string]bool{j.Space + "/members/1": true}
	x.mu.Unlock()
	kit.Equalf(t, renew(), http.StatusUnauthorized, "renewed by one who is told to be none of its members")
}

// Replicas are killed while people join, and Chat is slow: it posts what a replica does
// not live to hear of. Each person gets one code, which joins.
func TestReplicasAreKilledWhilePeopleJoin(t *testing.T) {
	t.Parallel()
	g := newFakeGoogle(t)
	hubs := startReplicas(t, g, 2)
	g.Refuse(func(*http.Request) int { time.Sleep(20 * time.Millisecond); return 0 })
	ctx, end := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	killing.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(10+rand.IntN(60)) * time.Millisecond)
			r := hubs[rand.IntN(len(hubs))]
			r.kill()
			r.start()
		}
	})
	people := make([]*chat.User, 40)
	for i := range people {
		people[i] = person(i+1, "x@example.com")
		g.Say(people[i], g.AddDirectMessage(people[i]), nil, "join")
	}
	for _, u := range people {
		g.Await(g.AddDirectMessage(u), codeIntro)
	}
	end()
	killing.Wait()
	for _, u := range people {
		other := func(m *chat.Message) bool { return !strings.Contains(m.Text, codeIntro) }
		codes := slices.DeleteFunc(g.Messages(g.AddDirectMessage(u)), other)
		code := codeIn(codes[0].Text)
		m := &joinedMachine{hubs: hubs}
		got := m.ask(t.Context(), "POST", "/hub/join", joinRequest{Code: code, Nonce: "n"}, &m.JoinResponse)
		if got != http.StatusOK || len(codes) != 1 {
			t.Errorf("%s: %d codes, joined %d", u.Name, len(codes), got)
		}
	}
}

// A join that Chat had no answer for is answered when it has.
func TestAJoinComesAgain(t *testing.T) {
	t.Parallel()
	x := newTestTeam(t)
	direct := x.AddDirectMessage(ann)
	x.Refuse(func(*http.Request) int { return http.StatusInternalServerError })
	x.Say(ann, direct, nil, "join")
	bound.Until(t, "the hub tries to answer", func() bool { return len(x.Requests()) > 0 })
	x.Refuse(nil)
	x.Await(direct, codeIntro)
}
