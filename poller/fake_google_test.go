package poller

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	chatapi "google.golang.org/api/chat/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

const (
	appTopic        = "projects/p/topics/t"
	appSubscription = "projects/p/subscriptions/s"
	appSpace        = "spaces/DM"
)

// fakeGoogle is Chat as an app sees it, with Google's own fake of Pub/Sub behind the REST
// methods that an app calls.
type fakeGoogle struct {
	t            testing.TB
	url          string
	pubsubServer *pstest.Server
	subscriber   pubsubpb.SubscriberClient
	spaceType    string // of the space

	postGate        chan struct{}      // nil, or what the answers to posts wait for
	isListForbidden bool               // the app may not list it
	humanMessages   []*chatapi.Message // what people wrote in it

	mu                 sync.Mutex
	messageCount       int
	posts              []*chatapi.Message
	patched            map[string][]*chatapi.Message // by message
	unexpectedRequests []string                      // requests that the app makes none of

	retryAfter   atomic.Int64 // the seconds that changes of messages are refused with; 0 for none
	refusedCount atomic.Int64 // changes that were
	onPatch      func()       // called before a message is changed
	hidesPosts   atomic.Bool  // what was posted is not found yet, and is not posted again
	losesAcks    atomic.Bool  // acknowledgements are lost
	lostAcks     atomic.Int64 // acknowledgements that were
	listCount    atomic.Int64 // list requests that came
}

func newFakeGoogle(t testing.TB) *fakeGoogle {
	t.Helper()
	g := &fakeGoogle{
		t: t, pubsubServer: pstest.NewServer(), spaceType: "DIRECT_MESSAGE",
		patched: map[string][]*chatapi.Message{},
	}
	conn, err := grpc.NewClient(g.pubsubServer.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	kit.NoError(t, err)
	g.subscriber = pubsubpb.NewSubscriberClient(conn)
	topic := &pubsubpb.Topic{Name: appTopic}
	_, err = pubsubpb.NewPublisherClient(conn).CreateTopic(t.Context(), topic)
	kit.NoError(t, err)
	g.subscribe(appSubscription)
	server := httptest.NewServer(strict.CheckRequests(t, http.HandlerFunc(g.serve),
		strict.DirectMessage))
	g.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		conn.Close()
		g.pubsubServer.Close()
	})
	return g
}

func (g *fakeGoogle) subscribe(name string) {
	g.t.Helper()
	one := &pubsubpb.Subscription{Name: name, Topic: appTopic, AckDeadlineSeconds: 10}
	_, err := g.subscriber.CreateSubscription(g.t.Context(), one)
	kit.NoError(g.t, err)
}

// serve answers the requests of an app.
func (g *fakeGoogle) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	subscription, called, _ := strings.Cut(path, ":")
	answer := func(v any, err error) {
		b, _ := json.Marshal(v)
		if m, ok := v.(proto.Message); ok && err == nil {
			b, err = protojson.Marshal(m)
		}
		if err != nil {
			http.Error(w, `{"error":{"code":503,"message":"`+err.Error()+`"}}`,
				http.StatusServiceUnavailable)
			return
		}
		w.Write(b)
	}
	refuse := func(code int, status, message string) {
		answerWithError(code, status, message)("", w, nil)
	}
	switch {
	case called == "pull":
		in := &pubsubpb.PullRequest{}
		_ = protojson.Unmarshal(body, in)
		in.Subscription = subscription
		answer(g.subscriber.Pull(r.Context(), in))
	case called == "acknowledge":
		in := &pubsubpb.AcknowledgeRequest{}
		_ = protojson.Unmarshal(body, in)
		in.Subscription = subscription
		if g.losesAcks.Load() {
			g.lostAcks.Add(1)
			answer(nil, fmt.Errorf("lost"))
			return
		}
		answer(g.subscriber.Acknowledge(r.Context(), in))
	case path == appSpace:
		answer(&chatapi.Space{Name: appSpace, SpaceType: g.spaceType}, nil)
	case path == appSpace+"/messages" && r.Method == http.MethodPost:
		id := r.URL.Query().Get("messageId")
		if g.hidesPosts.Load() && g.message("/"+id).Name != "" {
			refuse(409, "ALREADY_EXISTS", "it is there")
			return
		}
		m := g.post(body, id)
		if g.postGate != nil {
			<-g.postGate
		}
		answer(m, nil)
	case strings.HasPrefix(path, appSpace+"/messages/") && r.Method == http.MethodPatch:
		if seconds := g.retryAfter.Load(); seconds > 0 {
			g.refusedCount.Add(1)
			w.Header().Set("Retry-After", fmt.Sprint(seconds))
			refuse(429, "RESOURCE_EXHAUSTED", "too many")
			return
		}
		if g.onPatch != nil {
			g.onPatch()
		}
		m := &chatapi.Message{}
		_ = json.Unmarshal(body, m)
		was := g.message(path)
		if was.Name == "" {
			refuse(404, "NOT_FOUND", "no such message")
			return
		}
		m.Name, m.ClientAssignedMessageId = was.Name, was.ClientAssignedMessageId
		g.mu.Lock()
		g.patched[m.Name] = append(g.patched[m.Name], m)
		g.mu.Unlock()
		answer(m, nil)
	case strings.HasPrefix(path, appSpace+"/messages/") && r.Method == http.MethodGet:
		m := g.message(path)
		if strings.Contains(path, "secret") {
			refuse(403, "PERMISSION_DENIED", "of a person's")
			return
		}
		if m.Name == "" || g.hidesPosts.Load() {
			refuse(404, "NOT_FOUND", "no such message")
			return
		}
		answer(m, nil)
	case path == appSpace+"/messages":
		g.listCount.Add(1)
		if g.isListForbidden {
			refuse(403, "PERMISSION_DENIED", "insufficient scopes")
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		answer(&chatapi.ListMessagesResponse{Messages: g.humanMessages}, nil)
	default:
		g.mu.Lock()
		g.unexpectedRequests = append(g.unexpectedRequests, r.Method+" "+r.URL.Path)
		g.mu.Unlock()
		http.NotFound(w, r)
	}
}

// post stores a message, only one for an id.
func (g *fakeGoogle) post(body []byte, id string) *chatapi.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &chatapi.Message{}
	_ = json.Unmarshal(body, m)
	for _, was := range g.posts {
		if id != "" && was.ClientAssignedMessageId == id {
			return was
		}
	}
	n := fmt.Sprint(len(g.posts))
	m.ClientAssignedMessageId, m.CreateTime = id, time.Now().UTC().Format(time.RFC3339Nano)
	m.ThreadReply = m.Thread != nil && m.Thread.Name != ""
	if !m.ThreadReply {
		m.Thread = &chatapi.Thread{Name: appSpace + "/threads/m" + n}
	}
	_, thread, _ := strings.Cut(m.Thread.Name, "/threads/")
	m.Name = appSpace + "/messages/" + thread + ".m" + n
	g.posts = append(g.posts, m)
	return m
}

// message returns a message as it is at present. The name may end with the id that it was
// posted with.
func (g *fakeGoogle) message(name string) *chatapi.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.posts {
		if m.Name != name && !strings.HasSuffix(name, "/"+m.ClientAssignedMessageId) {
			continue
		}
		if all := g.patched[m.Name]; len(all) > 0 {
			return all[len(all)-1]
		}
		return m
	}
	return &chatapi.Message{}
}

// awaitPost waits for a message whose text or fallback text contains a text.
func (g *fakeGoogle) awaitPost(text string) (found *chatapi.Message) {
	g.t.Helper()
	bound.Until(g.t, "a message "+text, func() bool {
		for _, m := range g.messages(text) {
			found = m
		}
		return found != nil
	})
	return found
}

// messages returns the messages whose text or fallback text contains a text.
func (g *fakeGoogle) messages(text string) []*chatapi.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.posts), func(m *chatapi.Message) bool {
		return !strings.Contains(m.Text+m.FallbackText, text)
	})
}

// newEvent returns the event that Google publishes for a tap or a message.
func newEvent(kind, user string, m *chatapi.Message) *chatapi.DeprecatedEvent {
	return &chatapi.DeprecatedEvent{
		Type: kind, EventTime: time.Now().UTC().Format(time.RFC3339Nano), Message: m,
		Thread: m.Thread,
		User: &chatapi.User{
			Name: user, Type: "HUMAN", DisplayName: "Ann", Email: "ann@example.com",
		},
		Space: &chatapi.Space{Name: appSpace, SpaceType: "DIRECT_MESSAGE"},
	}
}

func (g *fakeGoogle) tap(user string, m *chatapi.Message, question, choice string,
	inputs map[string]string) string {
	e := newEvent("CARD_CLICKED", user, m)
	e.Action = &chatapi.FormAction{ActionMethodName: "gchat-hooks",
		Parameters: []*chatapi.ActionParameter{
			{Key: "question", Value: question}, {Key: "choice", Value: choice},
		}}
	e.Common = &chatapi.CommonEventObject{FormInputs: map[string]chatapi.Inputs{}}
	for name, value := range inputs {
		e.Common.FormInputs[name] = chatapi.Inputs{
			StringInputs: &chatapi.StringInputs{Value: []string{value}},
		}
	}
	return g.publish(e)
}

func (g *fakeGoogle) publish(e *chatapi.DeprecatedEvent) string {
	return g.pubsubServer.Publish(appTopic, kit.JSON(g.t, e), nil)
}

// countUnacknowledged returns how many published events are not acknowledged.
func (g *fakeGoogle) countUnacknowledged() (n int) {
	for _, m := range g.pubsubServer.Messages() {
		if m.Acks == 0 {
			n++
		}
	}
	return n
}

// newAppMachine returns a machine that uses a Chat app.
func newAppMachine(t testing.TB) (*testMachine, *fakeGoogle) {
	t.Helper()
	g := newFakeGoogle(t)
	return g.newMachine(appSubscription), g
}

// newMachine returns a machine that gets the app's events from a subscription.
func (g *fakeGoogle) newMachine(subscription string) *testMachine {
	g.t.Helper()
	d := newTestMachine(g.t)
	delete(d.vars, "GOOGLE_CHAT_WEBHOOK_URL")
	for name, value := range map[string]string{
		"GOOGLE_CHAT_SPACE_ID": appSpace, "GCHAT_PUBSUB_SUBSCRIPTION": subscription,
		"GCHAT_API_ENDPOINT":    g.url,
		"GCHAT_PUBSUB_ENDPOINT": g.url, "GCHAT_ALLOWED_USERS": "users/1,users/2",
		"GCHAT_APPROVERS": "users/1",
	} {
		d.vars[name] = value
	}
	return d
}

// addHumanMessage adds a message of a person; quotes names a message that it quotes.
func (g *fakeGoogle) addHumanMessage(thread, text, quotes string) *chatapi.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.messageCount++
	m := &chatapi.Message{
		Name: fmt.Sprintf("%s/messages/human%d", appSpace, g.messageCount), Text: text,
		Thread:     &chatapi.Thread{Name: thread},
		Sender:     &chatapi.User{Name: "users/1", Type: "HUMAN"},
		CreateTime: time.Now().UTC().Format(time.RFC3339Nano),
	}
	if quotes != "" {
		m.QuotedMessageMetadata = &chatapi.QuotedMessageMetadata{Name: quotes}
	}
	return m
}

const otherSubscription = "projects/p/subscriptions/other"

// newSecondMachine returns a second machine that uses the app.
func (g *fakeGoogle) newSecondMachine() *testMachine {
	g.t.Helper()
	g.subscribe(otherSubscription)
	d := g.newMachine(otherSubscription)
	d.questionCount = 100 // its questions are others
	return d
}

// buttonCardID returns the id in the first button of a card.
func buttonCardID(t testing.TB, m *chatapi.Message) string {
	t.Helper()
	for _, s := range m.CardsV2[0].Card.Sections {
		for _, w := range s.Widgets {
			if w.ButtonList != nil {
				return w.ButtonList.Buttons[0].OnClick.Action.Parameters[0].Value
			}
		}
	}
	t.Fatal("the card has no button")
	return ""
}

// countMessages returns how many messages contain a text.
func (g *fakeGoogle) countMessages(text string) int { return len(g.messages(text)) }

// addCardQuestion adds a question that is posted, and returns the id in its buttons.
func (d *testMachine) addCardQuestion(change func(*state.Question)) (*state.Question, string) {
	q := d.addQuestion(change)
	return q, state.CardID(d.env, q.QuestionID)
}

// awaitPatch waits until a message shows this text and no button.
func (g *fakeGoogle) awaitPatch(name, text string) {
	g.t.Helper()
	var b []byte
	changed := bound.WaitFor(bound.Patience, func() bool {
		m := g.message(name)
		b, _ = m.MarshalJSON()
		return strings.Contains(string(b), text) && !strings.Contains(string(b), "onClick") &&
			strings.Contains(m.Text, text)
	})
	kit.Must(g.t, changed, "%s was not changed to %q: %s", name, text, b)
}

// awaitDelivered waits until a poller got an event, and awaitAcknowledged until all
// events are acknowledged.
func (g *fakeGoogle) awaitDelivered(id string) {
	g.t.Helper()
	bound.Until(g.t, "the event is delivered", func() bool {
		return g.pubsubServer.Message(id).Deliveries > 0
	})
}

func (g *fakeGoogle) awaitAcknowledged() {
	g.t.Helper()
	bound.Until(g.t, "all events are acknowledged", func() bool {
		return g.countUnacknowledged() == 0
	})
}
