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

// Subscription is the name of the subscription from which a Chat app pulls the events of
// what people do in the space.
const Subscription = "projects/local/subscriptions/local"

const (
	// ackDeadline is the time after which an event that was not acknowledged is delivered
	// again.
	ackDeadline = 10 * time.Second
	pullWait    = 15 * time.Second // how long a pull waits for an event
	maxEventAge = 24 * time.Hour   // an older event is dropped: no app would use it
	// maxQueuedEvents is how many events may wait. With more, the page shows an error.
	maxQueuedEvents = 10_000
	// maxRemindPause is the longest pause between two calls of Options.OnActivity while
	// events wait.
	maxRemindPause = 10 * time.Minute
)

// queuedEvent is an event of the subscription. It is kept until the app acknowledges it.
type queuedEvent struct {
	eventLine
	ackID       string    // the ack id of its last delivery
	hiddenUntil time.Time // it is not delivered again before this time
}

// eventLine is a line of the file events.jsonl: an event, or the ids of the events that
// the app acknowledged.
type eventLine struct {
	ID       string          `json:"id,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Data     json.RawMessage `json:"data,omitempty"`
	AckedIDs []string        `json:"done,omitempty"`
	// RowCount is how many rows the space had when the line was written. A person's
	// message after the rows of the last line has no event yet: the process was killed in
	// between.
	RowCount int `json:"rows"`
}

// newEvent returns the event of a person's action, in the form that a classic Chat app
// gets. The caller holds the lock.
func (s *Space) newEvent(kind string, user *chat.User, m *chat.Message) *chat.DeprecatedEvent {
	u := *cmp.Or(user, Person())
	u.Type = "HUMAN"
	return &chat.DeprecatedEvent{
		Type:      kind,
		EventTime: s.nextCreateTime().Format(time.RFC3339Nano),
		User:      &u,
		Space:     s.spaceResource(),
		Message:   m,
		Thread:    m.Thread,
	}
}

// enqueueEvent adds an event to the subscription if an app uses it. id identifies the
// event to the app; "" makes a random one. The caller holds the lock.
func (s *Space) enqueueEvent(id string, event *chat.DeprecatedEvent) error {
	if !s.hasApp {
		return nil
	}
	now := s.now().UTC()
	s.queue = slices.DeleteFunc(s.queue, func(q *queuedEvent) bool {
		return now.Sub(q.At) > maxEventAge
	})
	if len(s.queue) >= maxQueuedEvents {
		return errQueueFull
	}
	data, _ := json.Marshal(event) // it always encodes, since it was decoded from JSON
	q := &queuedEvent{eventLine: eventLine{
		ID:       cmp.Or(id, randomID()),
		At:       now,
		Data:     data,
		RowCount: len(s.rows),
	}}
	if err := s.writeEventLine(q.eventLine); err != nil {
		return err
	}
	s.queue = append(s.queue, q)
	s.wakeWaiters()
	s.startReminding()
	return nil
}

// errQueueFull is the error of an event that does not fit in the queue.
var errQueueFull = errors.New("too many messages wait: gchat-hooks does not fetch them. " +
	"gchat-hooks status says why")

// checkQueue returns an error if the app would not get a person's next message.
func (s *Space) checkQueue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.now().UTC().Add(-maxEventAge)
	isFull := len(s.queue) >= maxQueuedEvents && !s.queue[0].At.Before(oldest)
	if s.hasApp && isFull {
		return errQueueFull
	}
	return nil
}

// writeEventLine appends a line to events.jsonl. The caller holds the lock.
func (s *Space) writeEventLine(line eventLine) error {
	if s.store == nil {
		return nil
	}
	return s.store.events.appendLine(line)
}

// startReminding starts a goroutine that calls onActivity at once, and again with growing
// pauses until the app has acknowledged all events: the process that fetches them may
// have been killed. The caller holds the lock.
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

// loadEvents restores the events that the app did not acknowledge, from the lines of
// events.jsonl. It also enqueues an event for each message of a person that has none.
func (s *Space) loadEvents(lines []*eventLine) {
	firstUnsent := len(s.rows) // a space of an earlier version has no lines
	if len(lines) > 0 {
		firstUnsent = 0
	}
	for _, line := range lines {
		firstUnsent = max(firstUnsent, line.RowCount)
		s.queue = slices.DeleteFunc(s.queue, func(q *queuedEvent) bool {
			return slices.Contains(line.AckedIDs, q.ID)
		})
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

// enqueueMessageEvent adds the event of a person's message to the subscription. An app
// gets every message of a direct message with it, and in another space only those that
// mention it. The caller holds the lock.
func (s *Space) enqueueMessageEvent(m *chat.Message) {
	text, isMention := strings.CutPrefix(m.Text, "@gchat-hooks")
	if isMention && (text == "" || strings.ContainsAny(text[:1], " \n\t,:")) {
		addressed := *m
		addressed.ArgumentText = text
		m = &addressed
	} else if !s.isDirect {
		return
	}
	// If this fails, loadEvents enqueues the event when the space is next opened.
	_ = s.enqueueEvent("message:"+m.Name, s.newEvent("MESSAGE", m.Sender, m))
}

// callSubscription serves projects.subscriptions.pull, acknowledge and testIamPermissions
// for the space's own app.
func (s *Space) callSubscription(r *http.Request) (any, error) {
	if !isFromApp(r) {
		return nil, unauthenticated("Request is missing required authentication credential.")
	}
	// Every subscription name leads to the one queue.
	_, call, _ := strings.Cut(r.PathValue("subscription"), ":")
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
	return nil, invalidArgument("Unknown call, or maxMessages is not positive.")
}

// pull waits until there are events, for pullWait at most, and returns them.
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
		case <-time.After(time.Second): // an event may be past its ackDeadline
		case <-timeout:
			return response
		case <-r.Context().Done():
			return response
		case <-s.done:
			return response
		}
	}
}

// handOutEvents returns the queued events that are due, at most limit, and hides them for
// ackDeadline. The caller holds the lock.
func (s *Space) handOutEvents(limit int) *pubsub.PullResponse {
	response, now := &pubsub.PullResponse{}, s.now()
	for _, q := range s.queue {
		if len(response.ReceivedMessages) < limit && !now.Before(q.hiddenUntil) {
			q.ackID, q.hiddenUntil = randomID(), now.Add(ackDeadline)
			message := &pubsub.PubsubMessage{
				MessageId:   q.ID,
				PublishTime: q.At.Format(time.RFC3339Nano),
				Data:        base64.StdEncoding.EncodeToString(q.Data),
			}
			response.ReceivedMessages = append(response.ReceivedMessages,
				&pubsub.ReceivedMessage{AckId: q.ackID, Message: message})
		}
	}
	return response
}

// acknowledge removes events from the queue. An event that was delivered again since has
// another ack id, and stays.
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

// tap returns the message and the choice of an event that is a tap.
func (q *queuedEvent) tap() (message, choice string) {
	if !strings.HasPrefix(q.ID, "tap:") {
		return "", ""
	}
	var event chat.DeprecatedEvent
	err := json.Unmarshal(q.Data, &event)
	if err != nil || event.Message == nil || event.Common == nil {
		return "", ""
	}
	return event.Message.Name, event.Common.Parameters["choice"]
}
