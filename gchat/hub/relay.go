package hub

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// These are the attributes of an event that the hub publishes for the machines.
const (
	// spaceAttribute is the event's space. A machine's subscription filters by it.
	spaceAttribute = "space"
	// idAttribute is Pub/Sub's id of the app's event. By it a machine recognizes an event
	// that was published twice.
	idAttribute = "id"
)

const (
	// minRelayPause and maxRelayPause bound the pause after a failed round. It doubles
	// with each failure.
	minRelayPause, maxRelayPause = time.Second, 30 * time.Second
	// maxRelayedEvents bounds one round. An event has some kB, and a publish may have 10
	// MB.
	maxRelayedEvents = 50
)

// Relay publishes the app's events for the machines, until ctx ends. It acknowledges an
// event after publishing it. If this process is killed in between, Pub/Sub delivers the
// event again, and it is published twice.
func (h *Hub) Relay(ctx context.Context) {
	defer h.greetGroup.Wait()
	for pause := minRelayPause; ctx.Err() == nil; {
		err := h.relayOnce(ctx)
		if err == nil || ctx.Err() != nil {
			h.failedRounds.Store(0)
			pause = minRelayPause
			continue
		}
		h.failedRounds.Add(1)
		h.Log.Error().Str("error", logText(err.Error())).
			Msg("events are not relayed; gchat-hooks tries again")
		state.Sleep(ctx, pause)
		pause = min(2*pause, maxRelayPause)
	}
}

// relayOnce pulls events once, and relays them.
func (h *Hub) relayOnce(ctx context.Context) error {
	pullCtx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	subs := h.PubSub.Projects.Subscriptions
	response, err := subs.Pull(h.Subscription, &pubsub.PullRequest{MaxMessages: maxRelayedEvents}).
		Context(pullCtx).Do()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil || len(response.ReceivedMessages) == 0 {
		return nil
	}
	// These events are relayed even if this replica begins to drain.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	publish, ack := &pubsub.PublishRequest{}, &pubsub.AcknowledgeRequest{}
	for _, m := range response.ReceivedMessages {
		e := parseEvent(m.Message)
		if isForHub(e) {
			h.startGreeting(e, m)
			continue
		}
		ack.AckIds = append(ack.AckIds, m.AckId)
		if e.Space != nil {
			publish.Messages = append(publish.Messages, &pubsub.PubsubMessage{
				Data: m.Message.Data,
				Attributes: map[string]string{
					spaceAttribute: e.Space.Name,
					idAttribute:    m.Message.MessageId,
				},
			})
		}
	}
	if len(publish.Messages) > 0 {
		_, err := h.PubSub.Projects.Topics.Publish(h.Topic, publish).Context(ctx).Do()
		if err != nil {
			return err
		}
	}
	if len(ack.AckIds) > 0 {
		_, err = subs.Acknowledge(h.Subscription, ack).Context(ctx).Do()
	}
	return err
}

// parseEvent parses an event that Chat published. If it cannot be parsed, the result has
// no space, so the hub relays it to no machine.
func parseEvent(m *pubsub.PubsubMessage) *chat.DeprecatedEvent {
	e := &chat.DeprecatedEvent{}
	data, err := base64.StdEncoding.DecodeString(m.Data)
	if err == nil {
		err = json.Unmarshal(data, e)
	}
	if err != nil || e.Space != nil && !strings.HasPrefix(e.Space.Name, "spaces/") {
		return &chat.DeprecatedEvent{}
	}
	return e
}

// isForHub reports whether an event is for the hub itself, and not for machines: a
// message join or help, or a person who added the app to a direct message.
func isForHub(e *chat.DeprecatedEvent) bool {
	if e.Space == nil || e.User == nil || e.User.Type == "BOT" {
		return false
	}
	return e.Type == "ADDED_TO_SPACE" && isDirect(e.Space) || requestedAction(e) != ""
}

// isDirect reports whether a space is the direct message of one person with the app. A
// space with the SpaceType DIRECT_MESSAGE may have two people.
func isDirect(s *chat.Space) bool { return s.SingleUserBotDm || s.Type == "DM" }

// maxGreetings is how many greetings of one person may be under way, so that a person who
// writes very often does not block the others.
const maxGreetings = 2

// startGreeting runs greet in a goroutine, so that trouble with one person's message does
// not delay other events. If greet fails, or too many are under way, startGreeting does
// not acknowledge the event, and Pub/Sub delivers it again.
func (h *Hub) startGreeting(e *chat.DeprecatedEvent, m *pubsub.ReceivedMessage) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	if h.reserveCall(ctx, "greet "+e.User.Name, maxGreetings) != nil {
		cancel()
		return
	}
	select {
	case h.greetSlots <- struct{}{}:
	default:
		cancel()
		return
	}
	h.greetGroup.Go(func() {
		defer cancel()
		defer func() { <-h.greetSlots }()
		err := h.greet(ctx, e, m.Message.MessageId)
		if err == nil {
			ack := &pubsub.AcknowledgeRequest{AckIds: []string{m.AckId}}
			_, err = h.PubSub.Projects.Subscriptions.Acknowledge(h.Subscription, ack).
				Context(ctx).Do()
		}
		if err != nil {
			h.Log.Warn().Str("user", e.User.Name).Str("error", logText(err.Error())).
				Msg("not greeted; gchat-hooks tries again")
		}
	})
}

const joinHelp = "Write `join` to me in a direct message, " +
	"and I answer with one line that connects your machine."

// greet answers an event that is for the hub itself. The answer's message id is made from
// the event's id, so it is posted once even if a replica is killed.
func (h *Hub) greet(ctx context.Context, e *chat.DeprecatedEvent, id string) error {
	switch {
	case requestedAction(e) != "join":
		return h.postOnce(ctx, e.Space.Name, id, "Hello. "+joinHelp)
	case !h.canJoin(e.User.Email):
		h.Log.Warn().Str("user", e.User.Name).Str("email", e.User.Email).Msg("refused to join")
		return h.postOnce(ctx, e.Space.Name, id,
			"I am sorry: only people of this organisation may connect a machine here.")
	}
	space := e.Space.Name
	if !isDirect(e.Space) {
		directSpace, err := h.Chat.Spaces.FindDirectMessage().Name(e.User.Name).Context(ctx).Do()
		if googleStatus(err) == http.StatusNotFound {
			return h.postOnce(ctx, e.Space.Name, id,
				"Please write me a direct message first, then `join` here again: "+
					"the line that connects your machine is for you alone.")
		}
		if err != nil {
			return err
		}
		space = directSpace.Name
	}
	code := h.Sign(Claims{
		Kind:        codeKind,
		Machine:     fmt.Sprintf("%x", h.macOf("machine " + id)[:6]),
		User:        e.User.Name,
		Email:       e.User.Email,
		Space:       e.Space.Name,
		DirectSpace: space,
		ExpiresAt:   time.Now().Add(codeLife).Unix(),
	})
	// The setup asks for the code. As an argument, other users of the machine could read
	// it in the list of processes.
	return h.postOnce(ctx, space, id, "Run this on your machine, in the next ten minutes:\n```\n"+
		"gchat-hooks setup --hub "+h.URL+"\n```\nIt asks for this code:\n```\n"+code+"\n```")
}

// requestedAction returns what a person asks the hub for, join or help, or "". It ignores
// characters around the word that are no letters. A message that adds the app to a space
// may be a join as well. A reply in a thread may answer a machine's question, so it is
// none of the two. The exception is join in a direct message, since people write it as a
// reply to the hub's own message.
func requestedAction(e *chat.DeprecatedEvent) string {
	m := e.Message
	if m == nil || e.Type != "MESSAGE" && e.Type != "ADDED_TO_SPACE" {
		return ""
	}
	text := strings.ToLower(cmp.Or(m.ArgumentText, m.Text))
	text = strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	isDirectMessage := isDirect(e.Space)
	if text == "join" && (isDirectMessage || !m.ThreadReply) ||
		text == "help" && isDirectMessage && !m.ThreadReply {
		return text
	}
	return ""
}

// canJoin reports whether an e-mail address is in one of the hub's domains.
func (h *Hub) canJoin(email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return slices.ContainsFunc(h.Domains,
		func(allowed string) bool { return config.IsSameAddress(allowed, domain) })
}

// postOnce posts a message of the hub itself. If it was posted for this event before,
// postOnce does nothing.
func (h *Hub) postOnce(ctx context.Context, space, event, text string) error {
	id := state.MessageID("hub", event)
	m := &chat.Message{Text: text, MarkupSyntax: "MARKUP_SYNTAX_CHAT"}
	_, err := h.Chat.Spaces.Messages.Create(space, m).MessageId(id).RequestId(id).Context(ctx).Do()
	switch code := googleStatus(err); {
	case code == http.StatusConflict:
		return nil
	case code/100 == 4 && code != http.StatusTooManyRequests:
		// The app was probably removed from the space. The person can write again.
		h.Log.Warn().Str("space", space).Int("code", code).
			Msg("Chat refused a message of the hub")
		return nil
	}
	return err
}
