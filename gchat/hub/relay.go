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

// The attributes of an event on its way to the machines.
const (
	spaceAttribute = "space" // that it happened in: a machine's subscription takes those of its own
	// Pub/Sub's, of the app's event: a machine counts it once, also where it was
	// published twice
	idAttribute = "id"
)

// Relay has what people do reach the machines, until ctx ends. An event that was
// published is acknowledged; where this process is killed before, it comes again, and is
// published again.
func (h *Hub) Relay(ctx context.Context) {
	const shortest, longest = time.Second, 30 * time.Second
	defer h.greetGroup.Wait()
	for pause := shortest; ctx.Err() == nil; {
		err := h.relayOnce(ctx)
		if err == nil || ctx.Err() != nil {
			h.failedRounds.Store(0)
			pause = shortest
			continue
		}
		h.failedRounds.Add(1)
		h.Log.Error().
			Str("error", logText(err.Error())).
			Msg("events are not relayed; it is tried again")
		state.Sleep(ctx, pause)
		pause = min(2*pause, longest)
	}
}

// relayOnce takes the events that are there.
func (h *Hub) relayOnce(ctx context.Context) error {
	const maxEvents = 50 // of some kB each; a publish takes 10 MB
	pullCtx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	subs := h.PubSub.Projects.Subscriptions
	response, err := subs.Pull(h.Subscription, &pubsub.PullRequest{MaxMessages: maxEvents}).
		Context(pullCtx).
		Do()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil || len(response.ReceivedMessages) == 0 {
		return nil
	}
	// What was begun is ended, also while this replica drains.
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
			attributes := map[string]string{
				spaceAttribute: e.Space.Name,
				idAttribute:    m.Message.MessageId,
			}
			publish.Messages = append(
				publish.Messages,
				&pubsub.PubsubMessage{Data: m.Message.Data, Attributes: attributes},
			)
		}
	}
	if len(publish.Messages) > 0 {
		if _, err := h.PubSub.Projects.Topics.Publish(h.Topic, publish).Context(ctx).Do(); err != nil {
			return err
		}
	}
	if len(ack.AckIds) > 0 {
		_, err = subs.Acknowledge(h.Subscription, ack).Context(ctx).Do()
	}
	return err
}

// parseEvent reads what Chat published; what is none has no space, and goes nowhere.
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

// isForHub says whether an event is for the hub itself, and for no machine: a word for
// it, or that the app was added to a direct message.
func isForHub(e *chat.DeprecatedEvent) bool {
	if e.Space == nil || e.User == nil || e.User.Type == "BOT" {
		return false
	}
	return e.Type == "ADDED_TO_SPACE" && isDirect(e.Space) || requestedWord(e) != ""
}

// isDirect says whether only one person is in a space. A SpaceType of DIRECT_MESSAGE may
// be of two.
func isDirect(s *chat.Space) bool { return s.SingleUserBotDm || s.Type == "DM" }

// maxGreetings is how many answers to one person are under way: a flood of theirs
// leaves room for a colleague.
const maxGreetings = 2

// startGreeting greets beside the relay: trouble with one person's message holds up
// nobody else's events. Where it fails, or too much is under way, the event comes again.
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
				Context(ctx).
				Do()
		}
		if err != nil {
			h.Log.Warn().
				Str("user", e.User.Name).
				Str("error", logText(err.Error())).
				Msg("not greeted; it is tried again")
		}
	})
}

// greet answers what is for the hub itself. The answer has an id of the event's: it is
// given once, whichever replica was killed.
func (h *Hub) greet(ctx context.Context, e *chat.DeprecatedEvent, id string) error {
	const joinHelp = "Write `join` to me in a direct message, and I answer with one line that connects your machine."
	switch {
	case requestedWord(e) != "join":
		return h.postOnce(ctx, e.Space.Name, id, "Hello. "+joinHelp)
	case !h.canJoin(e.User.Email):
		h.Log.Warn().Str("user", e.User.Name).Str("email", e.User.Email).Msg("refused to join")
		return h.postOnce(
			ctx,
			e.Space.Name,
			id,
			"I am sorry: only people of this organisation may connect a machine here.",
		)
	}
	space := e.Space.Name
	if !isDirect(e.Space) {
		directSpace, err := h.Chat.Spaces.FindDirectMessage().Name(e.User.Name).Context(ctx).Do()
		if googleStatus(err) == http.StatusNotFound {
			return h.postOnce(
				ctx,
				e.Space.Name,
				id,
				"Please write me a direct message first, then `join` here again: "+
					"the line that connects your machine is for you alone.",
			)
		}
		if err != nil {
			return err
		}
		space = directSpace.Name
	}
	code := h.Sign(Claims{
		Kind: codeKind, Machine: fmt.Sprintf("%x", h.macOf("machine " + id)[:6]), User: e.User.Name, Email: e.User.Email,
		Space: e.Space.Name, DirectSpace: space, ExpiresAt: time.Now().Add(codeLife).Unix(),
	})
	// The code stands apart: on a command line, other users of the machine can read it.
	return h.postOnce(ctx, space, id, "Run this on your machine, in the next ten minutes:\n```\n"+
		"gchat-hooks setup --hub "+h.URL+"\n```\nIt asks for this code:\n```\n"+code+"\n```")
}

// requestedWord is what a person asks of the hub, whatever stands around it: join, also
// where that adds the app to a space, or help. Replies may answer a question of a
// machine's, but for join in a direct message: a person replies so to the hub's own
// words.
func requestedWord(e *chat.DeprecatedEvent) string {
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

// canJoin says whether an e-mail address is of one of the domains.
func (h *Hub) canJoin(email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return slices.ContainsFunc(
		h.Domains,
		func(allowed string) bool { return config.IsSameAddress(allowed, domain) },
	)
}

// postOnce posts words of the hub's own, once.
func (h *Hub) postOnce(ctx context.Context, space, event, text string) error {
	id := state.MessageID("hub", event)
	m := &chat.Message{Text: text, MarkupSyntax: "MARKUP_SYNTAX_CHAT"}
	_, err := h.Chat.Spaces.Messages.Create(space, m).MessageId(id).RequestId(id).Context(ctx).Do()
	switch code := googleStatus(err); {
	case code == http.StatusConflict:
		return nil
	case code/100 == 4 && code != http.StatusTooManyRequests:
		// the app was removed meanwhile: the person writes once more
		h.Log.Warn().
			Str("space", space).
			Int("code", code).
			Msg("a space does not take words of the hub's")
		return nil
	}
	return err
}
