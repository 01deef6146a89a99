package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
)

// What stands here from the beginning.
const (
	appTopic        = "projects/p/topics/app"
	appSubscription = "projects/p/subscriptions/app" // the app's events
	machineTopic    = "projects/p/topics/machines"
)

// fakeGoogle is Chat of several spaces with one app in them, and Google's own fake of
// Pub/Sub behind the REST methods that the app and a team's hub call. Requests are
// checked as package strict checks them.
type fakeGoogle struct {
	URL string

	t testing.TB
	*fakePubSub
	mu             sync.Mutex
	spaces         map[string]*chat.Space
	direct         map[string]string        // the app's direct message with a user
	posts          []*chat.Message          // in the order of their making
	messagesByName map[string]*chat.Message // the same, by their names
	requests       []string                 // the requests that came to Chat, without pulls
	refuse         func(*http.Request) int
	leftSpaces     map[string]bool // memberships that are over
}

// newFakeGoogle starts one that ends with the test.
func newFakeGoogle(t testing.TB) *fakeGoogle {
	t.Helper()
	g := &fakeGoogle{
		t:              t,
		fakePubSub:     newFakePubSub(t),
		spaces:         map[string]*chat.Space{},
		direct:         map[string]string{},
		messagesByName: map[string]*chat.Message{},
	}
	g.topic(t, appTopic)
	g.topic(t, machineTopic)
	g.subscribe(t,
		&pubsubpb.Subscription{Name: appSubscription, Topic: appTopic, AckDeadlineSeconds: 10})
	g.URL = kit.NewServer(t, strict.CheckRequests(t, g, strict.OtherThreads)).URL
	return g
}

// person is a user of Chat.
func person(n int, email string) *chat.User {
	return &chat.User{
		Name: fmt.Sprintf("users/%d", n), Type: "HUMAN", Email: email, DisplayName: email,
	}
}

// AddDirectMessage makes the app's direct message with a user.
func (g *fakeGoogle) AddDirectMessage(u *chat.User) (space string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	space = "spaces/dm" + strings.TrimPrefix(u.Name, "users/")
	g.spaces[space] = &chat.Space{Name: space, SpaceType: "DIRECT_MESSAGE", SingleUserBotDm: true}
	g.direct[u.Name] = space
	return space
}

// AddSpace makes a named space that the app is in.
func (g *fakeGoogle) AddSpace(name string) (space string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spaces["spaces/"+name] = &chat.Space{
		Name: "spaces/" + name, SpaceType: "SPACE", DisplayName: name,
	}
	return "spaces/" + name
}

// Refuse has requests to Chat answered with a code for which it is not 0; nil ends that.
func (g *fakeGoogle) Refuse(status func(*http.Request) int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = status
}

// ServeHTTP answers what strict.CheckRequests lets through.
func (g *fakeGoogle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if strings.HasPrefix(path, "projects/") {
		g.fakePubSub.serve(w, r, path, body)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r.Method+" "+path)
	code, answer := http.StatusNotFound, any(nil)
	if g.refuse != nil && g.refuse(r) != 0 {
		code = g.refuse(r)
	} else {
		code, answer = g.call(r, path, body)
	}
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "7")
	}
	if answer == nil {
		fail(w, code, "as the test wants")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// call is one of Chat's methods. The caller holds the lock.
func (g *fakeGoogle) call(r *http.Request, path string, body []byte) (code int, answer any) {
	space := strings.Join(strings.SplitN(path, "/", 3)[:min(2, strings.Count(path, "/")+1)], "/")
	in := &chat.Message{}
	_ = json.Unmarshal(body, in)
	switch {
	case path == "spaces:findDirectMessage":
		space = g.direct[r.URL.Query().Get("name")]
		if g.spaces[space] == nil {
			return http.StatusNotFound, nil
		}
		return 0, g.spaces[space]
	case g.spaces[space] == nil:
		return http.StatusForbidden, nil
	case path == space:
		return 0, g.spaces[space]
	case strings.HasPrefix(path, space+"/members/"):
		state := "JOINED"
		if g.leftSpaces[path] {
			state = "NOT_A_MEMBER"
		}
		return 0, &chat.Membership{Name: path, State: state}
	case path == space+"/messages" && r.Method == http.MethodPost:
		id := r.URL.Query().Get("messageId")
		if id != "" && g.message(space+"/messages/"+id) != nil {
			return http.StatusConflict, nil
		}
		in.ClientAssignedMessageId, in.Sender = id, &chat.User{Name: "users/app", Type: "BOT"}
		return 0, g.addMessage(space, in)
	case r.Method == http.MethodGet && g.message(path) != nil:
		return 0, g.message(path)
	case r.Method == http.MethodPatch && g.message(path) != nil:
		m := g.message(path)
		if mask := r.URL.Query().Get("updateMask"); strings.Contains(mask, "cardsV2") {
			m.CardsV2 = in.CardsV2
		}
		m.Text = in.Text
		return 0, m
	}
	return http.StatusNotFound, nil
}

// addMessage gives a new message its name and its thread. The caller holds the lock.
func (g *fakeGoogle) addMessage(space string, m *chat.Message) *chat.Message {
	id := fmt.Sprintf("T%d", len(g.posts))
	m.Name = space + "/messages/" + id + "." + id
	m.CreateTime = time.Now().UTC().Format(time.RFC3339Nano)
	t := m.Thread
	m.Thread = &chat.Thread{Name: space + "/threads/" + id}
	if t != nil {
		m.Thread.ThreadKey = t.ThreadKey
		i := slices.IndexFunc(g.posts, func(o *chat.Message) bool {
			return o.Thread.Name == t.Name ||
				t.ThreadKey != "" && o.Thread.ThreadKey == t.ThreadKey &&
					strings.HasPrefix(o.Name, space+"/")
		})
		if i >= 0 {
			m.Thread.Name, m.ThreadReply = g.posts[i].Thread.Name, true
			m.Name = space + "/messages/" + strings.TrimPrefix(m.Thread.Name, space+"/threads/") +
				"." + id
		}
	}
	g.posts = append(g.posts, m)
	g.messagesByName[m.Name] = m
	if m.ClientAssignedMessageId != "" {
		g.messagesByName[space+"/messages/"+m.ClientAssignedMessageId] = m
	}
	return m
}

// message is one by its name, or by the id that it was posted with; nil where there is
// none. The caller holds the lock.
func (g *fakeGoogle) message(name string) *chat.Message { return g.messagesByName[name] }

// Messages are copies of those in a space as they stand now.
func (g *fakeGoogle) Messages(space string) (all []*chat.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.posts {
		if strings.HasPrefix(m.Name, space+"/") {
			one := *m
			all = append(all, &one)
		}
	}
	return all
}

// Await waits for a message of the app's in a space that has all these parts, in its text
// or in its card.
func (g *fakeGoogle) Await(space string, parts ...string) (found *chat.Message) {
	g.t.Helper()
	bound.Until(g.t, fmt.Sprintf("a message in %s with %q", space, parts), func() bool {
		all := g.Messages(space)
		i := slices.IndexFunc(all, func(m *chat.Message) bool {
			b, _ := json.Marshal(m.CardsV2)
			is := func(w string) bool {
				return strings.Contains(m.Text+m.FallbackText+string(b),
					w)
			}
			return m.Sender.Type == "BOT" &&
				!slices.ContainsFunc(parts, func(w string) bool { return !is(w) })
		})
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// Say has a user write into a space, as a reply to a message where one is given. In a
// named space the app hears it mentioned.
func (g *fakeGoogle) Say(u *chat.User, space string, to *chat.Message, text string) *chat.Message {
	g.t.Helper()
	g.mu.Lock()
	m := &chat.Message{Text: text, ArgumentText: text, Sender: u}
	if to != nil {
		m.Thread = &chat.Thread{Name: to.Thread.Name}
	}
	m = g.addMessage(space, m)
	e := g.event("MESSAGE", u, m)
	g.mu.Unlock()
	g.Publish(g.t, appTopic, e)
	return m
}

// joinLine has a person write join to the app, in a named space or in their direct
// message, and gives the line to paste that came into that direct message.
func (g *fakeGoogle) joinLine(u *chat.User, space string) (line, code string) {
	g.t.Helper()
	direct := g.AddDirectMessage(u)
	before := len(g.Messages(direct))
	g.Say(u, max(space, direct), nil, " Join ")
	bound.Until(g.t, "the line to paste", func() bool {
		for _, m := range g.Messages(direct)[before:] {
			_, line, _ = strings.Cut(m.Text, "```\n")
			code = codeIn(m.Text)
		}
		return strings.HasPrefix(line, "gchat-hooks setup --hub ") && code != ""
	})
	line, _, _ = strings.Cut(line, "\n")
	if strings.Contains(line, code) {
		g.t.Errorf("the command line has the code: %s", line)
	}
	return line, code
}

// codeIntro stands before the code in the app's answer to the word join.
const codeIntro = "It asks for this code:\n```\n"

// codeIn is the code in such an answer; "" where there is none.
func codeIn(answer string) string {
	_, code, _ := strings.Cut(answer, codeIntro)
	code, _, _ = strings.Cut(code, "\n")
	return code
}

// Tap has a user tap the button of a message's card that carries a choice, with what its
// fields hold. It is false where the card has no such button.
func (g *fakeGoogle) Tap(u *chat.User, m *chat.Message, choice string,
	inputs map[string]string) bool {
	g.t.Helper()
	g.mu.Lock()
	m = g.message(m.Name)
	g.mu.Unlock()
	return g.tap(u, m, choice, inputs)
}

// TapOn has a user tap a card as a program made it up.
func (g *fakeGoogle) TapOn(u *chat.User, m *chat.Message,
	choice string) {
	g.tap(u, m, choice, nil)
}

func (g *fakeGoogle) tap(u *chat.User, m *chat.Message, choice string,
	inputs map[string]string) bool {
	g.t.Helper()
	g.mu.Lock()
	parameters := parametersOf(m, choice)
	e := g.event("CARD_CLICKED", u, m)
	g.mu.Unlock()
	if parameters == nil {
		return false
	}
	e.Common = &chat.CommonEventObject{
		InvokedFunction: "gchat-hooks",
		Parameters:      parameters,
		FormInputs:      map[string]chat.Inputs{},
	}
	for name, value := range inputs {
		e.Common.FormInputs[name] = chat.Inputs{
			StringInputs: &chat.StringInputs{Value: []string{value}},
		}
	}
	g.Publish(g.t, appTopic, e)
	return true
}

// parametersOf are what the button of a card with that choice carries.
func parametersOf(m *chat.Message, choice string) map[string]string {
	for _, card := range m.CardsV2 {
		for _, s := range card.Card.Sections {
			for _, w := range s.Widgets {
				if w.ButtonList == nil {
					continue
				}
				for _, b := range w.ButtonList.Buttons {
					carries := map[string]string{}
					for _, p := range b.OnClick.Action.Parameters {
						carries[p.Key] = p.Value
					}
					if carries["choice"] == choice {
						return carries
					}
				}
			}
		}
	}
	return nil
}

// event is what Chat publishes. The caller holds the lock.
func (g *fakeGoogle) event(kind string, u *chat.User, m *chat.Message) *chat.DeprecatedEvent {
	space, _, _ := strings.Cut(m.Name, "/messages/")
	return &chat.DeprecatedEvent{
		Type:      kind,
		EventTime: time.Now().UTC().Format(time.RFC3339Nano),
		User:      u,
		Space:     g.spaces[space],
		Message:   m,
		Thread:    m.Thread,
	}
}

// Requests are the requests that came to Chat, as "POST spaces/S/messages".
func (g *fakeGoogle) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}
