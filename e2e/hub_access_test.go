package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/hub"
)

// A machine reaches its own spaces, messages and subscription, and nothing else.
func TestHubAccess_OnlyItsOwn(t *testing.T) {
	x := newTestTeam(t)
	room := x.AddSpace("room")
	a, b := x.joinHub(ann, room), x.joinHub(bob, room)
	text := &chat.Message{Text: "hello", Thread: &chat.Thread{ThreadKey: "k"}}
	var posted chat.Message
	const reply = "&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
	got := x.request(0, a.Token, createMessage(a, 1)+reply, text, &posted)
	kit.Must(t, got == http.StatusOK && posted.ClientAssignedMessageId == messageID(a, 1),
		"post: %d, %+v", got, posted)
	var bobs chat.Message
	got = x.request(0, b.Token, createMessage(b, 1)+reply, text, &bobs)
	kit.True(t, got == http.StatusOK && bobs.Thread.Name != posted.Thread.Name,
		"two machines have one thread of a key: %d", got)
	own := room + "/messages/" + messageID(a, 1)
	const mask = "?updateMask=text"
	for request, want := range map[string]int{
		createMessage(a, 1): http.StatusConflict, // Google's, as it is
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) + "&requestId=" +
			messageID(b, 1): http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=" +
			messageID(b, 2): http.StatusForbidden,
		"POST /v1/" + room + "/messages": http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=client-" + a.Machine +
			"-": http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=client-" + a.Machine +
			"-A": http.StatusForbidden,
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) + "&messageId=" +
			messageID(b, 2): http.StatusBadRequest,
		"POST /v1/" + room + "/messages?messageId=" + messageID(a, 2) +
			"&threadKey=x": http.StatusBadRequest,
		"POST /v1/spaces/dm2/messages?messageId=" +
			messageID(a, 2): http.StatusForbidden,
		"POST /v1/spaces/dm1%2F..%2Fdm2/messages?messageId=" +
			messageID(a, 2): http.StatusForbidden,
		"PATCH /v1/" + own + mask: http.StatusOK,
		"PATCH /v1/" + posted.Name +
			mask: http.StatusForbidden,
		"PATCH /v1/" + bobs.Name +
			mask: http.StatusForbidden,
		"PATCH /v1/" + room + "/messages/" + messageID(b, 1) +
			mask: http.StatusForbidden,
		"PATCH /v1/" + own + mask +
			"&allowMissing=true": http.StatusBadRequest,
		"PATCH /v1/" + room + "/messages/" + messageID(a, 1) + "%2f..%2f" + messageID(b, 1) +
			mask: http.StatusForbidden,
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
		"its own":               {posted.Thread.Name, http.StatusOK},
		"a colleague's":         {bobs.Thread.Name, http.StatusBadRequest},
		"its person's":          {x.Say(ann, room, nil, "hello").Thread.Name, http.StatusOK},
		"a colleague's words":   {x.Say(bob, room, nil, "hello").Thread.Name, http.StatusBadRequest},
		"none":                  {room + "/threads/T999", http.StatusBadRequest},
		"of another space":      {"spaces/dm2/threads/T1", http.StatusBadRequest},
		"with a path in it":     {posted.Thread.Name + "/../T2", http.StatusBadRequest},
		"with another question": {posted.Thread.Name + "?x", http.StatusBadRequest},
	} {
		n := 100 + len(name)
		kit.Equalf(t, x.request(0, a.Token, createMessage(a, n)+reply, &chat.Message{
			Text: "hello", Thread: &chat.Thread{Name: c.thread},
		}, nil), c.want, "a thread, %s", name)
	}
	kit.Equalf(t,
		x.request(0, a.Token, createMessage(a, 3), strings.Repeat(" ", 256<<10)+`{"text":"x"}`,
			nil),
		http.StatusBadRequest, "a large body")
}

// What each machine of a person's may say, one does; another person's is not kept from
// saying it.
func TestHubAccess_SharedMessagePostedOnce(t *testing.T) {
	x := newTestTeam(t)
	room := x.AddSpace("room")
	post := func(j gchat.JoinResponse) int {
		id := strings.Replace(messageID(j, 7), j.Machine+"-", j.Machine+"-"+gchat.OnceMark, 1)
		return x.request(0, j.Token, "POST /v1/"+room+"/messages?messageId="+id+"&requestId="+id,
			&chat.Message{Text: "x"}, nil)
	}
	one, two, other := x.joinHub(ann, room), x.joinHub(ann, room), x.joinHub(bob, room)
	kit.Equal(t, []int{post(one), post(two), post(other)},
		[]int{http.StatusOK, http.StatusConflict, http.StatusOK})
	for _, m := range x.Messages(room) {
		if id := m.ClientAssignedMessageId; id != "" {
			patch := "PATCH /v1/" + room + "/messages/" + id + "?updateMask=text"
			kit.Equalf(t, x.request(0, one.Token, patch, m, nil), http.StatusForbidden, "%s", patch)
		}
	}
}

// A machine that is revoked is let in nowhere, and its code makes it no more.
func TestHubAccess_MachineRevoked(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, "")
	machine := x.listMachines(1)[0]
	kit.Equal(t, machine.ID, j.Machine)
	kit.Equal(t, machine.User, "users-1")
	// as though its code had ended long ago
	kit.NoError(t, x.hubs[0].Revoke(t.Context(), nil, hub.Machine{ID: j.Machine}))
	for i := range x.hubs {
		kit.Equalf(t, x.readSpace(i, j), http.StatusUnauthorized, "replica %d", i)
		kit.Equalf(t, x.renew(i, j.Token), http.StatusUnauthorized, "renewed at replica %d", i)
	}
}

// While the codes of a person's revoked machines are good, what they made stays in its
// place. All machines are revoked before the first of the codes is waited for.
func TestHubAccess_RevokedWithinCodeLifetime(t *testing.T) {
	x := newTestTeam(t)
	other := x.joinHub(ann, "")
	code := x.joinCode(ann, "")
	_, j := x.useCode(0, code, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	waits := 0
	err := x.hubs[0].Revoke(ctx, func(until time.Time) { waits++ }, x.listMachines(2)...)
	kit.Must(t, err != nil && waits == 1, "it waited %d times for a code's end: %v", waits, err)
	status, _ := x.useCode(1, code, "a")
	kit.Equalf(t, status, http.StatusConflict, "its code joins again")
	for _, j := range []gchat.JoinResponse{other, j} {
		kit.Equalf(t, x.readSpace(1, j), http.StatusUnauthorized, "machine %s", j.Machine)
	}
}

// A machine that posts without an end is stopped; others are not.
func TestHubAccess_ManyPostsRefused(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	refused := 0
	for n := range 200 {
		if x.request(0, a.Token, createMessage(a, n), &chat.Message{Text: "x"},
			nil) == http.StatusTooManyRequests {
			refused++
		}
	}
	kit.True(t, refused >= 100, "%d of 200 were refused", refused)
	kit.Equalf(t, x.request(0, b.Token, createMessage(b, 1), &chat.Message{Text: "x"}, nil),
		http.StatusOK, "the other")
}

// Google's own refusals come through; that it does not know the hub is no refusal of the
// machine.
func TestHubAccess_GooglesErrorsPassThrough(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	for google, want := range map[int]int{429: 429, 403: 403, 500: 500, 401: 503} {
		x.Refuse(func(*http.Request) int { return google })
		kit.Equalf(t,
			x.request(0, a.Token, createMessage(a, google), &chat.Message{Text: "x"}, nil), want,
			"%d becomes", google)
	}
}

// A message has text and cards. It shows nobody else's text or files in the app's name.
func TestHubAccess_TextAndCardsOnly(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, x.AddSpace("room"))
	foreign := x.Say(bob, j.Space, nil, "between us")
	body := fmt.Sprintf(`{"text":"x","TEXT":"y","attachment":[{"attachmentDataRef":{"resourceName":"1"}}],"accessoryWidgets":[{}],
		"quotedMessageMetadata":{"name":%q,"lastUpdateTime":%q},"cardsV2":[{"cardId":"c","card":{}}]}`,
		foreign.Name, foreign.CreateTime)
	patch := "PATCH /v1/" + j.Space + "/messages/" + messageID(j, 1) + "?updateMask=text,cardsV2"
	for _, request := range []string{createMessage(j, 1), patch} {
		got := x.request(0, j.Token, request, body, nil)
		kit.Must(t, got == http.StatusOK, "%s: %d", request, got)
		m := x.message(j.Space + "/messages/" + messageID(j, 1))
		more := len(m.Attachment)+len(m.AccessoryWidgets) > 0 || m.QuotedMessageMetadata != nil
		kit.True(t, m.Text == "y" && len(m.CardsV2) == 1 && !more, "%s: %+v", request, m)
	}
}

// A machine that asks without an end is stopped, before Google's quota for the whole team
// is used up.
func TestHubAccess_ManyRequestsRefused(t *testing.T) {
	x := newTestTeam(t)
	a, b := x.joinHub(ann, ""), x.joinHub(bob, "")
	for name, request := range map[string]string{
		"reads": "GET /v1/" + a.Space, "renews": "POST /hub/join",
	} {
		refused := 0
		for range 800 {
			if x.request(0, a.Token, request, struct{}{}, nil) == http.StatusTooManyRequests {
				refused++
			}
		}
		kit.True(t, refused >= 100, "it %s 800 times, and %d were refused", name, refused)
	}
	kit.Equalf(t, x.readSpace(0, b), http.StatusOK, "the other")
}

// A machine has few calls under way at once.
func TestHubAccess_ManyPullsRefused(t *testing.T) {
	x := newTestTeam(t)
	a := x.joinHub(ann, "")
	var refused atomic.Int32
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			got := x.request(0, a.Token, "POST /v1/"+a.Subscription+":pull",
				&pubsub.PullRequest{MaxMessages: 1}, nil)
			if got == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	bound.Until(t, "some are refused", func() bool { return refused.Load() >= 20 })
	x.stops[0]()
	all.Wait()
	kit.Equalf(t, x.readSpace(0, a), http.StatusOK, "after them")
}

// A pull whose body never ends is given up.
func TestHubAccess_PartialRequestGivenUp(t *testing.T) {
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
	_, err = conn.Read(answer)
	kit.True(t, err == nil && string(answer) == "HTTP/1.1 400", "%q, %v", answer, err)
}

// Who was taken out of a room has no machine there for long.
func TestHubAccess_PersonLeftTheSpace(t *testing.T) {
	x := newTestTeam(t)
	j := x.joinHub(ann, x.AddSpace("room"))
	renew := func() int { return x.renew(1, j.Token) }
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
	kit.Equalf(t, renew(), http.StatusUnauthorized,
		"renewed by one who is told to be none of its members")
}
