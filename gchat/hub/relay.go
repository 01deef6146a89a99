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
	defer h.greets.Wait()
	for pause := shortest; ctx.Err() == nil; {
		err := h.relayOnce(ctx)
		if err == nil || ctx.Err() != nil {
			h.failed.Store(0)
			pause = shortest
			continue
		}
		h.failed.Add(1)
		h.Log.Error().
			Str("error", head(err.Error())).
			Msg("events are not relayed; it is tried again")
		state.Sleep(ctx, pause)
		pause = min(2*pause, longest)
	}
}

// relayOnce takes the events that are there.
func (h *Hub) relayOnce(ctx context.Context) error {
	const mostAtOnce = 50 // of some kB each; a publish takes 10 MB
	pulling, cancel := context.WithTimeout(ctx, pullBound)
	defer cancel()
	subs := h.PubSub.Projects.Subscriptions
	got, err := subs.Pull(h.Subscription, &pubsub.PullRequest{MaxMessages: mostAtOnce}).
		Context(pulling).
		Do()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil || len(got.ReceivedMessages) == 0 {
		return nil
	}
	// What was begun is ended, also while this replica drains.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), callBound)
	defer cancel()
	out, ack := &pubsub.PublishRequest{}, &pubsub.AcknowledgeRequest{}
	for _, m := range got.ReceivedMessages {
		e := event(m.Message)
		if forHub(e) {
			h.greetBeside(e, m)
			continue
		}
		ack.AckIds = append(ack.AckIds, m.AckId)
		if e.Space != nil {
			attributes := map[string]string{
				spaceAttribute: e.Space.Name,
				idAttribute:    m.Message.MessageId,
			}
			out.Messages = append(
				out.Messages,
				&pubsub.PubsubMessage{Data: m.Message.Data, Attributes: attributes},
			)
		}
	}
	if len(out.Messages) > 0 {
		if _, err := h.PubSub.Projects.Topics.Publish(h.Topic, out).Context(ctx).Do(); err != nil {
			return err
		}
	}
	if len(ack.AckIds) > 0 {
		_, err = subs.Acknowledge(h.Subscription, ack).Context(ctx).Do()
	}
	return err
}

// event reads what Chat published; what is none has no space, and goes nowhere.
func event(m *pubsub.PubsubMessage) *chat.DeprecatedEvent {
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

// forHub says whether an event is for the hub itself, and for no machine: a word for it,
// or that the app was added to a direct message.
func forHub(e *chat.DeprecatedEvent) bool {
	if e.Space == nil || e.User == nil || e.User.Type == "BOT" {
		return false
	}
	return e.Type == "ADDED_TO_SPACE" && direct(e.Space) || word(e) != ""
}

// direct says whether only one person is in a space. A SpaceType of DIRECT_MESSAGE may be
// of two.
func direct(s *chat.Space) bool { return s.SingleUserBotDm || s.Type == "DM" }

// mostGreetings is how many answers to one person are under way: a flood of theirs
// leaves room for a colleague.
const mostGreetings = 2

// greetBeside greets beside the relay: trouble with one person's message holds up nobody
// else's events. Where it fails, or too much is under way, the event comes again.
func (h *Hub) greetBeside(e *chat.DeprecatedEvent, m *pubsub.ReceivedMessage) {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	if h.begin(ctx, "greet "+e.User.Name, mostGreetings) != nil {
		cancel()
		return
	}
	select {
	case h.greeting <- struct{}{}:
	default:
		cancel()
		return
	}
	h.greets.Go(func() {
		defer cancel()
		defer func() { <-h.greeting }()
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
				Str("error", head(err.Error())).
				Msg("not greeted; it is tried again")
		}
	})
}

// greet answers what is for the hub itself. The answer has an id of the event's: it is
// given once, whichever replica was killed.
func (h *Hub) greet(ctx context.Context, e *chat.DeprecatedEvent, id string) error {
	const how = "Write `join` to me in a direct message, and I answer with one line that connects your machine."
	switch {
	case word(e) != "join":
		return h.say(ctx, e.Space.Name, id, "Hello. "+how)
	case !h.mayJoin(e.User.Email):
		h.Log.Warn().Str("user", e.User.Name).Str("email", e.User.Email).Msg("refused to join")
		return h.say(
			ctx,
			e.Space.Name,
			id,
			"I am sorry: only people of this organisation may connect a machine here.",
		)
	}
	to := e.Space.Name
	if !direct(e.Space) {
		dm, err := h.Chat.Spaces.FindDirectMessage().Name(e.User.Name).Context(ctx).Do()
		if codeOf(err) == http.StatusNotFound {
			return h.say(
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
		to = dm.Name
	}
	code := h.Sign(Claims{
		Is: isCode, Machine: fmt.Sprintf("%x", h.mac("machine " + id)[:6]), User: e.User.Name, Email: e.User.Email,
		Space: e.Space.Name, Direct: to, Until: time.Now().Add(codeLife).Unix(),
	})
	// The code stands apart: on a command line, other users of the machine can read it.
	return h.say(ctx, to, id, "Run this on your machine, in the next ten minutes:\n```\n"+
		"gchat-hooks setup --hub "+h.URL+"\n```\nIt asks for this code:\n```\n"+code+"\n```")
}

// word is what a person asks of the hub, whatever stands around it: join, also where that
// adds the app to a space, or help. Replies may answer a question of a machine's, but for
// join in a direct message: a person replies so to the hub's own words.
func word(e *chat.DeprecatedEvent) string {
	m := e.Message
	if m == nil || e.Type != "MESSAGE" && e.Type != "ADDED_TO_SPACE" {
		return ""
	}
	said := strings.ToLower(cmp.Or(m.ArgumentText, m.Text))
	said = strings.TrimFunc(said, func(r rune) bool { return !unicode.IsLetter(r) })
	alone := direct(e.Space)
	if said == "join" && (alone || !m.ThreadReply) || said == "help" && alone && !m.ThreadReply {
		return said
	}
	return ""
}

// mayJoin says whether an e-mail address is of one of the domains.
func (h *Hub) mayJoin(email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return slices.ContainsFunc(
		h.Domains,
		func(one string) bool { return config.IsSameAddress(one, domain) },
	)
}

// say posts words of the hub's own, once.
func (h *Hub) say(ctx context.Context, space, event, text string) error {
	id := state.MessageID("hub", event)
	m := &chat.Message{Text: text, MarkupSyntax: "MARKUP_SYNTAX_CHAT"}
	_, err := h.Chat.Spaces.Messages.Create(space, m).MessageId(id).RequestId(id).Context(ctx).Do()
	switch code := codeOf(err); {
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
