package space

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"
)

// Subscription is the name by which a Chat app pulls what people do here.
const Subscription = "projects/local/subscriptions/local"

const (
	ackWithin = 10 * time.Second // then an event comes again
	pullWait  = 15 * time.Second // how long a pull waits where there is none
)

// queued is an event of the subscription, which is kept in memory: an app is here in the demo and in tests only.
type queued struct {
	id    string
	data  json.RawMessage
	at    time.Time
	ack   string    // of its last delivery
	until time.Time // it is not delivered again before
}

// event is what a person did, as a classic Chat app is told. The caller holds the lock.
func (s *Space) event(kind string, user *chat.User, m *chat.Message) *chat.DeprecatedEvent {
	u := *cmp.Or(user, Person())
	u.Type = "HUMAN"
	return &chat.DeprecatedEvent{
		Type: kind, EventTime: s.tick().Format(time.RFC3339Nano), User: &u, Space: s.resource(), Message: m, Thread: m.Thread,
	}
}

// tell puts an event into the subscription, where there is an app. The caller holds the lock.
func (s *Space) tell(e *chat.DeprecatedEvent) {
	if s.hasApp {
		data, _ := json.Marshal(e) // it is made of what was decoded
		s.queue = append(s.queue, &queued{id: randomID(), data: data, at: s.now().UTC()})
		s.wake()
	}
}

// tellApp puts what a person wrote into the subscription, where an app hears it: in a direct message all, in a space what
// mentions the app. The caller holds the lock.
func (s *Space) tellApp(m *chat.Message) {
	said, mentioned := strings.CutPrefix(m.Text, "@gchat-hooks")
	if mentioned && (said == "" || strings.ContainsAny(said[:1], " \n\t,:")) {
		heard := *m
		heard.ArgumentText = said
		m = &heard
	} else if !s.direct {
		return
	}
	s.tell(s.event("MESSAGE", m.Sender, m))
}

// callSubscription is projects.subscriptions.pull, acknowledge and testIamPermissions, for the space's own app.
func (s *Space) callSubscription(r *http.Request) (any, error) {
	if !fromApp(r) {
		return nil, unauthenticated("Request is missing required authentication credential.")
	}
	_, call, _ := strings.Cut(r.PathValue("subscription"), ":") // one queue, whatever it is called
	var in struct {
		MaxMessages int      `json:"maxMessages"`
		Permissions []string `json:"permissions"`
		AckIDs      []string `json:"ackIds"`
	}
	switch err := decode(r, &in); {
	case err != nil:
		return nil, err
	case call == "acknowledge":
		s.acknowledge(in.AckIDs)
		return struct{}{}, nil
	case call == "testIamPermissions":
		return map[string][]string{"permissions": in.Permissions}, nil
	case call == "pull" && in.MaxMessages > 0:
		return s.pull(r, in.MaxMessages), nil
	}
	return nil, invalid("There is no such call, or maxMessages is not positive.")
}

// pull waits until there is an event, and gives those that there are.
func (s *Space) pull(r *http.Request, most int) *pubsub.PullResponse {
	end := time.After(pullWait)
	for {
		s.mu.Lock()
		answer, changed := s.take(most), s.changed
		s.mu.Unlock()
		if len(answer.ReceivedMessages) > 0 {
			return answer
		}
		select {
		case <-changed:
		case <-time.After(time.Second): // an event may be due again
		case <-end:
			return answer
		case <-r.Context().Done():
			return answer
		case <-s.done:
			return answer
		}
	}
}

// take gives events out. The caller holds the lock.
func (s *Space) take(most int) *pubsub.PullResponse {
	answer, now := &pubsub.PullResponse{}, s.now()
	for _, q := range s.queue {
		if len(answer.ReceivedMessages) < most && !now.Before(q.until) {
			q.ack, q.until = randomID(), now.Add(ackWithin)
			m := &pubsub.PubsubMessage{MessageId: q.id, PublishTime: q.at.Format(time.RFC3339Nano)}
			m.Data = base64.StdEncoding.EncodeToString(q.data)
			answer.ReceivedMessages = append(answer.ReceivedMessages, &pubsub.ReceivedMessage{AckId: q.ack, Message: m})
		}
	}
	return answer
}

// acknowledge takes events out of the queue. One that was delivered again meanwhile stays.
func (s *Space) acknowledge(acks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(q *queued) bool { return slices.Contains(acks, q.ack) })
}
