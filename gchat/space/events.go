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
	ackDeadline = 10 * time.Second // then an event comes again
	pullWait    = 15 * time.Second // how long a pull waits where there is none
	maxEventAge = 24 * time.Hour   // an older event is dropped: no app would use it
	// beyond that, the page is told that its message was not taken
	maxQueuedEvents = 10_000
	// at most from one call of Options.OnActivity to the next for events that wait
	maxRemindPause = 10 * time.Minute
)

// queuedEvent is an event of the subscription. It is kept until the app acknowledges it.
type queuedEvent struct {
	eventLine
	ackID       string    // of its last delivery
	hiddenUntil time.Time // it is not delivered again before
}

// eventLine is a line of the file of events: an event, or what was acknowledged.
type eventLine struct {
	ID       string          `json:"id,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Data     json.RawMessage `json:"data,omitempty"`
	AckedIDs []string        `json:"done,omitempty"`
	// Rows is how many rows there were. A person's message behind them was told to no
	// app: the process was killed in between.
	RowCount int `json:"rows"`
}

// newEvent is what a person did, as a classic Chat app is told. The caller holds the
// lock.
func (s *Space) newEvent(kind string, user *chat.User, m *chat.Message) *chat.DeprecatedEvent {
	u := *cmp.Or(user, Person())
	u.Type = "HUMAN"
	return &chat.DeprecatedEvent{
		Type: kind, EventTime: s.nextCreateTime().Format(time.RFC3339Nano), User: &u, Space: s.spaceResource(), Message: m, Thread: m.Thread,
	}
}

// enqueueEvent puts an event into the subscription, where there is an app. An id that is
// there already, or was, does nothing; "" is a new one. The caller holds the lock.
func (s *Space) enqueueEvent(id string, event *chat.DeprecatedEvent) error {
	if !s.hasApp {
		return nil
	}
	now := s.now().UTC()
	s.queue = slices.DeleteFunc(
		s.queue,
		func(q *queuedEvent) bool { return now.Sub(q.At) > maxEventAge },
	)
	if len(s.queue) >= maxQueuedEvents {
		return errors.New("too many messages wait for gchat-hooks, which does not fetch them")
	}
	data, _ := json.Marshal(event) // it is made of what was decoded
	q := &queuedEvent{
		eventLine: eventLine{
			ID:       cmp.Or(id, randomID()),
			At:       now,
			Data:     data,
			RowCount: len(s.rows),
		},
	}
	if err := s.writeEventLine(q.eventLine); err != nil {
		return err
	}
	s.queue = append(s.queue, q)
	s.wakeWaiters()
	s.startReminding()
	return nil
}

// writeEventLine writes a line of the file of events. The caller holds the lock.
func (s *Space) writeEventLine(line eventLine) error {
	if s.store == nil {
		return nil
	}
	return s.store.events.appendLine(line)
}

// startReminding calls Said now, and again while events wait that no app acknowledges:
// the process that is to fetch them may have been killed. The caller holds the lock.
func (s *Space) startReminding() {
	if s.isReminding {
		return
	}
	s.isReminding = true
	go func() {
		for pause := ackDeadline; ; pause = min(2*pause, maxRemindPause) {
			s.onActivity(true)
			select {
			case <-time.After(pause):
			case <-s.done:
				return
			}
			s.mu.Lock()
			s.isReminding = len(s.queue) > 0
			hasMore := s.isReminding
			s.mu.Unlock()
			if !hasMore {
				return
			}
		}
	}()
}

// loadEvents takes up the events that no app acknowledged, and tells of messages that
// none was told of.
func (s *Space) loadEvents(lines []*eventLine) {
	firstUnsent := len(s.rows) // a space of an earlier version has no events
	if len(lines) > 0 {
		firstUnsent = 0
	}
	for _, line := range lines {
		firstUnsent = max(firstUnsent, line.RowCount)
		s.queue = slices.DeleteFunc(
			s.queue,
			func(q *queuedEvent) bool { return slices.Contains(line.AckedIDs, q.ID) },
		)
		if line.ID != "" {
			s.queue = append(s.queue, &queuedEvent{eventLine: *line})
		}
	}
	for _, r := range s.rows[min(firstUnsent, len(s.rows)):] {
		if !r.IsPatch && r.Message.Sender.Type == "HUMAN" {
			s.enqueueMessageEvent(r.Message)
		}
	}
	if len(s.queue) > 0 {
		s.startReminding()
	}
}

// enqueueMessageEvent puts what a person wrote into the subscription, where an app hears
// it: in a direct message all, in a space what mentions the app. The caller holds the
// lock.
func (s *Space) enqueueMessageEvent(m *chat.Message) {
	text, mentioned := strings.CutPrefix(m.Text, "@gchat-hooks")
	if mentioned && (text == "" || strings.ContainsAny(text[:1], " \n\t,:")) {
		addressed := *m
		addressed.ArgumentText = text
		m = &addressed
	} else if !s.isDirect {
		return
	}
	// Where it cannot be kept, it is told of when the space is opened again.
	_ = s.enqueueEvent("message:"+m.Name, s.newEvent("MESSAGE", m.Sender, m))
}

// callSubscription is projects.subscriptions.pull, acknowledge and testIamPermissions,
// for the space's own app.
func (s *Space) callSubscription(r *http.Request) (any, error) {
	if !isFromApp(r) {
		return nil, unauthenticated("Request is missing required authentication credential.")
	}
	_, call, _ := strings.Cut(r.PathValue("subscription"), ":") // one queue, whatever it is called
	var request struct {
		MaxMessages int      `json:"maxMessages"`
		Permissions []string `json:"permissions"`
		AckIDs      []string `json:"ackIds"`
	}
	switch err := decodeBody(r, &request); {
	case err != nil:
		return nil, err
	case call == "acknowledge":
		return struct{}{}, s.acknowledge(request.AckIDs)
	case call == "testIamPermissions":
		return map[string][]string{"permissions": request.Permissions}, nil
	case call == "pull" && request.MaxMessages > 0:
		return s.pull(r, request.MaxMessages), nil
	}
	return nil, invalidArgument("There is no such call, or maxMessages is not positive.")
}

// pull waits until there is an event, and gives those that there are.
func (s *Space) pull(r *http.Request, limit int) *pubsub.PullResponse {
	timeout := time.After(pullWait)
	for {
		s.mu.Lock()
		s.hasApp = true
		response, changed := s.handOutEvents(limit), s.changed
		s.mu.Unlock()
		if len(response.ReceivedMessages) > 0 {
			return response
		}
		select {
		case <-changed:
		case <-time.After(time.Second): // an event may be due again
		case <-timeout:
			return response
		case <-r.Context().Done():
			return response
		case <-s.done:
			return response
		}
	}
}

// handOutEvents gives events out. The caller holds the lock.
func (s *Space) handOutEvents(limit int) *pubsub.PullResponse {
	response, now := &pubsub.PullResponse{}, s.now()
	for _, q := range s.queue {
		if len(response.ReceivedMessages) < limit && !now.Before(q.hiddenUntil) {
			q.ackID, q.hiddenUntil = randomID(), now.Add(ackDeadline)
			m := &pubsub.PubsubMessage{MessageId: q.ID, PublishTime: q.At.Format(time.RFC3339Nano)}
			m.Data = base64.StdEncoding.EncodeToString(q.Data)
			response.ReceivedMessages = append(
				response.ReceivedMessages,
				&pubsub.ReceivedMessage{AckId: q.ackID, Message: m},
			)
		}
	}
	return response
}

// acknowledge takes events out of the queue. One that was delivered again meanwhile
// stays.
func (s *Space) acknowledge(ackIDs []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := eventLine{RowCount: len(s.rows)}
	var remaining []*queuedEvent
	for _, q := range s.queue {
		if slices.Contains(ackIDs, q.ackID) {
			acked.AckedIDs = append(acked.AckedIDs, q.ID)
			continue
		}
		remaining = append(remaining, q)
	}
	if len(acked.AckedIDs) == 0 {
		return nil
	}
	if len(remaining) == 0 && s.store != nil {
		acked.AckedIDs = nil
		if err := s.store.events.clearFile(); err != nil {
			return err
		}
	}
	if err := s.writeEventLine(acked); err != nil {
		return err
	}
	s.queue = remaining
	return nil
}
