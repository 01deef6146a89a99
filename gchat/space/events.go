package space

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
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
	ackWithin  = 10 * time.Second // then an event comes again
	pullWait   = 15 * time.Second // how long a pull waits where there is none
	eventAge   = 24 * time.Hour   // an older event is dropped: no app would use it
	mostQueued = 10_000           // beyond that, the page is told that its message was not taken
	// at most from one call of Options.Said to the next for events that wait
	remindAge = 10 * time.Minute
)

// queued is an event of the subscription. It is kept until the app acknowledges it.
type queued struct {
	kept
	ack   string    // of its last delivery
	until time.Time // it is not delivered again before
}

// kept is a line of the file of events: an event, or what was acknowledged.
type kept struct {
	ID   string          `json:"id,omitempty"`
	At   time.Time       `json:"at,omitzero"`
	Data json.RawMessage `json:"data,omitempty"`
	Done []string        `json:"done,omitempty"`
	// Rows is how many rows there were. A person's message behind them was told to no
	// app: the process was killed in between.
	Rows int `json:"rows"`
}

// event is what a person did, as a classic Chat app is told. The caller holds the lock.
func (s *Space) event(kind string, user *chat.User, m *chat.Message) *chat.DeprecatedEvent {
	u := *cmp.Or(user, Person())
	u.Type = "HUMAN"
	return &chat.DeprecatedEvent{
		Type: kind, EventTime: s.tick().Format(time.RFC3339Nano), User: &u, Space: s.resource(), Message: m, Thread: m.Thread,
	}
}

// tell puts an event into the subscription, where there is an app. An id that is there
// already, or was, does nothing; "" is a new one. The caller holds the lock.
func (s *Space) tell(id string, e *chat.DeprecatedEvent) error {
	if !s.hasApp {
		return nil
	}
	now := s.now().UTC()
	s.queue = slices.DeleteFunc(s.queue, func(q *queued) bool { return now.Sub(q.At) > eventAge })
	if len(s.queue) >= mostQueued {
		return errors.New("too many messages wait for gchat-hooks, which does not fetch them")
	}
	data, _ := json.Marshal(e) // it is made of what was decoded
	q := &queued{kept: kept{ID: cmp.Or(id, randomID()), At: now, Data: data, Rows: len(s.rows)}}
	if err := s.keepEvent(q.kept); err != nil {
		return err
	}
	s.queue = append(s.queue, q)
	s.wake()
	s.remind()
	return nil
}

// keepEvent writes a line of the file of events. The caller holds the lock.
func (s *Space) keepEvent(line kept) error {
	if s.store == nil {
		return nil
	}
	return s.store.events.append(line)
}

// remind calls Said now, and again while events wait that no app acknowledges: the
// process that is to fetch them may have been killed. The caller holds the lock.
func (s *Space) remind() {
	if s.reminds {
		return
	}
	s.reminds = true
	go func() {
		for pause := ackWithin; ; pause = min(2*pause, remindAge) {
			s.said(true)
			select {
			case <-time.After(pause):
			case <-s.done:
				return
			}
			s.mu.Lock()
			s.reminds = len(s.queue) > 0
			goesOn := s.reminds
			s.mu.Unlock()
			if !goesOn {
				return
			}
		}
	}()
}

// loadEvents takes up the events that no app acknowledged, and tells of messages that
// none was told of.
func (s *Space) loadEvents(lines []*kept) {
	told := len(s.rows) // a space of an earlier version has no events
	if len(lines) > 0 {
		told = 0
	}
	for _, line := range lines {
		told = max(told, line.Rows)
		s.queue = slices.DeleteFunc(
			s.queue,
			func(q *queued) bool { return slices.Contains(line.Done, q.ID) },
		)
		if line.ID != "" {
			s.queue = append(s.queue, &queued{kept: *line})
		}
	}
	for _, r := range s.rows[min(told, len(s.rows)):] {
		if !r.Patch && r.Message.Sender.Type == "HUMAN" {
			s.tellApp(r.Message)
		}
	}
	if len(s.queue) > 0 {
		s.remind()
	}
}

// tellApp puts what a person wrote into the subscription, where an app hears it: in a
// direct message all, in a space what mentions the app. The caller holds the lock.
func (s *Space) tellApp(m *chat.Message) {
	said, mentioned := strings.CutPrefix(m.Text, "@gchat-hooks")
	if mentioned && (said == "" || strings.ContainsAny(said[:1], " \n\t,:")) {
		heard := *m
		heard.ArgumentText = said
		m = &heard
	} else if !s.direct {
		return
	}
	// Where it cannot be kept, it is told of when the space is opened again.
	_ = s.tell("message:"+m.Name, s.event("MESSAGE", m.Sender, m))
}

// callSubscription is projects.subscriptions.pull, acknowledge and testIamPermissions,
// for the space's own app.
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
		return struct{}{}, s.acknowledge(in.AckIDs)
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
		s.hasApp = true
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
			m := &pubsub.PubsubMessage{MessageId: q.ID, PublishTime: q.At.Format(time.RFC3339Nano)}
			m.Data = base64.StdEncoding.EncodeToString(q.Data)
			answer.ReceivedMessages = append(
				answer.ReceivedMessages,
				&pubsub.ReceivedMessage{AckId: q.ack, Message: m},
			)
		}
	}
	return answer
}

// acknowledge takes events out of the queue. One that was delivered again meanwhile
// stays.
func (s *Space) acknowledge(acks []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := kept{Rows: len(s.rows)}
	var left []*queued
	for _, q := range s.queue {
		if slices.Contains(acks, q.ack) {
			done.Done = append(done.Done, q.ID)
			continue
		}
		left = append(left, q)
	}
	if len(done.Done) == 0 {
		return nil
	}
	if len(left) == 0 && s.store != nil {
		done.Done = nil
		if err := s.store.events.empty(); err != nil {
			return err
		}
	}
	if err := s.keepEvent(done); err != nil {
		return err
	}
	s.queue = left
	return nil
}
